"""Admission in every inner slot, and the plan of all leases whenever one begins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rota.model.columns import Ints
from rota.solvers.lease_program import Candidate, LeaseLimits, plan_leases
from rota.solvers.leases import Demand, all_fit, latest_fit, soonest_last
from rota.systems.chronus.asks import LeaseAsk, LiveAsks
from rota.systems.chronus.book import Book
from rota.systems.chronus.parameters import ChronusParameters, LeaseObjective

MOST_LEASES = 20_000
"""Leases looked ahead: a deadline behind them counts as one at their end."""


class LeasePlanner:
    """The leases from `first` on, on a cluster of a given number of GPUs."""

    def __init__(self, book: Book, asks: LiveAsks, capacity: int, first: int, p: ChronusParameters) -> None:
        self.book, self.asks, self.capacity, self.first, self.p = book, asks, capacity, first, p
        self.is_cut = False
        """True if a search ended at a limit."""

    def last(self, due_s: float) -> int:
        """Leases that can be used before a deadline: one ends when it comes, or earlier."""
        return min(MOST_LEASES, math.floor(due_s / self.p.lease_s + 1e-9) - self.first)

    def demand(self, row: int, need: int, due_s: float) -> Demand:
        return Demand(self.asks[row].planned, need, self.last(due_s))

    # -- admission -----------------------------------------------------------------------------------

    def admit(self, newcomers: Sequence[LeaseAsk]) -> dict[int, float]:
        """Promise the deadlines of `newcomers` one by one, as far as that is possible.

        Returns, for jobs whose deadline is not promised, the one that could be; infinite if none.
        """
        fresh = set(self.book.fresh)
        self._base = self._free([row for row in self.book.plans if row not in fresh], newcomers)
        self._left = self._base.copy()
        for row in self.book.fresh:
            self._left[self._of(row)] -= self.asks[row].planned
        later = {}
        for ask in newcomers:
            if ask.left_s <= 0.0:
                self.book.outrun(ask)
            elif not self._is_admitted(ask, ask.due_s):
                soonest_s = self._soonest_s(ask)
                waits_s = soonest_s - ask.submit_s
                asked_s = self.p.tolerance * (ask.due_s - ask.submit_s)
                if waits_s > asked_s * (1.0 + 1e-9) or not self._is_admitted(ask, soonest_s):
                    self.book.refuse(ask)
                    later[ask.row] = soonest_s
        return later

    def _free(self, rows: Sequence[int], newcomers: Sequence[LeaseAsk]) -> Ints:
        """GPUs that the plans of `rows` leave in each lease, as far ahead as matters to any job."""
        book = self.book
        planned = [*book.plans.values(), [self.first]]
        dues_s = [*(ask.due_s for ask in newcomers), *(book.aims[row] for row in book.fresh)]
        lasts = [self.last(due_s) for due_s in dues_s]
        needs = sum(ask.need(self.p.lease_s) for ask in newcomers)
        end = max(max(plan[-1] for plan in planned if plan) + 1 - self.first, max(lasts, default=0))
        free = np.full(min(MOST_LEASES, end + needs + 1), self.capacity, dtype=np.int64)
        for row in rows:
            free[self._of(row)] -= self.asks[row].planned
        return free

    def _of(self, row: int) -> Ints:
        """Leases that `row` has, from the first on."""
        plan = np.array(self.book.plans[row], dtype=np.int64) - self.first
        return plan[plan >= 0]

    def _is_admitted(self, ask: LeaseAsk, due_s: float) -> bool:
        """Accept `ask` if it can be done by `due_s`, beside the accepted ones."""
        demand = self.demand(ask.row, ask.need(self.p.lease_s), due_s)
        leases = latest_fit(self._left, demand)
        if leases is not None:
            self._left[leases] -= demand.gpus
            self._accept(ask, leases, due_s)
            return True
        if not self._may_fit(demand):
            return False
        rows = [*self.book.fresh, ask.row]
        laid = all_fit(self._base, [*self._fresh(), demand])
        if laid is None:
            return False
        self._accept(ask, laid[-1], due_s)
        self._left = self._base.copy()
        for row, own in zip(rows, laid, strict=True):
            held = [one for one in self.book.plans[row] if one < self.first]
            self.book.plans[row] = held + (own + self.first).tolist()
            self._left[own] -= self.asks[row].planned
        return True

    def _fresh(self) -> list[Demand]:
        book = self.book
        return [self.demand(row, len(self._of(row)), book.aims[row]) for row in book.fresh]

    def _may_fit(self, demand: Demand) -> bool:
        """False if there is no room for it, however those accepted in this lease are laid out."""
        room = self._base[: max(demand.last, 0)]
        if np.count_nonzero(room >= demand.gpus) < demand.need:
            return False
        bound = [one for one in [*self._fresh(), demand] if one.last <= demand.last]
        return sum(one.gpus * one.need for one in bound) <= int(room.sum())

    def _accept(self, ask: LeaseAsk, leases: Ints, due_s: float) -> None:
        ends_s = (self.first + int(leases[-1]) + 1) * self.p.lease_s
        aim_s = next((at_s for at_s, _ in ask.dues if ends_s <= at_s + 1e-6), due_s)
        self.book.accept(ask, (leases + self.first).tolist(), aim_s)
        self.book.fresh.append(ask.row)

    def _soonest_s(self, ask: LeaseAsk) -> float:
        """The earliest deadline that could be promised to `ask`; infinite if none, or if it is not wanted."""
        if not self.p.offer_s and self.p.tolerance == 1.0:
            return math.inf
        demand = self.demand(ask.row, ask.need(self.p.lease_s), ask.due_s)
        last = soonest_last(self._base, self._left, self._fresh(), demand)
        return math.inf if last is None else (self.first + last) * self.p.lease_s

    # -- a lease begins ------------------------------------------------------------------------------

    def assign(self) -> None:
        """Plan all leases of accepted jobs again; a job that cannot be in time any more loses its promise."""
        fixed, free_rows = self._split()
        levels = {row: self._levels(row) for row in free_rows}
        for row in [row for row, own in levels.items() if not own]:
            self.book.refuse(self.asks[row])
            free_rows.remove(row)
        capacity = self._capacity(fixed, [one for own in levels.values() for one in own])
        candidates = [
            Candidate(job, demand, value, self.asks[row].runs)
            for job, row in enumerate(free_rows)
            for demand, value, _ in levels[row]
        ]
        dues = [(row, due_s) for row in free_rows for _, _, due_s in levels[row]]
        limits = LeaseLimits(self.p.nodes, self.p.wall_s)
        leases_planned = plan_leases(candidates, np.maximum(capacity, 0), self._towards(), limits)
        if leases_planned is None:
            self.is_cut = True
            self._assign_greedily(candidates, dues, capacity)
        else:
            self.is_cut = leases_planned.is_cut
            for place, leases in zip(leases_planned.chosen.tolist(), leases_planned.leases, strict=True):
                row, due_s = dues[place]
                self._plan(row, leases, due_s)
        self.book.fresh = []

    def _plan(self, row: int, leases: Ints, due_s: float) -> None:
        self.book.plans[row] = (leases + self.first).tolist()
        self.book.aims[row] = due_s

    def _towards(self) -> int:
        objective, book = self.p.objective, self.book
        if objective is LeaseObjective.ADAPTIVE:
            is_short = book.leaves_out or (self.p.remembers_short and book.short)
            return -1 if is_short else 1
        return 1 if objective is LeaseObjective.MAXIMISE else -1

    def _levels(self, row: int) -> list[tuple[Demand, float, float]]:
        """Deadlines of `row` that can be kept, with their values; at least the promised one."""
        ask, need = self.asks[row], len(self.book.plans[row])
        dues = ask.dues
        if len(dues) == 1 or self.book.aims[row] > ask.due_s:
            dues = ((self.book.aims[row], dues[-1][1]),)
        levels = [(self.demand(row, need, due_s), value, due_s) for due_s, value in dues]
        return [one for one in levels if one[0].last >= need]

    def _split(self) -> tuple[list[int], list[int]]:
        """Accepted rows that stay as planned because there are too many, and rows that are planned again."""
        rows = sorted(self.book.plans)
        fixed: list[int] = []
        size = {row: self._size(row) for row in rows}
        count, columns = (sum(part) for part in zip((0, 0), *size.values(), strict=True))
        for row in sorted(rows, key=lambda row: (-self.asks[row].planned, row)):
            if count <= self.p.rows and columns <= self.p.columns:
                break
            fixed.append(row)
            count, columns = count - size[row][0], columns - size[row][1]
        stays = set(fixed)
        return fixed, [row for row in rows if row not in stays]

    def _size(self, row: int) -> tuple[int, int]:
        """Rows and columns that a job adds to the program."""
        levels = self._levels(row)
        return len(levels), sum(demand.last for demand, _, _ in levels)

    def _capacity(self, fixed: Sequence[int], demands: Sequence[tuple[Demand, float, float]]) -> Ints:
        """GPUs in each lease that `fixed` leave."""
        lasts = [demand.last for demand, _, _ in demands]
        ends = [self.book.plans[row][-1] + 1 - self.first for row in fixed]
        capacity = np.full(max([1, *lasts, *ends]), self.capacity, dtype=np.int64)
        for row in fixed:
            capacity[self._of(row)] -= self.asks[row].planned
        return capacity

    def _assign_greedily(
        self, candidates: Sequence[Candidate], dues: Sequence[tuple[int, float]], capacity: Ints
    ) -> None:
        """Plan the most valuable first, each in its latest leases.

        If one finds too few, all stay as they were planned, as far as there is room for that.
        """
        free, laid = capacity.copy(), dict[int, tuple[Ints, float]]()
        ranked = [(-one.value, one.demand.rank, place) for place, one in enumerate(candidates)]
        for _, _, place in sorted(ranked):
            (row, due_s), demand = dues[place], candidates[place].demand
            leases = None if row in laid else latest_fit(free, demand)
            if leases is not None:
                free[leases] -= demand.gpus
                laid[row] = leases, due_s
        rows = {row for row, _ in dues}
        if len(laid) < len(rows) and self._is_whole(sorted(rows), capacity):
            return
        for row in sorted(rows):
            if row in laid:
                self._plan(row, *laid[row])
            else:
                self.book.refuse(self.asks[row])

    def _is_whole(self, rows: Sequence[int], capacity: Ints) -> bool:
        """True if there is room for the plans of `rows` as they are."""
        free = capacity.copy()
        for row in rows:
            free[self._of(row)] -= self.asks[row].planned
        return bool((free >= 0).all())
