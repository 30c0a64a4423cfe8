"""SRSF: worked examples."""

from __future__ import annotations

import pytest

from play import finishes, play


@pytest.mark.parametrize(
    ("jobs", "cluster", "expected", "why"),
    [
        ("J1 2x2 J2 1x8 J3 2x6", "1x2", {"J1": 2, "J2": 10, "J3": 16}, "Tiresias card, example 1"),
        ("A 4x4 B 1x10", "1x4", {"A": 14, "B": 10}, "B needs 10 GPU-s, A 16"),
        ("A 4x9 B 2x10@5", "1x4", {"A": 9, "B": 19}, "A has 16 GPU-s left, B 20"),
        ("A 4x9 B 2x10@3", "1x4", {"A": 19, "B": 13}, "A has 24 GPU-s left, B 20"),
    ],
)
def test_worked_examples(jobs: str, cluster: str, expected: dict[str, float], why: str) -> None:
    assert finishes(play("srsf", jobs, cluster)) == expected, why
