"""How time on GPU types is divided: the constraints of all of Gavel's allocations, and programs on them.

x[entry, type] is the fraction of its time that an entry, a job or two that share the same GPUs, spends on a
type (Narayanan et al., OSDI 2020, section 3):

    Σ over the entries of a job, Σ_j x <= 1     for each job,
    Σ gpus[entry] x[entry, j]    <= n[j]        for each type (two that share count once),     x >= 0.

Many fractions reach the best value of an objective.  `Tie` says which of them is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from rota.model.columns import Bools, Floats, Ints
from rota.solvers.interior import inner_optimum
from rota.solvers.lp import INFINITY, LinearProgram, Solution, SolveStatus

SLACK = 1e-6
"""Relative loss of the first objective that the second one may use."""


class Tie(StrEnum):
    """Which of many optima."""

    SUM = "sum"  # the largest sum of what jobs obtain
    VERTEX = "vertex"  # the corner at which the simplex method ends
    INTERIOR = "interior"  # the point at which an interior-point method ends, as the authors' solver does


@dataclass(frozen=True)
class Division:
    """What is divided among whom."""

    members: Ints
    """Jobs of each entry, [entry, 2]; the second is -1 for a job alone."""
    gpus: Floats
    """GPUs that each entry holds while it runs."""
    rates: Floats
    """What each member obtains per second on each type, [entry, 2, type]; 0 where it cannot run."""
    capacity: Floats
    """GPUs of each type."""
    counts: Floats
    """Jobs that each job here stands for: 1, or as many as are alike."""

    @cached_property
    def size(self) -> int:
        """Fractions in all."""
        return len(self.members) * len(self.capacity)

    @property
    def has_pairs(self) -> bool:
        return bool((self.members[:, 1] >= 0).any())

    @cached_property
    def able(self) -> Bools:
        """Which fractions may be above 0, [entry, type]: those where every member obtains something."""
        pairs = self.members[:, 1] >= 0
        return (self.rates[:, 0] > 0.0) & ((self.rates[:, 1] > 0.0) | ~pairs[:, None])

    @cached_property
    def held(self) -> Any:
        """GPUs in use, sparse [type, fraction]."""
        types, entries = len(self.capacity), len(self.members)
        columns = np.arange(self.size).reshape(entries, types).T
        return _rows(np.repeat(self.gpus, types).reshape(entries, types).T, columns, self.size)

    @cached_property
    def time(self) -> Any:
        """Time spent, sparse [job, fraction]."""
        return self._by_job(np.ones_like(self.rates))

    def gains(self, rates: Floats | None = None) -> Any:
        """What each job obtains, sparse [job, fraction]; `rates` instead of its own."""
        return self._by_job(self.rates if rates is None else rates)

    def _by_job(self, values: Floats) -> Any:
        """Sparse [job, fraction] with `values` [entry, 2, type] of each member."""
        types = len(self.capacity)
        entry, place = np.nonzero(self.members >= 0)
        rows = np.repeat(self.members[entry, place], types)
        columns = (entry[:, None] * types + np.arange(types)).ravel()
        data = values[entry, place].ravel()
        return sparse.csr_matrix((data, (rows, columns)), shape=(len(self.counts), self.size))

    def fractions(self, columns: Floats) -> Floats:
        """The first columns of a solution as [entry, type], cut at 0 and at all its time against rounding."""
        most = np.where(self.members[:, 1] < 0, np.inf, self.counts[self.members[:, 1]])
        most = np.minimum(self.counts[self.members[:, 0]], most)
        x: Floats = columns[: self.size].reshape(len(self.members), len(self.capacity))
        return np.where(self.able, x.clip(0.0, most[:, None]), 0.0)


def _rows(values: Floats, columns: Ints, size: int) -> Any:
    """Sparse [row, column] from dense [row, place] and the column of each place."""
    starts = np.arange(len(values) + 1) * values.shape[1]
    return sparse.csr_matrix((values.ravel(), columns.ravel(), starts), shape=(len(values), size))


def single(gpus: Floats, rates: Floats, capacity: Floats) -> Division:
    """The division among jobs that share with nobody; `rates` is [job, type]."""
    jobs = len(gpus)
    members = np.column_stack((np.arange(jobs), np.full(jobs, -1)))
    return Division(members, gpus, np.stack((rates, np.zeros_like(rates)), axis=1), capacity, np.ones(jobs))


class Demands(NamedTuple):
    """Rows to hold beside the constraints: gains · x >= least, or >= least + slope × t with a column t."""

    gains: Any
    least: Floats
    slope: Floats | None = None


class Objective(NamedTuple):
    """Maximise costs · x + of_t × t."""

    costs: Floats
    of_t: float = 0.0


def best(division: Division, objective: Objective, demands: Demands | None, tie: Tie) -> Solution:
    """The fractions, then t if demands have a slope, that maximise `objective`.

    Ties of t go to the largest sum of the gains that are demanded with `Tie.SUM`.
    """
    if tie is Tie.INTERIOR:
        return _inside(division, objective, demands)
    made = _program(division, objective, demands)
    solution = made.solve()
    if solution.status is not SolveStatus.OPTIMAL or demands is None or demands.slope is None:
        return solution
    return _largest_sum(made, division, demands, solution) if tie is Tie.SUM else solution


def most_rising(division: Division, gains: Any, least: Floats, rows: Ints, rise: float) -> Floats:
    """How far above `least` each of `rows` gets, at most `rise`, if together they get as far as they can.

    Nobody's gains, sparse [job, fraction], fall below `least`.
    """
    made = _program(division, Objective(np.zeros(division.size)), None)
    made.add_columns(np.ones(len(rows)), np.zeros(len(rows)), np.full(len(rows), rise))
    lifted = sparse.csr_matrix((-np.ones(len(rows)), (rows, np.arange(len(rows)))), (len(least), len(rows)))
    both = sparse.hstack((gains, lifted), format="csr")
    _add_rows(made, both, least, np.full(len(least), INFINITY))
    return made.optimum().columns[division.size :]


def _program(division: Division, objective: Objective, demands: Demands | None) -> LinearProgram:
    """For the simplex method."""
    made = LinearProgram()
    upper = np.where(division.able.ravel(), INFINITY, 0.0)
    made.add_columns(objective.costs, np.zeros(division.size), upper)
    _add_rows(made, division.held, np.full(len(division.capacity), -INFINITY), division.capacity)
    _add_rows(made, division.time, np.full(len(division.counts), -INFINITY), division.counts)
    if demands is not None:
        if demands.slope is not None:
            made.add_columns(np.array([objective.of_t]), np.array([-INFINITY]), np.array([INFINITY]))
        _add_rows(made, _with_t(demands), demands.least, np.full(len(demands.least), INFINITY))
    return made


def _largest_sum(made: LinearProgram, division: Division, demands: Demands, first: Solution) -> Solution:
    """Among the optima of `made`, the one with the largest sum of gains."""
    t = first.columns[division.size]
    made.set_column_bounds(
        np.array([division.size]), np.array([t - SLACK * max(abs(t), SLACK)]), np.array([INFINITY])
    )
    costs = np.append(np.asarray(demands.gains.sum(axis=0)).ravel(), 0.0)
    made.set_costs(np.arange(division.size + 1), costs)
    columns = made.optimum().columns  # there is one: the first optimum is still feasible
    return Solution(first.status, first.value, columns)


def _with_t(demands: Demands) -> Any:
    """The rows of demands, with the column of t behind the fractions if there is one."""
    if demands.slope is None:
        return demands.gains
    return sparse.hstack((demands.gains, sparse.csr_matrix(-demands.slope[:, None])), format="csr")


def _add_rows(made: LinearProgram, rows: Any, low: Floats, high: Floats) -> None:
    made.add_rows(low, high, rows.indptr[:-1], rows.indices, rows.data)


def _inside(division: Division, objective: Objective, demands: Demands | None) -> Solution:
    """As the authors wrote it for their solver: x >= 0, the constraints, and no bound besides."""
    blocks = [-sparse.identity(division.size, format="csr"), division.held, division.time]
    limits = [np.zeros(division.size), division.capacity, division.counts]
    costs = objective.costs
    if demands is not None:
        if demands.slope is not None:
            blocks = [sparse.hstack((block, sparse.csr_matrix((block.shape[0], 1)))) for block in blocks]
            costs = np.append(costs, objective.of_t)
        blocks.append(-_with_t(demands))
        limits.append(-demands.least)
    return inner_optimum(costs, sparse.vstack(blocks, format="csr"), np.concatenate(limits))
