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
