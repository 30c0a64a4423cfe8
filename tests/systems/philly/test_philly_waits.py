"""How long a wait was due to each reason: in C, one by one, and as columns, to the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from rota import native
from rota.systems.philly import delays, waits
from rota.systems.philly.delays import LABELS, Delays, ReasonHistory
from rota.systems.philly.gang import Cycle

LABEL_COUNT = len(LABELS)


def random_history(rng: np.random.Generator, changes: int, whole: bool) -> ReasonHistory:
    """Reasons that change every two minutes or so; a column has room to grow."""
    at_s = np.cumsum(rng.exponential(120.0, changes))
    if whole:  # moments that fall onto openings and timeouts
        at_s = np.round(at_s / 60.0) * 60.0
    label = np.cumsum(rng.integers(1, LABEL_COUNT, changes)) % LABEL_COUNT
    room = np.zeros(8)
    return ReasonHistory(
        changes=changes, at_s=np.append(at_s, room), label=np.append(label, room.astype(np.int64))
    )


@pytest.mark.skipif(native.library(waits.SOURCE) is None, reason="`waits.c` was not built")
@pytest.mark.parametrize("cycle", [Cycle(180.0, 120.0), Cycle(120.3, 77.7), Cycle(60.0, 0.0)])
@pytest.mark.parametrize("whole", [False, True])
def test_in_c_as_in_python(monkeypatch: pytest.MonkeyPatch, cycle: Cycle, whole: bool) -> None:
    rng = np.random.default_rng(0)
    there = Delays({}, cycle)
    for changes in (1, 2, 7, 40, 600, 3000):
        history = random_history(rng, changes, whole)
        end = history["at_s"].item(changes - 1)
        for since in (history["at_s"].item(0), *rng.uniform(0.0, end, 20), end):
            now = float(rng.uniform(since, end + 1000.0)) + 1.0
            in_c = there.seconds(history, since, now)
            with monkeypatch.context() as patched:
                patched.setattr(delays, "split_in_c", lambda labels: None)
                by_column = there.seconds(history, since, now)
                patched.setattr(delays, "_FEW", 10**9)
                one_by_one = there.seconds(history, since, now)
            assert in_c == by_column == one_by_one
            assert sum(in_c) == pytest.approx(now - since)
