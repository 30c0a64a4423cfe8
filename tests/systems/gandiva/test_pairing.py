"""Pairs: whom to try, and what counts as worth it."""

from __future__ import annotations

import pytest

from rota.systems.gandiva.introspection import Pair, gain, next_pair

USE = [0.30, 0.40, 0.85]
MEMORY_GIB = [4.0, 5.0, 13.0]


@pytest.mark.parametrize(
    ("bad", "memory_gib", "expected", "why"),
    [
        (set(), [4.0, 5.0, 8.0], (0, 1), "the least utilised first"),
        ({(0, 1)}, [4.0, 5.0, 8.0], (0, 2), "then the next partner of the same job: 12 of 16 GiB"),
        ({(0, 1)}, MEMORY_GIB, None, "17 and 18 of 16 GiB: turns go on"),
        ({(0, 1), (0, 2)}, [4.0, 5.0, 8.0], (1, 2), "then the next job"),
    ],
)
def test_pairs_are_tried_in_order_of_utilisation(
    bad: set[Pair], memory_gib: list[float], expected: Pair | None, why: str
) -> None:
    """gandiva.md, example 4: jobs of 30, 40 and 85 % on GPUs of 16 GiB."""

    def may_share(pair: Pair) -> bool:
        return pair not in bad and sum(memory_gib[row] for row in pair) <= 16.0

    assert next_pair([2, 0, 1], USE.__getitem__, may_share) == expected, why


@pytest.mark.parametrize(
    ("rates", "alone", "expected"),
    [
        ((0.80, 0.75), (1.0, 1.0), 1.55),
        ((0.55, 0.40), (1.0, 1.0), 0.95),  # although both keep the GPU busier than each alone
        ((4.0, 0.5), (8.0, 0.5), 1.5),  # relative to the job's own rate, not in iterations
    ],
)
def test_gain_is_relative_to_each_job_alone(
    rates: tuple[float, float], alone: tuple[float, float], expected: float
) -> None:
    assert gain(rates, alone) == pytest.approx(expected)
