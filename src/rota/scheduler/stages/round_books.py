"""The books of rounds: which fraction of its time on each type everybody was promised, and has received."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rota.model.columns import Bools, Floats, Ints
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
        """The same with each of `pairs`, [pair, 2], an entry: those that are none get nothing."""
        known = set(map(tuple, np.sort(self.members, axis=1).tolist()))
        more = [pair for pair in pairs.tolist() if tuple(pair) not in known]
        members = np.concatenate((self.members, np.array(more, dtype=np.int64).reshape(-1, 2)))
        nothing = np.zeros((len(more), self.fractions.shape[1]))
        return Shares(members, np.concatenate((self.fractions, nothing)))


def _no_rows() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass
class Books:
    """What the rounds remember; columns run over entries, ordered by their later member, alone first."""

    rows: Ints
    """The live jobs."""
    later: Ints
    """The member that was submitted last."""
    earlier: Ints
    """The other one, or `ALONE`."""
    fraction: Floats
    received_s: Floats
    deficit_s: Floats
    is_new: Bools
    """True if it came after the last recomputation."""
    total_s: Floats
    """Time received of each type, by entries that have ended as well."""
    ran: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    """Rows that ran together in the last round, the later one and the earlier one, ..."""
    ran_type: Ints = field(default_factory=_no_rows)
    ran_mark: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    """... and what they had run, or worked, when it began,"""
    began_s: float = 0.0
    """at this moment."""
    rates: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """Work per second of the live jobs on each type, by which fractions were computed."""
    is_stale: bool = True
    reset_s: float = 0.0
    """Moment of the last recomputation."""
    solved_s: float = -math.inf
    """The same, but never if it was at time 0."""
    round: int = 0
    own: Memory = field(default_factory=dict)
    """What `Fractions` remembers."""

    @classmethod
    def of(cls, memory: Memory, types: int) -> Books:
        if memory and len(memory["total_s"]) == types:  # a node of another type may have joined
            return cls(**memory)
        none = np.zeros((0, types))
        rows = _no_rows()
        books = cls(rows, rows, rows, none, none, none, np.zeros(0, dtype=bool), np.zeros(types))
        if memory:
            books.round = memory["round"]
        return books

    def follow(self, rows: Ints, credit_s: float, sizes: Floats | None = None) -> None:
        """The live jobs are `rows` now: forget who has gone, enter the new ones with `credit_s` received.

        With `sizes` of all of them every pair of one size is an entry from the moment its members are there.
        """
        if rows is self.rows or np.array_equal(rows, self.rows):
            return
        stays = _are_in(self.later, rows) & (_are_in(self.earlier, rows) | (self.earlier == ALONE))
        new = rows[~_are_in(rows, self.rows)]
        later = np.concatenate((self.later[stays], new))
        earlier = np.concatenate((self.earlier[stays], np.full(len(new), ALONE)))
        if sizes is not None:
            pairs = rows[of_one_size(sizes)]
            pairs = pairs[_are_in(pairs[:, 1], new)]  # rows ascend: who is new stands second
            later, earlier = np.concatenate((later, pairs[:, 1])), np.concatenate((earlier, pairs[:, 0]))
        self._enter(later, earlier, credit_s)
        self.rows = rows
        self.is_stale = True

    def learn(self, rates: Floats) -> None:
        """The live jobs work at `rates` now: if that is news, fractions are to be computed anew."""
        if rates is self.rates:
            return
        if not self.is_stale and not np.array_equal(rates, self.rates):
            self.is_stale = True
        self.rates = rates

    def _enter(self, later: Ints, earlier: Ints, credit_s: float, owed_s: float = 0.0) -> None:
        """The entries are these now; those known before keep what they have, others get `credit_s`.

        New pairs are owed `owed_s`.
        """
        order = np.lexsort((earlier, later))
        later, earlier = later[order], earlier[order]
        known, place = _places(self.later, self.earlier, later, earlier)
        types = len(self.total_s)

        def spread(column: Any, fresh: Any) -> Any:
            full = np.full((len(later), *column.shape[1:]), fresh, dtype=column.dtype)
            full[known] = column[place[known]]
            return full

        self.fraction = spread(self.fraction.reshape(-1, types), 0.0)
        self.received_s = spread(self.received_s.reshape(-1, types), credit_s)
        self.deficit_s = spread(self.deficit_s.reshape(-1, types), 0.0)
        self.deficit_s[~known & (earlier != ALONE)] = owed_s
        self.is_new = spread(self.is_new, True)
        self.later, self.earlier = later, earlier

    def where_ran(self) -> tuple[Bools, Ints]:
        """Which of those that ran are still entries, and at which place."""
        return _places(self.later, self.earlier, self.ran[:, 0], self.ran[:, 1])

    def credit(self, time_s: Floats, known: Bools, place: Ints, *, all_known: bool) -> None:
        """`time_s` was received by those that ran, whether they still live (`where_ran`) or not."""
        kinds = self.ran_type
        total_s = self.total_s.tolist()
        for kind, seconds in zip(kinds.tolist(), time_s.tolist(), strict=True):
            total_s[kind] += seconds
        self.total_s = np.array(total_s)
        if not all_known:
            place, kinds, time_s = place[known], kinds[known], time_s[known]
        self.received_s[place, kinds] += time_s  # each ran once

    def reset(
        self, shares: Shares, now: float, credit_s: float, *, keeps: bool = False, owed_s: float = 0.0
    ) -> None:
        """New fractions: settle what the old ones were owed and count from here; `keeps` goes on counting.

        New pairs are owed `owed_s`.
        """
        if keeps:
            self._go_on(shares, now, credit_s)
            return
        owed = self.fraction * (now - self.reset_s) - (self.received_s - credit_s)
        self.deficit_s = self.deficit_s + np.where(self.is_new[:, None], 0.0, owed)
        self.deficit_s[self.is_new & (self.earlier != ALONE)] += owed_s
        self._take(shares, now, credit_s, owed_s)
        self.received_s = np.full_like(self.received_s, credit_s)
        self.total_s = self.received_s.sum(axis=0)

    def _go_on(self, shares: Shares, now: float, credit_s: float) -> None:
        """New fractions, and nothing is forgotten; who is new brings his credit."""
        self.total_s = self.total_s + credit_s * int(self.is_new.sum())
        self._take(shares, now, credit_s)

    def _take(self, shares: Shares, now: float, credit_s: float, owed_s: float = 0.0) -> None:
        """The entries and fractions of `shares` hold from now on."""
        members = np.where(shares.members == ALONE, ALONE, self.rows[shares.members])
        later, earlier = members.max(axis=1), members.min(axis=1)
        order = np.lexsort((earlier, later))
        self._enter(later, earlier, credit_s, owed_s)
        self.fraction = shares.fractions[order]
        self.is_new = np.zeros(len(self.later), dtype=bool)
        self.is_stale = False
        self.reset_s = now
        self.solved_s = now if now > 0.0 else -math.inf

    def priority(self) -> Floats:
        """Fraction asked over fraction received, [entry, type]."""
        if self.total_s.all() and self.received_s.all():  # as long as rounds have a length
            asked: Floats = self.fraction / (self.received_s / self.total_s)
            return asked
        received = np.divide(
            self.received_s, self.total_s, out=np.zeros_like(self.received_s), where=self.total_s > 0
        )
        return np.where(
            received > 0.0, self.fraction / np.where(received > 0.0, received, 1.0), self.fraction * 1e9
        )


def of_one_size(sizes: Floats) -> Ints:
    """Places of all pairs of jobs of one of `sizes`, [pair, 2], the earlier first."""
    one, other = np.nonzero(np.triu(sizes[:, None] == sizes, 1))
    return np.column_stack((one, other))


def _are_in(values: Ints, rows: Ints) -> Bools:
    """Which of `values` are among `rows`, which ascend."""
    if not len(rows):
        return np.zeros(len(values), dtype=bool)
    are_in: Bools = rows[np.minimum(np.searchsorted(rows, values), len(rows) - 1)] == values
    return are_in


def _places(later: Ints, earlier: Ints, of_later: Ints, of_earlier: Ints) -> tuple[Bools, Ints]:
    """Which of some entries are among others (ordered as the books are), and at which place."""
    if not len(later):
        return np.zeros(len(of_later), dtype=bool), np.zeros(len(of_later), dtype=np.int64)
    keys, wanted = later << 32 | earlier + 1, of_later << 32 | of_earlier + 1
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return keys[place] == wanted, place
