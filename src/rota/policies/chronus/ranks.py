"""Who comes before whom: leases, then jobs that are sure of their GPUs, then everybody else on spare ones."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from rota.policies.chronus.asks import LeaseAsk
from rota.policies.chronus.book import Book
from rota.policies.chronus.parameters import ChronusParameters


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


class Ranks:
    """The classes of all live jobs at one moment."""

    def __init__(
        self, book: Book, asks: dict[int, LeaseAsk], capacity: int, now: float, p: ChronusParameters
    ) -> None:
        self.book, self.asks, self.now, self.p = book, asks, now, p
        self._out, self._refused = set(book.overrun), set(book.refused)
        self.guaranteed = self._guaranteed(capacity)

    def ordered(self) -> list[Ranked]:
        """All live jobs, the first served first."""
        return sorted(Ranked(*self._rank(ask), ask.submit_s, ask.row) for ask in self.asks.values())

    def _guaranteed(self, capacity: int) -> frozenset[int]:
        """Jobs without a promise that end within the lease, the shortest service first, beside the leases."""
        if not self.p.guarantees:
            return frozenset()
        asks, end_s = self.asks, (self.book.lease + 1) * self.p.lease_s
        room = capacity - sum(asks[row].planned for row in self.book.plans if self.book.holds_lease(row))
        ends = [asks[row] for row in self.book.refused if 0.0 < asks[row].left_s <= end_s - self.now + 1e-6]
        sure = set()
        for ask in sorted(ends, key=lambda ask: (ask.service, ask.submit_s, ask.row)):
            if ask.planned <= room:
                room -= ask.planned
                sure.add(ask.row)
        return frozenset(sure)

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
        if row in self._refused and self.now + ask.left_s > ask.due_s:
            return ServiceRank.LOWEST, ask.service
        return ServiceRank.SPARE, ask.service
