"""Lease: turns in rounds, so that the time each job gets on each GPU type approaches a given fraction.

The round mechanism of Gavel (OSDI 2020, section 5), for every policy that says what fraction of its time a
job should spend on which type; Gavel's own policies differ in the fractions alone.  Turns are taken by an
*entry*: a job, or two that share the same GPUs.  In each round the pairs (entry, type) are served in order of
fraction asked over fraction received; what is left idle goes to entries whose fraction is 0.  New fractions
start the books again: half a round is credited to every entry, and what an entry was given beyond its
fraction, or short of it, is carried on as its deficit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints
from rota.model.feasible import holding_types
from rota.model.jobs import JobTable
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import PART_OF_TIME
from rota.solvers.division import ALONE, alone
from rota.stages.place import consolidate, lowest
from rota.stages.round_books import Books, Shares, of_one_size
from rota.stages.round_demand import DemandingJobs, PairRates, RoundDemand
from rota.stages.round_places import Pick, make_pick, place_picks
from rota.stages.round_queue import RoundQueue
from rota.stages.round_quotas import RoundQuotas
from rota.stages.round_turns import RoundTurns, targets_of
from rota.stages.turn_lengths import TurnLengths
from rota.table.occupancy import EPSILON

ROUND = Event.ROUND
_ROUND_OR_IDLE = ROUND | Event.IDLE

Fractions = Callable[[Snapshot, RoundDemand, Memory], Floats | Shares]
"""What fraction of its time each of at least one job, [job, type], or each entry should spend on each type.
What it wants to remember it writes into the memory it is given, which is its own."""
Premises = Callable[[Snapshot, Ints], Floats]
"""The values, besides rates and GPUs, on which the fractions of these rows depend, in one row of numbers."""


def no_premises(snapshot: Snapshot, rows: Ints) -> Floats:
    """The premises of fractions that depend on nothing else."""
    return np.zeros(0)


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
    """Compute fractions again when rates have changed, not only when jobs come or go."""
    fill: bool = True
    """Let entries whose fraction is 0 run on what is idle."""
    pairs: bool = False
    """Two jobs may share the same GPUs; the policy receives their rates beside each other."""
    one_queue: bool = False
    """Serve all types together, by priority, not one after the other."""
    keeps_books: bool = False
    """New fractions do not start the books again: what was received counts from the beginning."""
    lowest: bool = False
    """A job that moves to other GPUs gets the first that are free, however they lie."""
    all_pairs: bool = False
    """All pairs of one size are entries, also those without a fraction, and owed half a round when they are
    new: in the authors' books they begin without the credit that the first recomputation takes off again."""
    grow: bool = True
    """Jobs that make no progress in their turns have longer ones (`turn_lengths`)."""
    waits: bool = False
    """A round goes on even when no job runs any more, as in the authors' simulators."""


