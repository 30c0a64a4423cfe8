"""Which job runs in which lease, so that deadlines are worth most: Chronus' integer program, for HiGHS.

Source    Gao et al., "Chronus", SoCC 2021

A candidate is a job with one of its deadlines.  X[r, i] is 1 if candidate r runs in lease i, S[r] if it is
the one that its job takes:

    maximise   sum value_r S_r + towards * sum_r gpus_r X[r, 0] / largest capacity
    so that    sum_i X[r, i] = need_r S_r          over the leases before its deadline, for each candidate
               sum_r gpus_r X[r, i] <= capacity_i  for each lease
               sum S_r = 1                         over the candidates of each job
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import highspy
import numpy as np

from rota.model.columns import Ints
from rota.solvers.leases import Demand, all_fit

_FIXED: dict[str, Any] = {"output_flag": False, "threads": 1, "random_seed": 0, "parallel": "off"}
_TIE = 1e-3
"""Bonus for a job that runs already, as a part of the worth of a GPU now."""


class Candidate(NamedTuple):
    """A job with one of its deadlines."""

    job: int
    """Number of the job, from 0."""
    demand: Demand
    value: float
    """What it is worth to be done by this deadline."""
    runs: bool = False
    """The job runs at present."""


class LeaseLimits(NamedTuple):
    """How far the search goes."""

    nodes: int = 50
    """Nodes of the search tree."""
    wall_s: float = math.inf
    """Seconds: a safety net, and nothing that another run would repeat."""


class LeasePlan(NamedTuple):
    """A plan for all jobs."""

    chosen: Ints
    """By job, the place of its candidate."""
    leases: list[Ints]
    """By job, the leases it has, ascending."""
    value: float
    """The objective."""
    is_cut: bool
    """True if the search ended at a limit."""


def plan_leases(
    candidates: Sequence[Candidate], capacity: Ints, towards: int, limits: LeaseLimits | None = None
) -> LeasePlan | None:
    """The best plan that is found within `limits`; None if there is none, or none was found.

    `towards` is 1 to have as many GPUs as possible in use in lease 0, and -1 to have as few.  Among equal
    plans it prefers one in which the jobs that run already run now.
    """
    if not candidates:
        return LeasePlan(np.zeros(0, dtype=np.int64), [], 0.0, False)
    plain = _at_its_bound(candidates, capacity, towards)
    if plain is not None:
        return plain
    program = _Program(candidates, capacity, towards)
    highs = program.highs()
    highs.setOptionValue("mip_max_nodes", (limits or LeaseLimits()).nodes)
    if limits is not None and limits.wall_s < math.inf:
        highs.setOptionValue("time_limit", limits.wall_s)
    highs.run()
    is_cut = highs.getModelStatus() != highspy.HighsModelStatus.kOptimal
    values = np.array(highs.getSolution().col_value)
    if len(values) != program.columns or highs.getInfo().primal_solution_status != 2:
        return None
    return program.read(values > 0.5, is_cut)


def _at_its_bound(candidates: Sequence[Candidate], capacity: Ints, towards: int) -> LeasePlan | None:
    """The plan of jobs with one deadline each, if laying them out gives a provably optimal plan.

    The GPUs in use now are at least those of jobs without a lease to spare, and at most those of all jobs.
    """
    demands = [one.demand for one in candidates]
    if [one.job for one in candidates] != list(range(len(candidates))):
        return None
    if min(demand.need for demand in demands) < 1 or min(demand.last for demand in demands) < 1:
        return None
    begin = [demand for demand in demands if towards > 0 or demand.need >= demand.last]
    now = sum(demand.gpus for demand in begin)
    if now > capacity[0]:
        return None
    rest = [
        demand._replace(need=demand.need - (towards > 0 or demand.need >= demand.last), last=demand.last - 1)
        for demand in demands
    ]
    laid = all_fit(capacity[1:], rest)
    if laid is None:
        return None
    leases = [
        np.concatenate((np.zeros(demand.need - len(own), dtype=np.int64), own + 1))
        for demand, own in zip(demands, laid, strict=True)
    ]
    value = sum(one.value for one in candidates) + towards * now / max(float(capacity.max()), 1.0)
    return LeasePlan(np.arange(len(candidates)), leases, value, False)


class _Program:
    """Columns: X of the first candidate lease by lease, X of the second, ..., then S."""

    def __init__(self, candidates: Sequence[Candidate], capacity: Ints, towards: int) -> None:
        self.candidates, self.capacity, self.towards = candidates, capacity, towards
        self.last = np.array([max(0, min(one.demand.last, len(capacity))) for one in candidates])
        self.first = np.concatenate(([0], np.cumsum(self.last)))
        self.columns = int(self.first[-1]) + len(candidates)
        self.job = np.array([one.job for one in candidates])
        self.jobs = int(self.job.max()) + 1
        self.gpus = np.array([one.demand.gpus for one in candidates], dtype=np.float64)
        self.value = np.array([one.value for one in candidates], dtype=np.float64)

    def highs(self) -> Any:
        """The program in HiGHS: rows of the candidates, of the leases, of the jobs."""
        count, leases, binaries = len(self.candidates), len(self.capacity), int(self.first[-1])
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = self.columns, count + leases + self.jobs
        program.sense_ = highspy.ObjSense.kMaximize
        program.col_cost_ = self._costs()
        program.col_lower_, program.col_upper_ = np.zeros(self.columns), np.ones(self.columns)
        free = np.full(leases, -highspy.kHighsInf)
        program.row_lower_ = np.concatenate((np.zeros(count), free, np.ones(self.jobs)))
        program.row_upper_ = np.concatenate((np.zeros(count), self.capacity, np.ones(self.jobs)))
        of = np.repeat(np.arange(count), self.last)
        lease = np.arange(binaries) - self.first[of]
        need = np.array([one.demand.need for one in self.candidates], dtype=np.float64)
        matrix = program.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kColwise
        matrix.start_ = np.arange(0, 2 * self.columns + 1, 2)
        index = np.stack((of, count + lease), axis=1).ravel()
        chosen = np.stack((np.arange(count), count + leases + self.job), axis=1).ravel()
        matrix.index_ = np.concatenate((index, chosen))
        entry = np.stack((np.ones(binaries), self.gpus[of]), axis=1).ravel()
        matrix.value_ = np.concatenate((entry, np.stack((-need, np.ones(count)), axis=1).ravel()))
        program.integrality_ = [highspy.HighsVarType.kInteger] * self.columns
        highs = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in _FIXED.items():
            highs.setOptionValue(name, value)
        highs.setOptionValue("mip_rel_gap", 0.0)
        highs.setOptionValue("mip_abs_gap", 0.1 / self._largest)
        highs.passModel(program)
        return highs

    @property
    def _largest(self) -> float:
        return float(max(self.capacity.max(initial=1), 1))

    def _costs(self) -> Any:
        costs = np.concatenate((np.zeros(int(self.first[-1])), self.value))
        now = self.first[:-1][self.last > 0]
        runs = np.array([one.runs for one in self.candidates])[self.last > 0]
        costs[now] = (self.towards * self.gpus[self.last > 0] + _TIE * runs) / self._largest
        return costs

    def read(self, taken: Any, is_cut: bool) -> LeasePlan:
        """The plan that a solution represents."""
        places = np.flatnonzero(taken[int(self.first[-1]) :])
        chosen = np.zeros(self.jobs, dtype=np.int64)
        chosen[self.job[places]] = places
        leases = [np.flatnonzero(taken[self.first[r] : self.first[r + 1]]) for r in chosen.tolist()]
        now = sum(self.gpus[r] for r, own in zip(chosen.tolist(), leases, strict=True) if 0 in own[:1])
        value = float(self.value[chosen].sum() + self.towards * now / self._largest)
        return LeasePlan(chosen, leases, value, is_cut)
