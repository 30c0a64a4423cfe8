"""Shares of water: whoever can use no more leaves the rest to the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.solvers.water import fill, fill_types


@pytest.mark.parametrize(
    ("weights", "most", "expected"),
    [
        ([1, 1, 1], [8, 8, 2], [3, 3, 2]),
        ([2, 1, 1], [8, 8, 8], [4, 2, 2]),
        ([1, 1], [2, 3], [2, 3]),
        ([1, 0], [9, 9], [8, 0]),
        ([0, 0], [1, 1], [0, 0]),
    ],
)
def test_eight_gpus(weights: list[float], most: list[float], expected: list[float]) -> None:
    """Example 5 of systems/gandiva_fair.md, and the ends of the range."""
    assert fill(8.0, np.array(weights, float), np.array(most, float)).tolist() == expected


AMOUNTS = st.sampled_from([0.0, 0.25, 1.0, 2.0, 3.3, 8.0])


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=6), st.sampled_from([0.5, 4.0, 16.0]))
def test_nobody_could_have_more_but_from_one_with_less(
    ones: list[tuple[float, float]], capacity: float
) -> None:
    """All is given away or nobody can use more, and who is not satisfied has the most per weight."""
    weights, most = np.array(ones).T
    shares = fill(capacity, weights, most)
    usable = most[weights > 0.0].sum()
    assert shares.sum() == pytest.approx(min(capacity, usable))
    assert (shares <= most).all()
    hungry = (weights > 0.0) & (shares < most - 1e-9)
    if hungry.any():
        level = shares[hungry] / weights[hungry]
        assert level == pytest.approx(level[0])
        rest = (weights > 0.0) & ~hungry
        assert (shares[rest] <= weights[rest] * level[0] + 1e-9).all()


def test_everybody_gets_the_same_part_of_every_type() -> None:
    shares = fill_types(np.array([12.0, 24.0]), np.ones(3), np.full(3, 99.0), np.full((3, 2), 99.0))
    assert shares == pytest.approx(np.array([[4.0, 8.0]] * 3))


def test_who_can_use_one_type_only_grows_there() -> None:
    """The second may use the slow type alone: both grow alike until that is used up."""
    usable = np.array([[99.0, 99.0], [0.0, 99.0]])
    shares = fill_types(np.array([6.0, 6.0]), np.ones(2), np.full(2, 99.0), usable)
    assert shares.sum(axis=0) == pytest.approx([6.0, 6.0])
    assert shares[1].tolist() == pytest.approx([0.0, shares[1, 1]])
    assert 3.0 < shares[1, 1] < 6.0


CAPACITY = st.lists(st.sampled_from([0.0, 1.0, 4.0, 9.0]), min_size=2, max_size=3)


@given(st.data(), CAPACITY)
def test_types_are_given_away_as_far_as_somebody_can_use_them(
    data: st.DataObject, capacity: list[float]
) -> None:
    users = data.draw(st.integers(1, 4))
    cells = st.lists(AMOUNTS, min_size=len(capacity), max_size=len(capacity))
    usable = np.array(data.draw(st.lists(cells, min_size=users, max_size=users)))
    most = np.array(data.draw(st.lists(AMOUNTS, min_size=users, max_size=users)))
    weights = np.array(data.draw(st.lists(st.sampled_from([1.0, 2.5]), min_size=users, max_size=users)))
    shares = fill_types(np.array(capacity), weights, most, usable)
    assert (shares >= 0.0).all()
    assert (shares <= usable + 1e-6).all()
    assert (shares.sum(axis=1) <= most + 1e-6).all()
    left = np.array(capacity) - shares.sum(axis=0)
    assert (left >= -1e-6).all()
    wants = (shares < usable - 1e-6) & (shares.sum(axis=1) < most - 1e-6)[:, None]
    assert not (wants & (left > 1e-6)).any()
