"""Rounds of ElasticFlow's simulator, which end with the next event.

Events are arrivals, planned changes and the ends of all jobs.  Those closer than a slot are seen together at
the end of the slot; a single remaining event is seen at once.

`RoundEnds.MERGED_ALL`: a job ends when its work is done.

`RoundEnds.PLANNED`: a job ends as its policy plans (`Decision.ends`), whatever its work: with the slot,
counted from the decision, in which it is to be done.  It does not work beyond the moment at which it is to be
done.  A job that the policy says nothing about is planned to be done by its present rate.  After a decision
each job that holds devices stands still, and ends that much later: for a constant, and unless the same
devices have worked together before, for a part that grows with their number.  Once in a fixed number of
decisions this memory is cleared, and jobs that are not spared restart their processes as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np

from rota.worlds.simulated.overheads import overhead_s, spared_s
from rota.worlds.simulated.semantics import Charge, RoundEnds
from rota.worlds.simulated.slots import SlotWorld

_NEARLY = 1e-9


class PlannedWorld(SlotWorld):
    """Replays a trace in rounds that end with the next arrival, planned end or planned change."""

    def _begin(self) -> None:
        super()._begin()
        self._in_slots = self.semantics.round_ends is RoundEnds.PLANNED
        self._together: set[tuple[int, ...]] = set()
        """Devices that have worked together."""

    def _open(self) -> None:
        if self._dirty:
            self._settle()
        self._is_open = True
        begin = self.state.now
        planned = self._planned(begin)
        rows = self._rows = self.state.running.sorted()
        each = rows.tolist()
        stands_s = self._standstill_s(each, begin)
        dones = [planned[row] if row in planned else self._done_by_rate(row, begin) for row in each]
        unmoved = [self._end_of_plan(begin, done_s) for done_s in dones]
        ends = [end_s + stood_s for end_s, stood_s in zip(unmoved, stands_s, strict=True)]
        if self._alarm in unmoved:  # a change planned for an end is seen with it, wherever it has moved
            self._alarm = math.inf
        self._end = end = self._seen_next(begin, [*ends, *self._ends_ahead(begin, planned)])
        work, finishes = list[float](), list[tuple[float, int]]()
        for row, done_s, end_s, stood_s in zip(each, dones, ends, stands_s, strict=True):
            target = self._target(row)
            done = self._work_until(row, begin + stood_s, min(end, done_s) if self._in_slots else end)
            if end_s <= end:
                finishes.append((end_s, row))
            elif done >= target:  # earlier than its plan knows
                finishes.append((self._done_by_rate(row, begin), row))
            work.append(target if end_s <= end else min(done, target))
        self._work = np.array(work)
        self._worked = np.minimum(ends, end) - begin - np.array(stands_s)
        self._finishes = sorted(self._with_company(finishes), reverse=True)

    def _done_by_rate(self, row: int, begin: float) -> float:
        """The whole second at which `row` is done at its present rate; infinite at rate 0."""
        target, base, rate = self._target(row), self.progress.base.item(row), self.progress.rate.item(row)
        if row in self._changing:
            seconds = self._walk(row, begin, math.inf, target)[1] - begin
        else:
            seconds = (target - base) / rate if rate > 0.0 else math.inf
        return begin + math.ceil(seconds - _NEARLY) if seconds < math.inf else math.inf

    def _work_until(self, row: int, since: float, end: float) -> float:
        """All work that `row` has done at `end`, if it works from `since` on."""
        if row in self._changing:
            return self.progress.base.item(row) + self._work_through(row, since, max(since, end))[0]
        base, rate = self.progress.base.item(row), self.progress.rate.item(row)
        return base + rate * max(end - since, 0.0)

    def _end_of_plan(self, begin: float, done_s: float) -> float:
        """When a job that is planned to be done at `done_s` ends, if it does not stand still."""
        if not self._in_slots or done_s == math.inf:
            return done_s
        return begin + math.ceil((done_s - begin) / self.round_s - _NEARLY) * self.round_s

    def _planned(self, begin: float) -> dict[int, float]:
        """When each job is to be done, as far as the decision says so; past moments are ignored."""
        return {row: done_s for row, done_s in (self.state.ends or {}).items() if done_s > begin}

    def _ends_ahead(self, begin: float, planned: Mapping[int, float]) -> list[float]:
        """When jobs that hold nothing are planned to end."""
        waiting = self.state.waiting
        return [self._end_of_plan(begin, done_s) for row, done_s in planned.items() if row in waiting]

    def _standstill_s(self, rows: list[int], begin: float) -> list[float]:
        """Seconds for which each of `rows` stands still after this decision."""
        if self.semantics.charge is Charge.COSTS:
            return [max(self.progress.since.item(row) - begin, 0.0) for row in rows]
        restarts = self.state.submitted > 0 and self._count()
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

    def _seen_next(self, begin: float, ends: Iterable[float]) -> float:
        """The next event, or the end of the slot if it is closer and not the only one left."""
        moments = {moment for moment in [*ends, *self._coming(begin)] if moment < math.inf}
        first = min(moments, default=math.inf)
        is_only = len(moments) == 1 and not self._is_any_paused()
        return begin + self.round_s if first - begin <= self.round_s and not is_only else first

    def _is_any_paused(self) -> bool:
        """True if a job has begun, waits again, and is planned to end some time."""
        return bool((self.state.starts[self.state.waiting.rows] > 0).any())

    def _coming(self, begin: float) -> list[float]:
        """The next two arrivals, the next release, the next change of the cluster, and the alarm."""
        arrivals = list(dict.fromkeys(self._submit[self._next : self._next + 64]))[:2]
        others = (self._holds.next_s, self._next_fault(), self._alarm)
        return arrivals + [max(moment, begin) for moment in others]

    def _end_after(self, begin: float) -> float:
        """When the next event is seen while nothing runs."""
        if not self.state.submitted:
            return self._submit[0] if self._submit else math.inf
        return self._seen_next(begin, self._ends_ahead(begin, self._planned(begin)))


@lru_cache(maxsize=1024)
def _cost_s(gpus: int, cluster_gpus: int, restarts: bool) -> float:
    return overhead_s(np.array([gpus]), cluster_gpus, restarts).item(0)
