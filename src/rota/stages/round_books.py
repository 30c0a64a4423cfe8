"""The books of rounds: which fraction of its time on each type each job was promised, and has received.

Plain lists: there are a few dozen entries in most clusters, of which a round changes a few.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Floats, Ints
from rota.scheduler.decision import Memory
from rota.solvers.division import ALONE


@dataclass(frozen=True)
class Shares:
    """Fractions of time, entry by entry."""

    members: Ints
    """Places in `RoundDemand.rows`, [entry, 2]; `ALONE` as the second of a job by itself.  Every job is an
    entry by itself, whatever else it is part of."""
    fractions: Floats
    """[entry, type]"""

    def with_pairs(self, pairs: Ints) -> Shares:
        """These shares with each of `pairs`, [pair, 2], as an entry: new ones have the fraction 0."""
        known = set(map(tuple, np.sort(self.members, axis=1).tolist()))
        more = [pair for pair in pairs.tolist() if tuple(pair) not in known]
        members = np.concatenate((self.members, np.array(more, dtype=np.int64).reshape(-1, 2)))
        nothing = np.zeros((len(more), self.fractions.shape[1]))
        return Shares(members, np.concatenate((self.fractions, nothing)))


_REMEMBERED = (
    "rows",
    "later",
    "earlier",
    "fraction",
    "received_s",
    "deficit_s",
    "is_new",
    "total_s",
    "ran",
    "ran_beside",
    "ran_type",
    "ran_mark",
    "beside_mark",
    "began_s",
    "rates",
    "premises",
    "is_stale",
    "reset_s",
    "solved_s",
    "round",
    "own",
    "turns",
    "longer",
)


class Books:
    """What the rounds remember.

    Columns run over entries, ordered by their later member, alone first; those by type are lists of columns.
    """

    def __init__(self, types: int) -> None:
        self.rows: list[int] = []
        """The live jobs."""
        self.later: list[int] = []
        """The member that was submitted last."""
        self.earlier: list[int] = []
        """The other one, or `ALONE`."""
        self.fraction: list[list[float]] = [[] for _ in range(types)]
        self.received_s: list[list[float]] = [[] for _ in range(types)]
        self.deficit_s: list[list[float]] = [[] for _ in range(types)]
        self.is_new: list[bool] = []
        """True if it came after the last recomputation."""
        self.total_s: list[float] = [0.0] * types
        """Time received of each type, by entries that have ended as well."""
        self.ran: list[int] = []
        """Rows that ran in the last round, of two that shared the later one, ..."""
        self.ran_beside: list[int] = []
        """... the one beside each, or `ALONE`, ..."""
        self.ran_type: list[int] = []
        self.ran_mark: list[float] = []
        """... and what they had run, or worked, when it began,"""
        self.beside_mark: list[float] = []
        self.began_s = 0.0
        """at this moment."""
        self.rates: Floats = np.zeros((0, 0))
        """Work per second of the live jobs on each type, by which fractions were computed."""
        self.premises: Floats | None = None
        """Other values from which fractions were computed; None if there are none on record."""
        self.is_stale = True
        self.reset_s = 0.0
        """Moment of the last recomputation."""
        self.solved_s = -math.inf
        """The moment of the last recomputation as well, but -inf if it was at time 0."""
        self.round = 0
        self.own: Memory = {}
        """What `Fractions` remembers."""
        self.turns: dict[int, list[float]] = {}
        """What turns brought, and ..."""
        self.longer: dict[int, float] = {}
        """... the jobs that have longer ones (`turn_lengths`)."""
        self._places: list[int] | None = None
        """The entry of each job that ran, -1 if it is no longer one; None if that is to be looked up."""

    @classmethod
    def of(cls, memory: Memory, types: int) -> Books:
        """The books that `memory` holds; new ones if it holds none for this number of types."""
        books = cls(types)
        if memory and len(memory["total_s"]) == types:  # a node of another type may have joined
            for name in _REMEMBERED:
                setattr(books, name, memory.get(name, getattr(books, name)))
        elif memory:
            books.round = memory["round"]
        return books

    def memory(self) -> Memory:
        """All of it, to be remembered."""
        return {name: getattr(self, name) for name in _REMEMBERED}

    @property
    def types(self) -> int:
        return len(self.total_s)

    # -- entries ------------------------------------------------------------------------------------

    def follow(self, rows: list[int], credit_s: float, sizes: Sequence[float] | None = None) -> None:
        """The live jobs are `rows` now: forget jobs that left, enter the new ones with `credit_s` received.

        With `sizes` of all of them every pair of one size is an entry from the moment its members are there.
        """
        if rows is self.rows or rows == self.rows:
            return
        live, before = set(rows), set(self.rows)
        if not before <= live:
            self._keep(live)
        new = [(row, ALONE) for row in rows if row not in before]
        if new and sizes is not None:
            new += self._pairs_of_new(rows, before, sizes)
        if new:
            self._add(new, credit_s)
        self.rows = rows
        self.is_stale = True

    def learn(self, rates: Floats) -> None:
        """The live jobs work at `rates` now: if they have changed, fractions have to be computed again."""
        if rates is self.rates:
            return
        if not self.is_stale and not np.array_equal(rates, self.rates):
            self.is_stale = True
        self.rates = rates

    def rest_on(self, premises: Floats) -> None:
        """Fractions depend on `premises` now: if they are others than before, so will the fractions be."""
        before = self.premises
        if premises is before:
            return
        if before is not None and not np.array_equal(premises, before, equal_nan=True):
            self.is_stale = True
        self.premises = premises

    def _pairs_of_new(
        self, rows: list[int], before: set[int], sizes: Sequence[float]
    ) -> list[tuple[int, int]]:
        """Later and earlier member of each pair of one size whose later member is new."""
        pairs = list[tuple[int, int]]()
        for place, row in enumerate(rows):
            if row not in before:
                size = sizes[place]
                pairs += [(row, rows[other]) for other in range(place) if sizes[other] == size]
        return pairs

    def _keep(self, live: set[int]) -> None:
        """Keep the entries whose members are all `live`."""
        later, earlier = self.later, self.earlier
        kept = [
            i for i in range(len(later)) if later[i] in live and (earlier[i] == ALONE or earlier[i] in live)
        ]
        self._pick(kept)

    def _pick(self, places: list[int]) -> None:
        """The entries at these places, in this order."""
        self.later = [self.later[i] for i in places]
        self.earlier = [self.earlier[i] for i in places]
        self.is_new = [self.is_new[i] for i in places]
        self.fraction = [[column[i] for i in places] for column in self.fraction]
        self.received_s = [[column[i] for i in places] for column in self.received_s]
        self.deficit_s = [[column[i] for i in places] for column in self.deficit_s]
        self._places = None

    def _add(self, members: list[tuple[int, int]], credit_s: float) -> None:
        """Entries of these members, the later one first, are new; they have received `credit_s`."""
        count = len(members)
        self.later = self.later + [later for later, _ in members]
        self.earlier = self.earlier + [earlier for _, earlier in members]
        self.is_new = self.is_new + [True] * count
        self.fraction = [column + [0.0] * count for column in self.fraction]
        self.received_s = [column + [credit_s] * count for column in self.received_s]
        self.deficit_s = [column + [0.0] * count for column in self.deficit_s]
        keys = _keys(self.later, self.earlier)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        if order != list(range(len(keys))):
            self._pick(order)
        self._places = None

    # -- what they have received -------------------------------------------------------------------

    def note_run(self, ran: list[int], beside: list[int], kinds: list[int]) -> None:
        """Note that these rows run in this round, on these types."""
        self.ran, self.ran_beside, self.ran_type = ran, beside, kinds
        self._places = None

    def credit(self, time_s: list[float]) -> None:
        """`time_s` was received by those that ran, whether they still live or not."""
        places = self._places
        if places is None:
            places = self._places = self._where_ran()
        total_s, received_s, kinds = self.total_s, self.received_s, self.ran_type
        for at, seconds in enumerate(time_s):
            kind = kinds[at]
            total_s[kind] += seconds
            place = places[at]
            if place >= 0:
                received_s[kind][place] += seconds  # each ran once

    def _where_ran(self) -> list[int]:
        """The entry of each job that ran; -1 if it is no longer one."""
        later, earlier, places = self.later, self.earlier, list[int]()
        count = len(later)
        for row, other in zip(self.ran, self.ran_beside, strict=True):
            at = bisect_left(later, row)
            while at < count and later[at] == row and earlier[at] < other:
                at += 1
            places.append(at if at < count and later[at] == row and earlier[at] == other else -1)
        return places

    def reset(
        self, shares: Shares, now: float, credit_s: float, *, keeps: bool = False, owed_s: float = 0.0
    ) -> None:
        """New fractions: settle what the old ones were owed and count from here; `keeps` goes on counting.

        New pairs are owed `owed_s`.
        """
        if keeps:
            total_s, new = self.total_s, sum(self.is_new)
            self.total_s = [total + credit_s * new for total in total_s]
            self._take(shares, now, credit_s, 0.0)
            return
        self._settle(now, credit_s, owed_s)
        self._take(shares, now, credit_s, owed_s)
        count = len(self.later)
        self.received_s = [[credit_s] * count for _ in self.total_s]
        sums: list[float] = np.full((count, self.types), credit_s).sum(axis=0).tolist()
        self.total_s = sums

    def _settle(self, now: float, credit_s: float, owed_s: float) -> None:
        """Note as owed what the fractions so far promised beyond what was received."""
        span_s, is_new, earlier = now - self.reset_s, self.is_new, self.earlier
        deficit_s = list[list[float]]()
        for kind in range(self.types):
            asked, received = self.fraction[kind], self.received_s[kind]
            owed = list[float]()
            for i, before in enumerate(self.deficit_s[kind]):
                if is_new[i]:
                    owed.append(before + owed_s if earlier[i] != ALONE else before)
                else:
                    owed.append(before + (asked[i] * span_s - (received[i] - credit_s)))
            deficit_s.append(owed)
        self.deficit_s = deficit_s

    def _take(self, shares: Shares, now: float, credit_s: float, owed_s: float) -> None:
        """The entries and fractions of `shares` hold from now on; new pairs are owed `owed_s`."""
        members: list[list[int]] = shares.members.tolist()
        rows, later, earlier = self.rows, list[int](), list[int]()
        for one, other in members:
            first, second = rows[one], ALONE if other == ALONE else rows[other]
            later.append(max(first, second))
            earlier.append(min(first, second))
        columns: list[list[float]] = shares.fractions.T.tolist()
        keys = _keys(later, earlier)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        if order != list(range(len(keys))):
            later, earlier = [later[i] for i in order], [earlier[i] for i in order]
            columns = [[column[i] for i in order] for column in columns]
        if later != self.later or earlier != self.earlier:
            self._carry_over(later, earlier, credit_s, owed_s)
        self.fraction = columns
        self.is_new = [False] * len(later)
        self.is_stale = False
        self.reset_s = now
        self.solved_s = now if now > 0.0 else -math.inf

    def _carry_over(self, later: list[int], earlier: list[int], credit_s: float, owed_s: float) -> None:
        """The entries are these now; those known before keep what they have, others get `credit_s`.

        New pairs are owed `owed_s`.
        """
        known = {key: place for place, key in enumerate(_keys(self.later, self.earlier))}
        places = [known.get(key, -1) for key in _keys(later, earlier)]
        fresh = [owed_s if other != ALONE else 0.0 for other in earlier]
        self.received_s = [[column[i] if i >= 0 else credit_s for i in places] for column in self.received_s]
        self.deficit_s = [
            [column[i] if i >= 0 else fresh[at] for at, i in enumerate(places)] for column in self.deficit_s
        ]
        self.later, self.earlier, self._places = later, earlier, None

    def priority(self, kind: int, entries: Sequence[int]) -> list[float]:
        """Fraction asked over fraction received of some entries on a type; 0 in the places of the others."""
        total, asked, received = self.total_s[kind], self.fraction[kind], self.received_s[kind]
        priority = [0.0] * len(asked)
        for i in entries:
            part = received[i] / total if total > 0.0 else 0.0
            priority[i] = asked[i] / part if part > 0.0 else asked[i] * 1e9
        return priority


def of_one_size(sizes: Floats) -> Ints:
    """Places of all pairs of jobs of one of `sizes`, [pair, 2], the earlier first."""
    one, other = np.nonzero(np.triu(sizes[:, None] == sizes, 1))
    return np.column_stack((one, other))


def _keys(later: Sequence[int], earlier: Sequence[int]) -> list[int]:
    """A number for each entry; they ascend in the order of the books."""
    return [one << 32 | other + 1 for one, other in zip(later, earlier, strict=True)]
