"""Which entries run in a round: in the order of their priority on each type, as far as there is room."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.solvers.division import ALONE
from rota.stages.round_books import Books
from rota.stages.round_demand import RoundDemand
from rota.stages.round_places import Pick, make_pick
from rota.stages.round_quotas import RoundQuotas
from rota.table.occupancy import EPSILON


class RoundQueue:
    """The part of a round's order that holds until fractions or jobs change, as plain lists.

    In order: priority, deficit, fraction, the highest first, then the earliest submission.
    """

    def __init__(self, books: Books, demand: RoundDemand, *, fill: bool) -> None:
        self._of = books.later, books.fraction, books.deficit_s, books.is_new, demand
        self.later, self.earlier, self.is_new = books.later, books.earlier, books.is_new
        self.fraction, self.deficit_s = books.fraction, books.deficit_s
        self.has_pairs = len(self.later) > len(books.rows)
        self.gpus: list[float] = demand.gpus.tolist()
        self.able: list[list[int]] = []
        """Entries that run on each type."""
        if self.has_pairs:
            self._look_at_pairs(demand)
        else:  # the entries are the jobs
            rates: list[list[float]] = demand.rates.T.tolist()
            for column in rates:
                self.able.append([i for i, rate in enumerate(column) if rate > 0.0])
        if not fill:  # without a fraction there is no priority either
            self.able = [
                [i for i in able if asked[i] > 0.0]
                for able, asked in zip(self.able, self.fraction, strict=True)
            ]
        self.asks: list[list[int] | None] = [None] * len(self.able)
        """Entries that have a priority on each type, ordered as among equal priorities; None until needed,
        ..."""
        self.others: list[list[int]] = [[] for _ in self.able]
        """... and the rest, in order."""
        self.picks: list[list[Pick | None]] = [[None] * len(self.later) for _ in self.able]
        """Picks made so far, by type and entry, kept because most run many rounds."""
        self._anyhow: dict[tuple[int, ...], list[Pick] | None] = {}
        """Results of `anyhow` by the order of the types."""

    def _look_at_pairs(self, demand: RoundDemand) -> None:
        """A pair runs where both do, and were measured beside each other; it needs the GPUs of one."""
        assert demand.pairs is not None  # else there are none
        later, earlier = np.array(self.later), np.array(self.earlier)
        place = np.searchsorted(demand.rows, later)
        self.gpus = demand.gpus[place].tolist()
        runs = demand.rates[place] > 0.0
        both = np.flatnonzero(earlier != ALONE)
        runs[both] &= demand.rates[np.searchsorted(demand.rows, earlier[both])] > 0.0
        runs[both] &= demand.pairs.run(later[both], earlier[both])
        for column in runs.T:
            self.able.append(np.flatnonzero(column).tolist())

    def is_of(self, books: Books, demand: RoundDemand) -> bool:
        """True if nothing that it was made of has been replaced."""
        later, fraction, deficit_s, is_new, of = self._of
        return (
            later is books.later
            and fraction is books.fraction
            and deficit_s is books.deficit_s
            and is_new is books.is_new
            and of is demand
        )

    # -- walking along it --------------------------------------------------------------------------

    def walk(
        self,
        books: Books,
        types: list[int],
        left: list[float],
        kept: Sequence[Pick] = (),
        quotas: RoundQuotas | None = None,
        *,
        reserve: bool,
    ) -> list[Pick]:
        """Picks that run where types are served one after the other and have `left` GPUs.

        Picks in `kept` go on, on GPUs outside `left`.  Entries that came after the last recomputation take
        room, and do not run if there is a `reserve` for them.
        """
        anyhow = None if kept or quotas else self.anyhow(types, left, reserve=reserve)
        if anyhow is not None:
            return anyhow
        taken = {row for pick in kept for row in pick[:2] if row != ALONE}
        picks = list(kept)
        jobs = len(books.rows)
        for kind in types:
            asks = self.asks[kind]
            if asks is None:
                asks = self._sort(kind)
            order = _in_order(asks, books.priority(kind, asks))
            room = self._serve(kind, order, left[kind] + EPSILON, jobs, taken, picks, quotas, reserve=reserve)
            self._serve(kind, self.others[kind], room, jobs, taken, picks, quotas, reserve=reserve)
        return picks

    def _serve(
        self,
        kind: int,
        order: list[int],
        room: float,
        jobs: int,
        taken: set[int],
        picks: list[Pick],
        quotas: RoundQuotas | None,
        *,
        reserve: bool,
    ) -> float:
        """Pick the entries that find room on a type, in this order; returns the GPUs left of it."""
        gpus, later, earlier, made = self.gpus, self.later, self.earlier, self.picks[kind]
        for i in order:
            if room <= 2.0 * EPSILON or len(taken) == jobs:
                break
            row, other = later[i], earlier[i]
            if gpus[i] > room or row in taken or other in taken:
                continue
            if quotas is not None and not quotas.takes(row, other, gpus[i], kind):
                continue
            taken.add(row)
            if other != ALONE:
                taken.add(other)
            room -= gpus[i]
            if not (reserve and self.is_new[i]):
                pick = made[i]
                if pick is None:
                    pick = made[i] = make_pick(row, other, kind)
                picks.append(pick)
        return room

    def _sort(self, kind: int) -> list[int]:
        """Separate the entries that have a priority on a type, and order all as the books do."""
        asked = self.fraction[kind]
        able = _by_books(self.able[kind], self.deficit_s[kind], asked)
        if able and min([asked[i] for i in able]) < 0.0:
            asks = able
        else:
            asks = [i for i in able if asked[i] > 0.0]
            self.others[kind] = [i for i in able if asked[i] == 0.0]
        self.asks[kind] = asks
        return asks

    def anyhow(self, types: list[int], left: list[float], *, reserve: bool) -> list[Pick] | None:
        """Picks of all entries if all find room, so that priorities do not matter; None if they do.

        Returns the same list again as long as that is so.
        """
        key = tuple(types)
        if key not in self._anyhow:
            self._anyhow[key] = self._all_of(types, left, reserve=reserve)
        return self._anyhow[key]

    def _all_of(self, types: list[int], left: list[float], *, reserve: bool) -> list[Pick] | None:
        """Every entry on the first type that it may run on; None where that is more than there is."""
        if self.has_pairs:
            return None
        placed: set[int] = set()
        picks: list[Pick] = []
        for kind in types:
            here = [i for i in self.able[kind] if i not in placed]
            if sum([self.gpus[i] for i in here]) > left[kind]:
                return None
            placed.update(here)
            picks += [make_pick(self.later[i], ALONE, kind) for i in here if not (reserve and self.is_new[i])]
        return picks

    def walk_together(self, books: Books, left: list[float], quotas: RoundQuotas | None = None) -> list[Pick]:
        """Picks that run, each on the type where its priority is highest among those with room; no pairs."""
        entries, every = len(self.later), range(len(self.later))
        priority, deficit_s, fraction = list[float](), list[float](), list[float]()
        for kind in range(len(self.able)):
            priority += books.priority(kind, every)
            deficit_s += self.deficit_s[kind]
            fraction += self.fraction[kind]
        runs = [set(able) for able in self.able]
        taken: set[int] = set()
        picks: list[Pick] = []
        for place in _in_order(_by_books(range(len(priority)), deficit_s, fraction), priority):
            kind, i = divmod(place, entries)
            if i in runs[kind] and i not in taken and self.gpus[i] <= left[kind] + EPSILON:
                if quotas is not None and not quotas.takes(self.later[i], ALONE, self.gpus[i], kind):
                    continue
                taken.add(i)
                left[kind] -= self.gpus[i]
                picks.append(make_pick(self.later[i], self.earlier[i], kind))
            if len(taken) == entries or max(left) <= EPSILON:
                break
        return picks


def _in_order(entries: list[int], priority: list[float]) -> list[int]:
    """`entries`, which are in the order of the books, in the order in which they are served."""
    return sorted(entries, key=priority.__getitem__, reverse=True)


def _by_books(entries: Sequence[int], deficit_s: list[float], fraction: list[float]) -> list[int]:
    """`entries`, which ascend, as they are served where the priority is the same."""
    order = sorted(entries, key=fraction.__getitem__, reverse=True)
    order.sort(key=deficit_s.__getitem__, reverse=True)
    return order
