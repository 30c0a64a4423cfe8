"""Linear programs from the inside: SciPy's value, what has none, and where it ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from rota import native
from rota.solvers import inner_walk, interior
from rota.solvers.interior import inner_optimum
from rota.solvers.interior_system import InnerProgram, SparseRows
from rota.solvers.lp import SolveStatus
from tiers import examples


def rows_of(dense):
    made = sparse.csr_matrix(np.array(dense, dtype=float))
    return SparseRows(made.indptr, made.indices, made.data)


def solved(costs, rows, limits, **more):
    """Columns are at least 0."""
    costs, limits = np.array(costs, dtype=float), np.array(limits, dtype=float)
    return inner_optimum(InnerProgram(costs, rows_of(rows), limits, **more))


@pytest.fixture(params=["C", "NumPy"])
def walk(request, monkeypatch):
    """Both ways to walk."""
    if request.param == "NumPy":
        monkeypatch.setattr(interior, "can_walk", lambda program: False)
    elif native.library(inner_walk.SOURCE) is None:
        pytest.skip("no C compiler when Rota was installed")


@pytest.mark.usefixtures("walk")
@pytest.mark.parametrize(
    ("costs", "rows", "limits", "status", "why"),
    [
        ([1], [[1]], [3], SolveStatus.OPTIMAL, "0 <= x <= 3"),
        ([1], [[1], [-1]], [3, -4], SolveStatus.INFEASIBLE, "x <= 3 and x >= 4"),
        ([1], [[-1]], [-1], SolveStatus.UNBOUNDED, "x >= 1 upwards"),
        ([0, 0], [[1, 1]], [1], SolveStatus.OPTIMAL, "nothing to gain"),
    ],
)
def test_statuses(costs, rows, limits, status, why):
    assert solved(costs, rows, limits).status is status, why


def test_it_ends_inside_the_face_of_optima():
    """x + y <= 1 with equal gains: half each, where a corner would give one of them all."""
    solution = solved([1, 1], [[1, 1]], [1])
    assert solution.value == pytest.approx(1.0)
    assert solution.columns == pytest.approx([0.5, 0.5], abs=1e-6)


def test_the_order_of_constraints_does_not_matter():
    rows = np.array([[1.0, 2, 0], [0, 1, 1], [3, 0, 1]])
    limits = np.array([4.0, 3, 5])
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
    return costs, np.concatenate((rows.reshape(m, n), np.eye(n))), [*limits, *[2.0] * n]


@examples(200)
@given(programs())
def test_the_value_is_scipys(program):
    costs, rows, limits = program
    theirs = linprog(-np.array(costs), A_ub=rows, b_ub=limits, bounds=(0, None))
    ours = solved(costs, rows, limits)
    if theirs.status == 2:
        # SciPy calls empty what a hair would fill; so may we, but not the other way round.
        assert ours.status is SolveStatus.INFEASIBLE or (rows @ ours.columns <= np.array(limits) + 1e-4).all()
    else:
        assert ours.status is SolveStatus.OPTIMAL
        assert ours.value == pytest.approx(-theirs.fun, abs=1e-4)
        assert (rows @ ours.columns <= np.array(limits) + 1e-4).all()


@pytest.mark.skipif(native.library(inner_walk.SOURCE) is None, reason="no C compiler when Rota was installed")
@examples(100)
@given(st.integers(1, 9), st.integers(0, 3), st.booleans(), st.randoms(use_true_random=False))
def test_c_and_numpy_end_at_the_same_point(jobs, spare, copied, random):
    """Divisions of time: two or three types, each job's time, least gains with a t; some by copies."""
    types = random.choice([2, 3])
    n, m = types * jobs, types + 2 * jobs
    rows, free = np.zeros((m, n)), np.zeros(m)
    for job in range(jobs):
        for kind in range(types):
            column = types * job + kind
            rows[kind, column] = random.choice([1.0, 2.0, 4.0])
            rows[types + job, column] = 1.0
            rows[types + jobs + job, column] = -random.choice([0.0, 0.5, 1.0, 3.25, 7.0])
        rows[types + jobs + job, types * job] -= 1.0
        free[types + jobs + job] = 1.0
    counts = np.array([random.choice([1.0, 3.0]) if copied else 1.0 for _ in range(jobs)])
    capacity = [random.choice([1.0, 2.0, 8.0]) for _ in range(types)]
    capacity[0] += spare
    limits = np.concatenate((capacity, np.ones(jobs), np.zeros(jobs)))
    copies = {
        "column_copies": np.repeat(counts, types),
        "row_copies": np.append(np.ones(types), [counts] * 2),
    }
    more = {"free": free, "of_free": 1.0, **(copies if copied else {})}
    program = InnerProgram(np.zeros(n), rows_of(rows), limits, **more)
    one, other = interior._of_small(program), interior._of_large(program)
    assert one.value == pytest.approx(other.value, rel=1e-7)
    assert one.columns == pytest.approx(other.columns, abs=2e-5)
    assert limits @ one.prices == pytest.approx(limits @ other.prices, rel=1e-6, abs=1e-6)
    # Several prices may be as good: where among them each stops is known to the root of the tolerance.
    assert one.prices == pytest.approx(other.prices, abs=interior.TOLERANCE**0.5)


