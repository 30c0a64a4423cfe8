"""Gavel, max-min fairness — everyone's effective throughput, relative to an equal share, as high as possible.

Paper     Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
          OSDI 2020 (the least-attained-service policy)
Decides   order, GPU type, preemption, migration
Needs     throughput of each job on each GPU type, at the number of GPUs it asks for
Idea      1. A job's share is GPUs × effective throughput over the throughput of an equal division of types.
          2. A linear program finds the fractions of time on each type that maximise the least share.
          3. Rounds of 6 minutes carry the fractions out: whoever is furthest behind its fraction comes first.
          4. GPUs nobody has a fraction of go to whoever fits.
Departs   Jobs that arrive run at once where GPUs are idle, and fractions are recomputed in every round in
          which a job has come or gone.  The authors' simulator keeps idle GPUs for new jobs without letting
          them run, and recomputes at most every 1,920 s: `mode=artifact`.
          Types are served in the order in which the cluster lists them (the authors': V100, P100, K80).
          Among many optimal allocations the one with the largest sum of shares is taken (`tie=sum`), and
          with `aware=no` each job's total time is divided over the types in proportion to their GPUs; the
          authors take what an interior-point solver returns.  Weights and shared GPUs are left out.
Checked   systems/gavel.md, worked examples 1, 5.  Authors' simulator, 96 jobs on 48 GPUs, mode=artifact: the
          rounds are exact (fractions that need no solver: all 96 jobs, and 300 of a second workload, to the
          microsecond); the best t is theirs at all 31 recomputations; mean completion time 14,289 s against
          14,623 (tie=vertex: 14,902), agnostic 19,802 against 19,989: which optimum the solver returns
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Floats
from rota.policies.gavel.allox import allox
from rota.policies.gavel.entries import entries
from rota.policies.gavel.hierarchy import hierarchy
from rota.policies.gavel.packing import at_random
from rota.policies.gavel.parameters import RECOMPUTE_S, GavelMode, GavelObjective, GavelParameters, Inside
from rota.policies.gavel.problem import Objective, Problem, seen_rates
from rota.policies.gavel.programs import cost, finish_time, makespan, max_min, throughput
from rota.policies.gavel.walks import fifo, isolated, shortest
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.rounds import RoundDemand, Rounds, Shares, Turns, alone

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
    GavelObjective.ISOLATED: isolated,
}
_SHARING = {GavelObjective.PACKING}
"""Objectives that look at pairs whatever `pairs` says."""


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
)
class Gavel:
    """Divides time on GPU types, and carries it out in rounds."""

    def __init__(self, parameters: GavelParameters | None = None) -> None:
        self.parameters = parameters or GavelParameters()
        self.objective = OBJECTIVES[self.parameters.objective]
        self.inner = Rounds(self._fractions, turns(self.parameters))

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)

    def _fractions(self, snapshot: Snapshot, demand: RoundDemand, own: Memory) -> Shares:
        """The objective's answer for the jobs that can run at all; the others get nothing."""
        able = np.flatnonzero(demand.rates.any(axis=1))
        every = Shares(alone(len(demand.rows)), np.zeros_like(demand.rates))
        if not len(able):
            return every
        part = RoundDemand(
            demand.rows[able], demand.gpus[able], demand.rates[able], demand.capacity, demand.pairs
        )
        seen = seen_rates(part.rates, self.parameters)
        among = entries(part, seen, self._apart_by(snapshot, part))
        problem = Problem(
            snapshot,
            self.parameters,
            part.rows,
            part.gpus,
            part.rates,
            seen,
            part.capacity,
            part.pairs,
            among,
            own,
        )
        shares = self.objective(problem)
        if len(able) == len(demand.rows):
            return shares
        pairs = shares.members[:, 1] >= 0
        every.fractions[able] = shares.fractions[~pairs]
        return Shares(
            np.concatenate((every.members, able[shares.members[pairs]])),
            np.concatenate((every.fractions, shares.fractions[pairs])),
        )

    def _apart_by(self, snapshot: Snapshot, demand: RoundDemand) -> Floats:
        """What keeps two jobs of one workload from being alike to the objective, [job, value]."""
        jobs = snapshot.jobs
        columns = [jobs.weight[demand.rows]]
        if self.parameters.objective is GavelObjective.HIERARCHY:
            columns.append(jobs.tenant[demand.rows])
            if self.parameters.inside is Inside.FIFO:
                columns.append(demand.rows)
        return np.column_stack(columns)


def turns(parameters: GavelParameters) -> Turns:
    """The rules of the rounds."""
    artifact = parameters.mode is GavelMode.ARTIFACT
    return Turns(
        round_s=parameters.round_s,
        recompute_s=RECOMPUTE_S if artifact else 0.0,
        shuffle=not parameters.aware,
        reserve=artifact,
        by_work=artifact,
        fill=parameters.objective is not GavelObjective.FIFO,
        pairs=_shares(parameters),
    )
