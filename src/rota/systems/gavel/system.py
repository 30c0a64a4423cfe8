"""Gavel — an objective decides how much time each job gets on fast and slow GPUs; rounds carry it out.

Paper     Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
          OSDI 2020
Decides   order, GPU type, preemption, migration; with `pairs`, which jobs share GPUs
Needs     throughput of each job on each GPU type, at the number of GPUs it asks for; the work left for
          objectives that count it; with `pairs`, what two jobs do beside each other
Idea      1. A job's effective throughput is its rate averaged over the types it spends its time on.
          2. An objective (fairness, makespan, finish time, cost, ...) in effective throughputs instead of GPU
             counts: a linear program, or a few, gives the fraction of its time each job spends on each type.
          3. Rounds of 6 minutes carry the fractions out: the job furthest behind its fraction comes first.
          4. GPUs that no job has a fraction of go to any job that fits (not under `fifo`).
Departs   Jobs that come within a round run in the next one where GPUs are idle, and fractions are recomputed
          in every round in which a job or a GPU has come or gone.
          Types are served in the order in which the cluster lists them (the authors': V100, P100, K80).
          Many allocations are optimal: `tie` says which.  The authors' is the one at which their
          interior-point solver ends (`tie=interior`), as is ours under `max_min` by types without pairs;
          else ours has the largest sum.  A job whose types are not distinguished (`aware=no`) has, with the
          largest sum, its time spread over the types in proportion to their GPUs.
          Bisection ends at a tolerance of 1e-4 (the authors': 5 % for the makespan).  The worst finish is
          found by linear programs too, and by the authors' cone program only with `tie=interior`.  Water
          filling finds saturated jobs by linear programs instead of one with integers, and ends when all are.
          Jobs are fair or in order of arrival inside all tenants alike.  Beyond 100 jobs pairs are looked at
          by class of job.
          `allox` gives jobs of several GPUs what is idle; `cost` takes types without prices for equally dear.
          Throughputs come from a table, users or measurement, which estimates by type from similar jobs.  The
          authors estimate pairs in this way as well; here a table states what pairs do together.
          What published simulators do otherwise is `gavel@authors` and `gavel@sia`.
Checked   systems/gavel.md, worked examples 1 to 6
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints
from rota.model.tenants import Between, Tenant
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.solvers.division import Tie, alone
from rota.stages.round_books import Shares
from rota.stages.round_demand import RoundDemand
from rota.stages.rounds import Rounds, Turns
from rota.systems.gavel.allox import allox
from rota.systems.gavel.hierarchy import hierarchy
from rota.systems.gavel.packing import at_random
from rota.systems.gavel.policy import (
    cost,
    fifo,
    finish_time,
    isolated,
    makespan,
    max_min,
    proportional,
    shortest,
    throughput,
)
from rota.systems.gavel.problem import GavelProblem, Objective, ObjectiveRules, seen_rates

PAPER = "Gavel, OSDI 2020"


class GavelObjective(StrEnum):
    """The goal of the fractions of time (section 4)."""

    MAX_MIN = "max_min"  # least attained service: the least share as large as possible
    HIERARCHY = "hierarchy"  # the same, tenant by tenant, then job by job
    FINISH_TIME = "finish_time"  # the worst finish against a cluster of one's own
    FIFO = "fifo"  # earlier jobs have the fastest GPUs
    SHORTEST = "shortest"  # jobs that are done sooner have the fastest GPUs
    MAKESPAN = "makespan"  # the last one done as soon as possible
    THROUGHPUT = "throughput"  # work per second, all jobs together
    COST = "cost"  # work per second and dollar, deadlines kept
    ALLOX = "allox"  # the least mean completion time, jobs matched to GPUs (AlloX, EuroSys 2020)
    PACKING = "packing"  # equal time, pairs found by trial (the authors' Gandiva)
    PROPORTIONAL = "proportional"  # equal parts of the time, however many GPUs a job asks for
    ISOLATED = "isolated"  # each job has an equal part of the cluster for itself


class TieRule(StrEnum):
    """Which of many optimal allocations."""

    AUTO = "auto"  # the point inside for `max_min` by types without pairs, else the largest sum
    SUM = Tie.SUM.value
    VERTEX = Tie.VERTEX.value
    INTERIOR = Tie.INTERIOR.value


class Inside(StrEnum):
    """How a tenant's share is divided among its jobs under `hierarchy`."""

    FAIRNESS = "fairness"
    FIFO = "fifo"


