"""Gavel as two published simulators carry it out: `gavel@authors` and `gavel@sia`.

Paper     Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
          OSDI 2020
Decides   order, GPU type, preemption, migration; with `pairs`, which jobs share GPUs
Needs     as `gavel`
Idea      1. `authors`: stanford-futuredata/gavel, `scheduler/scheduler.py`, and its fork in Shockwave
             (`round_s=120,recompute_s=1000`).  Idle GPUs are kept for new jobs without letting them run, and
             fractions are recomputed at most every 1,920 s, when a job came or went but not when a rate
             changed.  `objectives.py` lists what differs in the objectives.
          2. `sia`: Gavel inside Sia's simulator.  All types stand in one queue, and what was received counts
             from the beginning.
Departs   Their solver's optimum is ours from the inside (`tie=interior`); water filling may end later.
Checked   `authors`: isolated, fifo, makespan and AlloX end every job in the same second (96 and 300 jobs);
          max-min has the same fractions at each of 65 recomputations; means are within 2 % (4 % where the
          authors' water filling ends early).  Shockwave's fork, whose jobs change their batch size: max-min,
          makespan, equal parts, and AlloX as published end every job in the same second (120 jobs).
          `sia`: means within 2 % (docs/fidelity.md)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rota.published.artifacts.gavel.objectives import (
    OBJECTIVES_OF_AUTHORS,
    ProblemOfAuthors,
    seen_by_authors,
)
from rota.published.registration import register_like
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot
from rota.stages.round_demand import RoundDemand
from rota.stages.rounds import Turns
from rota.systems.gavel.problem import GavelProblem
from rota.systems.gavel.system import (
    Gavel,
    GavelParameters,
    TieRule,
)


@dataclass(frozen=True)
class GavelOfSiaParameters(GavelParameters):
    """Parameters of `gavel@sia`."""

    tie: TieRule = TieRule.INTERIOR
    """Which of many optimal allocations; the authors' solver ends at the point inside."""


@dataclass(frozen=True)
class GavelOfAuthorsParameters(GavelOfSiaParameters):
    """Parameters of `gavel@authors`."""

    recompute_s: float = 1920.0
    """Least time between two recomputations of the fractions, in seconds; Shockwave's fork has 1,000."""


@register_like(
    "gavel",
    "gavel@authors",
    "Gavel as the authors' simulator carries it out",
    parameters=GavelOfAuthorsParameters,
)
class GavelOfAuthors(Gavel):
    """Time by the authors' programs; new jobs wait for the next recomputation."""

    objectives = OBJECTIVES_OF_AUTHORS

    def __init__(self, parameters: GavelOfAuthorsParameters | None = None) -> None:
        super().__init__(parameters or GavelOfAuthorsParameters())

    def turns(self) -> Turns:
        return replace(
            super().turns(),
            reserve=True,
            by_work=True,
            learn=False,
            all_pairs=True,
            grow=False,
            waits=True,
        )

    def problem(self, snapshot: Snapshot, demand: RoundDemand, own: Memory) -> GavelProblem:
        rules = self.rules()
        return ProblemOfAuthors.of(snapshot, rules, demand, seen_by_authors(demand.rates, rules), own)


@register_like(
    "gavel",
    "gavel@sia",
    "Gavel as Sia's simulator carries it out",
    parameters=GavelOfSiaParameters,
)
class GavelOfSia(Gavel):
    """One queue over all types, books from the beginning."""

    def __init__(self, parameters: GavelOfSiaParameters | None = None) -> None:
        super().__init__(parameters or GavelOfSiaParameters())

    def turns(self) -> Turns:
        return replace(
            super().turns(),
            learn=False,
            one_queue=True,
            keeps_books=True,
            lowest=True,
            grow=False,
            waits=True,
        )
