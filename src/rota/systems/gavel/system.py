"""Gavel — an objective says what each job's time on fast and slow GPUs is good for; rounds carry it out.

Paper     Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
          OSDI 2020
Decides   order, GPU type, preemption, migration; with `pairs`, who shares GPUs with whom
Needs     throughput of each job on each GPU type, at the number of GPUs it asks for; the work left for
          objectives that count it; with `pairs`, what two jobs do beside each other
Idea      1. A job's effective throughput is its rate averaged over the types it spends its time on.
          2. An objective (fairness, makespan, finish time, cost, ...) in effective throughputs instead of GPU
             counts: a linear program, or a few, gives the fraction of its time each job spends on each type.
          3. Rounds of 6 minutes carry the fractions out: who is furthest behind its fraction comes first.
          4. GPUs nobody has a fraction of go to whoever fits (not under `fifo`).
Departs   Jobs that come within a round run in the next one where GPUs are idle, and fractions are recomputed
          in every round in which a job or a GPU has come or gone.  The authors' simulator keeps idle GPUs for
          new jobs without letting them run, and recomputes at most every 1,920 s: `mode=artifact`.
          Types are served in the order in which the cluster lists them (the authors': V100, P100, K80).
          Many allocations are optimal: `tie` says which; the authors' is the one at which their
          interior-point solver ends (`tie=interior`), as are ours under `max_min` by types without pairs, and
          all in `mode=artifact`; else the largest sum.  Who does not know types (`aware=no`)
          has, with the largest sum, its time spread over the types in proportion to their GPUs.
          Bisection ends at a tolerance of 1e-4 (the authors': 5 % for the makespan).  The worst finish is
          found by linear programs too, by their cone program with `tie=interior` alone.  Water filling
          finds who is saturated by linear programs instead of one with integers; it ends when everybody is.
          Jobs are fair or in order of arrival inside all tenants alike. Beyond 100 jobs pairs are looked at
          by class of job.
          `allox` gives jobs of several GPUs what is idle; `cost` takes types without prices for equally dear.
          Throughputs come from a table, users or measurement, which estimates by type from similar jobs; the
          authors estimate what pairs do beside each other in this way, which is told by tables here.
Checked   systems/gavel.md, worked examples 1 to 6.  Authors' simulator: isolated, fifo, makespan and AlloX
          end every job in the same second (96 and 300 jobs); max-min has the same fractions at each of 65
          recomputations; means are within 2 % (4 % where the authors' water filling ends early).  Shockwave's
          fork, whose jobs change their batch size: max-min, makespan, equal parts, and AlloX as published end
          every job in the same second (120 jobs)
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints
from rota.model.tenants import Between, Tenant
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.solvers.division import alone
from rota.stages.round_books import Shares
from rota.stages.round_demand import RoundDemand
from rota.stages.rounds import Rounds, Turns
from rota.systems.gavel.allox import allox
from rota.systems.gavel.hierarchy import hierarchy
from rota.systems.gavel.packing import at_random
from rota.systems.gavel.parameters import GavelMode, GavelObjective, GavelParameters
from rota.systems.gavel.problem import GavelProblem, Objective, seen_rates
from rota.systems.gavel.programs import cost, finish_time, makespan, max_min, throughput
from rota.systems.gavel.walks import fifo, isolated, proportional, shortest

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
_SHARING = {GavelObjective.PACKING}
"""Objectives that look at pairs whatever `pairs` says."""
_WALKING = {GavelObjective.FIFO, GavelObjective.SHORTEST}
"""Objectives that look at hard quotas, for who has room comes first; the others give all that comes to."""
_WEIGHING = {
    GavelObjective.MAX_MIN,
    GavelObjective.HIERARCHY,
    GavelObjective.FINISH_TIME,
    GavelObjective.MAKESPAN,
}
"""Objectives that compare shares, each over the weight of its job; the last two among equal optima."""


def _shares(parameters: GavelParameters) -> bool:
    return parameters.pairs or parameters.objective in _SHARING


@register(
    "gavel",
    "Time on GPU types divided by an objective, in rounds",
    paper="Gavel, OSDI 2020",
    needs={
        Knowledge.THROUGHPUT: True,
        Knowledge.DURATION: lambda p: p.counts_work,
        Knowledge.PAIRS: _shares,
    },
    levers={Lever.PREEMPT: True, Lever.MIGRATE: True, Lever.SHARE: _shares},
    parameters=GavelParameters,
    rotates=True,
    heeds_deadlines=lambda p: p.objective is GavelObjective.COST,
    heeds_weight=lambda p: p.objective in _WEIGHING,
    between=lambda p: Between.WEIGHTS if p.objective is GavelObjective.HIERARCHY else Between.NOTHING,
)
class Gavel:
    """Divides time on GPU types, and carries it out in rounds."""

    def __init__(self, parameters: GavelParameters | None = None) -> None:
        self.parameters = parameters or GavelParameters()
        self.objective = OBJECTIVES[self.parameters.objective]
        self.inner = Rounds(self._fractions, turns(self.parameters), self._premises)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)

    def _fractions(self, snapshot: Snapshot, demand: RoundDemand, own: Memory) -> Shares:
        """The objective's answer for the jobs that can run at all; the others get nothing."""
        able = np.flatnonzero(demand.rates.any(axis=1))
        if len(able) == len(demand.rows):
            return self.objective(self._problem(snapshot, demand, own))
        every = Shares(alone(len(demand.rows)), np.zeros_like(demand.rates))
        if not len(able):
            return every
        part = RoundDemand(
            demand.rows[able], demand.gpus[able], demand.rates[able], demand.capacity, demand.pairs
        )
        shares = self.objective(self._problem(snapshot, part, own))
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
        if objective in _WEIGHING:
            columns.append(jobs.weight[rows])
        if objective is GavelObjective.HIERARCHY:
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

    def _problem(self, snapshot: Snapshot, demand: RoundDemand, own: Memory) -> GavelProblem:
        return GavelProblem(
            snapshot,
            self.parameters,
            demand.rows,
            demand.gpus,
            demand.rates,
            seen_rates(demand.rates, self.parameters),
            demand.capacity,
            demand.pairs,
            own,
        )


def _quotas(tenant: Tenant, cluster: Cluster) -> Floats:
    """What a tenant may hold, of all types and of each."""
    by_type = [tenant.quota_by_type.get(name, math.inf) for name in cluster.type_names]
    return np.array([tenant.quota_gpus, *by_type])


def turns(parameters: GavelParameters) -> Turns:
    """The rules of the rounds."""
    artifact = parameters.mode is GavelMode.ARTIFACT
    return Turns(
        round_s=parameters.round_s,
        recompute_s=parameters.least_s,
        shuffle=not parameters.aware,
        reserve=artifact,
        by_work=artifact,
        learn=parameters.mode is GavelMode.PAPER,
        fill=parameters.objective is not GavelObjective.FIFO,
        pairs=_shares(parameters),
        one_queue=parameters.mode is GavelMode.SIA,
        keeps_books=parameters.mode is GavelMode.SIA,
        lowest=parameters.mode is GavelMode.SIA,
        all_pairs=artifact,
        grow=parameters.mode is GavelMode.PAPER,
        waits=parameters.mode is not GavelMode.PAPER,
    )
