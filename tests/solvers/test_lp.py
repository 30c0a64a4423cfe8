"""The linear program: what it answers, edited or built anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    """Costs and bounds of columns change what the next solve answers."""
    program = _two()
    program.set_costs(np.array([0]), np.array([0.0]))
    assert program.solve().value == pytest.approx(4.0), "y alone: 3y <= 6"
    program.set_column_bounds(np.array([1]), np.zeros(1), np.ones(1))
    assert program.solve().value == pytest.approx(2.0), "y <= 1"


def test_no_optimum():
    """Infeasible and unbounded are answers, not errors."""
    program = _two()
    program.set_column_bounds(np.array([1]), np.array([9.0]), np.array([9.0]))
    assert program.solve().status is SolveStatus.INFEASIBLE
    free = LinearProgram()
    free.add_columns(np.ones(1), np.zeros(1), np.full(1, INFINITY))
    assert free.solve().status is SolveStatus.UNBOUNDED


def test_wrong_index_is_an_error():
    with pytest.raises(ValueError, match="could not set bounds"):
        _two().set_column_bounds(np.array([7]), np.zeros(1), np.ones(1))


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.5, 5)), min_size=1, max_size=5))
def test_edited_program_has_the_value_of_a_new_one(edits):
    """Kept through many edits, or built for the last one: the same optimum."""
    kept, y = _two(), np.array([1])
    for cost, most in edits:
        kept.set_costs(y, np.array([cost]))
        kept.set_column_bounds(y, np.zeros(1), np.array([most]))
        best = kept.solve()
    anew, (cost, most) = _two(), edits[-1]
    anew.set_costs(y, np.array([cost]))
    anew.set_column_bounds(y, np.zeros(1), np.array([most]))
    assert best.value == pytest.approx(anew.solve().value, rel=1e-9)
