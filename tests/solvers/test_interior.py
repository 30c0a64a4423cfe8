"""Linear programs from the inside: SciPy's value, what has none, and where it ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from rota.solvers.interior import inner_optimum
from rota.solvers.lp import SolveStatus


def solved(costs, rows, limits):
    return inner_optimum(
        np.array(costs, dtype=float),
        sparse.csr_matrix(np.array(rows, dtype=float)),
        np.array(limits, dtype=float),
    )


@pytest.mark.parametrize(
    ("costs", "rows", "limits", "status", "why"),
    [
        ([1], [[1], [-1]], [3, 0], SolveStatus.OPTIMAL, "0 <= x <= 3"),
        ([1], [[1], [-1]], [3, -4], SolveStatus.INFEASIBLE, "x <= 3 and x >= 4"),
        ([1], [[-1]], [0], SolveStatus.UNBOUNDED, "x >= 0 upwards"),
        ([0, 0], [[1, 1], [-1, 0], [0, -1]], [1, 0, 0], SolveStatus.OPTIMAL, "nothing to gain"),
    ],
)
def test_statuses(costs, rows, limits, status, why):
    assert solved(costs, rows, limits).status is status, why


def test_it_ends_inside_the_face_of_optima():
    """x + y <= 1 with equal gains: half each, where a corner would give one of them all."""
    solution = solved([1, 1], [[1, 1], [-1, 0], [0, -1]], [1, 0, 0])
    assert solution.value == pytest.approx(1.0)
    assert solution.columns == pytest.approx([0.5, 0.5], abs=1e-6)


def test_the_order_of_constraints_does_not_matter():
    rows = np.array([[1.0, 2, 0], [0, 1, 1], [3, 0, 1], [-1, 0, 0], [0, -1, 0], [0, 0, -1]])
    limits = np.array([4.0, 3, 5, 0, 0, 0])
    one = solved([1, 1, 1], rows, limits)
    other = solved([1, 1, 1], rows[::-1], limits[::-1])
    assert one.columns == pytest.approx(other.columns, abs=1e-6)


numbers = st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.5, 2.0, 7.0])


@st.composite
def programs(draw):
    """Bounded programs, some of them infeasible: a box, and rows of any sign."""
    n, m = draw(st.integers(1, 6)), draw(st.integers(0, 8))
    rows = np.array(draw(st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=m, max_size=m)))
    limits = draw(st.lists(st.sampled_from([-3.0, -0.5, 0.5, 1.0, 4.0]), min_size=m, max_size=m))
    costs = draw(st.lists(numbers, min_size=n, max_size=n))
    box = np.concatenate((np.eye(n), -np.eye(n)))
    return costs, np.concatenate((rows.reshape(m, n), box)), [*limits, *[2.0] * n, *[0.0] * n]


@settings(max_examples=200, deadline=None)
@given(programs())
def test_the_value_is_scipys(program):
    costs, rows, limits = program
    theirs = linprog(-np.array(costs), A_ub=rows, b_ub=limits, bounds=(None, None))
    ours = solved(costs, rows, limits)
    if theirs.status == 2:
        # SciPy calls empty what a hair would fill; so may we, but not the other way round.
        assert ours.status is SolveStatus.INFEASIBLE or (rows @ ours.columns <= np.array(limits) + 1e-4).all()
    else:
        assert ours.status is SolveStatus.OPTIMAL
        assert ours.value == pytest.approx(-theirs.fun, abs=1e-4)
        assert (rows @ ours.columns <= np.array(limits) + 1e-4).all()
