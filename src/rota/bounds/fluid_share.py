"""Fluid fair share: at any moment the present jobs divide the GPUs max-min fairly, each at most its request.

GPUs are divisible, no job waits and all actions are free: the ideal that fair schedulers approach.  It is no
bound on a mean, since shortest-first beats it; it shows what perfect fairness among jobs would give.

A job that asks for c GPUs gets min(c, level), where the level is what makes the shares fill the cluster. All
jobs that ask for the same number receive alike, so each size has one clock that counts the GPU-seconds
received by each present job; a job ends when the clock of its size has advanced by its work.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

from rota.bounds.demand import RelaxedDemand, Schedule, heirs_of


class _Size:
    """Present jobs that ask for the same number of GPUs."""

    __slots__ = ("cap", "clock", "ends", "rate")

    def __init__(self, cap: float) -> None:
        self.cap = cap
        self.clock = 0.0
        """GPU-seconds received by a job that was present all the time (seconds, for CPU jobs)."""
        self.rate = 0.0
        self.ends: list[tuple[float, int]] = []
        """Heap of the clock at which each job ends, and its row."""

    def left_s(self) -> float:
        """Seconds until the first of them ends at the present rate."""
        return (self.ends[0][0] - self.clock) / self.rate if self.ends and self.rate > 0 else inf


def schedule(demand: RelaxedDemand) -> Schedule:
    """Runs each job from its release on: when those before it are done in this schedule."""
    return _Fluid(demand).run()


def water_level(caps: list[tuple[float, int]], capacity: float) -> float:
    """The level at which shares min(cap, level) fill `capacity`; infinite if all caps fit.

    `caps` holds (GPUs asked for, number of jobs), ascending.
    """
    left, jobs = capacity, sum(count for _, count in caps)
    for cap, count in caps:
        if cap * jobs > left:
            return left / jobs
        left -= cap * count
        jobs -= count
    return inf


class _Fluid:
    """Jumps from arrival to end; between two events every share is constant."""

    def __init__(self, demand: RelaxedDemand) -> None:
        self.demand = demand
        self.heirs = heirs_of(demand.after)
        self.left = {row: len(befores) for row, befores in demand.after.items() if befores}
        free = [row for row in np.flatnonzero(demand.feasible).tolist() if row not in self.left]
        self.arrivals = [(demand.submit_s.item(row), row) for row in free]
        heapify(self.arrivals)
        self.sizes = {cap: _Size(cap) for cap in [0.0, *np.unique(demand.gpus).tolist()]}
        self.start_s = np.full(len(demand.gpus), np.inf)
        self.finish_s = np.full(len(demand.gpus), np.inf)
        self.now = 0.0

    def run(self) -> Schedule:
        while True:
            arrival = self.arrivals[0][0] if self.arrivals else inf
            soonest = min(self.sizes.values(), key=_Size.left_s)
            left_s = soonest.left_s()
            if arrival == left_s == inf:
                return Schedule(self.start_s, self.finish_s)
            if self.now + left_s <= arrival:
                self._end(soonest, left_s)
            else:
                self._arrive(arrival)
            self._share()

    def _end(self, size: _Size, left_s: float) -> None:
        """The first job of `size` ends after `left_s`."""
        self._advance(left_s)
        size.clock, row = heappop(size.ends)
        self.finish_s[row] = self.now
        for heir in self.heirs.get(row, ()):
            self.left[heir] -= 1
            if not self.left[heir] and self.demand.feasible[heir]:
                heappush(self.arrivals, (max(self.now, self.demand.submit_s.item(heir)), heir))

    def _arrive(self, moment: float) -> None:
        self._advance(moment - self.now)
        self.now = moment
        while self.arrivals and self.arrivals[0][0] <= moment:
            _, row = heappop(self.arrivals)
            self.start_s[row] = moment
            size = self.sizes[self.demand.gpus.item(row)]
            work = self.demand.work_gpu_s.item(row) if size.cap else self.demand.run_s.item(row)
            heappush(size.ends, (size.clock + work, row))

    def _advance(self, elapsed_s: float) -> None:
        self.now += elapsed_s
        for size in self.sizes.values():
            if size.ends:
                size.clock += size.rate * elapsed_s

    def _share(self) -> None:
        """Set the rate of each size by the jobs now present; CPU jobs run at full speed."""
        caps = [(size.cap, len(size.ends)) for size in self.sizes.values() if size.ends and size.cap]
        level = water_level(caps, self.demand.capacity)
        for size in self.sizes.values():
            size.rate = min(size.cap, level) if size.cap else 1.0
