"""The order of jobs: leases, then jobs that are sure of their GPUs, then all others on spare ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import IntEnum
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from rota.model.columns import Ints
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.systems.chronus.asks import LeaseAsk, LiveAsks, Requested
from rota.systems.chronus.book import Book
from rota.systems.chronus.parameters import ChronusParameters
from rota.table.occupancy import Occupancy


class ServiceRank(IntEnum):
    """Classes of jobs, the first served first."""

    PLANNED = 0  # holds the present lease
    GUARANTEED = 1  # has no promise, but ends within the lease
    OVERRUN = 2  # took longer than estimated
    SPARE = 3  # best effort, or its deadline could not be promised
    AHEAD = 4  # was promised its deadline, and has its leases later
    LOWEST = 5  # can meet no deadline any more


class Ranked(NamedTuple):
    """A job in its place."""

    rank: ServiceRank
    urgency: float
    submit_s: float
    row: int


class ServiceOrder(NamedTuple):
    """All live jobs, the first served first."""

    rows: Ints
    planned: int
    """Number of jobs at the front that hold the present lease."""
    sure: int
    """Number of jobs at the front that hold the lease, or are sure of their GPUs to its end."""

    def without(self, rows: Collection[int]) -> ServiceOrder:
        """The order of all but `rows`."""
        if not rows:
            return self
        stays = ~np.isin(self.rows, list(rows))
        planned, sure = (int(np.count_nonzero(stays[:count])) for count in (self.planned, self.sure))
        return ServiceOrder(self.rows[stays], planned, sure)


class Ranks:
    """The classes of all live jobs at one moment."""

    def __init__(self, book: Book, asks: LiveAsks, capacity: int, now: float, p: ChronusParameters) -> None:
        self.book, self.asks, self.now, self.p = book, asks, now, p
        self._out, self._refused = set(book.overrun), set(book.refused)
        self.guaranteed = self._guaranteed(capacity)

    def ordered(self) -> ServiceOrder:
        """All live jobs in order.

        Only jobs in the book are looked at one by one: all others are served alike.
        """
        asks, book = self.asks, self.book
        noted = [asks[row] for row in {*book.plans, *book.refused, *book.overrun} if row in asks]
        ranked = [Ranked(*self._rank(ask), ask.submit_s, ask.row) for ask in noted]
        ranked = sorted(one for one in ranked if one.rank is not ServiceRank.SPARE)
        spare = np.ones(len(asks.rows), dtype=bool)
        spare[asks.places([one.row for one in ranked])] = False
        rows = asks.rows[spare]
        rows = rows[np.lexsort((asks.submit_s[spare], asks.service()[spare]))]
        early = [one for one in ranked if one.rank < ServiceRank.SPARE]
        before = np.array([one.row for one in early], dtype=np.int64)
        after = np.array([one.row for one in ranked[len(early) :]], dtype=np.int64)
        planned, sure = (
            sum(one.rank <= rank for one in early) for rank in (ServiceRank.PLANNED, ServiceRank.GUARANTEED)
        )
        return ServiceOrder(np.concatenate((before, rows, after)), planned, sure)

    def _guaranteed(self, capacity: int) -> frozenset[int]:
        """Jobs without a promise that end within the lease, the shortest service first, beside the leases.

        A job that was sure of its GPUs in an earlier slot of the lease, and has them, still is.
        """
        if not self.p.guarantees:
            return frozenset()
        asks, book, end_s = self.asks, self.book, (self.book.lease + 1) * self.p.lease_s
        sure = {row for row in book.sure if row in asks and asks[row].runs}
        holders = [row for row in book.plans if book.holds_lease(row)]
        room = capacity - sum(asks[row].beside_drained for row in (*holders, *sure))
        ends = [asks[row] for row in book.refused if self._ends_by(asks[row], end_s)]
        for ask in sorted(ends, key=lambda ask: (ask.service, ask.submit_s, ask.row)):
            if ask.row not in sure and ask.beside_drained <= room + 1e-9:
                room -= ask.beside_drained
                sure.add(ask.row)
        return frozenset(sure)

    def _ends_by(self, ask: LeaseAsk, end_s: float) -> bool:
        """True if `ask` ends by `end_s`: by its estimate, or by its run time."""
        left_s = ask.least_s if self.p.by_run_time else ask.left_s
        return ask.left_s > 0.0 and left_s <= end_s - self.now + 1e-6

    def _rank(self, ask: LeaseAsk) -> tuple[ServiceRank, float]:
        """Class of a job, and its place in it."""
        row = ask.row
        if self.book.holds_lease(row):
            return ServiceRank.PLANNED, -ask.gpus
        if row in self.guaranteed:
            return ServiceRank.GUARANTEED, ask.service
        if row in self._out:
            return ServiceRank.OVERRUN, 0.0
        if row in self.book.plans:
            return ServiceRank.AHEAD, (self.book.aims[row] - self.now - ask.left_s) * ask.gpus
        if row in self._refused and self.now + ask.least_s > ask.due_s + 1e-6:
            return ServiceRank.LOWEST, ask.service
        return ServiceRank.SPARE, ask.service


class ByRanks:
    """The order of service when the next slot begins, to explain why a job waits."""

    spreads = False

    def __init__(self, book: Book, parameters: ChronusParameters) -> None:
        self.book, self.parameters = book, parameters

    def ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        """Jobs whose class is before that of `row`, or in the same one whose claim is more urgent."""
        capacity = snapshot.cluster.gpus - len(snapshot.occupancy.down)
        asks = LiveAsks(snapshot, Requested(snapshot, capacity, self.parameters), self.parameters)
        live = replace(  # some may have ended since it decided
            self.book,
            plans={one: leases for one, leases in self.book.plans.items() if one in asks},
            refused=[one for one in self.book.refused if one in asks],
        )
        ordered = Ranks(live, asks, capacity, snapshot.now, self.parameters).ordered()
        before = takewhile(lambda one: one != row, ordered.rows.tolist())
        return [one for one in before if snapshot.waits(one)]

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        """True if `row` could be placed on `scratch`."""
        return Fitter(snapshot, consolidate)(scratch, row) is not None
