"""Tiresias as the baseline in Pollux' simulator: plain queues, first come first served in each.

From      petuum/adaptdl (osdi21-artifact), `simulator/tiresias.py`
Differs   1. A queue is a list: new jobs go to the tail of the first, demoted ones to the tail of the next.
             Whether a job runs does not move it.
          2. The running set is taken from the queues again at each look, skipping what does not fit.
          3. No job is promoted, and a running job keeps its GPUs as long as it runs.
          4. GPUs are taken from the node with most of them free, repeatedly.
          Its limit is 16 GPU-hours (`limits=57600`), its looks are the ticks of the semantics `pollux`.
"""

from __future__ import annotations

import math
from typing import Any

from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.levels import ServiceMetric
from rota.stages.place import Placement
from rota.stages.priority import ByPriority
from rota.table.state import Phase

_PENDING, _RUNNING = int(Phase.PENDING), int(Phase.RUNNING)


class Fifos(ByPriority):
    """Which jobs are in which queue, and where in it.

    Memory    `seats`  queue and place of each live job that was demoted; all others are in the first queue
              `tail`   the place given out last
    """

    def __init__(self, limits: tuple[float, ...], metric: ServiceMetric) -> None:
        super().__init__(self.rank, preemptive=True, placement=Placement.EMPTIEST)
        self.limits = (*limits, math.inf)
        self.by_gpus = metric is ServiceMetric.GPU_TIME
        self.seats: dict[int, list[int]] = {}
        self._cursor = Cursor()

    def decide(self, snapshot: Snapshot, memory: Memory, wake: Wake | None = None) -> Decision:
        self.seats = memory.setdefault("seats", {})
        self._forget(snapshot)
        for row in snapshot.running.tolist():
            self._look_at(snapshot, memory, row)
        grants, preempt = self.choose(snapshot)
        gone = set(preempt)
        rates = [(row, len(grant.devices)) for row, grant in snapshot.grants.items() if row not in gone]
        rates += [(grant.job, len(grant.devices)) for grant in grants]
        at_s = min((self._full_s(snapshot, row, gpus) for row, gpus in rates), default=math.inf)
        return Decision(memory, grants, preempt, wake=Wake(at_s=at_s), ranking=self)

    def rank(self, snapshot: Snapshot, row: int) -> Any:
        """Queue and place; a job that was never demoted sits in order of submission."""
        queue, place = self.seats.get(row, (0, 0))
        return queue, place

    def _forget(self, snapshot: Snapshot) -> None:
        """Drop the seats of jobs that have left."""
        changed = snapshot.changes(self._cursor)
        phase = snapshot.by_row.phase
        for row in list(self.seats) if changed is None else changed:
            if row in self.seats and phase.item(row) not in (_PENDING, _RUNNING):
                del self.seats[row]

    def _look_at(self, snapshot: Snapshot, memory: Memory, row: int) -> None:
        """Move `row` down a queue if it has had enough."""
        queue = self.seats[row][0] if row in self.seats else 0
        if self._service(snapshot, row) >= self.limits[queue]:
            memory["tail"] = tail = memory.get("tail", 0) + 1
            self.seats[row] = [queue + 1, tail]
            self.move(snapshot, row)

    def _service(self, snapshot: Snapshot, row: int) -> float:
        jobs = snapshot.jobs
        return jobs.ran_s(row) * (snapshot.gpus_of[row] if self.by_gpus else 1)

    def _full_s(self, snapshot: Snapshot, row: int, gpus: int) -> float:
        """When `row` will have reached the limit of its queue, if it runs on."""
        queue = self.seats[row][0] if row in self.seats else 0
        rate = gpus if self.by_gpus else 1
        left = self.limits[queue] - self._service(snapshot, row)
        return max(snapshot.now + left / rate, math.nextafter(snapshot.now, math.inf)) if rate else math.inf
