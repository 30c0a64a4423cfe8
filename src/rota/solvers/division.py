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
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from rota.model.columns import Bools, Floats, Ints
from rota.solvers.interior import InnerSolution, inner_optimum
from rota.solvers.interior_system import InnerProgram, SparseRows, with_column
from rota.solvers.lp import INFINITY, LinearProgram, Solution, SolveStatus

SLACK = 1e-6
"""Relative loss of the first objective that the second one may use."""


class Tie(StrEnum):
    """Which of many optima."""

    SUM = "sum"  # the largest sum of what jobs obtain
    VERTEX = "vertex"  # the corner at which the simplex method ends
    INTERIOR = "interior"  # the point at which an interior-point method ends, as the authors' solver does


ALONE = -1
"""In the place of the second member of an entry that has none."""


def alone(jobs: int) -> Ints:
    """The entries of `jobs` jobs that share no device."""
    members = np.full((jobs, 2), ALONE)
    members[:, 0] = np.arange(jobs)
    return members


@dataclass(frozen=True)
class Division:
    """The GPUs to divide and the jobs to divide them among."""

    members: Ints
    """Jobs of each entry, [entry, 2]; the second is `ALONE` for a job by itself."""
    gpus: Floats
    """GPUs that each entry holds while it runs."""
    rates: Floats
    """What each member obtains per second on each type, [entry, 2, type]; 0 where it cannot run."""
    capacity: Floats
    """GPUs of each type."""
    counts: Floats
    """Number of equal jobs that each job here represents; 1 if it is only itself."""

    @cached_property
    def size(self) -> int:
        """Fractions in all."""
        return len(self.members) * len(self.capacity)

    @cached_property
    def has_pairs(self) -> bool:
        return bool((self.members[:, 1] >= 0).any())

    @cached_property
    def able(self) -> Bools:
        """Which fractions may be above 0, [entry, type]: those where every member obtains something."""
        pairs = self.members[:, 1] >= 0
        return (self.rates[:, 0] > 0.0) & ((self.rates[:, 1] > 0.0) | ~pairs[:, None])

    @property
    def gains(self) -> Floats:
        """What each member of an entry obtains per second on each type, [entry, 2, type]."""
        return self.rates

    @cached_property
    def held(self) -> SparseRows:
        """GPUs in use, [type, fraction]."""
        types, entries = len(self.capacity), len(self.members)
        columns = np.arange(self.size).reshape(entries, types).T.ravel()
        return SparseRows(np.arange(types + 1) * entries, columns, np.tile(self.gpus, types))

    @cached_property
    def time(self) -> SparseRows:
        """Time spent, [job, fraction]."""
        return self.by_job(np.ones_like(self.rates))

    @cached_property
    def _places(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Entry and place of each membership, job by job; where the jobs start among them; and columns.

        Where a job represents several, two of these may form an entry: they are one membership.
        """
        entry, place = np.nonzero(
            (self.members >= 0) & ~np.column_stack((np.zeros_like(self._twice), self._twice))
        )
        of = self.members[entry, place]
        order = np.argsort(of, kind="stable")
        entry, place = entry[order], place[order]
        starts = np.concatenate(([0], np.cumsum(np.bincount(of, minlength=len(self.counts)))))
        types = len(self.capacity)
        return entry, place, starts * types, (entry[:, None] * types + np.arange(types)).ravel()

    @cached_property
    def _twice(self) -> Bools:
        """Entries of a job with another one that it represents."""
        same: Bools = self.members[:, 0] == self.members[:, 1]
        return same

    def by_job(self, values: Floats, jobs: Ints | None = None) -> SparseRows:
        """A row for each job, or for each of `jobs`: `values` [entry, 2, type] of its memberships."""
        entry, place, starts, columns = self._places
        if self._twice.any():
            values = values.copy()
            values[self._twice, 0] += values[self._twice, 1]
        data = values[entry, place].ravel()
        if jobs is None:
            return SparseRows(starts, columns, data)
        lengths = starts[jobs + 1] - starts[jobs]
        first = np.concatenate(([0], np.cumsum(lengths)))
        picked = np.arange(first[-1]) + np.repeat(starts[jobs] - first[:-1], lengths)
        return SparseRows(first, columns[picked], data[picked])

    def fractions(self, columns: Floats) -> Floats:
        """The first columns of a solution as [entry, type], cut at 0 and at all its time against rounding."""
        most = np.where(self.members[:, 1] < 0, np.inf, self.counts[self.members[:, 1]])
        most = np.minimum(self.counts[self.members[:, 0]], most)
        x: Floats = columns[: self.size].reshape(len(self.members), len(self.capacity))
        return np.where(self.able, x.clip(0.0, most[:, None]), 0.0)


def single(gpus: Floats, rates: Floats, capacity: Floats) -> Division:
    """The division among jobs that share no device; `rates` is [job, type]."""
    jobs = len(gpus)
    both = np.zeros((jobs, 2, rates.shape[1]))
    both[:, 0] = rates
    return Division(alone(jobs), gpus, both, capacity, np.ones(jobs))


class DemandRows(NamedTuple):
    """Rows to hold beside the constraints, one for each job: gains >= least, or >= least + slope × t with a
    column t."""

    gains: Floats
    """What counts, [entry, 2, type]."""
    least: Floats
    slope: Floats | None = None
    jobs: Ints | None = None
    """The jobs that the rows are about; None for all."""


class Objective(NamedTuple):
    """Maximise costs · x + of_t × t."""

    costs: Floats
    of_t: float = 0.0


class Answer(NamedTuple):
    """What a division came to; without an optimum the value is NaN and the columns are empty."""

    status: SolveStatus
    value: float
    columns: Floats
    """The fractions, then t if demands have a slope."""
    slack: Floats | None = None
    """By how much the demand of each job is exceeded; None if that was not asked or not found, ..."""
    prices: Floats | None = None
    """... and by how much the objective falls for a little more of it."""


def best(division: Division, objective: Objective, demands: DemandRows | None, tie: Tie) -> Answer:
    """The fractions that maximise `objective`.

    Ties of t go to the largest sum of the gains that are demanded with `Tie.SUM`.
    """
    if tie is Tie.INTERIOR:
        return _inside(division, objective, demands)
    made = _program(division, objective, demands)
    solution = made.solve()
    if solution.status is not SolveStatus.OPTIMAL or demands is None or demands.slope is None:
        return Answer(*solution)
    return Answer(*(_largest_sum(made, division, demands, solution) if tie is Tie.SUM else solution))


def _program(division: Division, objective: Objective, demands: DemandRows | None) -> LinearProgram:
    """For the simplex method."""
    made = LinearProgram()
    upper = np.where(division.able.ravel(), INFINITY, 0.0)
    made.add_columns(objective.costs, np.zeros(division.size), upper)
    _add_rows(made, division.held, np.full(len(division.capacity), -INFINITY), division.capacity)
    _add_rows(made, division.time, np.full(len(division.counts), -INFINITY), division.counts)
    if demands is not None:
        rows = division.by_job(demands.gains, demands.jobs)
        if demands.slope is not None:
            made.add_columns(np.array([objective.of_t]), np.array([-INFINITY]), np.array([INFINITY]))
            rows = with_column(rows, division.size, -demands.slope)
        rows, least = _of_one_size(rows, demands.least)
        _add_rows(made, rows, least, np.full(len(least), INFINITY))
    return made


_LEAST_NEED = 1e-6
"""Part of what a job could obtain below which a smaller need is met less exactly."""


def _of_one_size(rows: SparseRows, least: Floats) -> tuple[SparseRows, Floats]:
    """The demands, each divided by what it asks for, so that the solver's tolerance is relative to that.

    Otherwise a job that needs little could get nothing.
    """
    lengths = np.diff(rows.starts)
    most = np.zeros(len(least))
    filled = np.flatnonzero(lengths)
    most[filled] = np.maximum.reduceat(np.abs(rows.values), rows.starts[filled])
    size = np.where(least > 0.0, np.maximum(least, _LEAST_NEED * most), 1.0)
    return rows._replace(values=rows.values / np.repeat(size, lengths)), least / size


def _largest_sum(made: LinearProgram, division: Division, demands: DemandRows, first: Solution) -> Solution:
    """Among the optima of `made`, the one with the largest sum of gains."""
    t = first.columns[division.size]
    made.set_column_bounds(
        np.array([division.size]), np.array([t - SLACK * max(abs(t), SLACK)]), np.array([INFINITY])
    )
    made.set_costs(np.arange(division.size + 1), np.append(sum_of(demands.gains), 0.0))
    columns = made.optimum().columns  # there is one: the first optimum is still feasible
    return Solution(first.status, first.value, columns)


def sum_of(gains: Floats) -> Floats:
    """What all jobs together gain by each fraction, given gains [entry, 2, type]; 0 where there is no job."""
    total: Floats = gains.sum(axis=1).ravel()
    return total


def _add_rows(made: LinearProgram, rows: SparseRows, low: Floats, high: Floats) -> None:
    made.add_rows(low, high, rows.starts[:-1], rows.columns, rows.values)


# -- from the inside -------------------------------------------------------------------------------


def _inside(division: Division, objective: Objective, demands: DemandRows | None) -> Answer:
    """The program as the authors wrote it for their solver: x >= 0, the constraints, and no other bound."""
    return (_pairs_inside if division.has_pairs else _alone_inside)(division, objective, demands)


def _pairs_inside(division: Division, objective: Objective, demands: DemandRows | None) -> Answer:
    parts, limits = [division.held, division.time], [division.capacity, division.counts]
    if demands is not None:
        parts.append(division.by_job(-demands.gains, demands.jobs))
        limits.append(-demands.least)
    starts = np.cumsum([0] + [len(part.columns) for part in parts])
    rows = SparseRows(
        np.concatenate([[0], *(part.starts[1:] + at for part, at in zip(parts, starts, strict=False))]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.values for part in parts]),
    )
    free = _free(len(division.capacity) + len(division.counts), demands)
    program = InnerProgram(objective.costs, rows, np.concatenate(limits), free, objective.of_t)
    return _answer(inner_optimum(program), len(division.capacity) + len(division.counts), demands)


def _alone_inside(division: Division, objective: Objective, demands: DemandRows | None) -> Answer:
    """The interior answer where no job shares: equal jobs get equal parts, so each kind is listed once."""
    kinds, first = kinds_of(features_of(division, objective, demands))
    if demands is not None:
        demands = _of_kinds(demands, first)
    program = program_alone(division, objective, demands, kinds, first)
    answer = _answer(inner_optimum(program), len(division.capacity) + len(first), demands)
    if len(first) == len(kinds) or answer.status is not SolveStatus.OPTIMAL:
        return answer
    return of_all(answer, kinds, (len(first), len(division.capacity)))


def program_alone(
    division: Division, objective: Objective, demands: DemandRows | None, kinds: Ints, first: Ints
) -> InnerProgram:
    """With the first job of each kind for all of it; `demands` are theirs."""
    jobs, types = len(division.counts), len(division.capacity)
    limits = [division.capacity, division.counts[first]]
    if demands is not None:
        limits.append(-demands.least)
    copies = of_rows = None
    if len(first) < jobs:
        copies = np.bincount(kinds).astype(np.float64)
        of_rows = [np.ones(types), copies]
        if demands is not None:
            of_rows.append(copies if demands.jobs is None else copies[demands.jobs])
    return InnerProgram(
        objective.costs.reshape(jobs, types)[first].ravel(),
        _rows_alone(division.gpus[first], types, demands),
        np.concatenate(limits),
        _free(types + len(first), demands),
        objective.of_t,
        None if copies is None else copies.repeat(types),
        None if of_rows is None else np.concatenate(of_rows),
    )


def of_all(answer: Answer, kinds: Ints, shape: tuple[int, int]) -> Answer:
    """The answer about kinds, whose fractions are of `shape` [kind, type], as one about all jobs."""
    width = shape[0] * shape[1]
    x = answer.columns[:width].reshape(shape)[kinds].ravel()
    slack, prices = (None if of is None else of[kinds] for of in (answer.slack, answer.prices))
    return Answer(answer.status, answer.value, np.concatenate((x, answer.columns[width:])), slack, prices)


def features_of(division: Division, objective: Objective, demands: DemandRows | None) -> Floats:
    """Whatever the program says of each job, [job, feature]."""
    jobs, types = len(division.counts), len(division.capacity)
    features = np.full((jobs, 4 + 3 * types), np.nan)
    features[:, 0], features[:, 1] = division.gpus, division.counts
    features[:, 4 : 4 + types] = division.rates[:, 0]
    features[:, 4 + types : 4 + 2 * types] = objective.costs.reshape(jobs, types)
    if demands is not None:
        about = slice(None) if demands.jobs is None else demands.jobs
        features[about, 2] = demands.least
        if demands.slope is not None:
            features[about, 3] = demands.slope
        features[:, 4 + 2 * types :] = demands.gains[:, 0]
    return features


def _of_kinds(demands: DemandRows, first: Ints) -> DemandRows:
    """The demands of the first job of each kind."""
    gains, least, slope, jobs = demands
    if jobs is None:
        return DemandRows(gains[first], least[first], None if slope is None else slope[first])
    place = np.flatnonzero(np.isin(first, jobs))
    at = np.searchsorted(jobs, first[place])
    return DemandRows(gains[first[place]], least[at], None if slope is None else slope[at], place)


def _rows_alone(gpus: Floats, types: int, demands: DemandRows | None) -> SparseRows:
    """The rows of jobs that share no device: GPUs in use of each type, time of each job, demands."""
    jobs = len(gpus)
    values = [*[gpus] * types, np.ones(jobs * types)]
    places = None if demands is None else demands.jobs
    if demands is not None:
        values.append(-demands.gains[:, 0].ravel())
    starts, columns = _places_alone(jobs, types, demands is not None and places is None)
    if places is not None:
        more = np.arange(1, len(places) + 1) * types + starts[-1]
        starts = np.concatenate((starts, more))
        columns = np.concatenate((columns, (places[:, None] * types + np.arange(types)).ravel()))
    return SparseRows(starts, columns, np.concatenate(values))


@lru_cache(maxsize=256)
def _places_alone(jobs: int, types: int, twice: bool) -> tuple[Ints, Ints]:
    """Where those rows start and their columns; jobs by themselves once, or `twice`."""
    every = np.arange(jobs * types)
    times = 2 if twice else 1
    starts = np.arange(types + 1) * jobs, jobs * types + np.arange(1, times * jobs + 1) * types
    columns = np.concatenate((every.reshape(jobs, types).T.ravel(), *[every] * times))
    return np.concatenate(starts), columns


def _free(before: int, demands: DemandRows | None) -> Floats | None:
    """The column t, which is 0 in the first rows; None if no demand has a slope."""
    if demands is None or demands.slope is None:
        return None
    return np.concatenate((np.zeros(before), demands.slope))


def _answer(solution: InnerSolution, before: int, demands: DemandRows | None) -> Answer:
    """The answer, with statements on the demands if they cover all jobs."""
    if demands is None or demands.jobs is not None or solution.status is not SolveStatus.OPTIMAL:
        return Answer(solution.status, solution.value, solution.columns)
    return answer_of(solution, before)


def answer_of(solution: InnerSolution, before: int) -> Answer:
    """The answer with slacks and prices of all demands, which come after `before` other rows."""
    status, value, columns, slack, prices = solution
    return Answer(status, value, columns, slack[before:], prices[before:])


def kinds_of(features: Floats) -> tuple[Ints, Ints]:
    """Kind of each row of `features`, numbered in order of appearance, and the first row of each kind."""
    rows = np.ascontiguousarray(features)
    number: dict[bytes, int] = {}
    width = rows.shape[1] * rows.itemsize
    data, kinds, first = rows.tobytes(), list[int](), list[int]()
    for job in range(len(rows)):
        kind = number.setdefault(data[job * width : (job + 1) * width], len(number))
        if kind == len(first):
            first.append(job)
        kinds.append(kind)
    return np.array(kinds, dtype=np.int64), np.array(first, dtype=np.int64)
