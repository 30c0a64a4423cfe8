"""For how long a part has done nothing: what counts as work, and what of it is told."""

from __future__ import annotations

import pytest

from rota.engines.rota.idling import IdleClock, is_busy
from rota.engines.rota.telling import PartMemo
from rota.engines.rota.usage import Used
from rota.wire.sync import ProgressReport

LOOKS = [
    # what is seen every 5 s (busy, steps reported), idle at the last look, why
    ([(True, None), (True, None), (True, None)], 0.0, "it works"),
    ([(False, None), (False, None), (False, None)], 10.0, "from the first look on"),
    ([(True, None), (False, None), (False, None)], 10.0, "since it last worked"),
    ([(False, None), (False, None), (True, None)], 0.0, "it works again"),
    ([(False, 1), (False, 2), (False, 3)], 0.0, "steps are work, whatever is seen"),
    ([(False, 1), (False, 1), (False, 1)], 10.0, "the same step is none"),
    ([(True, 1), (True, 1), (True, 1)], 0.0, "busy without a step: evaluation"),
    ([(None, 1), (None, 2), (None, 2)], 5.0, "only its reports are known"),
    ([(None, None), (None, None)], None, "nothing is known"),
    ([(None, None), (None, 1), (None, 1)], 5.0, "known from its first report on"),
]  # fmt: skip


@pytest.mark.parametrize(("looks", "idle_s", "why"), LOOKS, ids=[look[-1] for look in LOOKS])
def test_idle(looks: list[tuple[bool | None, int | None]], idle_s: float | None, why: str) -> None:
    clock = IdleClock()
    for number, (busy, steps) in enumerate(looks):
        said = None if steps is None else ProgressReport(steps=steps)
        seen = clock.look(is_busy=busy, said=said, now_s=100.0 + 5.0 * number)
    assert seen == idle_s, why


def test_what_was_suspended_begins_anew() -> None:
    clock = IdleClock()
    clock.look(is_busy=False, said=None, now_s=0.0)
    assert clock.look(is_busy=False, said=None, now_s=60.0) == 60.0
    clock.reset()
    assert clock.look(is_busy=False, said=None, now_s=600.0) == 0.0


@pytest.mark.parametrize(
    ("cores", "utilisation", "on_slots", "busy"),
    [
        (0.0, None, True, False),
        (0.019, None, True, False),
        (0.02, None, True, True),
        (3.0, 0.0, False, False),  # the CPU works, the GPUs do not
        (0.0, 0.01, False, True),
        (3.0, None, False, None),
    ],
)
def test_busy(cores: float, utilisation: float | None, on_slots: bool, busy: bool | None) -> None:
    assert is_busy(cores, utilisation, on_slots=on_slots) is busy


def test_it_is_told_when_it_has_doubled_and_at_once_when_it_is_over() -> None:
    """A controller hears of a short limit soon, and is not told every few seconds of a long night."""
    memo, told = PartMemo(), []
    for idle_s in (0.0, 0.5, 1.5, 2.5, 5.0, 9.0, 10.0, 19.0, 0.0, 0.5):
        memo.use(Used(0.0, 1.0), None, 1000.0, idle_s)
        assert memo.usage is not None
        told.append(memo.usage.idle_s)
    assert told == [0.0, 0.0, 0.0, 2.5, 5.0, 5.0, 10.0, 10.0, 0.0, 0.0]