@dataclass(frozen=True)
class GavelParameters:
    """Parameters of `gavel`."""

    objective: GavelObjective = GavelObjective.MAX_MIN
    """The goal of the fractions of time."""
    round_s: float = 360.0
    """Length of a round, in seconds (section 5)."""
    aware: bool = True
    """Use throughputs by GPU type; `no` takes all types for equally fast (the agnostic baseline)."""
    pairs: bool = False
    """Two jobs may share the same GPUs (space sharing)."""
    alpha: float = 1.0
    """Part of the waiting jobs, the longest-waiting, among which `allox` looks for the best order; at least
    as many as there are free GPUs."""
    inside: Inside = Inside.FAIRNESS
    """How a tenant's share is divided among its jobs, under `hierarchy`."""
    tolerance: float = 1e-4
    """Relative error of what bisection looks for: the makespan, the worst finish."""
    tie: TieRule = TieRule.AUTO
    """Which of many optimal allocations: the largest sum of shares, a corner, or the point inside; `auto`
    is the point inside for `max_min` by types without pairs, else the largest sum."""
    recompute_s: float = 0.0
    """Least time between two recomputations of the fractions, in seconds."""

    @property
    def counts_work(self) -> bool:
        """True if the objective looks at how much work is left."""
        return self.objective in _COUNT_WORK

    @property
    def shares(self) -> bool:
        """True if two jobs may share the same GPUs."""
        return self.pairs or self.objective is GavelObjective.PACKING

    @property
    def weighs(self) -> bool:
        """True if the objective compares shares, each over the weight of its job."""
        return self.objective in _WEIGHING

    @property
    def by_tenant(self) -> bool:
        """True if the objective divides the cluster between tenants."""
        return self.objective is GavelObjective.HIERARCHY

    @property
    def best_tie(self) -> Tie:
        """Which of many optima the programs end at."""
        if self.tie is not TieRule.AUTO:
            return Tie(self.tie.value)
        return Tie.INTERIOR if self.prefers_inside else Tie.SUM

    @property
    def prefers_inside(self) -> bool:
        """True where `tie` leaves the optimum open, and the point inside is the better one.

        It takes one program instead of two, in which equal jobs stand once; and they get the same.
        """
        is_open = self.tie is TieRule.AUTO
        return is_open and self.objective is GavelObjective.MAX_MIN and self.aware and not self.pairs


_COUNT_WORK = {
    GavelObjective.FINISH_TIME,
    GavelObjective.SHORTEST,
    GavelObjective.MAKESPAN,
    GavelObjective.COST,
    GavelObjective.ALLOX,
}
_WEIGHING = {
    GavelObjective.MAX_MIN,
    GavelObjective.HIERARCHY,
    GavelObjective.FINISH_TIME,
    GavelObjective.MAKESPAN,
}
"""The last two compare shares among equal optima."""
_WALKING = {GavelObjective.FIFO, GavelObjective.SHORTEST}
"""Objectives that depend on hard quotas, since the first job with room comes first; the others do not look
at quotas."""

OBJECTIVES: Mapping[GavelObjective, Objective] = {
    GavelObjective.MAX_MIN: max_min,
    GavelObjective.HIERARCHY: hierarchy,
    GavelObjective.FINISH_TIME: finish_time,
    GavelObjective.FIFO: fifo,
    GavelObjective.SHORTEST: shortest,
    GavelObjective.MAKESPAN: makespan,
    GavelObjective.THROUGHPUT: throughput,
    GavelObjective.COST: cost,
    GavelObjective.ALLOX: allox,
    GavelObjective.PACKING: at_random,
    GavelObjective.PROPORTIONAL: proportional,
    GavelObjective.ISOLATED: isolated,
}
NEEDS = {
    Knowledge.THROUGHPUT: True,
    Knowledge.DURATION: lambda p: p.counts_work,
    Knowledge.PAIRS: lambda p: p.shares,
}
LEVERS = {Lever.PREEMPT: True, Lever.MIGRATE: True, Lever.SHARE: lambda p: p.shares}


def by_deadline(parameters: GavelParameters) -> bool:
    """True if the objective keeps deadlines."""
    return parameters.objective is GavelObjective.COST


