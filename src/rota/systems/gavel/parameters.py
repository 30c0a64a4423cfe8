"""Parameters of Gavel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from rota.solvers.division import Tie

RECOMPUTE_S = 1920.0
"""Least time between two recomputations in the authors' simulator; 1,000 s in its fork, Shockwave's."""


class GavelMode(StrEnum):
    """Whose rules hold where the two differ."""

    PAPER = "paper"
    ARTIFACT = "artifact"  # the authors' simulator
    SIA = "sia"  # Gavel inside Sia's simulator: one queue over all types, books from the beginning


class GavelObjective(StrEnum):
    """What the fractions of time are to be good for (section 4)."""

    MAX_MIN = "max_min"  # least attained service: the least share as large as possible
    HIERARCHY = "hierarchy"  # the same, tenant by tenant, then job by job
    FINISH_TIME = "finish_time"  # the worst finish against a cluster of one's own
    FIFO = "fifo"  # who came first has the fastest GPUs
    SHORTEST = "shortest"  # who is done first has the fastest GPUs
    MAKESPAN = "makespan"  # the last one done as soon as possible
    THROUGHPUT = "throughput"  # work per second, all jobs together
    COST = "cost"  # work per second and dollar, deadlines kept
    ALLOX = "allox"  # the least mean completion time, jobs matched to GPUs (AlloX, EuroSys 2020)
    PACKING = "packing"  # equal time, pairs found by trial (the authors' Gandiva)
    PROPORTIONAL = "proportional"  # everybody has an equal part of the time, however many GPUs it asks for
    ISOLATED = "isolated"  # everybody has an equal part of the cluster for itself


class TieRule(StrEnum):
    """Which of many optima, or the mode's own."""

    MODE = "mode"
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
    """What the fractions of time are to be good for."""
    round_s: float = 360.0
    """Length of a round, in seconds (section 5)."""
    aware: bool = True
    """Use throughputs by GPU type; `no` takes all types for equally fast (the agnostic baseline)."""
    pairs: bool = False
    """Two jobs may share the same GPUs (space sharing)."""
    alpha: float = 1.0
    """Part of those that wait, the longest-waiting, among whom `allox` looks for the best order; as many as
    there are free GPUs in any case."""
    inside: Inside = Inside.FAIRNESS
    """How a tenant's share is divided among its jobs, under `hierarchy`."""
    tolerance: float = 1e-4
    """Relative error of what bisection looks for: the makespan, the worst finish."""
    tie: TieRule = TieRule.MODE
    """Which of many optimal allocations: the largest sum of shares, a corner, the point inside, or the mode's
    own (the largest sum, but the point inside for `max_min` by types without pairs; the authors' is the point
    inside)."""
    recompute_s: float = math.nan
    """Least time between two recomputations of the fractions, in seconds; the mode's own if not given (none;
    the authors' 1,920 s)."""
    mode: GavelMode = GavelMode.PAPER
    """Rules for new jobs, recomputations, ties and tolerances."""

    @property
    def counts_work(self) -> bool:
        """True if the objective looks at how much work is left."""
        return self.objective in _COUNT_WORK

    @property
    def least_s(self) -> float:
        """Least time between two recomputations."""
        if math.isnan(self.recompute_s):
            return RECOMPUTE_S if self.mode is GavelMode.ARTIFACT else 0.0
        return self.recompute_s

    @property
    def best_tie(self) -> Tie:
        if self.tie is not TieRule.MODE:
            return Tie(self.tie.value)
        return Tie.INTERIOR if self.mode is not GavelMode.PAPER or self.prefers_inside else Tie.SUM

    @property
    def prefers_inside(self) -> bool:
        """True where nobody said which optimum, and the point inside is ours.

        It takes one program instead of two, in which jobs that are alike stand once; and they get the same.
        """
        is_free = self.tie is TieRule.MODE and self.mode is GavelMode.PAPER
        return is_free and self.objective is GavelObjective.MAX_MIN and self.aware and not self.pairs


_COUNT_WORK = {
    GavelObjective.FINISH_TIME,
    GavelObjective.SHORTEST,
    GavelObjective.MAKESPAN,
    GavelObjective.COST,
    GavelObjective.ALLOX,
}
