"""Chronus' admission written once more from its description, and compared with the policy's."""

from __future__ import annotations

import math
import random

from rota.systems.chronus.asks import LeaseAsk
from rota.systems.chronus.book import Book
from rota.systems.chronus.parameters import ChronusParameters
from rota.systems.chronus.planning import LeasePlanner
from tiers import each_seed

LEASE_S = 1200.0
Wish = tuple[int, int, int]
"""GPUs, leases needed, and leases that can be used before the deadline."""


def latest(free: list[int], wish: Wish) -> list[int] | None:
    """From the last usable lease down, each that has room, until there are enough."""
    gpus, need, last = wish
    taken = []
    for lease in range(min(last, len(free)) - 1, -1, -1):
        if len(taken) < need and free[lease] >= gpus:
            taken.append(lease)
    return taken if len(taken) == need else None


def all_laid(free: list[int], wishes: list[Wish]) -> bool:
    """The largest first, then the tightest, then the one with the most time; each its latest leases."""
    free = list(free)
    order = sorted(wishes, key=lambda wish: (-wish[0], wish[2] - wish[1], -wish[2]))
    for wish in order:
        taken = latest(free, wish)
        if taken is None:
            return False
        for lease in taken:
            free[lease] -= wish[0]
    return True


class NaiveAdmission:
    """Newcomers of one lease, one by one; it is told which leases the policy gave to whom it admitted."""

    def __init__(self, capacity: int, leases: int) -> None:
        self.base = [capacity] * leases
        self.admitted: list[Wish] = []

    def can(self, wish: Wish, plans: list[list[int]]) -> bool:
        left = list(self.base)
        for (gpus, _, _), plan in zip(self.admitted, plans, strict=True):
            for lease in plan:
                left[lease] -= gpus
        return latest(left, wish) is not None or all_laid(self.base, [*self.admitted, wish])

    def first(self, wish: Wish, plans: list[list[int]]) -> int | None:
        """The first lease by whose beginning it can be done; by a later one it may find no room."""
        gpus, need, _ = wish
        lasts = range(1, len(self.base) + 1)
        return next((last for last in lasts if self.can((gpus, need, last), plans)), None)


@each_seed(150, 750, 3000, at_once=50)
def test_who_is_promised_what_and_which_later_deadline_is_the_first(seed: int) -> None:
    draw = random.Random(seed)
    capacity = draw.choice([4, 8, 16])
    parameters = ChronusParameters(offer_s=60.0)
    asks: dict[int, LeaseAsk] = {}
    book = Book(lease=-1)
    naive, rows = NaiveAdmission(capacity, 60), list[int]()
    for row in range(draw.randint(2, 14)):
        gpus, need = draw.choice([1, 2, 4, 8, 16]), draw.randint(1, 5)
        last = draw.randint(0, 12)
        due_s = last * LEASE_S + draw.choice([0.0, 600.0])
        left_s = need * LEASE_S - draw.choice([0.0, 60.0])
        ask = LeaseAsk(row, gpus, gpus, left_s, left_s, ((due_s, 10.0),), 0.0, 0.0, False, True)
        asks[row] = ask
        wish, plans = (gpus, need, last), [book.plans[one] for one in rows]
        offered = naive.first(wish, plans)
        expected = offered is not None and offered <= last
        later = LeasePlanner(book, asks, capacity, 0, parameters).admit([ask])
        assert (row in book.plans) == expected
        if expected:
            rows.append(row)
            naive.admitted.append((gpus, need, min(last, math.floor(book.aims[row] / LEASE_S + 1e-9))))
        else:
            soonest_s = math.inf if offered is None else offered * LEASE_S
            assert later == {row: soonest_s}
    for lease in range(60):
        assert sum(asks[row].planned for row in rows if lease in book.plans[row]) <= capacity