def by_weight(parameters: GavelParameters) -> bool:
    """True if weights count."""
    return parameters.weighs


def divided_between(parameters: GavelParameters) -> Between:
    """The quantity by which tenants' parts of the cluster are divided."""
    return Between.WEIGHTS if parameters.by_tenant else Between.NOTHING


@register(
    "gavel",
    "Time on GPU types divided by an objective, in rounds",
    paper=PAPER,
    needs=NEEDS,
    levers=LEVERS,
    parameters=GavelParameters,
    rotates=True,
    heeds_deadlines=by_deadline,
    heeds_weight=by_weight,
    between=divided_between,
)
class Gavel:
    """Divides time on GPU types, and carries it out in rounds."""

    objectives: ClassVar[Mapping[GavelObjective, Objective]] = OBJECTIVES

    def __init__(self, parameters: GavelParameters | None = None) -> None:
        self.parameters = parameters or GavelParameters()
        self.objective = self.objectives[self.parameters.objective]
        self.inner = Rounds(self._fractions, self.turns(), self._premises)

    def turns(self) -> Turns:
        """The rules of the rounds."""
        p = self.parameters
        return Turns(
            round_s=p.round_s,
            recompute_s=p.recompute_s,
            shuffle=not p.aware,
            fill=p.objective is not GavelObjective.FIFO,
            pairs=p.shares,
        )

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)

    def _fractions(self, snapshot: Snapshot, demand: RoundDemand, own: Memory) -> Shares:
        """The objective's answer for the jobs that can run at all; the others get nothing."""
        able = np.flatnonzero(demand.rates.any(axis=1))
        if len(able) == len(demand.rows):
            return self.objective(self.problem(snapshot, demand, own))
        every = Shares(alone(len(demand.rows)), np.zeros_like(demand.rates))
        if not len(able):
            return every
        part = RoundDemand(
            demand.rows[able], demand.gpus[able], demand.rates[able], demand.capacity, demand.pairs
        )
        shares = self.objective(self.problem(snapshot, part, own))
        pairs = shares.members[:, 1] >= 0
        every.fractions[able] = shares.fractions[~pairs]
        return Shares(
            np.concatenate((every.members, able[shares.members[pairs]])),
            np.concatenate((every.fractions, shares.fractions[pairs])),
        )

    def _premises(self, snapshot: Snapshot, rows: Ints) -> Floats:
        """Weights, deadlines, tenants, quotas and prices, as far as the objective looks at them."""
        jobs, cluster, objective = snapshot.jobs.table, snapshot.cluster, self.parameters.objective
        columns = list[Floats]()
        if self.parameters.weighs:
            columns.append(jobs.weight[rows])
        if self.parameters.by_tenant:
            columns.append(jobs.tenant[rows].astype(np.float64))
            columns.append(np.array([tenant.weight for tenant in cluster.tenants.by_path.values()]))
        if objective is GavelObjective.COST:
            columns.append(jobs.deadline_s[rows])
            columns.append(np.array([cluster.gpu_price(kind) for kind in range(len(cluster.type_names))]))
        if objective in _WALKING:
            columns += [
                _quotas(tenant, cluster) for tenant in cluster.tenants.by_path.values() if tenant.hard
            ]
        return np.concatenate(columns) if columns else np.zeros(0)

    def problem(self, snapshot: Snapshot, demand: RoundDemand, own: Memory) -> GavelProblem:
        """The objective's input for the jobs of `demand`."""
        rules = self.rules()
        return GavelProblem.of(snapshot, rules, demand, seen_rates(demand.rates, rules), own)

    def rules(self) -> ObjectiveRules:
        """What the objective reads, and which of its optima counts."""
        p = self.parameters
        return ObjectiveRules(
            aware=p.aware,
            counts_work=p.counts_work,
            pairs=p.pairs,
            by_tenant=p.by_tenant,
            in_order_inside=p.inside is Inside.FIFO,
            tie=p.best_tie,
            falls_back=p.prefers_inside,
            tolerance=p.tolerance,
            alpha=p.alpha,
        )


def _quotas(tenant: Tenant, cluster: Cluster) -> Floats:
    """GPUs that a tenant may hold, of all types and of each."""
    by_type = [tenant.quota_by_type.get(name, math.inf) for name in cluster.type_names]
    return np.array([tenant.quota_gpus, *by_type])
