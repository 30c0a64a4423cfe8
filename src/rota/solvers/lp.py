"""A linear program kept alive in HiGHS and edited between solves.

One thread and a fixed seed: a program built with the same rows and columns in the same order, and solved
after the same edits, answers the same bits.  Each solve starts where the last one ended.  That is fast, but
optima are rarely unique and the one found depends on the way there, even from scratch: HiGHS, made to forget
its basis, was seen to end elsewhere in an edited program than in a new one.  So keep a program where only the
value counts (bisection, feasibility), rebuild it where the optimum itself becomes a decision, and let a
second objective break ties.  Rows have a fixed order (jobs by submission).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import highspy
import numpy as np

from rota.errors import PolicyError
from rota.model.columns import Floats, Ints

INFINITY = highspy.kHighsInf


class SolveStatus(StrEnum):
    """How a solve ended."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"


class Solution(NamedTuple):
    """What a solve found; without an optimum the value is NaN and the columns are empty."""

    status: SolveStatus
    value: float
    columns: Floats


_STATUS = {
    highspy.HighsModelStatus.kOptimal: SolveStatus.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: SolveStatus.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: SolveStatus.UNBOUNDED,
    highspy.HighsModelStatus.kUnboundedOrInfeasible: SolveStatus.INFEASIBLE,
}

_OPTIONS: dict[str, bool | int | str] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "parallel": "off",
    "solver": "simplex",
}


class LinearProgram:
    """Maximise costs · x subject to lower <= A x <= upper row by row, and bounds on each column.

    New columns and rows go to the end; deleting some leaves the others in their order.
    """

    def __init__(self) -> None:
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in _OPTIONS.items():
            self._highs.setOptionValue(name, value)
        self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize)

    @property
    def columns(self) -> int:
        return int(self._highs.getNumCol())

    @property
    def rows(self) -> int:
        return int(self._highs.getNumRow())

    # -- editing -----------------------------------------------------------------------------------

    def add_columns(self, costs: Floats, lower: Floats, upper: Floats) -> None:
        """Columns that no row uses yet."""
        none = np.zeros(0, dtype=np.int32)
        starts = np.zeros(len(costs), dtype=np.int32)
        self._done(
            self._highs.addCols(len(costs), costs, lower, upper, 0, starts, none, np.zeros(0)), "add columns"
        )

    def add_rows(self, lower: Floats, upper: Floats, starts: Ints, columns: Ints, values: Floats) -> None:
        """Rows in compressed form: row i has the entries starts[i] up to the next start."""
        index, at = columns.astype(np.int32), starts.astype(np.int32)
        self._done(self._highs.addRows(len(lower), lower, upper, len(values), at, index, values), "add rows")

    def set_costs(self, columns: Ints, costs: Floats) -> None:
        self._done(self._highs.changeColsCost(len(costs), columns.astype(np.int32), costs), "set costs")

    def set_column_bounds(self, columns: Ints, lower: Floats, upper: Floats) -> None:
        index = columns.astype(np.int32)
        self._done(self._highs.changeColsBounds(len(index), index, lower, upper), "set bounds")

    @staticmethod
    def _done(status: highspy.HighsStatus, what: str) -> None:
        if status == highspy.HighsStatus.kError:
            raise ValueError(f"HiGHS could not {what}: an index or a number is out of range")

    # -- solving -----------------------------------------------------------------------------------

    def solve(self) -> Solution:
        """The optimum, or why there is none; PolicyError if HiGHS cannot decide.

        From a basis of an edited program, the dual simplex method may end with a point that it can neither
        repair nor call infeasible.  Then the program is solved again from scratch.
        """
        ended = self._run()
        if ended not in _STATUS:
            self._highs.clearSolver()
            ended = self._run()
        if ended not in _STATUS:
            raise PolicyError(
                f"a linear program with {self.rows} rows and {self.columns} columns could not be solved: "
                f"HiGHS ended with {self._highs.modelStatusToString(ended)!r}, from nothing as well"
            )
        status = _STATUS[ended]
        if status is not SolveStatus.OPTIMAL:
            return Solution(status, float("nan"), np.zeros(0))
        columns = np.array(self._highs.getSolution().col_value)
        return Solution(status, float(self._highs.getInfo().objective_function_value), columns)

    def optimum(self) -> Solution:
        """The optimum of a program that has one; PolicyError if the solver still finds none."""
        solution = self.solve()
        if solution.status is not SolveStatus.OPTIMAL:
            raise PolicyError(
                f"a linear program with {self.rows} rows and {self.columns} columns, which has an optimum, "
                f"was found to be {solution.status}"
            )
        return solution

    def _run(self) -> Any:
        self._highs.run()
        return self._highs.getModelStatus()
