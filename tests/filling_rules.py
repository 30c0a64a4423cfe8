"""Rules of other systems for the filler of `rota.solvers.one_by_one`, to compare that of AFS with."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rota.solvers.one_by_one import Better, Filling


def fewest_first(filling: Filling) -> Better:
    """Max-min: the job with fewer GPUs."""
    return lambda first, second: filling.share[second] < filling.share[first]


def shortest_first(work: Sequence[float]) -> Better:
    """SRTF: the job with less work, until it cannot use more."""
    return lambda first, second: work[second] < work[first]


def largest_saving(filling: Filling, work: Sequence[float]) -> Better:
    """Optimus: one step each, then the largest reduction of the remaining time, per GPU."""

    def saving(job: int) -> float:
        slow, fast = filling.speeds(job)
        return (work[job] / slow - work[job] / fast) / filling.step(job) if slow > 0.0 else math.inf

    return lambda first, second: saving(second) > saving(first)
