"""Fragmentation: how much of what is free cannot be used by the jobs one expects.

After Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023; the measure is recalled from the paper's idea, not checked against its code.
To a job that a node cannot host, all that is free there is fragment; to any other, what is free on
devices too full for it.  The mean over the expected jobs is the node's fragmentation, and a job goes
where that grows least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from rota.table.free import Free, nodes_in
from rota.table.occupancy import EPSILON


class Expected(NamedTuple):
    """A kind of job that is to be expected."""

    popularity: float
    """Its share of all jobs."""
    gpus: int
    gpu_share: float = 1.0


PHILLY_SIZES = tuple(
    Expected(share, gpus)
    for gpus, share in ((1, 0.688), (2, 0.03), (4, 0.134), (8, 0.124), (16, 0.017), (32, 0.006))
)
"""Sizes of the jobs of eleven virtual clusters of Philly; the rest of a percent is rounding."""


def fragmentation(spare: Sequence[float], mix: Sequence[Expected]) -> float:
    """GPUs of a node that the expected jobs cannot use, on average; `spare` is what each device has left."""
    return sum(kind.popularity * _unusable(spare, kind) for kind in mix)


def _unusable(spare: Sequence[float], kind: Expected) -> float:
    usable = [left for left in spare if left >= kind.gpu_share - EPSILON]
    return sum(spare) - (sum(usable) if len(usable) >= kind.gpus else 0.0)


class LeastFragmentation:
    """A placement rule: the node whose fragmentation grows least, then the fullest, then the lowest id.

    A gang that no single node can hold is placed by `otherwise`.
    """

    def __init__(
        self, mix: tuple[Expected, ...], otherwise: Callable[[Free, int, int], tuple[int, ...] | None]
    ) -> None:
        self.otherwise = otherwise
        self._of = lru_cache(maxsize=None)(lambda count: fragmentation([1.0] * count, mix))

    def __call__(self, free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
        counts = [
            (self._of(count - gpus) - self._of(count), count)
            for count in range(gpus, len(free.buckets))
            if free.buckets[count] & within
        ]
        if not counts:
            return self.otherwise(free, gpus, within)
        _, count = min(counts)
        return free.take(nodes_in(free.buckets[count] & within)[0], gpus)
