"""Lease: turns in rounds, so that the time each job gets on each GPU type approaches a given fraction.

The round mechanism of Gavel (OSDI 2020, section 5), for every policy that says what fraction of its time
a job should spend on which type; Gavel's own policies differ in the fractions alone.  Who takes turns is an
*entry*: a job, or two that share the same GPUs.  In each round the pairs (entry, type) are served in order
of fraction asked over fraction received; what is left idle goes to entries whose fraction is 0.  New
fractions start the books anew: half a round is credited to everyone, and what an entry was given beyond its
fraction, or short of it, is carried on as its deficit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rota.knowledge.needs import Knowledge, Table
from rota.model.columns import Bools, Floats, Ints
from rota.model.grants import Grant, Role
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.place import consolidate
from rota.scheduler.stages.round_books import ALONE, Books, Shares, alone
from rota.scheduler.stages.trial import admit_placed
from rota.table.occupancy import EPSILON, Occupancy

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
    pairs: PairRates | None = None
    """What they do beside each other; None if nobody shares."""


@dataclass(frozen=True)
class PairRates:
    """Rates of jobs that share the same GPUs, by class of job."""

    classes: Ints
    """Class of each row of the job table."""
    rates: Floats
    """Work per second of one class beside another on each type, [class, class beside it, type]; NaN where
    nobody measured."""

    @classmethod
    def of(cls, known: Table) -> PairRates:
        return cls(known.by_row["class"], known.shared["rates"])

    def both(self, ones: Ints, others: Ints) -> Floats:
        """Work per second of both of a pair of classes, [pair, 2, type]; 0 where not both were measured."""
        rates = np.stack((self.rates[ones, others], self.rates[others, ones]), axis=1)
        known: Floats = np.where(np.isnan(rates).any(axis=1, keepdims=True), 0.0, rates)
        return known

    def of_rows(self, ones: Ints, others: Ints) -> Floats:
        """Work per second of `ones` beside `others`, [row, type]; 0 where nobody measured."""
        rates: Floats = np.nan_to_num(self.rates[self.classes[ones], self.classes[others]], nan=0.0)
        return rates


Fractions = Callable[[Snapshot, RoundDemand, Memory], Floats | Shares]
"""What fraction of its time each of at least one job, [job, type], or each entry should spend on each type.
What it wants to remember it writes into the memory it is given, which is its own."""


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
    fill: bool = True
    """Let entries whose fraction is 0 run on what is idle."""
    pairs: bool = False
    """Two jobs may share the same GPUs; the policy is told what they do beside each other."""


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
        demand = _demand(snapshot, rows, self.turns.pairs)
        self._count(snapshot, books, demand)
        books.follow(rows, self.turns.round_s / 2)
        if books.is_stale and snapshot.now >= self._again_s(books):
            books.reset(self._shares(snapshot, books, demand), snapshot.now, self.turns.round_s / 2)
        picks = self._walk(snapshot, books, demand)
        books.round += 1
        decision = _place(snapshot, picks)
        self._mark(snapshot, books, picks, decision)
        decision.memory = vars(books)
        decision.wake = self._wake(snapshot, books)
        return decision

    def _shares(self, snapshot: Snapshot, books: Books, demand: RoundDemand) -> Shares:
        """The fractions, as those of entries."""
        if not len(demand.rows):
            return Shares(np.zeros((0, 2), dtype=np.int64), np.zeros_like(demand.rates))
        own = dict(books.own)
        fractions = self.fractions(snapshot, demand, own)
        books.own = own
        if isinstance(fractions, Shares):
            return fractions
        return Shares(alone(len(demand.rows)), fractions)

    def _again_s(self, books: Books) -> float:
        """The first moment at which fractions may be computed again; what was due then is due when woken."""
        return books.solved_s + self.turns.recompute_s

    # -- time received -----------------------------------------------------------------------------

    def _count(self, snapshot: Snapshot, books: Books, demand: RoundDemand) -> None:
        """Credit what was received since the last call."""
        if len(books.ran):
            books.credit(self._received_s(snapshot, books, demand))

    def _received_s(self, snapshot: Snapshot, books: Books, demand: RoundDemand) -> Floats:
        """Seconds received in the last round by those who ran in it; of two the longer time."""
        spent = self._clock(snapshot, books.ran) - books.ran_mark
        if not self.turns.by_work:
            held_s: Floats = spent.max(axis=1)
            return held_s
        rates = np.ones_like(spent)
        rates[:, 0] = snapshot.know(Knowledge.THROUGHPUT)[books.ran[:, 0], books.ran_type]
        both = np.flatnonzero(books.ran[:, 1] != ALONE)
        if len(both) and demand.pairs is not None:
            one, other, kind = books.ran[both, 0], books.ran[both, 1], books.ran_type[both]
            at = np.arange(len(both))
            rates[both, 0] = demand.pairs.of_rows(one, other)[at, kind]
            rates[both, 1] = demand.pairs.of_rows(other, one)[at, kind]
        # By way of the moment of the stop: the authors' ties are broken by the rounding of this sum.
        took: Floats = books.began_s + (spent / rates).max(axis=1) - books.began_s
        return took

    def _clock(self, snapshot: Snapshot, rows: Ints) -> Floats:
        """Seconds run, or work done, so far; 0 for `ALONE`."""
        read = snapshot.jobs.work_done if self.turns.by_work else snapshot.jobs.ran_s
        so_far: Floats = read(rows.ravel())
        so_far = so_far.reshape(rows.shape)
        so_far[rows == ALONE] = 0.0
        return so_far

    def _mark(self, snapshot: Snapshot, books: Books, picks: list[Pick], decision: Decision) -> None:
        """Remember who runs in this round, and how far each is."""
        held = (snapshot.grants.keys() - set(decision.preempt)) | {grant.job for grant in decision.grants}
        ran = sorted(pick for pick in picks if pick.later in held)
        books.ran = np.array([(pick.later, pick.earlier) for pick in ran], dtype=np.int64).reshape(-1, 2)
        books.ran_type = np.array([pick.kind for pick in ran], dtype=np.int64)
        books.ran_mark = self._clock(snapshot, books.ran)
        books.began_s = snapshot.now

    # -- who runs where ----------------------------------------------------------------------------

    def _walk(self, snapshot: Snapshot, books: Books, demand: RoundDemand) -> list[Pick]:
        """The entries that run in this round."""
        priority = books.priority()
        left = demand.capacity.tolist()
        place = np.searchsorted(demand.rows, books.later)
        runs = _runs(books, demand, place)
        gpus, later, earlier = demand.gpus[place].tolist(), books.later.tolist(), books.earlier.tolist()
        is_new = books.is_new.tolist()
        taken: set[int] = set()
        picks: list[Pick] = []
        for kind in self._types(snapshot, books.round):
            keys = (-books.fraction[:, kind], -books.deficit_s[:, kind], -priority[:, kind])
            able = runs[:, kind] if self.turns.fill else runs[:, kind] & (priority[:, kind] > 0.0)
            for i in np.lexsort(keys).tolist():
                if left[kind] <= EPSILON:
                    break
                if not able[i] or later[i] in taken or earlier[i] in taken or gpus[i] > left[kind] + EPSILON:
                    continue
                taken.add(later[i])
                if earlier[i] != ALONE:
                    taken.add(earlier[i])
                left[kind] -= gpus[i]
                if not (self.turns.reserve and is_new[i]):
                    picks.append(Pick(later[i], earlier[i], kind))
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


class Pick(NamedTuple):
    """An entry that runs in this round."""

    later: int
    earlier: int
    """The row it shares its GPUs with, or `ALONE`."""
    kind: int
    """Code of the GPU type."""

    @property
    def members(self) -> tuple[int, ...]:
        return (self.later,) if self.earlier == ALONE else (self.earlier, self.later)


def _runs(books: Books, demand: RoundDemand, place: Ints) -> Bools:
    """On which types each entry runs, [entry, type]: a pair where both were measured beside each other."""
    runs: Bools = demand.rates[place] > 0.0
    both = np.flatnonzero(books.earlier != ALONE)
    if len(both) and demand.pairs is not None:
        later, earlier = books.later[both], books.earlier[both]
        runs[both] &= demand.rates[np.searchsorted(demand.rows, earlier)] > 0.0
        runs[both] &= (demand.pairs.of_rows(later, earlier) > 0.0) & (
            demand.pairs.of_rows(earlier, later) > 0.0
        )
    return runs


def _demand(snapshot: Snapshot, rows: Ints, shares: bool) -> RoundDemand:
    jobs, occupancy = snapshot.jobs, snapshot.occupancy
    kinds = snapshot.cluster.device_type
    gpus = jobs.gpus[rows] * jobs.gpu_share[rows]
    capacity = np.bincount(kinds, minlength=len(snapshot.cluster.type_names)).astype(np.float64)
    for device in occupancy.down:
        capacity[kinds[device]] -= 1.0
    rates = np.where(gpus[:, None] <= capacity, snapshot.know(Knowledge.THROUGHPUT)[rows], 0.0)
    pairs = PairRates.of(snapshot.know(Knowledge.PAIRS)) if shares else None
    return RoundDemand(rows, gpus, rates, capacity, pairs)


def _place(snapshot: Snapshot, picks: list[Pick]) -> Decision:
    """Devices for the picks: who stays on its type keeps its devices, then the largest first."""
    fit = Fitter(snapshot, consolidate)
    scratch = fit.scratch(snapshot)
    kinds = snapshot.cluster.device_type
    stays = {row for pick in picks if _is_placed(snapshot, pick, kinds) for row in pick.members}
    moving = sorted(row for row, grant in snapshot.grants.items() if grant.devices and row not in stays)
    for row in moving:
        scratch.release(snapshot.grants[row])
    starts = [pick for pick in picks if pick.later not in stays]
    starts.sort(key=lambda pick: (-snapshot.gpus_of[pick.later], pick))
    grants: list[Grant] = []
    for pick in starts:
        for grant in _grants(snapshot, fit, scratch, pick):
            scratch.hold(grant)
            grants.append(grant)
    # Jobs without GPUs take no turns: they run as soon as a node has room.
    idle = snapshot.waiting[snapshot.jobs.gpus[snapshot.waiting] == 0].tolist()
    grants += admit_placed(idle, scratch, fit)
    granted = {grant.job for grant in grants}
    return Decision({}, grants, [row for row in moving if row not in granted])


def _is_placed(snapshot: Snapshot, pick: Pick, kinds: Ints) -> bool:
    """True if the members hold what they are to hold: the same devices of the type, and nobody else."""
    held = [snapshot.grants.get(row) for row in pick.members]
    first = held[0]
    if first is None or not first.devices or kinds[first.devices[0]] != pick.kind:
        return False
    if len(held) == 2:
        return held[1] == first._replace(job=pick.later) and first.role is Role.PACKED
    return first.share == snapshot.jobs.table.gpu_share.item(pick.later)


def _grants(snapshot: Snapshot, fit: Fitter, scratch: Occupancy, pick: Pick) -> list[Grant]:
    """What the members get: devices that one had, if they are free, or others; none if nothing fits."""
    first = _of_one(snapshot, fit, scratch, pick)
    if first is None or pick.earlier == ALONE:
        return [] if first is None else [first]
    pair = [first._replace(job=row, share=0.5, role=Role.PACKED) for row in pick.members]
    scratch.hold(pair[0])
    both_fit = fit.admits(scratch, pair[1]) and _has_memory(snapshot, pair)
    scratch.release(pair[0])
    return pair if both_fit else [first]


def _of_one(snapshot: Snapshot, fit: Fitter, scratch: Occupancy, pick: Pick) -> Grant | None:
    row = pick.later
    kinds = snapshot.cluster.device_type
    if snapshot.jobs.table.gpu_share.item(row) == 1.0:
        for member in reversed(pick.members):
            held = snapshot.grants.get(member)
            if held is not None and held.devices and kinds[held.devices[0]] == pick.kind:
                same = Grant(row, held.devices)
                if all(map(scratch.free.is_free, held.devices)) and fit.admits(scratch, same):
                    return same
    return fit.on_type(scratch, row, pick.kind)


def _has_memory(snapshot: Snapshot, pair: list[Grant]) -> bool:
    """True if both find room in the memory of each device they share."""
    need = sum(snapshot.jobs.table.gpu_memory_gib.item(grant.job) for grant in pair)
    capacity = snapshot.cluster.device_memory_gib[list(pair[0].devices)]
    return bool(np.all((capacity == 0.0) | (need <= capacity + EPSILON)))
