"""What rounds divide: the live jobs, their rates by type and beside each other, and the GPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.knowledge.needs import Table
from rota.model.cluster import Cluster
from rota.model.columns import Bools, Floats, Ints
from rota.scheduler.snapshot import Cursor, Snapshot


@dataclass(frozen=True)
class RoundDemand:
    """What is to be divided: the live jobs, their rates and the GPUs."""

    rows: Ints
    """Live jobs in order of submission."""
    gpus: Floats
    """GPUs of each job while it runs."""
    rates: Floats
    """Work per second of each job on each type, 0 where it cannot run."""
    capacity: Floats
    """Healthy GPUs of each type."""
    pairs: PairRates | None = None
    """The rates of jobs beside each other; None if no jobs share GPUs."""


@dataclass(frozen=True)
class PairRates:
    """Rates of jobs that share the same GPUs, by class of job."""

    classes: Ints
    """Class of each row of the job table."""
    rates: Floats
    """Work per second of one class beside another on each type, [class, class beside it, type]; NaN where
    unmeasured."""

    @classmethod
    def of(cls, known: Table) -> PairRates:
        return cls(known.by_row["class"], known.shared["rates"])

    def is_like(self, other: PairRates) -> bool:
        """True if both say the same; a changed array is a new one, but classes grow with the jobs."""
        return self.rates is other.rates and np.array_equal(self.classes, other.classes)

    def both(self, ones: Ints, others: Ints) -> Floats:
        """Work per second of both of a pair of classes, [pair, 2, type]; 0 where not both were measured."""
        rates = np.stack((self.rates[ones, others], self.rates[others, ones]), axis=1)
        known: Floats = np.where(np.isnan(rates).any(axis=1, keepdims=True), 0.0, rates)
        return known

    def run(self, ones: Ints, others: Ints) -> Bools:
        """On which types both of some pairs of rows do anything beside each other, [pair, type]."""
        a, b = self.classes[ones], self.classes[others]
        run: Bools = (self.rates[a, b] > 0.0) & (self.rates[b, a] > 0.0)
        return run

    def beside(self, row: int, other: int) -> tuple[list[float], list[float]]:
        """Work per second on each type of `row` and of `other` beside each other; NaN where unmeasured."""
        one, two = self.classes.item(row), self.classes.item(other)
        return self.rates[one, two].tolist(), self.rates[two, one].tolist()

    def of_one(self, row: int, other: int, kind: int) -> float:
        """Work per second of `row` beside `other` on a type; 0 where unmeasured."""
        rate: float = self.rates[self.classes[row], self.classes[other], kind].item()
        return rate if rate > 0.0 else 0.0


def healthy_gpus(snapshot: Snapshot) -> Floats:
    """GPUs of each type that can be used."""
    kinds = snapshot.cluster.device_type
    capacity = np.bincount(kinds, minlength=len(snapshot.cluster.type_names)).astype(np.float64)
    for device in snapshot.occupancy.down:
        capacity[kinds[device]] -= 1.0
    return capacity


class DemandingJobs:
    """The live jobs that ask for GPUs, and the GPUs there are, as arrays that stay until they change."""

    def __init__(self) -> None:
        self.has_idle = False
        """True if there are live jobs that ask for no GPU."""
        self.is_quiet = False
        """True if no job has come, begun, stopped or gone since the last call."""
        self._cursor = Cursor()
        self._all: set[int] = set()
        self._rows: Ints | None = None
        self.listed: list[int] = []
        """The rows that `rows` returned last, as a list."""
        self._capacity: tuple[Cluster, frozenset[int], Floats] | None = None

    def rows(self, snapshot: Snapshot) -> Ints:
        """Live jobs in order of submission."""
        changed = snapshot.changes(self._cursor)
        self.is_quiet = changed is not None and not changed
        known, waits, grants = self._all, snapshot.waits, snapshot.grants
        is_news = self._rows is None or changed is None
        for row in changed or ():
            if is_news or (row in grants or waits(row)) != (row in known):
                is_news = True
                break
        if is_news or self._rows is None:
            rows = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
            asks = snapshot.jobs.gpus[rows] > 0
            self._all, self._rows, self.has_idle = set(rows.tolist()), rows[asks], not asks.all()
            self.listed = self._rows.tolist()
        return self._rows

    def capacity(self, snapshot: Snapshot) -> Floats:
        """Healthy GPUs of each type."""
        cluster, down = snapshot.cluster, snapshot.occupancy.down
        known = self._capacity
        if known is None or known[0] is not cluster or known[1] != down:
            known = self._capacity = cluster, frozenset(down), healthy_gpus(snapshot)
        return known[2]
