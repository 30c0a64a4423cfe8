"""What a decision needs to know of each tenant: what it holds, what it has received, which of its jobs wait.

All of it follows from the snapshot.  It is kept up to date from the rows that changed, so that a decision
costs no more with a long queue than with a short one, and in whole numbers, so that building it again
gives the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from heapq import heapify, heappop, heapreplace
from typing import Final

import numpy as np

from rota.model.columns import Row
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.order import Item, SortedItems, item_of
from rota.systems.drf.facts import Facts
from rota.table.state import Phase

_PENDING: Final = int(Phase.PENDING)
_RUNNING: Final = int(Phase.RUNNING)
_MS: Final = 1000
"""Times are counted in whole milliseconds."""


class TenantBook:
    """The tenants of one job table; of what each job needs the first is service."""

    def __init__(self, facts: Facts) -> None:
        self.tenant_of: list[int] = facts.jobs.tenant.tolist()
        self.kinds: list[int] = facts.kinds.tolist()
        self.amounts: list[list[int]] = facts.amounts.tolist()
        self.arrival: list[int] = facts.arrival.tolist()
        self.most = facts.most
        self.tenants = len(self.arrival)
        self.waiting: list[dict[int, SortedItems]] = []
        """Per tenant and kind of request its waiting rows, in order."""
        self.shares = facts.shares
        """What the running jobs of each tenant hold."""
        self.all_held = 0
        """What all tenants hold of the first resource."""
        self.queued: dict[int, int] = {}
        """Tenants with waiting jobs, and how many wait."""
        self.queued_kinds: dict[int, dict[Row, None]] = {}
        """Kinds of request of waiting jobs, with their rows."""
        self._cursor = Cursor()
        self._where: dict[Row, tuple[SortedItems, Item]] = {}
        self._since: dict[Row, int] = {}
        """Moment from which each running row is served."""
        self._served_ms: dict[Row, int] = {}
        """What counts of each row in `_settled`."""
        self._settled: list[int] = []
        self._rate: list[int] = []
        self._offset: list[int] = []
        self._per_service = [facts.service.factors(tenant)[0] for tenant in range(self.tenants)]

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

    def service_keys(self, tenants: list[int], now: float) -> list[int]:
        """Service per tenant until `now` over its weight, for comparison: amounts x milliseconds."""
        settled, rate, offset, now_ms = self._settled, self._rate, self._offset, round(now * _MS)
        return [
            (settled[tenant] + rate[tenant] * now_ms - offset[tenant]) * self._per_service[tenant]
            for tenant in tenants
        ]

    def _clear(self) -> None:
        self.waiting = [{} for _ in range(self.tenants)]
        self.shares.clear()
        self.all_held = 0
        self.queued.clear()
        self.queued_kinds.clear()
        self._settled, self._rate, self._offset = [0] * self.tenants, [0] * self.tenants, [0] * self.tenants
        self._where.clear()
        self._since.clear()
        self._served_ms.clear()

    def _enter(self, snapshot: Snapshot, row: Row) -> None:
        """Put `row` into the collection of its phase, out of the one it was in."""
        tenant, columns = self.tenant_of[row], snapshot.by_row
        known = self._where.pop(row, None)
        if known is not None:
            self._leave(tenant, row, known[0], known[1])
        since_ms = self._since.pop(row, None)
        if since_ms is not None:
            self._hold(row, tenant, -1, since_ms)
        ran_s: float = columns.run_of[row]
        if ran_s or row in self._served_ms:
            self._serve(row, tenant, round(ran_s * _MS))
        phase: int = columns.phase_of[row]
        if phase == _PENDING:
            self._wait(tenant, row)
        elif phase == _RUNNING:
            at_s: float = columns.since_of[row]
            since = self._since[row] = round(at_s * _MS)
            self._hold(row, tenant, 1, since)

    def _serve(self, row: Row, tenant: int, ran_ms: int) -> None:
        """Count the `ran_ms` that `row` has run before the present stretch."""
        before = self._served_ms.get(row, 0)
        if ran_ms != before:
            self._settled[tenant] += (ran_ms - before) * self.amounts[row][0]
            self._served_ms[row] = ran_ms

    def _wait(self, tenant: int, row: Row) -> None:
        kind, waiting = self.kinds[row], self.waiting[tenant]
        items = waiting.get(kind)
        if items is None:
            items = waiting[kind] = SortedItems()
        item = item_of(0, row)
        self._where[row] = items, item
        items.add(item)
        self.queued[tenant] = self.queued.get(tenant, 0) + 1
        rows = self.queued_kinds.get(kind)
        if rows is None:
            rows = self.queued_kinds[kind] = {}
        rows[row] = None

    def _leave(self, tenant: int, row: Row, items: SortedItems, item: Item) -> None:
        """Remove `row`, which waits no longer."""
        items.remove(item)
        left = self.queued[tenant] - 1
        if left:
            self.queued[tenant] = left
        else:
            del self.queued[tenant]
        rows = self.queued_kinds[self.kinds[row]]
        del rows[row]
        if not rows:
            del self.queued_kinds[self.kinds[row]]

    def _hold(self, row: Row, tenant: int, sign: int, since_ms: int) -> None:
        amounts = self.amounts[row]
        service = sign * amounts[0]
        if sign > 0:
            self.shares.charge(tenant, amounts)
        else:
            self.shares.refund(tenant, amounts)
        self.all_held += service
        self._rate[tenant] += service
        self._offset[tenant] += service * since_ms


class TenantQueue:
    """The waiting jobs of one tenant while one decision is made: first come first, by kind of request.

    Without rows of `hopeless` kinds; rows that it has `started` already are passed by.
    """

    def __init__(self, waiting: Mapping[int, SortedItems], started: Set[int], hopeless: Set[int]) -> None:
        self._waiting = waiting
        self._started = started
        self._passed: dict[int, int] = {}
        self._fronts = [
            (items.items[items.head][1], kind)
            for kind, items in waiting.items()
            if kind not in hopeless and items.head < len(items.items)
        ]
        heapify(self._fronts)

    @property
    def is_over(self) -> bool:
        """True if no jobs are left."""
        return not self._fronts

    def next(self, hopeless: Set[int]) -> int:
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
        """Move on from the first row."""
        kind = self._fronts[0][1]
        passed = self._passed[kind] = self._passed.get(kind, 0) + 1
        items = self._waiting[kind]
        if passed < len(items):
            heapreplace(self._fronts, (items.items[items.head + passed][1], kind))
        else:
            heappop(self._fronts)
