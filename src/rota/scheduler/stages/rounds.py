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

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Bools, Floats, Ints
from rota.model.jobs import JobTable
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.place import consolidate, lowest
from rota.scheduler.stages.round_books import Books, Shares, of_one_size
from rota.scheduler.stages.round_demand import DemandingJobs, PairRates, RoundDemand
from rota.scheduler.stages.round_places import Pick, place_picks
from rota.scheduler.stages.round_turns import RoundTurns
from rota.scheduler.targets import PART_OF_TIME, Targets
from rota.solvers.division import ALONE, alone
from rota.table.occupancy import EPSILON

ROUND = Event.ROUND


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
    learn: bool = True
    """Compute fractions anew when rates have changed, not only when jobs come or go."""
    fill: bool = True
    """Let entries whose fraction is 0 run on what is idle."""
    pairs: bool = False
    """Two jobs may share the same GPUs; the policy is told what they do beside each other."""
    one_queue: bool = False
    """Serve all types together, by priority, not one after the other."""
    keeps_books: bool = False
    """New fractions do not start the books anew: what was received counts from the beginning."""
    lowest: bool = False
    """Who comes to other GPUs gets the first that are free, however they lie."""
    all_pairs: bool = False
    """All pairs of one size are entries, also those without a fraction, and owed half a round when they are
    new: in the authors' books they begin without the credit that the first recomputation takes off again."""
    waits: bool = False
    """A round goes on also when nobody runs any more, as in the authors' simulators."""


