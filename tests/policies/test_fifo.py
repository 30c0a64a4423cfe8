"""FIFO: worked examples."""

from __future__ import annotations

import pytest

from play import finishes, play


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
