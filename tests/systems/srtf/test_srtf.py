"""SRTF: worked examples."""

from __future__ import annotations

import pytest

from play import finishes, play


@pytest.mark.parametrize(
    ("jobs", "expected", "why"),
    [
        ("A 4x9 B 4x2@1", {"A": 11, "B": 3}, "B has less left"),
        ("A 4x9 B 4x6@5", {"A": 9, "B": 15}, "A has 4 s left, B 6: what was done counts"),
        ("A 4x9 B 4x4@5", {"A": 9, "B": 13}, "equal remains: A was submitted first"),
        ("A 4x4@0 B 1x3@0", {"A": 7, "B": 3}, "time decides, not GPU-time; A does not fit beside B"),
        (
            "A 2x5 B 4x4@1 C 2x9@1",
            {"A": 5, "B": 9, "C": 14},
            "C fills in beside A, until B fits and has less left",
        ),
    ],
)
def test_worked_examples(jobs: str, expected: dict[str, float], why: str) -> None:
    assert finishes(play("srtf", jobs)) == expected, why
