"""Divisions of time: worked examples of systems/gavel.md, SciPy's optimum, the same bits again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from rota.solvers.division import DemandRows, Division, Objective, Tie, best, single
from rota.solvers.lp import SolveStatus
from tiers import examples

# throughputs by type, GPUs of each job, weights, GPUs of each type, best t, effective throughputs
EXAMPLES = [
    ([[4, 1], [4, 1], [2, 1]], [1, 1, 1], [1, 1, 1], [1, 1], 14 / 19, [1.84210, 1.84210, 1.10526], "types"),
    ([[10], [10]], [1, 1], [3, 1], [1], 0.25, [7.5, 2.5], "weights 3:1 on one GPU"),
    ([[10], [10]], [2, 1], [1, 1], [2], 1.0, [5.0, 10.0], "GPUs count: half the time on twice as many"),
]  # fmt: skip


def shares(rates, gpus, capacity):
    """Share of a job that spends all its time on one type, [job, type]."""
    equal = rates @ (capacity / capacity.sum())
    return gpus[:, None] * rates / equal[:, None]


def max_min(scores, gpus, capacity, tie):
    """The best least score, and the fractions."""
    division = single(gpus, scores, capacity)
    demands = DemandRows(division.gains, np.zeros(len(gpus)), np.ones(len(gpus)))
    solution = best(division, Objective(np.zeros(division.size), 1.0), demands, tie)
    assert solution.status is SolveStatus.OPTIMAL
    return solution.value, division.fractions(solution.columns)


@pytest.mark.parametrize("tie", Tie)
@pytest.mark.parametrize(("rates", "gpus", "weights", "capacity", "t", "effective", "why"), EXAMPLES)
def test_worked_examples(rates, gpus, weights, capacity, t, effective, why, tie):
    rates, gpus, capacity = (np.array(x, dtype=float) for x in (rates, gpus, capacity))
    value, fractions = max_min(
        shares(rates, gpus, capacity) / np.array(weights)[:, None], gpus, capacity, tie
    )
    assert value == pytest.approx(t), why
    assert (fractions * rates).sum(axis=1) == pytest.approx(effective, rel=1e-4), why


def test_dropping_the_gpu_factor_serves_large_jobs_as_often_as_small_ones():
    """The naive objective gives both 2/3 of their time; the paper's gives the pair half."""
    rates, gpus, capacity = np.full((2, 1), 10.0), np.array([2.0, 1.0]), np.array([2.0])
    _, naive = max_min(rates / 10.0, gpus, capacity, Tie.SUM)
    assert naive.ravel() == pytest.approx([2 / 3, 2 / 3], rel=1e-4)


def test_equal_division_is_worse():
    """The heterogeneity-agnostic split of the first example reaches 2/3 where the optimum is 14/19."""
    rates, gpus, capacity = np.array([[4.0, 1.0], [4, 1], [2, 1]]), np.ones(3), np.ones(2)
    equal = shares(rates, gpus, capacity) @ np.full(2, 1 / 3)
    assert equal.min() == pytest.approx(2 / 3)


def test_two_that_share_count_once_for_gpus_and_each_for_its_time():
    """Card example 3: 10 alone, 8 and 7 together: the least is 0.72727, the pair has 10/11 of the time."""
    members = np.array([[0, -1], [1, -1], [0, 1]])
    rates = np.array([[[10.0], [0]], [[10.0], [0]], [[8.0], [7.0]]]) / 10.0
    division = Division(members, np.ones(3), rates, np.ones(1), np.ones(2))
    demands = DemandRows(division.gains, np.zeros(2), np.ones(2))
    for tie in Tie:
        solution = best(division, Objective(np.zeros(3), 1.0), demands, tie)
        assert solution.value == pytest.approx(8 / 11, rel=1e-5)
        assert division.fractions(solution.columns).ravel() == pytest.approx([0, 1 / 11, 10 / 11], abs=1e-5)


def test_jobs_that_are_alike_count_as_many():
    """Three alike and one other on two GPUs: as one job that stands for three, the answer is the same."""
    apart = single(np.ones(4), np.array([[1.0], [1], [1], [2]]), np.array([2.0]))
    together = Division(
        np.array([[0, -1], [1, -1]]), np.ones(2), np.array([[[1.0], [0]], [[2.0], [0]]]), np.array([2.0]),
        np.array([3.0, 1.0]),
    )  # fmt: skip
    values = []
    for division in (apart, together):
        demands = DemandRows(division.gains, np.zeros(len(division.counts)), division.counts)
        values.append(best(division, Objective(np.zeros(division.size), 1.0), demands, Tie.VERTEX).value)
    assert values[0] == pytest.approx(values[1])


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


@examples(60)
@given(clusters(), st.sampled_from(Tie))
def test_allocation_is_feasible_and_optimal(cluster, tie):
    """No job has more than all its time, no type more jobs than GPUs, and t is SciPy's."""
    scores, gpus, capacity = cluster
    value, x = max_min(scores, gpus, capacity, tie)
    assert value == pytest.approx(_scipy_value(scores, gpus, capacity), rel=1e-6, abs=1e-7)
    assert (x >= 0).all()
    assert (x[scores == 0] == 0).all()
    assert (x.sum(axis=1) <= 1 + 1e-6).all()
    assert (gpus @ x <= capacity * (1 + 1e-6)).all()
    assert ((x * scores).sum(axis=1) >= value * (1 - 2e-6) - 1e-6).all()


@examples(30)
@given(clusters(), st.sampled_from(Tie))
def test_same_jobs_same_bits(cluster, tie):
    """What was solved before leaves no trace."""
    first, second = max_min(*cluster, tie), max_min(*cluster, tie)
    assert first[0] == second[0]
    assert np.array_equal(first[1], second[1])


@examples(30)
@given(clusters())
def test_from_the_inside_equals_get_the_same(cluster):
    """Two copies of a job may differ in a corner; the point inside does not tell them apart."""
    scores, gpus, capacity = cluster
    twice = [np.concatenate((column, column)) for column in (scores, gpus)]
    _, x = max_min(*twice, capacity, Tie.INTERIOR)
    assert np.array_equal(x[: len(gpus)], x[len(gpus) :])


def test_a_basis_from_which_the_second_objective_is_not_reached():
    """HiGHS 1.15 gives up on the edited program; its largest sum is 8 since all GPUs are in use."""
    scores = np.array([[6.0], [6.0], [2.0], [3.0], [2.0], [8.0], [7.0], [0.5]])
    value, fractions = max_min(scores, scores.ravel(), np.array([8.0]), Tie.SUM)
    assert value == pytest.approx(0.5)
    assert float((scores * fractions).sum()) == pytest.approx(8.0)
    assert (scores * fractions).min() >= 0.5 * (1 - 1e-5)


@pytest.mark.parametrize("tie", Tie)
def test_demands_that_cannot_be_met(tie):
    """Two jobs that each want one GPU all the time."""
    division = single(np.ones(2), np.ones((2, 1)), np.ones(1))
    demands = DemandRows(division.gains, np.full(2, 0.6))
    assert best(division, Objective(np.zeros(2)), demands, tie).status is SolveStatus.INFEASIBLE
    met = best(division, Objective(np.zeros(2)), DemandRows(division.gains, np.full(2, 0.4)), tie)
    assert met.status is SolveStatus.OPTIMAL
