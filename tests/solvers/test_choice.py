"""The multiple-choice knapsack: options counted by kind of item."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.solvers.choice import ItemKind, choose
from tiers import examples


def kind(items: int, *options: tuple[float, float]) -> ItemKind:
    values, costs = zip(*options, strict=True)
    return ItemKind(items, np.array(values), np.array(costs)[:, None])


def test_synergys_third_example() -> None:
    """res18 and a transformer on 2 GPUs with 6 cores: five and one."""
    res18 = kind(1, (1.0, 3), (0.37, 1), (0.72, 2), (1.3, 4), (1.53, 5), (1.75, 6))
    words = kind(1, (1.0, 3), (1.0, 1), (1.0, 2))
    choice = choose([res18, words], np.array([6.0]), 100)
    assert [counts.tolist() for counts in choice.counts] == [[0, 0, 0, 0, 1, 0], [0, 1, 0]]
    assert choice.value == pytest.approx(2.53)
    assert choice.bound == pytest.approx(2.53)


def test_of_equal_values_the_smaller_is_taken_where_nothing_binds() -> None:
    assert choose([kind(3, (1.0, 3), (1.0, 1))], np.array([100.0]), 10).counts[0].tolist() == [0, 3]
    assert choose([kind(3, (1.0, 3), (1.5, 9))], np.array([np.inf]), 10).counts[0].tolist() == [0, 3]


def test_nobody_is_nothing() -> None:
    assert choose([], np.array([1.0]), 1).counts == []


sizes = st.integers(1, 6)


@examples(25)
@given(st.lists(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=3), min_size=1, max_size=4))
def test_it_is_the_best_of_all_choices(options: list[list[tuple[int, int]]]) -> None:
    room = float(sum(one[0][1] for one in options))
    best = max(
        sum(value for value, _ in chosen)
        for chosen in product(*options)
        if sum(cost for _, cost in chosen) <= room
    )
    found = choose([kind(1, *one) for one in options], np.array([room]), 1000)
    assert found.value == pytest.approx(best)
    assert not found.is_cut
