"""Whole quanta of service received: which jobs have received one more, and which will be next.

Running jobs receive service steadily, so the moment of each one's next quantum is known when it starts
(`stages.alarms`).  Jobs on equally many GPUs stay in the order in which they would have begun had they run
all along: whatever is to be reached, the first of them reaches it first.  Both are caches of the snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

from rota.model.columns import Row
from rota.model.grants import Grant
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.alarms import Alarms
from rota.stages.order import Item, SortedItems, item_of
from rota.table.state import Phase

_RUNNING: Final = int(Phase.RUNNING)
_NEARLY: Final = 1e-6
"""Tolerance in quanta: service this far below a whole quantum counts as having reached it."""
_ROUNDING: Final = 1e-9
"""Relative error of moments that are not computed from now; whatever lies this close is checked."""


class Quanta:
    """Service in whole quanta of `quantum` GPU-seconds, or seconds."""

    def __init__(self, quantum: float, *, by_gpus: bool) -> None:
        self.quantum = quantum
        self.by_gpus = by_gpus
        self.ahead: set[Row] = set()
        """Running rows that come before all others, whatever they have received."""
        self._begin()

    def _begin(self) -> None:
        self._cursor = Cursor()
        self._alarms = Alarms()
        self._running: dict[float, SortedItems] = {}
        """By service received a second: running rows, by the moment at which they would have begun."""
        self._places: dict[Row, tuple[float, Item]] = {}

    def key(self, snapshot: Snapshot, row: Row) -> int:
        """Twice the whole quanta received, plus one for a waiting job; -1 for one that is `ahead`."""
        if self.ahead and row in self.ahead:
            return -1
        waits: bool = snapshot.by_row.phase_of[row] != _RUNNING
        return 2 * math.floor(self._received(snapshot, row) / self.quantum + _NEARLY) + waits

    def update(self, snapshot: Snapshot) -> list[int]:
        """Running rows that may have received another quantum since the last call."""
        rows = snapshot.changes(self._cursor)
        if rows is None:
            self._begin()
            snapshot.changes(self._cursor)
            rows = snapshot.running.tolist()
        for row in rows:
            self._enter(snapshot, row)
        due = self._alarms.pop(snapshot.now)
        for row in due:
            self._alarms.set(row, self._full_s(snapshot, row))
        return due

    def delay_s(
        self, snapshot: Snapshot, least: float, grants: Sequence[Grant], out: Collection[int]
    ) -> float:
        """Seconds until some job has received a whole quantum more than now, and more than `least` of them.

        Of the running jobs those in `out` stop now; `grants` begin.  Infinite if there is no such job.
        """
        near = _ROUNDING * (1.0 + snapshot.now)
        best = math.inf
        for rate, queue in self._running.items():
            latest = math.inf
            for at in range(queue.head, len(queue.items)):
                began_s, row = queue.items[at]
                if began_s > latest:
                    break
                if row in out:
                    continue
                received = self._received(snapshot, row)
                whole = float(math.floor(received / self.quantum + _NEARLY))
                best = min(best, ((max(whole, least) + 1.0) * self.quantum - received) / rate)
                if whole <= least and latest == math.inf:
                    latest = began_s + near  # those behind have as far to go, and further
        for grant in grants:
            rate = len(grant.devices) * grant.share if self.by_gpus else 1.0
            if rate:
                received = self._received(snapshot, grant.job)
                whole = float(math.floor(received / self.quantum + _NEARLY))
                best = min(best, ((max(whole, least) + 1.0) * self.quantum - received) / rate)
        return best

    # -- one job -----------------------------------------------------------------------------------

    def _enter(self, snapshot: Snapshot, row: Row) -> None:
        """Note that `row` has changed its phase, or what it holds."""
        before = self._places.pop(row, None)
        if before is not None:
            queue = self._running[before[0]]
            queue.remove(before[1])
            if not len(queue):
                del self._running[before[0]]
        rate = self._rate(snapshot, row) if snapshot.by_row.phase_of[row] == _RUNNING else 0.0
        if not rate:
            self._alarms.set(row, math.inf)
            return
        began_s = snapshot.by_row.since_of[row] - self._before(snapshot, row) / rate
        item = item_of(began_s, row)
        self._running.setdefault(rate, SortedItems()).add(item)
        self._places[row] = (rate, item)
        self._alarms.set(row, self._full_s(snapshot, row))

    def _full_s(self, snapshot: Snapshot, row: Row) -> float:
        """The moment at which `row`, which runs, will have received another quantum, or just before it."""
        whole = math.floor(self._received(snapshot, row) / self.quantum + _NEARLY)
        left = (whole + 1.0 - _NEARLY) * self.quantum - self._before(snapshot, row)
        full_s: float = snapshot.by_row.since_of[row] + left / self._rate(snapshot, row)
        return full_s - _ROUNDING * (1.0 + full_s)

    def _received(self, snapshot: Snapshot, row: Row) -> float:
        """Service of `row` until now."""
        by_row = snapshot.by_row
        if self.by_gpus:
            elapsed = snapshot.now - by_row.since_of[row]
            service: float = by_row.service_of[row]
            rate: float = by_row.rate_of[row]
            return service + rate * elapsed
        ran: float = by_row.run_of[row]
        return ran + (snapshot.now - by_row.since_of[row] if by_row.phase_of[row] == _RUNNING else 0.0)

    def _before(self, snapshot: Snapshot, row: Row) -> float:
        """Service of `row` before the present stretch of running."""
        by_row = snapshot.by_row
        before: float = by_row.service_of[row] if self.by_gpus else by_row.run_of[row]
        return before

    def _rate(self, snapshot: Snapshot, row: Row) -> float:
        """Service that `row`, which runs, receives in a second."""
        return float(snapshot.by_row.rate_of[row]) if self.by_gpus else 1.0
