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

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Bools, Floats
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.rounds import RoundDemand, Rounds, Turns
from rota.solvers.max_min import Tie, max_min


class GavelMode(StrEnum):
    """Whose rules hold where the two differ."""

    PAPER = "paper"
    ARTIFACT = "artifact"  # the authors' simulator


@dataclass(frozen=True)
class MaxMinParameters:
    """Parameters of `max_min`."""

    round_s: float = 360.0
    """Length of a round, in seconds (section 5)."""
    aware: bool = True
    """Use throughputs by GPU type; `no` takes all types for equally fast (the agnostic baseline)."""
    tie: Tie = Tie.SUM
    """Which of many optimal allocations: the one with the largest sum of shares (with `aware=no` spread over
    the types), or the solver's."""
    mode: GavelMode = GavelMode.PAPER
    """Rules for new jobs and recomputations."""


RECOMPUTE_S = 1920.0
"""Least time between two recomputations in the authors' simulator."""


_ROUNDING = 1e-9
"""By how much the GPUs of a type may seem to be exceeded where sums are all it is."""


@register(
    "max_min",
    "Max-min fairness over GPU types by linear program",
    paper="Gavel, OSDI 2020",
    needs={Knowledge.THROUGHPUT},
    levers={Lever.PREEMPT, Lever.MIGRATE},
    parameters=MaxMinParameters,
    rotates=True,
)
class GavelMaxMin:
    """Max-min fairness over GPU types."""

    def __init__(self, parameters: MaxMinParameters | None = None) -> None:
        self.parameters = parameters or MaxMinParameters()
        self.inner = Rounds(self._fractions, turns(self.parameters))

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)

    def _fractions(self, snapshot: Snapshot, demand: RoundDemand, own: Memory) -> Floats:
        rates = demand.rates if self.parameters.aware else (demand.rates > 0.0).astype(np.float64)
        fractions = np.zeros_like(rates)
        able = rates.any(axis=1)
        if able.any():
            scores = shares(rates[able], demand.gpus[able], demand.capacity)
            best = max_min(scores, demand.gpus[able], demand.capacity, self.parameters.tie).fractions
            if not self.parameters.aware and self.parameters.tie is not Tie.VERTEX:
                best = spread_evenly(best, scores > 0.0, demand.gpus[able], demand.capacity)
            fractions[able] = best
        return fractions


def shares(rates: Floats, gpus: Floats, capacity: Floats) -> Floats:
    """Share of a job that spends all its time on one type, [job, type].

    GPUs × throughput over the throughput of a division of time in proportion to the GPUs of each type.
    """
    equal = rates @ (capacity / capacity.sum())
    scores: Floats = gpus[:, None] * rates / equal[:, None]
    return scores


def spread_evenly(fractions: Floats, runs_on: Bools, gpus: Floats, capacity: Floats) -> Floats:
    """The time of each job divided over the types it runs on, [job, type], in proportion to their GPUs.

    To whoever takes all types for equally fast this is worth the same.  Where jobs that run on few types
    leave no room for it, the allocation stays as it is.
    """
    weights = runs_on * capacity
    spread: Floats = fractions.sum(axis=1, keepdims=True) * weights / weights.sum(axis=1, keepdims=True)
    return spread if (gpus @ spread <= capacity * (1.0 + _ROUNDING)).all() else fractions


def turns(parameters: MaxMinParameters) -> Turns:
    """The rules of the rounds."""
    artifact = parameters.mode is GavelMode.ARTIFACT
    return Turns(
        round_s=parameters.round_s,
        recompute_s=RECOMPUTE_S if artifact else 0.0,
        shuffle=not parameters.aware,
        reserve=artifact,
        by_work=artifact,
    )