@pytest.mark.usefixtures("walk")
def test_a_free_column_may_be_below_0():
    """maximise -t with x - t <= -2, x <= 5, x >= 0: t = 2; and with t - x <= -7 as well nothing is left."""
    more = {"free": np.array([-1.0, 0.0]), "of_free": -1.0}
    assert solved([0], [[1], [1]], [-2, 5], **more).columns[-1] == pytest.approx(2.0, abs=1e-6)
    below = {"free": np.array([1.0, 0.0]), "of_free": 1.0}
    assert solved([0], [[1], [-1]], [-2, 0], **below).columns[-1] == pytest.approx(-2.0, abs=1e-6)


@examples(30)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_copies_stand_for_columns_written_out(copies, random):
    """Jobs with a row each and two rows that all share, once by copies, once in full: the same point."""
    gains = [[random.choice([1.0, 2.0, 3.5]) for _ in range(2)] for _ in copies]

    def program(jobs, **more):
        n = len(jobs)
        rows, free = np.zeros((2 + 2 * n, 2 * n)), np.zeros(2 + 2 * n)
        for place, job in enumerate(jobs):
            mine = slice(2 * place, 2 * place + 2)
            rows[[0, 1], [2 * place, 2 * place + 1]] = 1.0
            rows[2 + place, mine] = 1.0
            rows[2 + n + place, mine] = -np.array(gains[job])
            free[2 + n + place] = 1.0
        limits = np.concatenate(([1.0, 2.0], np.ones(n), np.zeros(n)))
        return solved(np.zeros(2 * n), rows, limits, free=free, of_free=1.0, **more)

    written_out = [job for job, count in enumerate(copies) for _ in range(count)]
    whole = program(written_out)
    of_jobs = np.array(copies, dtype=float)
    once = program(
        range(len(copies)),
        column_copies=np.repeat(of_jobs, 2),
        row_copies=np.concatenate((np.ones(2), of_jobs, of_jobs)),
    )
    places = np.array(written_out)
    assert once.value == pytest.approx(whole.value, rel=1e-6)
    assert once.columns[:-1].reshape(-1, 2)[places] == pytest.approx(
        whole.columns[:-1].reshape(-1, 2), abs=1e-5
    )


def test_what_is_left_of_a_limit_and_what_it_is_worth():
    """2 x + y over x + y <= 1, y <= 3: x takes all; more of the first is worth 2, the second is loose."""
    solution = solved([2, 1], [[1, 1], [0, 1]], [1, 3])
    assert solution.prices == pytest.approx([2.0, 0.0], abs=1e-5)
    assert solution.slack == pytest.approx([0.0, 3.0], abs=1e-5)
