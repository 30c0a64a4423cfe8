"""What a decision needs to know of each tenant: what it holds, what it has received, which of its jobs wait.

All of it follows from the snapshot.  It is kept up to date from the rows that changed, so that a decision
costs no more with a long queue than with a short one, and in whole numbers, so that building it anew gives
the same.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from heapq import heapify, heappop, heapreplace

import numpy as np

from rota.model.columns import Ints
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.scheduler.stages.order import SortedItems
from rota.table.state import Phase

_PENDING, _RUNNING = int(Phase.PENDING), int(Phase.RUNNING)
_MS = 1000
"""Times are counted in whole milliseconds."""


class TenantBook:
    """The tenants of one job table; `amounts` are what each job needs, the first of them is service."""

    def __init__(self, tenant_of: Ints, kinds: Ints, amounts: Ints, tenants: int) -> None:
        self.tenant_of: list[int] = tenant_of.tolist()
        self.kinds: list[int] = kinds.tolist()
        self.amounts = amounts
        self.tenants = tenants
        self.waiting: list[dict[int, SortedItems]] = []
        """Per tenant and kind of request its waiting rows, in order."""
        self.held: list[list[int]] = []
        """Per tenant what its running jobs hold."""
        self.all_held = 0
        """What all of them hold of the first."""
        self.queued: dict[int, int] = {}
        """Tenants of which jobs wait, and how many."""
        self._cursor = Cursor()
        self._where: dict[int, SortedItems] = {}
        self._since: dict[int, int] = {}
        """Moment from which each running row is served."""
        self._served_ms: dict[int, int] = {}
        """What counts of each row in `_settled`."""
        self._settled: list[int] = []
        self._rate: list[int] = []
        self._offset: list[int] = []

    def sync(self, snapshot: Snapshot) -> None:
        """Bring the book up to `snapshot`."""
        rows = snapshot.changes(self._cursor)
        if rows is None:
            self._clear()
            live = [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
            served = np.flatnonzero(snapshot.jobs.live.run_s[: len(snapshot.jobs)] > 0.0).tolist()
            rows = sorted({*live, *served})
        for row in rows:
            self._enter(snapshot, row)

    def service(self, tenant: int, now: float) -> int:
        """What the tenant has received until `now`: amounts x milliseconds."""
        return self._settled[tenant] + self._rate[tenant] * round(now * _MS) - self._offset[tenant]

    def _clear(self) -> None:
        self.waiting = [{} for _ in range(self.tenants)]
        self.held = [[0] * self.amounts.shape[1] for _ in range(self.tenants)]
        self.all_held = 0
        self.queued.clear()
        self._settled, self._rate, self._offset = ([0] * self.tenants for _ in range(3))
        for counted in (self._where, self._since, self._served_ms):
            counted.clear()

    def _enter(self, snapshot: Snapshot, row: int) -> None:
        """Put `row` where its phase says, out of where it was."""
        tenant, columns = self.tenant_of[row], snapshot.by_row
        items = self._where.pop(row, None)
        if items is not None:
            items.remove((0, row))
            self.queued[tenant] -= 1
            if not self.queued[tenant]:
                del self.queued[tenant]
        if row in self._since:
            self._hold(row, tenant, -1, self._since.pop(row))
        ran_ms = round(columns.run_s.item(row) * _MS)
        before = self._served_ms.get(row, 0)
        if ran_ms != before:
            self._settled[tenant] += (ran_ms - before) * self.amounts.item(row, 0)
            self._served_ms[row] = ran_ms
        phase = columns.phase.item(row)
        if phase == _PENDING:
            items = self._where[row] = self.waiting[tenant].setdefault(self.kinds[row], SortedItems())
            items.add((0, row))
            self.queued[tenant] = self.queued.get(tenant, 0) + 1
        elif phase == _RUNNING:
            since = self._since[row] = round(columns.since_s.item(row) * _MS)
            self._hold(row, tenant, 1, since)

    def _hold(self, row: int, tenant: int, sign: int, since_ms: int) -> None:
        amounts: list[int] = self.amounts[row].tolist()
        self.held[tenant] = [a + sign * b for a, b in zip(self.held[tenant], amounts, strict=True)]
        self.all_held += sign * amounts[0]
        self._rate[tenant] += sign * amounts[0]
        self._offset[tenant] += sign * amounts[0] * since_ms


class TenantQueue:
    """The waiting jobs of one tenant while one decision is made: first come first, by kind of request.

    Those that it has `started` already are passed by.
    """

    def __init__(self, waiting: Mapping[int, SortedItems], started: Container[int]) -> None:
        self._waiting = waiting
        self._started = started
        self._passed: dict[int, int] = {}
        self._fronts = [(items.items[items.head][1], kind) for kind, items in waiting.items() if len(items)]
        heapify(self._fronts)

    def next(self, hopeless: Container[int]) -> int:
        """The first row that is of no `hopeless` kind; -1 if there is none."""
        while self._fronts:
            row: int = self._fronts[0][0]
            if self._fronts[0][1] in hopeless:
                heappop(self._fronts)
            elif row in self._started:
                self.take()
            else:
                return row
        return -1

    def take(self) -> None:
        """The first row is dealt with."""
        kind = self._fronts[0][1]
        passed = self._passed[kind] = self._passed.get(kind, 0) + 1
        items = self._waiting[kind]
        if passed < len(items):
            heapreplace(self._fronts, (items.items[items.head + passed][1], kind))
        else:
            heappop(self._fronts)
