"""Timing rules: every preset is found by name, plays a trace, and differs where its switches do."""

from __future__ import annotations

import pytest

from play import finishes, play
from rota.errors import InputError
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import PRESETS, Semantics, semantics


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_plays_a_trace(name: str) -> None:
    preset = semantics(name)
    assert preset.name == name
    record = play("fifo", "A 2x100.5@0.5 B 4x30.25@1 C 1x400@3", "1x4", Setting(semantics=preset))
    jobs = record.jobs
    assert jobs["state"].to_list() == ["COMPLETED"] * 3
    assert (jobs["finish_s"] >= jobs["submit_s"] + jobs["duration_s"] - 1e-9).all(), "nobody ends too early"


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"'gravel'.*gavel"):
        semantics("gravel")


SWITCHES = [
    # semantics                     finish of A 1x1.5@0.2 and B 1x1@0.9 on one GPU, why
    (Semantics(), {"A": 1.7, "B": 2.7}, "exact"),
    (Semantics(clock_s=1.0), {"A": 3.0, "B": 4.0}, "arrivals and ends on the next whole second"),
    (Semantics(clock_s=60.0), {"A": 120.0, "B": 180.0}, "the same on minutes"),
    (Semantics(lag_s=1.0), {"A": 2.7, "B": 4.7}, "an end is noticed a second late, and the GPU held"),
]


@pytest.mark.parametrize(("switches", "expected", "why"), SWITCHES, ids=[row[2] for row in SWITCHES])
def test_switches(switches: Semantics, expected: dict[str, float], why: str) -> None:
    record = play("fifo", "A 1x1.5@0.2 B 1x1@0.9", "1x1", Setting(semantics=switches))
    assert finishes(record) == pytest.approx(expected), why