class Rounds:
    """Carries out the fractions of `fractions` round by round."""

    def __init__(self, fractions: Fractions, turns: Turns) -> None:
        self.fractions = fractions
        self.turns = turns
        self._shuffler: tuple[int, int, random.Random] | None = None
        self._live = DemandingJobs()
        self._demand: RoundDemand | None = None
        self._queue: _Queue | None = None
        self._jobs: JobTable | None = None
        self._seen: tuple[bytes, bytes] | None = None
        """GPUs and rates that `_demand` was made of; the GPUs stand in `_jobs`."""
        self._picks: list[Pick] = []
        self._rests: Ints | None = None
        """`books.ran` if all of `_picks` run, and the last decision left everybody where he was."""
        self._ran: list[Pick] = []
        """Who ran in the last round, as `books.ran` has it."""
        self._places: _Places | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        books = Books.of(memory, len(snapshot.cluster.type_names))
        rows = self._live.rows(snapshot)
        demand = self._demanded(snapshot, rows)
        self._count(snapshot, books, demand)
        sizes = demand.gpus if self.turns.all_pairs and demand.pairs is not None else None
        books.follow(rows, self.turns.round_s / 2, sizes)
        if self.turns.learn:
            books.learn(demand.rates)
        if books.is_stale and snapshot.now >= self._again_s(books):
            shares = self._shares(snapshot, books, demand)
            credit_s, owed_s = self.turns.round_s / 2, 0.0
            if sizes is not None:
                shares, owed_s = shares.with_pairs(of_one_size(sizes)), credit_s
            books.reset(shares, snapshot.now, credit_s, keeps=self.turns.keeps_books, owed_s=owed_s)
        picks = self._walk(snapshot, books, demand)
        if picks == self._picks:
            picks = self._picks
        books.round += 1
        rests = picks is self._picks and books.ran is self._rests
        if rests and self._live.is_quiet and not self._live.has_idle:
            decision = Decision({}, [], [])
            self._mark_again(snapshot, books)
        else:
            place = lowest if self.turns.lowest else consolidate
            decision = place_picks(snapshot, picks, admits_idle=self._live.has_idle, place=place)
            self._mark(snapshot, books, picks, decision)
            rests = decision.names_nobody and len(books.ran) == len(picks)
            self._picks, self._rests = picks, books.ran if rests else None
        decision.memory = vars(books)
        decision.wake = self._wake(snapshot, books)
        decision.ranking = RoundTurns(books, self.turns.round_s, decision.wake.at_s)
        decision.targets, decision.target = _targets(books), PART_OF_TIME
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
            places = self._places
            if places is None or not places.is_of(books):
                places = self._places = _Places(books)
            received = self._received_s(snapshot, books, demand, alone=places.alone)
            books.credit(received, places.known, places.place)
            if self.turns.by_work and not received.all():
                books.is_stale = True  # a round in which a job does nothing has failed, and is news

    def _received_s(self, snapshot: Snapshot, books: Books, demand: RoundDemand, *, alone: bool) -> Floats:
        """Seconds received in the last round by those who ran in it, all `alone` or not; of two the longer
        time."""
        ran, mark = (books.ran[:, 0], books.ran_mark[:, 0]) if alone else (books.ran, books.ran_mark)
        if self.turns.by_work:
            worked: Floats = snapshot.jobs.worked_s(ran.ravel()).reshape(ran.shape)
            if not alone:
                worked[ran == ALONE] = 0.0
            if not np.isnan(worked).any():
                return worked if alone else worked.max(axis=1)
        spent = self._clock(snapshot, ran) - mark
        if not self.turns.by_work:
            return spent if alone else spent.max(axis=1)
        if alone:
            spent /= snapshot.know(Knowledge.THROUGHPUT)[ran, books.ran_type]
            # By way of the moment of the stop: the authors' ties are broken by the rounding of this sum.
            stopped_s: Floats = books.began_s + spent
            return stopped_s - books.began_s
        rates = np.ones_like(spent)
        rates[:, 0] = snapshot.know(Knowledge.THROUGHPUT)[books.ran[:, 0], books.ran_type]
        both = np.flatnonzero(books.ran[:, 1] != ALONE)
        if demand.pairs is not None:
            one, other, kind = books.ran[both, 0], books.ran[both, 1], books.ran_type[both]
            at = np.arange(len(both))
            rates[both, 0] = demand.pairs.of_rows(one, other)[at, kind]
            rates[both, 1] = demand.pairs.of_rows(other, one)[at, kind]
        took: Floats = books.began_s + (spent / rates).max(axis=1) - books.began_s
        return took

    def _clock(self, snapshot: Snapshot, rows: Ints) -> Floats:
        """Seconds run, or work done, so far; 0 for `ALONE`."""
        read = snapshot.jobs.work_done if self.turns.by_work else snapshot.jobs.ran_s
        so_far: Floats = read(rows.ravel()).reshape(rows.shape)
        so_far[rows == ALONE] = 0.0
        return so_far

    def _mark(self, snapshot: Snapshot, books: Books, picks: list[Pick], decision: Decision) -> None:
        """Remember who runs in this round, and how far each is."""
        stopped, held = set(decision.preempt), snapshot.grants
        begun = {grant.job for grant in decision.grants}
        ran = sorted([p for p in picks if p.later in begun or (p.later in held and p.later not in stopped)])
        if ran != self._ran or len(ran) != len(books.ran):
            columns = np.array(ran, dtype=np.int64).reshape(-1, 3)
            books.ran, books.ran_type = columns[:, :2].copy(), columns[:, 2].copy()
            self._ran = ran
        self._mark_again(snapshot, books)

    def _mark_again(self, snapshot: Snapshot, books: Books) -> None:
        """The same run again."""
        books.ran_mark = self._clock(snapshot, books.ran)
        books.began_s = snapshot.now

    # -- who runs where ----------------------------------------------------------------------------

    def _walk(self, snapshot: Snapshot, books: Books, demand: RoundDemand) -> list[Pick]:
        """The entries that run in this round."""
        queue = self._queue
        if queue is None or not queue.is_of(books, demand):
            queue = self._queue = _Queue(books, demand, fill=self.turns.fill)
        if self.turns.one_queue:
            return _walk_together(queue, -books.priority().T, demand.capacity.tolist())
        types, left = self._types(snapshot, books.round), demand.capacity.tolist()
        anyhow = queue.anyhow(types, left, reserve=self.turns.reserve)
        if anyhow is not None:
            return anyhow
        orders: list[list[int]] = np.lexsort((queue.less, queue.owed, -books.priority().T)).tolist()
        gpus, later, earlier, is_new = queue.gpus, queue.later, queue.earlier, queue.is_new
        taken: set[int] = set()
        picks: list[Pick] = []
        jobs = len(demand.rows)
        for kind in types:
            able, room = queue.able[kind], left[kind] + EPSILON
            for i in orders[kind]:
                if room <= 2.0 * EPSILON or len(taken) == jobs:
                    break
                if not able[i] or gpus[i] > room or later[i] in taken or earlier[i] in taken:
                    continue
                taken.add(later[i])
                if earlier[i] != ALONE:
                    taken.add(earlier[i])
                room -= gpus[i]
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

    def _demanded(self, snapshot: Snapshot, rows: Ints) -> RoundDemand:
        """What is to be divided; the same object as long as nothing of it has changed."""
        jobs, last = snapshot.jobs, self._demand
        capacity = self._live.capacity(snapshot)
        known = snapshot.know(Knowledge.THROUGHPUT)[rows]
        pairs = PairRates.of(snapshot.know(Knowledge.PAIRS)) if self.turns.pairs else None
        if last is not None and last.rows is rows and jobs.table is self._jobs:
            gpus = last.gpus
        else:
            self._jobs, gpus = jobs.table, jobs.gpus[rows] * jobs.gpu_share[rows]
        seen = gpus.tobytes(), known.tobytes()
        is_same = (
            last is not None
            and last.rows is rows
            and last.capacity is capacity
            and seen == self._seen
            and (pairs is None or (last.pairs is not None and last.pairs.is_like(pairs)))
        )
        if last is None or not is_same:
            self._seen, rates = seen, np.where(gpus[:, None] <= capacity, known, 0.0)
            last = self._demand = RoundDemand(rows, gpus, rates, capacity, pairs)
        return last

    # -- when to ask again -------------------------------------------------------------------------

    def _wake(self, snapshot: Snapshot, books: Books) -> Wake:
        """At the end of the round if anybody runs in it; else for new fractions or at any news.

        A round in which all have ended is over.
        """
        if len(books.ran):
            return Wake(snapshot.now + self.turns.round_s, ROUND if self.turns.waits else ROUND | Event.IDLE)
        again = self._again_s(books)
        return Wake(again) if books.is_stale and again > snapshot.now else Wake()


