"""Rounds as the elastic modes of ElasticFlow's simulator know them: ends are planned, decisions stop all.

At each decision everybody who holds devices stands still: for a constant, and unless the same devices have
worked together before, for a part that grows with their number.  Every so many decisions what has worked
together is forgotten, and whoever is not spared then restarts its processes as well.  A job ends at the first
whole slot, counted from the last decision, at which its work is done without the standstill, and as much
later as that lasts.  If something else is seen before, it has worked for as long as it would have needed
without the standstill at most, less the standstill, and is not done yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from rota.worlds.simulated.overheads import overhead_s, spared_s
from rota.worlds.simulated.slots import SlotWorld

_NEARLY = 1e-9


class PlannedWorld(SlotWorld):
    """Replays a trace in rounds that end with the next arrival, planned end or planned change."""

    def _begin(self) -> None:
        super()._begin()
        self._together: set[tuple[int, ...]] = set()
        """Devices that have worked together."""

    def _open(self) -> None:
        if self._dirty:
            self._settle()
        self._is_open = True
        rows = self._rows = self.state.running.sorted()
        self._worked = np.zeros(len(rows))
        restarts = self.state.submitted > 0 and self._count()
        if not len(rows):
            if restarts:
                self._together.clear()
            return
        begin, progress, each = self.state.now, self.progress, rows.tolist()
        base, rate = progress.base[rows].tolist(), progress.rate[rows].tolist()
        left = [self._target(row) - done for row, done in zip(each, base, strict=True)]
        need_s = [_needed_s(work, speed) for work, speed in zip(left, rate, strict=True)]
        stands_s = self._standstill_s(each, restarts)
        planned = [self._slot_end(begin, seconds) for seconds in need_s]
        ends = [moment + stood_s for moment, stood_s in zip(planned, stands_s, strict=True)]
        self._end = end = self._seen_next(begin, planned, ends)
        work, stops, finishes = list[float](), list[float](), list[tuple[float, int]]()
        for place, row in enumerate(each):
            if ends[place] <= end:
                work.append(base[place] + left[place])
                finishes.append((ends[place], row))
            else:
                worked_s = min(end - begin, need_s[place]) - stands_s[place]
                work.append(base[place] + rate[place] * max(worked_s, 0.0))
            stops.append(min(ends[place], end) - begin)
        self._work, self._worked = np.array(work), np.array(stops)
        self._finishes = sorted(self._with_company(finishes), reverse=True)

    def _slot_end(self, begin: float, seconds: float) -> float:
        """The end of the slot, counted from `begin`, in which so many seconds are over."""
        if seconds == math.inf:
            return math.inf
        return begin + math.ceil(seconds / self.round_s - _NEARLY) * self.round_s

    def _standstill_s(self, rows: list[int], restarts: bool) -> list[float]:
        """Seconds for which each stands still after this decision."""
        together, grants, cluster_gpus = self._together, self.state.grants, self.cluster.gpus
        groups = [tuple(sorted(grants[row].devices)) for row in rows]
        stands_s = [
            spared_s(cluster_gpus) if group in together else _cost_s(len(group), cluster_gpus, restarts)
            for group in groups
        ]
        together.update(groups)
        if restarts:
            together.clear()
        return stands_s

    def _seen_next(self, begin: float, planned: Sequence[float], ends: Sequence[float]) -> float:
        """The next event; those within a slot are seen together at the end of it, the last one at once."""
        moments = {*self._coming(begin), *[moment for moment in ends if moment < math.inf]}
        if self._alarm < math.inf and self._alarm not in planned:
            moments.add(max(self._alarm, begin))
        first = min(moments, default=math.inf)
        if first - begin <= self.round_s and len(moments) > 1:
            return begin + self.round_s
        return first

    def _coming(self, begin: float) -> list[float]:
        """The next two moments at which jobs arrive, or are released, or the cluster changes."""
        moments = list(dict.fromkeys(self._submit[self._next : self._next + 64]))[:2]
        for moment in (self._holds.next_s, self._next_fault()):
            if moment < math.inf:
                moments.append(max(moment, begin))
        return moments

    def _end_after(self, begin: float) -> float:
        """When something is seen while nothing runs."""
        if not self.state.submitted:
            return self._submit[0] if self._submit else math.inf
        return self._seen_next(begin, (), ())


def _needed_s(left: float, rate: float) -> float:
    """Whole seconds until so much work is done; infinite where nothing moves."""
    return math.ceil(left / rate - _NEARLY) if rate > 0.0 else math.inf


@lru_cache(maxsize=1024)
def _cost_s(gpus: int, cluster_gpus: int, restarts: bool) -> float:
    return overhead_s(np.array([gpus]), cluster_gpus, restarts).item(0)
