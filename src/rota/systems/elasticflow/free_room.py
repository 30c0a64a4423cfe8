"""GPUs free in the slots to come, for all jobs and for those that share what a hard quota leaves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rota.solvers.future import FreeCurve, Plan
from rota.solvers.shared_caps import SharedCaps
from rota.systems.elasticflow.asks import ShareAsk

_PARTS = 1000
"""Parts of a GPU: quotas count the parts of GPUs that jobs claim."""


@dataclass(frozen=True)
class FreeRoom:
    """A curve for all, and one for each limit that some jobs share; less of it is another one."""

    curve: FreeCurve
    limits: tuple[FreeCurve, ...] = ()
    """Limits in parts of GPUs."""
    counts: Mapping[int, tuple[Sequence[int], int]] | None = None
    """By row, the limits that it counts in, and the parts that its GPU counts."""

    @classmethod
    def of(cls, gpus: int, rows: Sequence[int] = (), caps: SharedCaps | None = None) -> FreeRoom:
        """`gpus` GPUs for ever, as far as `caps`, numbered by the places of `rows`, leave them."""
        if caps is None:
            return cls(FreeCurve.of(gpus))
        limits = [FreeCurve.of(_in_parts(min(left, gpus))) for left in caps.left]
        counts = {
            row: (of, _in_parts(each)) for row, of, each in zip(rows, caps.of, caps.each, strict=True) if of
        }
        return cls(FreeCurve.of(gpus), tuple(limits), counts)

    def seen_by(self, ask: ShareAsk) -> FreeCurve:
        """GPUs that `ask` could have."""
        own, curve = self._counts_of(ask), self.curve
        if own is None:
            return curve
        limits, each = own
        lowest = [self.limits[limit] for limit in limits]
        starts = np.unique(np.concatenate([curve.starts, *(limit.starts for limit in lowest)]))
        free = curve.at(starts)
        for limit in lowest:
            free = np.minimum(free, limit.at(starts) // each)
        keep = np.append(True, free[1:] != free[:-1])
        return FreeCurve(starts[keep], free[keep])

    def less(self, plan: Plan, ask: ShareAsk) -> FreeRoom:
        """What the plan of `ask` leaves."""
        return FreeRoom(self.curve.less(plan), self._limits(plan, ask, -1), self.counts)

    def more(self, plan: Plan, ask: ShareAsk) -> FreeRoom:
        """Free GPUs once the plan of `ask` is given up."""
        return FreeRoom(self.curve.more(plan), self._limits(plan, ask, 1), self.counts)

    def _counts_of(self, ask: ShareAsk) -> tuple[Sequence[int], int] | None:
        return None if self.counts is None else self.counts.get(ask.row)

    def _limits(self, plan: Plan, ask: ShareAsk, sign: int) -> tuple[FreeCurve, ...]:
        own = self._counts_of(ask)
        if own is None:
            return self.limits
        counted, limits = replace(plan, gpus=plan.gpus * own[1]), list(self.limits)
        for limit in own[0]:
            limits[limit] = limits[limit].more(counted) if sign > 0 else limits[limit].less(counted)
        return tuple(limits)


def _in_parts(gpus: float) -> int:
    return int(gpus * _PARTS + 0.5)
