"""Discretised queues by attained service or by Gittins index: which jobs run, queue by queue."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Row
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.solvers.gittins import Gittins
from rota.stages.fit import Fitter
from rota.stages.levels import Levels, ServiceMetric
from rota.stages.place import Placement
from rota.stages.priority import ByPriority, Drift
from rota.systems.tiresias.skew import SkewFitter
from rota.table.state import Phase

_RUNNING: Final = int(Phase.RUNNING)


class DiscretisedQueues(ByPriority):
    """Discretised 2D-LAS: queue by queue, in each the job that started first comes first."""

    def __init__(
        self,
        limits: tuple[float, ...],
        metric: ServiceMetric,
        promote: float,
        *,
        keeps_running: bool,
        placement: Placement,
        pack_limit: float | None,
        drifts: Drift,
    ) -> None:
        super().__init__(self.rank, preemptive=True, drifts=drifts, placement=placement)
        self.levels = Levels(limits, metric, promote)
        self.keeps_running = keeps_running
        self.pack_limit = pack_limit

    def decide(self, snapshot: Snapshot, memory: Memory, wake: Wake | None = None) -> Decision:
        for row in self.levels.update(snapshot, memory):
            self.move(snapshot, row)
        if not snapshot.waiting_count:
            return Decision(memory, wake=Wake(if_waiting=True))
        grants, preempt = self.choose(snapshot)
        while moved := self.levels.catch_up(snapshot, preempt):
            for row in moved:
                self.move(snapshot, row)
            grants, preempt = self.choose(snapshot)
        at_s = self.levels.next_s(snapshot, grants, preempt)
        return Decision(memory, grants, preempt, wake=Wake(at_s=at_s, if_waiting=True), ranking=self)

    def rank(self, snapshot: Snapshot, row: Row) -> Any:
        """Queue, the running ones ahead, then first start; jobs that never ran follow in submission order."""
        level, phase = 2 * self.levels.of(row), snapshot.by_row.phase_of
        if self.keeps_running and phase[row] != _RUNNING and not self.levels.is_returning(row):
            level += 1
        started_s: float = snapshot.by_row.first_of[row]
        return level, started_s if started_s == started_s else math.inf

    def fitter(self, snapshot: Snapshot) -> Fitter:
        if self.pack_limit is None:
            return super().fitter(snapshot)
        return SkewFitter(snapshot, self.pack_limit)


class GittinsQueues(DiscretisedQueues):
    """Discretised 2D-Gittins: queue by queue, in each the job likeliest to end within its limit first.

    The index of a running job changes as it runs; that of a waiting one when the history does.
    """

    _history: Any = None
    _gittins: Gittins = Gittins([])

    def decide(self, snapshot: Snapshot, memory: Memory, wake: Wake | None = None) -> Decision:
        history = snapshot.know(Knowledge.SERVICE_HISTORY).shared["gpu_s"]
        if history is not self._history:
            self._history = history
            self._gittins = Gittins(history)
            self.forget()
        return super().decide(snapshot, memory, wake)

    def rank(self, snapshot: Snapshot, rows: Any) -> Any:
        """Queue plus a number in (0, 1] that falls as the index rises; one row or an array of rows."""
        if not isinstance(rows, np.ndarray):
            return float(self.rank(snapshot, np.array([rows]))[0])
        levels = np.array([self.levels.of(row) for row in rows.tolist()], dtype=np.int64)
        limits = np.array(self.levels.limits)
        index = self._gittins.index(self.levels.service(snapshot, rows), limits[levels])
        scale = limits[0] if math.isfinite(limits[0]) else 1.0
        return levels + 1.0 / (1.0 + scale * index)
