"""Lease: turns in rounds, so that the time each job gets on each GPU type approaches a given fraction.

The round mechanism of Gavel (OSDI 2020, section 5), for every policy that says what fraction of its time
a job should spend on which type: max-min fairness today, and the other policies of Gavel, which differ in
the fractions alone.  In each round the pairs (job, type) are served in order of fraction
asked over fraction received; what is left idle goes to jobs whose fraction is 0.  A recomputation of the
fractions starts the books anew: half a round is credited to everyone, and what a job was given beyond
its fraction, or short of it, is carried on as its deficit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Bools, Floats, Ints
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.place import consolidate
from rota.scheduler.stages.trial import admit_placed
from rota.table.occupancy import EPSILON

ROUND = Event.ROUND


@dataclass(frozen=True)
class RoundDemand:
    """What is to be divided, and among whom."""

    rows: Ints
    """Live jobs in order of submission."""
    gpus: Floats
    """GPUs of each job while it runs."""
    rates: Floats
    """Work per second of each job on each type, 0 where it cannot run."""
    capacity: Floats
    """Healthy GPUs of each type."""


Fractions = Callable[[Snapshot, RoundDemand], Floats]
"""Fraction of time each of at least one job should spend on each type, [job, type]."""


@dataclass(frozen=True)
class Turns:
    """Rules of the rounds."""

    round_s: float = 360.0
    recompute_s: float = 0.0
    """Least time between two recomputations; a recomputation at time 0 does not count."""
    shuffle: bool = False
    """Serve the types in another random order each round, not in the order of the cluster."""
    reserve: bool = False
    """Keep GPUs idle for jobs without fractions yet, as the authors' simulator does, not letting them run."""
    by_work: bool = False
    """Count the time a job worked (its work over its rate), not the time it held GPUs."""


