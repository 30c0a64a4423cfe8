"""The linear program: what it answers, edited or built anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import PolicyError
from rota.solvers.lp import INFINITY, LinearProgram, SolveStatus


def _two() -> LinearProgram:
    """Maximise 3x + 2y, x + y <= 4, x + 3y <= 6, x <= 3."""
    program = LinearProgram()
    program.add_columns(np.array([3.0, 2.0]), np.zeros(2), np.array([3.0, INFINITY]))
    starts, columns = np.array([0, 2]), np.array([0, 1, 0, 1])
    values = np.array([1.0, 1.0, 1.0, 3.0])
    program.add_rows(np.full(2, -INFINITY), np.array([4.0, 6.0]), starts, columns, values)
    return program


def test_optimum():
    found = _two().solve()
    assert found.status is SolveStatus.OPTIMAL
    assert found.value == pytest.approx(11.0)
    assert found.columns == pytest.approx([3.0, 1.0])


def test_edits():
    """Costs, bounds, entries, rows and columns change what the next solve answers."""
    program = _two()
    program.set_costs(np.array([0]), np.array([0.0]))
    assert program.solve().value == pytest.approx(4.0), "y alone: 3y <= 6"
    program.set_entry(1, 1, 1.5)
    assert program.solve().value == pytest.approx(8.0), "1.5y <= 6, y <= 4"
    program.set_row_bounds(np.array([0]), np.array([-INFINITY]), np.array([1.0]))
    assert program.solve().value == pytest.approx(2.0)
    program.delete_rows(np.array([0]))
    assert program.solve().value == pytest.approx(8.0)
    program.set_column_bounds(np.array([1]), np.zeros(1), np.ones(1))
    assert program.solve().value == pytest.approx(2.0)
    program.delete_columns(np.array([1]))
    assert (program.rows, program.columns) == (1, 1)


def test_no_optimum():
    """Infeasible and unbounded are answers, not errors."""
    program = _two()
    program.set_row_bounds(np.array([0]), np.array([9.0]), np.array([9.0]))
    assert program.solve().status is SolveStatus.INFEASIBLE
    free = LinearProgram()
    free.add_columns(np.ones(1), np.zeros(1), np.full(1, INFINITY))
    assert free.solve().status is SolveStatus.UNBOUNDED


def test_wrong_index_is_an_error():
    with pytest.raises(ValueError, match="could not delete rows"):
        _two().delete_rows(np.array([7]))


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.5, 5)), min_size=1, max_size=5))
def test_edited_program_has_the_value_of_a_new_one(edits):
    """Kept through many edits, or built for the last one: the same optimum."""
    kept = _two()
    for cost, limit in edits:
        kept.set_costs(np.array([1]), np.array([cost]))
        kept.set_row_bounds(np.array([0]), np.array([-INFINITY]), np.array([limit]))
        found = kept.solve()
    anew = _two()
    anew.set_costs(np.array([1]), np.array([edits[-1][0]]))
    anew.set_row_bounds(np.array([0]), np.array([-INFINITY]), np.array([edits[-1][1]]))
    assert found.value == pytest.approx(anew.solve().value, rel=1e-9)


def test_a_solver_that_gives_up_is_an_error_in_words():
    program = _two()
    program._highs.setOptionValue("presolve", "off")
    program._highs.setOptionValue("simplex_iteration_limit", 0)
    with pytest.raises(PolicyError, match="2 rows and 2 columns could not be solved: HiGHS ended with"):
        program.solve()


def test_an_optimum_that_must_exist():
    program = _two()
    assert program.optimum().value == pytest.approx(11.0)
    program.set_row_bounds(np.array([0]), np.array([9.0]), np.array([9.0]))
    with pytest.raises(PolicyError, match="was found to be infeasible"):
        program.optimum()