class _Places:
    """Where in the books those stand who ran in the last round, until one or the other is replaced."""

    def __init__(self, books: Books) -> None:
        self._of = books.later, books.earlier, books.ran
        self.known, self.place = books.where_ran()
        self.alone = bool((books.ran[:, 1] == ALONE).all())
        """True if nobody shared."""

    def is_of(self, books: Books) -> bool:
        later, earlier, ran = self._of
        return later is books.later and earlier is books.earlier and ran is books.ran


def _targets(books: Books) -> Targets:
    """The part of its time that each job is to run, on all types together, alone and beside others."""
    later, earlier, fraction = books.later, books.earlier, books.fraction

    def by_row() -> dict[int, float]:
        parts: dict[int, float] = {}
        for members in (later, earlier):
            for row, part in zip(members.tolist(), fraction.sum(axis=1).tolist(), strict=True):
                if row != ALONE:
                    parts[row] = parts.get(row, 0.0) + part
        return parts

    return Targets(by_row)


class _Queue:
    """What of the order in a round stands until fractions or jobs change, as plain lists."""

    def __init__(self, books: Books, demand: RoundDemand, *, fill: bool) -> None:
        self._of = books.later, books.fraction, books.deficit_s, books.is_new, demand
        place = np.searchsorted(demand.rows, books.later)
        runs = _runs(books, demand, place)
        # Without a fraction there is no priority either.
        self.able: list[list[bool]] = (runs if fill else runs & (books.fraction > 0.0)).T.tolist()
        self.gpus: list[float] = demand.gpus[place].tolist()
        self.later: list[int] = books.later.tolist()
        self.earlier: list[int] = books.earlier.tolist()
        self.is_new: list[bool] = books.is_new.tolist()
        self.less = -books.fraction.T
        self.owed = -books.deficit_s.T
        self._anyhow: dict[tuple[int, ...], list[Pick] | None] = {}
        """By the order of the types."""

    def anyhow(self, types: list[int], left: list[float], *, reserve: bool) -> list[Pick] | None:
        """Who runs whatever the priorities, because all find room; None if they decide.

        The same list again as long as that is so.
        """
        key = tuple(types)
        if key not in self._anyhow:
            self._anyhow[key] = self._all_of(types, left, reserve=reserve)
        return self._anyhow[key]

    def _all_of(self, types: list[int], left: list[float], *, reserve: bool) -> list[Pick] | None:
        """Everybody on the first type that it may run on; None where that is more than there is."""
        waits = list(range(len(self.later)))
        if any(earlier != ALONE for earlier in self.earlier):
            return None
        picks: list[Pick] = []
        for kind in types:
            able = self.able[kind]
            here = [i for i in waits if able[i]]
            if sum([self.gpus[i] for i in here]) > left[kind]:
                return None
            waits = [i for i in waits if not able[i]]
            picks += [Pick(self.later[i], ALONE, kind) for i in here if not (reserve and self.is_new[i])]
        return picks

    def is_of(self, books: Books, demand: RoundDemand) -> bool:
        """True if nothing that it was made of has been replaced."""
        now = books.later, books.fraction, books.deficit_s, books.is_new, demand
        return all(one is other for one, other in zip(self._of, now, strict=True))


def _walk_together(queue: _Queue, lower: Floats, left: list[float]) -> list[Pick]:
    """Those who run, each on the type on which its priority is highest among those with room; no pairs."""
    kinds, entries = lower.shape
    order = np.lexsort((queue.less.ravel(), queue.owed.ravel(), lower.ravel()))
    taken: set[int] = set()
    picks: list[Pick] = []
    for place in order.tolist():
        kind, i = divmod(place, entries)
        if queue.able[kind][i] and i not in taken and queue.gpus[i] <= left[kind] + EPSILON:
            taken.add(i)
            left[kind] -= queue.gpus[i]
            picks.append(Pick(queue.later[i], queue.earlier[i], kind))
        if len(taken) == entries or max(left[:kinds]) <= EPSILON:
            break
    return picks


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
