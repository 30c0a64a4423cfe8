"""Queues by service received: down a level at each limit, back to the top after starving.

A job's *counted* service starts at 0 and starts again at each promotion; its level is the number of
limits it has reached.  A job below the top level that waits, or is to be stopped, and has waited `knob` times
as long as it has run is promoted.  Both runs and waits count from the last promotion, and waits only from the
first run after it.

A job that has done no work from one promotion to the next has limits twice as high from then on: where starts
last longer than the first limit, jobs would take turns in starting, and none would ever work.

Memory    `levels`  level of each job that is not in the top one
          `resets`  per promoted job: GPU-seconds and seconds run at its promotion, and seconds waited when
                    it first ran after it (-1 until then)
          `turns`   per promoted job: work done at its promotion, and how many times as high its limits are
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import numpy as np

from rota.model.columns import Floats, Ints, Row
from rota.model.grants import Grant
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot
from rota.stages.alarms import Alarms
from rota.stages.turn_lengths import to_show
from rota.table.state import Phase

_PENDING: Final = int(Phase.PENDING)
_RUNNING: Final = int(Phase.RUNNING)
_ROUNDING: Final = 1e-12
"""Part of all service by which a limit may be missed and counts as reached: what counts is a difference."""


class ServiceMetric(StrEnum):
    """What service is measured in."""

    GPU_TIME = "gpu-time"  # GPU-seconds
    TIME = "time"  # seconds run, on however many GPUs


class Levels:
    """Keeps the level of every live job in a policy's memory."""

    def __init__(
        self, limits: tuple[float, ...], metric: ServiceMetric = ServiceMetric.GPU_TIME, knob: float = 0.0
    ) -> None:
        self.limits = (*limits, math.inf)
        self.by_gpus = metric is ServiceMetric.GPU_TIME
        self.knob = knob
        self.alarms = Alarms()
        self.levels: dict[Row, int] = {}
        self.resets: dict[Row, list[float]] = {}
        self.turns: dict[Row, list[float]] = {}

    def of(self, row: Row) -> int:
        """Level of `row`; 0 is the top."""
        return self.levels.get(row, 0)

    def update(self, snapshot: Snapshot, memory: Memory) -> list[int]:
        """Bring the levels up to date; returns the rows whose level or reset changed."""
        self.levels = memory.setdefault("levels", {})
        self.resets = memory.setdefault("resets", {})
        self.turns = memory.setdefault("turns", {})
        alarms, held = self.alarms, snapshot.grants
        moved = [row for row in alarms.changed(snapshot) if self._enter(snapshot, row)]
        for row in alarms.pop(snapshot.now):
            if row in held:
                self._demote(snapshot, row)
            else:
                self._promote(snapshot, row)
            moved.append(row)
        return moved

    def catch_up(self, snapshot: Snapshot, preempt: Sequence[int]) -> list[int]:
        """Demote and promote those about to be stopped whose time has come; the rows whose level changed.

        If there are any, the caller has to choose `preempt` again.  No job due for promotion is stopped at
        its old level, since nothing would wake the policy for it afterwards.
        """
        return [row for row in preempt if self._due(snapshot, row)] if self.knob else []

    def is_returning(self, row: Row) -> bool:
        """True for a promoted job that has not run since."""
        reset = self.resets.get(row) if self.resets else None
        return reset is not None and reset[2] < 0.0

    def next_s(self, snapshot: Snapshot, grants: Sequence[Grant], preempt: Sequence[int]) -> float:
        """The next moment at which a level changes, once `grants` and `preempt` are carried out."""
        jobs, by_row, now = snapshot.jobs, snapshot.by_row, snapshot.now
        moment = self.alarms.next_s(apart={*preempt, *[grant[0] for grant in grants]})
        for grant in grants:
            row = grant[0]
            if self.resets and row in self.resets and self.resets[row][2] < 0.0:
                self.resets[row][2] = now - jobs.table.submit_s.item(row) - by_row.run_of[row]
            rate = len(grant[1]) * grant[2] if self.by_gpus else 1.0
            if rate:
                total: float = self._total(snapshot, row)
                if by_row.phase_of[row] == _RUNNING:  # it is moved: what it received here counts in the total
                    total = jobs.service_gpu_s(row) if self.by_gpus else jobs.ran_s(row)
                left = self._limit(row) - (total - self._uncounted(row))
                moment = min(moment, now + left / rate)
        for row in preempt if self.knob else ():
            moment = min(moment, self._starved(snapshot, row, jobs.ran_s(row)))
            if row in self.resets and jobs.ran_s(row) == self.resets[row][1]:  # promoted just now, in vain
                self.resets[row][2] = -1.0
        return max(moment, math.nextafter(now, math.inf))

    def service(self, snapshot: Snapshot, rows: Ints) -> Floats:
        """Counted service of `rows` until now, in the unit of the limits."""
        served = snapshot.jobs.service_gpu_s(rows) if self.by_gpus else snapshot.jobs.ran_s(rows)
        if self.resets:
            at = 0 if self.by_gpus else 1
            served = served - np.array(
                [self.resets[r][at] if r in self.resets else 0.0 for r in rows.tolist()]
            )
        return served

    # -- one job -----------------------------------------------------------------------------------

    def _enter(self, snapshot: Snapshot, row: Row) -> bool:
        """`row` has changed phase; True if its level is another now."""
        phase: int = snapshot.by_row.phase_of[row]
        if phase == _RUNNING:
            self.alarms.set(row, self._full(snapshot, row))
            return False
        if phase == _PENDING:
            starts: int = snapshot.by_row.starts_of[row]
            return starts > 0 and self._wait(snapshot, row)
        self.alarms.set(row, math.inf)
        self.levels.pop(row, None)
        self.resets.pop(row, None)
        self.turns.pop(row, None)
        return False

    def _wait(self, snapshot: Snapshot, row: Row) -> bool:
        """`row` waits after having run; True if it reached a limit unnoticed."""
        is_late = self._fall(row, self._total(snapshot, row))
        self.alarms.set(row, self._starved(snapshot, row, snapshot.by_row.run_of[row]))
        return is_late

    def _due(self, snapshot: Snapshot, row: int) -> bool:
        """`row` runs and is about to be stopped; True if its level is another now."""
        jobs = snapshot.jobs
        has_moved = self._fall(row, jobs.service_gpu_s(row) if self.by_gpus else jobs.ran_s(row))
        if self._starved(snapshot, row, jobs.ran_s(row)) <= snapshot.now:
            self._promote(snapshot, row)
            has_moved = True
        if has_moved:
            self.alarms.set(row, self._full(snapshot, row))
        return has_moved

    def _fall(self, row: Row, total: float) -> bool:
        """Down to the level of the service that counts of `total`; False if `row` is there already."""
        near = total * (1.0 + _ROUNDING) - self._uncounted(row)
        if near < self._limit(row):
            return False
        near /= self._times(row)
        self.levels[row] = next(i for i, limit in enumerate(self.limits) if near < limit)
        return True

    def _demote(self, snapshot: Snapshot, row: int) -> None:
        while (full_s := self._full(snapshot, row)) <= snapshot.now:
            self.levels[row] = self.of(row) + 1
        self.alarms.set(row, full_s)

    def _promote(self, snapshot: Snapshot, row: int) -> None:
        del self.levels[row]
        jobs, ran_s = snapshot.jobs, snapshot.jobs.ran_s(row)
        runs = snapshot.by_row.phase_of[row] == _RUNNING
        waited_s = snapshot.now - jobs.table.submit_s.item(row) - ran_s if runs else -1.0
        self.resets[row] = [jobs.service_gpu_s(row), ran_s, waited_s]
        work, before = to_show(snapshot, row)[0], self.turns[row][0] if row in self.turns else 0.0
        self.turns[row] = [work, self._times(row) * (1.0 if work > before else 2.0)]

    # -- moments, from what was so when the present phase began -------------------------------------

    def _full(self, snapshot: Snapshot, row: Row) -> float:
        """The moment at which `row`, which runs, reaches the limit of its level."""
        limit = self._limit(row)
        rate: float = snapshot.by_row.rate_of[row] if self.by_gpus else 1.0
        if limit == math.inf or not rate:
            return math.inf
        since: float = snapshot.by_row.since_of[row]
        return since + (limit - self._before(snapshot, row)) / rate

    def _starved(self, snapshot: Snapshot, row: Row, ran_s: float) -> float:
        """The moment at which `row`, which waits and has run `ran_s` in all, has waited long enough."""
        if not self.knob or not self.of(row):
            return math.inf
        submit = snapshot.jobs.table.submit_s.item(row)
        _, before, waited = self.resets.get(row, (0.0, 0.0, snapshot.by_row.first_of[row] - submit))
        return submit + ran_s + waited + self.knob * (ran_s - before)

    def _limit(self, row: Row) -> float:
        """Counted service at which `row` leaves its level."""
        return self.limits[self.of(row)] * self._times(row)

    def _times(self, row: Row) -> float:
        """The factor on its limits."""
        return self.turns[row][1] if row in self.turns else 1.0

    def _before(self, snapshot: Snapshot, row: Row) -> float:
        """Counted service received before the present stretch."""
        return self._total(snapshot, row) - self._uncounted(row)

    def _total(self, snapshot: Snapshot, row: Row) -> float:
        """Service received before the present stretch, whether it counts or not."""
        total: float = snapshot.by_row.service_of[row] if self.by_gpus else snapshot.by_row.run_of[row]
        return total

    def _uncounted(self, row: Row) -> float:
        """Service received before the last promotion."""
        if not self.resets or row not in self.resets:
            return 0.0
        return self.resets[row][0 if self.by_gpus else 1]