class Rounds:
    """Carries out the fractions of `fractions` round by round."""

    def __init__(self, fractions: Fractions, turns: Turns, premises: Premises = no_premises) -> None:
        self.fractions = fractions
        self.turns = turns
        self.premises = premises
        self._resting: tuple[RoundDemand, JobTable, Cluster, Floats] | None = None
        """What the premises were read from, and what they were."""
        self._shuffler: tuple[int, int, random.Random] | None = None
        self._live = DemandingJobs()
        self._demand: RoundDemand | None = None
        self._queue: RoundQueue | None = None
        self._jobs: JobTable | None = None
        self._seen: tuple[bytes, bytes] | None = None
        """GPUs and rates from which `_demand` was made; the GPUs are kept in `_jobs`."""
        self._memory: Memory | None = None
        """What was handed back last, and ..."""
        self._books: Books | None = None
        """... what it was made of."""
        self._picks: list[Pick] = []
        self._rests: list[int] | None = None
        """`books.ran` if all of `_picks` run, and the last decision moved no job."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        books = self._books_of(memory, len(snapshot.cluster.type_names))
        rows = self._live.rows(snapshot)
        demand = self._demanded(snapshot, rows)
        self._count(snapshot, books, demand)
        sizes = demand.gpus if self.turns.all_pairs and demand.pairs is not None else None
        kept = {"turns": books.turns, "longer": books.longer}
        lengths, known = TurnLengths(snapshot, kept, self.turns.round_s), books.rows
        books.follow(self._live.listed, self.turns.round_s / 2, None if sizes is None else sizes.tolist())
        if books.turns and books.rows is not known:
            lengths.forget(set(books.rows))
        if self.turns.learn:
            books.learn(demand.rates)
        books.rest_on(self._premised(snapshot, demand))
        if books.is_stale and snapshot.now >= self._again_s(books):
            shares = self._shares(snapshot, books, demand)
            credit_s, owed_s = self.turns.round_s / 2, 0.0
            if sizes is not None:
                shares, owed_s = shares.with_pairs(of_one_size(sizes)), credit_s
            books.reset(shares, snapshot.now, credit_s, keeps=self.turns.keeps_books, owed_s=owed_s)
        picks = self._walk(snapshot, books, demand, lengths)
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
            if self.turns.grow:
                lengths.end_all(decision.preempt, decision.grants)
            self._mark(snapshot, books, picks, decision)
            rests = decision.names_nobody and len(books.ran) == len(picks)
            self._picks, self._rests = picks, books.ran if rests else None
        decision.memory = self._memory = books.memory()
        decision.wake = self._wake(snapshot, books)
        decision.ranking = RoundTurns(books, lengths, decision.wake.at_s)
        decision.targets, decision.target = targets_of(books), PART_OF_TIME
        return decision

    def _books_of(self, memory: Memory, types: int) -> Books:
        """The books that `memory` holds: the present ones if `memory` was made from them last."""
        books = self._books
        if books is None or memory is not self._memory or books.types != types:
            books = self._books = Books.of(memory, types)
        return books

    def _premised(self, snapshot: Snapshot, demand: RoundDemand) -> Floats:
        """Values on which fractions depend besides rates: GPUs, which come and go, and what users may
        change."""
        table, cluster, last = snapshot.jobs.table, snapshot.cluster, self._resting
        if last is None or last[0] is not demand or last[1] is not table or last[2] is not cluster:
            premises = np.concatenate((demand.capacity, self.premises(snapshot, demand.rows)))
            last = self._resting = demand, table, cluster, premises
        return last[3]

    def _shares(self, snapshot: Snapshot, books: Books, demand: RoundDemand) -> Shares:
        """The fractions, given for entries."""
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
        if books.ran:
            received_s = self._received_s(snapshot, books, demand)
            books.credit(received_s)
            if self.turns.by_work and not all(received_s):
                books.is_stale = True  # a round in which a job does nothing has failed, and is news

    def _received_s(self, snapshot: Snapshot, books: Books, demand: RoundDemand) -> list[float]:
        """Seconds that each job that ran received in the last round; of two that shared, the longer time."""
        if not self.turns.by_work:
            return [max(time for _, time in self._spent(snapshot, books, at)) for at in range(len(books.ran))]
        worked_s = list[float]()
        for row, other in zip(books.ran, books.ran_beside, strict=True):
            worked = snapshot.worked_s(row)
            if other != ALONE:
                beside = snapshot.worked_s(other)
                worked = beside if beside > worked or beside != beside else worked
            if worked != worked:
                return self._by_rates_s(snapshot, books, demand)
            worked_s.append(worked)
        return worked_s

    def _by_rates_s(self, snapshot: Snapshot, books: Books, demand: RoundDemand) -> list[float]:
        """Seconds received, where no world measures them: from the work that was done, and the rates."""
        known, received_s = snapshot.know(Knowledge.THROUGHPUT), list[float]()
        for at, kind in enumerate(books.ran_type):
            longest, other = 0.0, books.ran_beside[at]
            for row, done in self._spent(snapshot, books, at):
                beside = books.ran[at] if row == other else other
                if beside == ALONE or demand.pairs is None:
                    rate: float = known[row, kind].item()
                else:
                    rate = demand.pairs.of_one(row, beside, kind)
                longest = max(longest, done / rate if rate > 0.0 else 0.0)
            # Computed through the moment of the stop: the authors' ties are broken by the rounding of this
            # sum.
            received_s.append(books.began_s + longest - books.began_s)
        return received_s

    def _spent(self, snapshot: Snapshot, books: Books, at: int) -> list[tuple[int, float]]:
        """What each job of an entry has run, or worked, in the last round."""
        row, other = books.ran[at], books.ran_beside[at]
        spent = [(row, self._clock(snapshot, row) - books.ran_mark[at])]
        if other != ALONE:
            spent.append((other, self._clock(snapshot, other) - books.beside_mark[at]))
        return spent

    def _clock(self, snapshot: Snapshot, row: int) -> float:
        """Seconds that a job has run, or work that it has done, so far."""
        return snapshot.work_done(row) if self.turns.by_work else snapshot.ran_s(row)

    def _mark(self, snapshot: Snapshot, books: Books, picks: Sequence[Pick], decision: Decision) -> None:
        """Remember which jobs run in this round, and how far each is."""
        stopped, held = set(decision.preempt), snapshot.grants
        begun = {grant[0] for grant in decision.grants}
        runs = dict[int, Pick]()
        for pick in picks:
            row = pick[0]
            if row in begun or (row in held and row not in stopped):
                runs[row] = pick
        ran = sorted(runs)
        beside, kinds = [runs[row][1] for row in ran], [runs[row][2] for row in ran]
        if ran != books.ran or beside != books.ran_beside or kinds != books.ran_type:
            books.note_run(ran, beside, kinds)
        self._mark_again(snapshot, books)

    def _mark_again(self, snapshot: Snapshot, books: Books) -> None:
        """Remember that the same jobs run again."""
        books.ran_mark = [self._clock(snapshot, row) for row in books.ran]
        books.beside_mark = [
            0.0 if other == ALONE else self._clock(snapshot, other) for other in books.ran_beside
        ]
        books.began_s = snapshot.now

    # -- which entries run where ------------------------------------------------------------------

    def _walk(
        self, snapshot: Snapshot, books: Books, demand: RoundDemand, lengths: TurnLengths
    ) -> list[Pick]:
        """The entries that run in this round."""
        queue = self._queue
        if queue is None or not queue.is_of(books, demand):
            queue = self._queue = RoundQueue(books, demand, fill=self.turns.fill)
        left: list[float] = demand.capacity.tolist()
        quotas = RoundQuotas.of(snapshot)
        if self.turns.one_queue:
            return queue.walk_together(books, left, quotas)
        kept = _kept(snapshot, books, lengths, left) if books.longer else []
        if quotas is not None:
            for later, earlier, kind in kept:
                quotas.takes(later, earlier, demand.gpus[demand.rows == later].item(), kind)
        types = self._types(snapshot, books.round)
        return queue.walk(books, types, left, kept, quotas, reserve=self.turns.reserve)

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
            able = (gpus[:, None] <= capacity) & holding_types(jobs.table, snapshot.cluster, rows)
            self._seen, rates = seen, np.where(able, known, 0.0)
            last = self._demand = RoundDemand(rows, gpus, rates, capacity, pairs)
        return last

    # -- when to decide again ---------------------------------------------------------------------

    def _wake(self, snapshot: Snapshot, books: Books) -> Wake:
        """Wake at the end of the round if any job runs in it; else for new fractions or after any event.

        A round in which all have ended is over.
        """
        if books.ran:
            return Wake(snapshot.now + self.turns.round_s, ROUND if self.turns.waits else _ROUND_OR_IDLE)
        again = self._again_s(books)
        return Wake(again) if books.is_stale and again > snapshot.now else Wake()


def _kept(snapshot: Snapshot, books: Books, lengths: TurnLengths, left: list[float]) -> list[Pick]:
    """Picks of the last round whose turns go on; what they hold is no longer among the GPUs `left`."""
    held, share, kept = snapshot.grants, snapshot.jobs.table.gpu_share, list[Pick]()
    for row, beside, kind in zip(books.ran, books.ran_beside, books.ran_type, strict=True):
        here = [one for one in (row, beside) if one in held]
        if not any(map(lengths.goes_on, here)):
            continue
        gpus = snapshot.gpus_of[here[0]] * share.item(here[0])
        if gpus <= left[kind] + EPSILON:
            left[kind] -= gpus
            kept.append(make_pick(here[0], here[1] if len(here) > 1 else ALONE, kind))
    return kept