@dataclass
class Books:
    """What the rounds remember; columns run over `rows`."""

    rows: Ints
    fraction: Floats
    received_s: Floats
    deficit_s: Floats
    is_new: Bools
    """True if the job came after the last recomputation."""
    total_s: Floats
    """Time received of each type, by jobs that have ended as well."""
    ran: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Rows that ran in the last round ..."""
    ran_type: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ran_mark: Floats = field(default_factory=lambda: np.zeros(0))
    """... and what they had run, or worked, when it began,"""
    began_s: float = 0.0
    """at this moment."""
    is_stale: bool = True
    reset_s: float = 0.0
    """Moment of the last recomputation."""
    solved_s: float = -math.inf
    """The same, but never if it was at time 0."""
    round: int = 0

    @classmethod
    def of(cls, memory: Memory, types: int) -> Books:
        if memory:
            return cls(**memory)
        none = np.zeros((0, types))
        rows = np.zeros(0, dtype=np.int64)
        return cls(rows, none, none, none, np.zeros(0, dtype=bool), np.zeros(types))

    def follow(self, rows: Ints, credit_s: float) -> None:
        """The live jobs are `rows` now: forget the others, enter the new ones with `credit_s` received."""
        if np.array_equal(rows, self.rows):
            return
        types = len(self.total_s)
        stays = np.isin(self.rows, rows, assume_unique=True)
        old = np.searchsorted(rows, self.rows[stays])

        def spread(column: Any, fresh: Any) -> Any:
            full = np.full((len(rows), *column.shape[1:]), fresh, dtype=column.dtype)
            full[old] = column[stays]
            return full

        self.fraction = spread(self.fraction.reshape(-1, types), 0.0)
        self.received_s = spread(self.received_s.reshape(-1, types), credit_s)
        self.deficit_s = spread(self.deficit_s.reshape(-1, types), 0.0)
        self.is_new = spread(self.is_new, True)
        self.rows = rows.copy()
        self.is_stale = True

    def credit(self, time_s: Floats) -> None:
        """`time_s` was received by the rows that ran, whether they still live or not."""
        np.add.at(self.total_s, self.ran_type, time_s)
        place = np.minimum(np.searchsorted(self.rows, self.ran), max(len(self.rows) - 1, 0))
        lives = self.rows[place] == self.ran if len(self.rows) else np.zeros(len(self.ran), dtype=bool)
        np.add.at(self.received_s, (place[lives], self.ran_type[lives]), time_s[lives])

    def reset(self, fraction: Floats, now: float, credit_s: float) -> None:
        """New fractions: settle what the old ones were owed and count from here."""
        owed = self.fraction * (now - self.reset_s) - (self.received_s - credit_s)
        self.deficit_s = self.deficit_s + np.where(self.is_new[:, None], 0.0, owed)
        self.received_s = np.full_like(self.received_s, credit_s)
        self.total_s = self.received_s.sum(axis=0)
        self.fraction = fraction
        self.is_new = np.zeros(len(self.rows), dtype=bool)
        self.is_stale = False
        self.reset_s = now
        self.solved_s = now if now > 0.0 else -math.inf

    def priority(self) -> Floats:
        """Fraction asked over fraction received, [job, type]."""
        received = np.divide(
            self.received_s, self.total_s, out=np.zeros_like(self.received_s), where=self.total_s > 0
        )
        return np.where(
            received > 0.0, self.fraction / np.where(received > 0.0, received, 1.0), self.fraction * 1e9
        )


class Rounds:
    """Carries out the fractions of `fractions` round by round."""

    def __init__(self, fractions: Fractions, turns: Turns) -> None:
        self.fractions = fractions
        self.turns = turns
        self._shuffler: tuple[int, int, random.Random] | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        books = Books.of(memory, len(snapshot.cluster.type_names))
        rows = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        rows = rows[snapshot.jobs.gpus[rows] > 0]
        self._count(snapshot, books)
        books.follow(rows, self.turns.round_s / 2)
        demand = _demand(snapshot, rows)
        if books.is_stale and snapshot.now >= self._again_s(books):
            fractions = self.fractions(snapshot, demand) if len(rows) else np.zeros_like(demand.rates)
            books.reset(fractions, snapshot.now, self.turns.round_s / 2)
        picks = self._walk(snapshot, books, demand)
        books.round += 1
        decision = _place(snapshot, picks, rows)
        self._mark(snapshot, books, decision)
        decision.memory = vars(books)
        decision.wake = self._wake(snapshot, books)
        return decision

    def _again_s(self, books: Books) -> float:
        """The first moment at which fractions may be computed again; what was due then is due when woken."""
        return books.solved_s + self.turns.recompute_s

    # -- time received -----------------------------------------------------------------------------

    def _count(self, snapshot: Snapshot, books: Books) -> None:
        """Credit what was received since the last call."""
        if len(books.ran):
            books.credit(self._received_s(snapshot, books))

    def _received_s(self, snapshot: Snapshot, books: Books) -> Floats:
        """Seconds received in the last round by those who ran in it."""
        spent = self._clock(snapshot, books.ran) - books.ran_mark
        if not self.turns.by_work:
            return spent
        rates: Floats = snapshot.know(Knowledge.THROUGHPUT)[books.ran, books.ran_type]
        # By way of the moment of the stop: the authors' ties are broken by the rounding of this sum.
        return books.began_s + spent / rates - books.began_s

    def _clock(self, snapshot: Snapshot, rows: Ints) -> Floats:
        """Seconds run, or work done, so far."""
        return (snapshot.jobs.work_done if self.turns.by_work else snapshot.jobs.ran_s)(rows)

    def _mark(self, snapshot: Snapshot, books: Books, decision: Decision) -> None:
        """Remember who runs in this round, and how far each is."""
        stopped = set(decision.preempt)
        held = {row: grant for row, grant in snapshot.grants.items() if row not in stopped}
        held.update((grant.job, grant) for grant in decision.grants)
        ran = sorted(row for row, grant in held.items() if grant.devices)
        kinds = snapshot.cluster.device_type
        books.ran = np.array(ran, dtype=np.int64)
        books.ran_type = np.array([kinds[held[row].devices[0]] for row in ran], dtype=np.int64)
        books.ran_mark = self._clock(snapshot, books.ran)
        books.began_s = snapshot.now

    # -- who runs where ----------------------------------------------------------------------------

    def _walk(self, snapshot: Snapshot, books: Books, demand: RoundDemand) -> dict[int, int]:
        """Type on which each chosen row runs in this round."""
        priority = books.priority()
        left = demand.capacity.tolist()
        gpus, rows = demand.gpus.tolist(), demand.rows.tolist()
        is_new = books.is_new.tolist()
        taken: set[int] = set()
        picks: dict[int, int] = {}
        for kind in self._types(snapshot, books.round):
            keys = (-books.fraction[:, kind], -books.deficit_s[:, kind], -priority[:, kind])
            can_run = demand.rates[:, kind] > 0.0
            for i in np.lexsort(keys).tolist():
                if left[kind] <= EPSILON:
                    break
                if i in taken or not can_run[i] or gpus[i] > left[kind] + EPSILON:
                    continue
                taken.add(i)
                left[kind] -= gpus[i]
                if not (self.turns.reserve and is_new[i]):
                    picks[rows[i]] = kind
        return picks

    def _types(self, snapshot: Snapshot, round_number: int) -> list[int]:
        """Types in the order in which they are served."""
        types = list(range(len(snapshot.cluster.type_names)))
        if self.turns.shuffle:
            return self._shuffled(types, snapshot.seed, round_number)
        return types

    def _shuffled(self, types: list[int], seed: int, round_number: int) -> list[int]:
        """A random order for each round, from Python's generator as in the authors' simulator."""
        cache = self._shuffler
        if cache is None or cache[:2] != (seed, round_number):
            cache = (seed, 0, random.Random(seed + 5))
            for _ in range(round_number):
                cache[2].shuffle(types.copy())
        cache[2].shuffle(types)
        self._shuffler = (seed, round_number + 1, cache[2])
        return types

    # -- when to ask again -------------------------------------------------------------------------

    def _wake(self, snapshot: Snapshot, books: Books) -> Wake:
        """At the end of the round if anybody runs in it; else for new fractions or at any news."""
        if len(books.ran):
            return Wake(snapshot.now + self.turns.round_s, ROUND)
        again = self._again_s(books)
        return Wake(again) if books.is_stale and again > snapshot.now else Wake()


def _demand(snapshot: Snapshot, rows: Ints) -> RoundDemand:
    jobs, occupancy = snapshot.jobs, snapshot.occupancy
    kinds = snapshot.cluster.device_type
    gpus = jobs.gpus[rows] * jobs.gpu_share[rows]
    capacity = np.bincount(kinds, minlength=len(snapshot.cluster.type_names)).astype(np.float64)
    for device in occupancy.down:
        capacity[kinds[device]] -= 1.0
    rates = np.where(gpus[:, None] <= capacity, snapshot.know(Knowledge.THROUGHPUT)[rows], 0.0)
    return RoundDemand(rows, gpus, rates, capacity)


def _place(snapshot: Snapshot, picks: dict[int, int], rows: Ints) -> Decision:
    """Devices for the picks: whoever stays on its type keeps its devices, then the largest first."""
    kinds = snapshot.cluster.device_type
    fit = Fitter(snapshot, consolidate)
    scratch = fit.scratch(snapshot)
    moving = []
    for row, grant in snapshot.grants.items():
        if grant.devices and picks.get(row) != kinds[grant.devices[0]]:
            moving.append(row)
            scratch.release(grant)
    starts = [row for row in picks if row not in snapshot.grants or row in set(moving)]
    starts.sort(key=lambda row: (-snapshot.gpus_of[row], row))
    grants = admit_placed(starts, scratch, lambda trial, row: fit.on_type(trial, row, picks[row]))
    # Jobs without GPUs take no turns: they run as soon as a node has room.
    idle = snapshot.waiting[snapshot.jobs.gpus[snapshot.waiting] == 0].tolist()
    grants += admit_placed(idle, scratch, fit)
    granted = {grant.job for grant in grants}
    return Decision({}, grants, [row for row in sorted(moving) if row not in granted])
