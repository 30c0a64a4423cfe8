"""Amounts worth less and less with each unit: the greedy ones, the core, and all there are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.solvers import concave
from rota.solvers.concave import ConcaveKnapsack


# gains of each unit     sizes   capacity  least    counts   why
@pytest.mark.parametrize(
    ("gains", "sizes", "capacity", "least", "counts", "why"),
    [
        ([[5, 3, 1], [4, 2, 1]], (1, 1), 3, (0, 0), [2, 1], "the largest gains first"),
        ([[5, 3, 1], [4, 2, 1]], (1, 1), 3, (0, 3), [0, 3], "what is demanded comes before"),
        ([[6, 6], [4, 4]], (2, 1), 3, (0, 0), [1, 1], "one of each fills the room"),
        ([[9, 0], [4, 4]], (3, 2), 4, (0, 0), [1, 0], "greedy would do, 9 beats 8"),
        ([[7, 0], [4, 4]], (3, 2), 4, (0, 0), [0, 2], "greedy takes 7 for a size of 3; twice 4 is better"),
        ([[0, 0]], (1,), 5, (0,), [0], "nothing to gain"),
    ],
)
def test_amounts(gains, sizes, capacity, least, counts, why):
    knapsack = ConcaveKnapsack(np.array(gains, dtype=float), np.array(sizes), capacity)
    assert knapsack.solve(np.array(least)).counts.tolist() == counts, why


def test_demanding_too_much_has_no_answer():
    knapsack = ConcaveKnapsack(np.ones((2, 2)), np.array([2, 1]), 3)
    assert knapsack.solve(np.array([1, 2])) is None
    assert knapsack.bound(np.array([1, 2])) == -np.inf


def _cases():
    gains = st.lists(st.integers(0, 20), min_size=1, max_size=4)
    job = st.tuples(gains, st.integers(1, 4), st.integers(0, 2))
    return st.tuples(st.lists(job, min_size=1, max_size=5), st.integers(0, 14))


@given(_cases())
def test_nothing_is_worth_more(case):
    """Against all amounts there are."""
    jobs, capacity = case
    units = max(len(gains) for gains, _, _ in jobs)
    gains = np.array([sorted(g, reverse=True) + [0] * (units - len(g)) for g, _, _ in jobs], dtype=float)
    sizes = np.array([size for _, size, _ in jobs])
    least = np.array([min(low, units) for _, _, low in jobs])
    knapsack = ConcaveKnapsack(gains, sizes, capacity)
    found = knapsack.solve(least)
    every = itertools.product(*(range(low, units + 1) for low in least.tolist()))
    worth = [
        sum(gains[i, :n].sum() for i, n in enumerate(counts))
        for counts in every
        if sizes @ counts <= capacity
    ]
    if found is None:
        assert not worth
        return
    assert found.value == pytest.approx(max(worth))
    assert found.bound == pytest.approx(found.value)
    assert sizes @ found.counts <= capacity
    assert (found.counts >= least).all()
    assert knapsack.bound(least) >= found.value - 1e-9


def test_too_large_a_core_is_looked_at_in_part(monkeypatch):
    """The answer is still feasible and its bound says how much may be missing."""
    rng = np.random.default_rng(3)
    gains = np.sort(rng.random((12, 5)), axis=1)[:, ::-1]
    sizes = rng.integers(3, 9, 12)
    whole = ConcaveKnapsack(gains, sizes, 101).solve(np.zeros(12, dtype=int))
    monkeypatch.setattr(concave, "CELLS", 50)
    part = ConcaveKnapsack(gains, sizes, 101).solve(np.zeros(12, dtype=int))
    assert part.value <= whole.value <= part.bound
    assert sizes @ part.counts <= 101
