"""The max-min allocation: worked examples of systems/gavel.md, SciPy's optimum, the same bits again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from rota.policies.gavel.system import shares
from rota.solvers.max_min import Tie, max_min

# throughputs by type, GPUs of each job, weights, GPUs of each type, best t, effective throughputs
EXAMPLES = [
    ([[4, 1], [4, 1], [2, 1]], [1, 1, 1], [1, 1, 1], [1, 1], 14 / 19, [1.84210, 1.84210, 1.10526], "types"),
    ([[10], [10]], [1, 1], [3, 1], [1], 0.25, [7.5, 2.5], "weights 3:1 on one GPU"),
    ([[10], [10]], [2, 1], [1, 1], [2], 1.0, [5.0, 10.0], "GPUs count: half the time on twice as many"),
]  # fmt: skip


@pytest.mark.parametrize("tie", Tie)
@pytest.mark.parametrize(("rates", "gpus", "weights", "capacity", "best", "effective", "why"), EXAMPLES)
def test_worked_examples(rates, gpus, weights, capacity, best, effective, why, tie):
    rates, gpus, capacity = (np.array(x, dtype=float) for x in (rates, gpus, capacity))
    scores = shares(rates, gpus, capacity) / np.array(weights)[:, None]
    found = max_min(scores, gpus, capacity, tie)
    assert found.value == pytest.approx(best), why
    assert (found.fractions * rates).sum(axis=1) == pytest.approx(effective, rel=1e-4), why


def test_dropping_the_gpu_factor_serves_large_jobs_as_often_as_small_ones():
    """The naive objective gives both 2/3 of their time; the paper's gives the pair half."""
    rates, gpus, capacity = np.full((2, 1), 10.0), np.array([2.0, 1.0]), np.array([2.0])
    naive = max_min(rates / 10.0, gpus, capacity).fractions
    assert naive.ravel() == pytest.approx([2 / 3, 2 / 3], rel=1e-4)


def test_equal_division_is_worse():
    """The heterogeneity-agnostic split of the first example reaches 2/3 where the optimum is 14/19."""
    rates, gpus, capacity = np.array([[4.0, 1.0], [4, 1], [2, 1]]), np.ones(3), np.ones(2)
    equal = shares(rates, gpus, capacity) @ np.full(2, 1 / 3)
    assert equal.min() == pytest.approx(2 / 3)


@st.composite
def clusters(draw):
    types, n = draw(st.integers(1, 3)), draw(st.integers(1, 8))
    rate = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.7])
    rates = np.array(draw(st.lists(st.lists(rate, min_size=types, max_size=types), min_size=n, max_size=n)))
    rates[~rates.any(axis=1), 0] = 1.0
    gpus = np.array(draw(st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=n, max_size=n)))
    capacity = np.array(draw(st.lists(st.sampled_from([4.0, 6.0, 16.0]), min_size=types, max_size=types)))
    return shares(rates, gpus, capacity), gpus, capacity


def _scipy_value(scores, gpus, capacity):
    """The best t by another program: columns x job by job, then t."""
    n, types = scores.shape
    upper, limits = [], []
    for m in range(n):
        time, score = np.zeros(n * types + 1), np.zeros(n * types + 1)
        time[m * types : (m + 1) * types] = 1.0
        score[m * types : (m + 1) * types], score[-1] = -scores[m], 1.0
        upper += [time, score]
        limits += [1.0, 0.0]
    for j in range(types):
        row = np.zeros(n * types + 1)
        row[j : n * types : types] = gpus
        upper.append(row)
        limits.append(capacity[j])
    cost = np.zeros(n * types + 1)
    cost[-1] = -1.0
    return -linprog(cost, A_ub=np.array(upper), b_ub=limits, bounds=(0, None)).fun


@settings(max_examples=60, deadline=None)
@given(clusters(), st.sampled_from(Tie))
def test_allocation_is_feasible_and_optimal(cluster, tie):
    """No job has more than all its time, no type more jobs than GPUs, and t is SciPy's."""
    scores, gpus, capacity = cluster
    best, x = max_min(scores, gpus, capacity, tie)
    assert best == pytest.approx(_scipy_value(scores, gpus, capacity), rel=1e-6, abs=1e-9)
    assert (x >= 0).all()
    assert (x[scores == 0] == 0).all()
    assert (x.sum(axis=1) <= 1 + 1e-7).all()
    assert (gpus @ x <= capacity * (1 + 1e-7)).all()
    assert ((x * scores).sum(axis=1) >= best * (1 - 2e-6) - 1e-9).all()


@settings(max_examples=30, deadline=None)
@given(clusters(), st.sampled_from(Tie))
def test_same_jobs_same_bits(cluster, tie):
    """What was solved before leaves no trace."""
    first, second = max_min(*cluster, tie), max_min(*cluster, tie)
    assert first.value == second.value
    assert np.array_equal(first.fractions, second.fractions)


def test_a_basis_from_which_the_second_objective_is_not_reached():
    """HiGHS 1.15 gives up on the edited program; its largest sum is 8 since all GPUs are in use."""
    scores = np.array([[6.0], [6.0], [2.0], [3.0], [2.0], [8.0], [7.0], [0.5]])
    found = max_min(scores, scores.ravel(), np.array([8.0]))
    assert found.value == pytest.approx(0.5)
    assert float((scores * found.fractions).sum()) == pytest.approx(8.0)
    assert (scores * found.fractions).min() >= 0.5 * (1 - 1e-5)
