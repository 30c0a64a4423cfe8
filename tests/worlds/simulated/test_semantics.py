"""Timing rules: every preset is found by name, plays a trace, and differs where its switches do."""

from __future__ import annotations

import pytest

from play import finishes, play
from rota.errors import InputError
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import PRESETS, Restart, Semantics, is_restart, semantics


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


WHERE = Cluster.build(
    [NodeShape(count=2, gpus=4, gpu_type="V100"), NodeShape(count=1, gpus=4, gpu_type="K80")]
)
MOVES = [
    # from     to        restarts: any change, nodes, shape   why
    ((0, 1), (0, 2), (True, False, False), "another device of the same node"),
    ((0, 1), (4, 5), (True, True, False), "another node, the same shape"),
    ((0, 4), (1, 2), (True, True, True), "on one node where it was on two"),
    ((0, 1), (8, 9), (True, True, True), "another type"),
    ((0, 1), (0, 1, 2), (True, True, True), "one more"),
    ((0, 1, 4), (2, 4, 5), (True, True, False), "the nodes have changed roles"),
]


@pytest.mark.parametrize(("old", "new", "restarts", "why"), MOVES, ids=[row[-1] for row in MOVES])
def test_which_moves_restart_a_job(
    old: tuple[int, ...], new: tuple[int, ...], restarts: tuple[bool, ...], why: str
) -> None:
    rules = (Restart.ANY_CHANGE, Restart.NODE_CHANGE, Restart.SHAPE_CHANGE, Restart.NEVER)
    said = [is_restart(rule, WHERE, Grant(0, old), Grant(0, new)) for rule in rules]
    assert said == [*restarts, False], why


TICKS = [
    # preset    ends                                                        why
    ("pollux", {"A": 90.0 + 82.0, "B": 210.0 + 22.0}, "A comes at 5, starts at 60 and pays 30 s"),
    ("sia", {"A": 90.0 + 82.0, "B": 210.0 + 22.0}, "the first start alike"),
]


@pytest.mark.parametrize(("preset", "ends", "why"), TICKS, ids=[row[0] for row in TICKS])
def test_the_ticks_of_pollux_and_sia(preset: str, ends: dict[str, float], why: str) -> None:
    """A's 81.6 s end at the nearest second; what it held is free for B at the next minute, at 180."""
    setting = Setting(semantics=semantics(preset), costs=parse_costs("start=30s,restore=30s"))
    record = play("fifo", "A 1x81.6@5 B 1x22.4@70", "1x1", setting)
    assert finishes(record) == ends, why
