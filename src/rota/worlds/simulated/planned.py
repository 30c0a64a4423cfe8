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
from typing import Any

import numpy as np

from rota.model.columns import Floats, Ints
from rota.worlds.simulated.overheads import overhead_s, spared_s
from rota.worlds.simulated.slots import SlotWorld

_NEARLY = 1e-9


class PlannedWorld(SlotWorld):
    """Replays a trace in rounds that end with the next arrival, planned end or planned change."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
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
        begin, progress = self.state.now, self.progress
        rate = progress.rate[rows]
        left = np.array([self._target(row) for row in rows.tolist()]) - progress.base[rows]
        need_s = self._needed_s(left, rate)
        stands_s = self._standstill_s(rows, restarts)
        planned = begin + np.ceil(need_s / self.round_s - _NEARLY) * self.round_s
        ends = planned + stands_s
        self._end = end = self._seen_next(begin, planned, ends)
        worked_s = np.maximum(np.minimum(end - begin, need_s) - stands_s, 0.0)
        is_over = ends <= end
        stops = np.where(is_over, ends, end)
        self._work = progress.base[rows] + np.where(is_over, left, rate * worked_s)
        self._worked = stops - begin
        self._note_finishes(stops, is_over)

    def _needed_s(self, left: Floats, rate: Floats) -> Floats:
        """Whole seconds until so much work is done; infinite where nothing moves."""
        seconds = np.divide(left, rate, out=np.full(len(left), math.inf), where=rate > 0.0)
        needed: Floats = np.ceil(seconds - _NEARLY)
        return needed

    def _standstill_s(self, rows: Ints, restarts: bool) -> Floats:
        """Seconds for which each stands still after this decision."""
        groups = [tuple(sorted(self.state.grants[row].devices)) for row in rows.tolist()]
        gpus = np.array([len(group) for group in groups], dtype=np.int64)
        new = np.array([group not in self._together for group in groups])
        self._together.update(groups)
        if restarts:
            self._together.clear()
        cluster_gpus = self.cluster.gpus
        stands: Floats = np.where(new, overhead_s(gpus, cluster_gpus, restarts), spared_s(cluster_gpus))
        return stands

    def _seen_next(self, begin: float, planned: Floats, ends: Floats) -> float:
        """The next event; those within a slot are seen together at the end of it, the last one at once."""
        moments = {*self._coming(begin), *ends[np.isfinite(ends)].tolist()}
        if self._alarm < math.inf and self._alarm not in set(planned.tolist()):
            moments.add(max(self._alarm, begin))
        first = min(moments, default=math.inf)
        if first - begin <= self.round_s and len(moments) > 1:
            return begin + self.round_s
        return first

    def _coming(self, begin: float) -> list[float]:
        """The next two moments at which jobs arrive, or are released."""
        moments = list(dict.fromkeys(self._submit[self._next : self._next + 64]))[:2]
        if self._holds.next_s < math.inf:
            moments.append(max(self._holds.next_s, begin))
        return moments

    def _end_after(self, begin: float) -> float:
        """When something is seen while nothing runs."""
        if not self.state.submitted:
            return self._submit[0] if self._submit else math.inf
        return self._seen_next(begin, np.zeros(0), np.zeros(0))
