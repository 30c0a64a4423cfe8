"""One decision of DRF: which jobs start, and which give way."""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

import numpy as np

from rota.model.columns import Ints, Row
from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.systems.drf.book import TenantBook, TenantQueue
from rota.systems.drf.facts import first_of_each
from rota.systems.drf.placing import JobPlacer, Placing

Key = tuple[int, int, int]
"""Key of a tenant, lowest first: share, service received over weight, arrival."""


class TaskFilling:
    """One decision: which jobs start, and which give way."""

    def __init__(self, snapshot: Snapshot, book: TenantBook, site: JobPlacer) -> None:
        self.snapshot = snapshot
        self.book = book
        self.site = site
        self.tenant_of = book.tenant_of
        self.grants: list[Grant] = []
        self.stopped: set[int] = set()
        self.room = book.most - book.all_held
        """Thousandths of slots that are left."""
        self._more: dict[int, list[int]] = {}
        """What this decision adds to what tenants hold."""

    def key(self, tenant: int) -> Key:
        """The key of `tenant`, after what has been decided so far."""
        service = self.book.service_keys([tenant], self.snapshot.now)[0]
        return self._share(tenant), service, self.book.arrival[tenant]

    def fill(self) -> None:
        """Start jobs, lowest share first, until none fits."""
        hopeless: set[int] = set()
        if not self._is_any_hopeful(hopeless):
            return
        turns = self._turns(hopeless)
        tenants = list(turns)
        services = self.book.service_keys(tenants, self.snapshot.now)
        order = [
            (self._share(tenant), services[place], self.book.arrival[tenant], tenant)
            for place, tenant in enumerate(tenants)
        ]
        heapify(order)
        while order:
            tenant = order[0][3]
            row: Row = turns[tenant].next(hopeless)
            if row < 0:
                heappop(order)
                continue
            kind = self.book.kinds[row]
            grant = self.site.take(kind, row) if self.book.amounts[row][0] <= self.room else None
            if grant is None:  # nor will any other that asks for the same
                hopeless.add(kind)
                continue
            turns[tenant].take()
            self._enter(grant)
            if not self._is_any_hopeful(hopeless):
                return
            heapreplace(order, (self._share(tenant), order[0][1], order[0][2], tenant))

    def _is_any_hopeful(self, hopeless: set[int]) -> bool:
        """False if counting says that no job can start; kinds that cannot start become `hopeless`."""
        hopeful, book = False, self.book
        for kind, rows in book.queued_kinds.items():
            if kind in hopeless:
                continue
            row: Row = next(iter(rows))
            if book.amounts[row][0] <= self.room and self.site.may_hold(kind, row):
                hopeful = True
            else:
                hopeless.add(kind)
        return hopeful

    def _turns(self, hopeless: set[int]) -> dict[int, TenantQueue]:
        """The queues of tenants with a job that may start."""
        started = {grant[0] for grant in self.grants}
        waiting, turns = self.book.waiting, dict[int, TenantQueue]()
        for tenant in self.book.queued:
            queue = TenantQueue(waiting[tenant], started, hopeless)
            if not queue.is_over:
                turns[tenant] = queue
        return turns

    def _waiting(self) -> Ints:
        """Waiting rows that have not been dealt with."""
        rows = self.snapshot.waiting
        done = [grant.job for grant in self.grants]
        return rows[~np.isin(rows, done)] if done else rows

    def _next_of(self, rows: Ints) -> int:
        """The first job of the tenant with the lowest share."""
        tenants = np.array([self.tenant_of[row] for row in rows.tolist()], dtype=np.int64)
        firsts = first_of_each(tenants, rows, self.book.tenants)
        return int(firsts[min(np.flatnonzero(firsts >= 0).tolist(), key=self.key)])

    def _enter(self, grant: Grant) -> None:
        row = grant[0]
        self._charge(row, 1)
        self.room -= self.book.amounts[row][0]
        self.grants.append(grant)

    def _charge(self, row: Row, sign: int) -> None:
        """Add what `row` needs to what its tenant holds, or take it off if `sign` is -1."""
        tenant, more = self.tenant_of[row], [sign * amount for amount in self.book.amounts[row]]
        before = self._more.get(tenant)
        if before is not None:
            more = [before[place] + amount for place, amount in enumerate(more)]
        self._more[tenant] = more

    def _share(self, tenant: int, row: Row = None, sign: int = 1) -> int:
        """The share of `tenant` with what `row` needs added, or taken off."""
        more = self._more.get(tenant)
        if row is not None:
            asked = [sign * amount for amount in self.book.amounts[row]]
            more = asked if more is None else [more[place] + amount for place, amount in enumerate(asked)]
        return self.book.shares.key(tenant, more)

    # -- preemption -----------------------------------------------------------------------------

    def redistribute(self, site: Placing) -> None:
        """Let jobs of tenants with more give way to the next jobs of tenants with less.

        Each step raises the lower of two shares and leaves the other above it, so that no later step can
        take it back.
        """
        left = self._waiting()
        while len(left):
            row = self._next_of(left)
            grant = self._make_room(row, site)
            if grant is None:
                own = self.tenant_of[row]
                left = np.array([o for o in left.tolist() if self.tenant_of[o] != own], dtype=np.int64)
                continue
            site.scratch.hold(grant)
            self._enter(grant)
            self.fill()
            left = left[np.isin(left, self._waiting())]

    def _make_room(self, row: int, site: Placing) -> Grant | None:
        """The grant of `row` once enough others gave way; None, and nothing changed, if that is too few."""
        level = self._share(self.tenant_of[row], row)
        victims: list[int] = []
        grant = site.fit(site.scratch, row)
        while grant is None:
            victim = self._victim(level, self.tenant_of[row])
            if victim is None:
                for one in victims:
                    self._keep(one, site)
                return None
            self._stop(victim, site)
            victims.append(victim)
            grant = site.fit(site.scratch, row)
        for one in victims[:-1]:  # the last was needed; of the others perhaps not all
            self._keep(one, site)
            again = site.fit(site.scratch, row)
            if again is None:
                self._stop(one, site)
            grant = again or grant
        return grant

    def _victim(self, level: int, tenant: int) -> int | None:
        """The last started job whose tenant has the most, and without it still more than `level`."""
        since_s = self.snapshot.jobs.since_s
        candidates = [
            (self._share(self.tenant_of[row]), since_s.item(row), row)
            for row in self.snapshot.grants
            if row not in self.stopped
            and self.tenant_of[row] != tenant
            and self._share(self.tenant_of[row], row, -1) > level
        ]
        return max(candidates)[2] if candidates else None

    def _stop(self, row: int, site: Placing) -> None:
        site.scratch.release(self.snapshot.grants[row])
        self._charge(row, -1)
        self.stopped.add(row)

    def _keep(self, row: int, site: Placing) -> None:
        """Undo `_stop`."""
        site.scratch.hold(self.snapshot.grants[row])
        self._charge(row, 1)
        self.stopped.remove(row)
