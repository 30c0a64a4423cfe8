"""FIFO: worked examples."""

from __future__ import annotations

import pytest

from play import finishes, play, starts, trace_of


@pytest.mark.parametrize(
    ("policy", "jobs", "expected", "why"),
    [
        ("fifo", "A 2x10 B 4x10 C 2x10", {"A": 10, "B": 20, "C": 30}, "B blocks C though two GPUs are free"),
        ("fifo:skip=yes", "A 2x10 B 4x10 C 2x10", {"A": 10, "B": 20, "C": 10}, "C passes B by"),
        ("fifo", "A 4x10 B 4x2@4", {"A": 10, "B": 12}, "Tiresias card, example 2"),
    ],
)
def test_worked_examples(policy: str, jobs: str, expected: dict[str, float], why: str) -> None:
    """Finish times of small cases computed by hand."""
    assert finishes(play(policy, jobs)) == expected, why


@pytest.mark.parametrize("policy", ["fifo", "fifo:skip=yes", "fifo:backfill=easy"])
def test_a_higher_priority_goes_first(policy: str) -> None:
    """D came last and goes before B and C, which keep their order; nobody is stopped for it."""
    jobs = trace_of("A 4x10 B 4x10@1 C 4x10@2 D 4x10@3", priority=[0, 0, 0, 5])
    assert starts(play(policy, jobs)) == {"A": 0.0, "D": 10.0, "B": 20.0, "C": 30.0}


@pytest.mark.parametrize(
    ("policy", "jobs"),
    [
        ("fifo:placement=one_node", "A 6x10 B 1x10@1"),
        ("fifo:placement=one_node,backfill=easy", "A 6x10 B 1x10@1"),
        ("sjf:placement=one_node", "A 6x1 B 1x10"),
    ],
)
def test_whom_the_placement_could_never_place_blocks_nobody(policy: str, jobs: str) -> None:
    """Six GPUs in one node are in no cluster of nodes of four: A waits for ever, B does not."""
    record = play(policy, jobs, "2x4")
    assert starts(record)["A"] is None
    assert starts(record)["B"] in (0.0, 1.0)
