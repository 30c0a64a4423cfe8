"""Fronts and crowding, against comparing all with all and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rota.model.columns import Floats
from rota.solvers.fronts import crowding, fronts


def _worse(one: Floats, other: Floats) -> bool:
    return bool((one <= other).all() and (one < other).any())


@pytest.mark.parametrize("seed", range(4))
def test_fronts_by_comparing_all(seed: int) -> None:
    """Each front is who is beaten by nobody, once the fronts before have gone; equals are on the same."""
    values = np.random.default_rng(seed).integers(0, 6, (40, 2)).astype(float)
    order, rank = fronts(values)
    assert sorted(order.tolist()) == list(range(40))
    left = set(range(40))
    for front in range(rank.max() + 1):
        best = {one for one in left if not any(_worse(values[one], values[other]) for other in left)}
        assert set(order[rank == front].tolist()) == best
        left -= best
    fitness_of = values[order, 0]
    assert all((np.diff(fitness_of[rank == front]) <= 0.0).all() for front in range(rank.max() + 1))


def test_crowding_by_hand() -> None:
    """Neighbours on a front of four, then one alone: parts of 10 and of 8 between the ends."""
    values = np.array([[10.0, 0.0], [6.0, 2.0], [5.0, 3.0], [0.0, 8.0], [1.0, 1.0]])
    gaps = crowding(values, np.array([0, 0, 0, 0, 1]))
    assert gaps.tolist() == [math.inf, 5 / 10 + 3 / 8, 6 / 10 + 6 / 8, math.inf, math.inf]
