"""Which promises are at risk while the cluster is smaller than when leases were planned."""

from __future__ import annotations

import math

from rota.systems.chronus.asks import LiveAsks
from rota.systems.chronus.book import Book
from rota.systems.chronus.parameters import ChronusParameters
from rota.systems.chronus.planning import LeasePlanner


def doubtful(
    book: Book, asks: LiveAsks, capacity: int, now: float, parameters: ChronusParameters
) -> list[int]:
    """Rows whose deadline is not kept if the cluster stays as it is, ascending.

    Jobs that need more leases than they have left, and jobs for which the next plan would find no room.
    """
    sure = _sure_s(book, asks, capacity, now, parameters)
    short = set()
    rehearsed = Book(lease=book.lease, refused=list(book.refused))
    live = {row: plan for row, plan in book.plans.items() if row in asks}
    for row, plan in live.items():
        ask, ahead = asks[row], [lease for lease in plan if lease > book.lease]
        need = math.ceil((ask.left_s - sure.get(row, 0.0)) / parameters.lease_s - 1e-9)
        if need > len(ahead):
            short.add(row)
        if ahead:
            rehearsed.accept(ask, ahead, book.aims[row])
    LeasePlanner(rehearsed, asks, capacity, book.lease + 1, parameters).assign()
    return sorted(short | set(rehearsed.refused).difference(book.refused))


def _sure_s(
    book: Book, asks: LiveAsks, capacity: int, now: float, parameters: ChronusParameters
) -> dict[int, float]:
    """Seconds left in the present lease of its holders that find GPUs; waiting jobs begin with a slot."""
    ends_s, slot_s = (book.lease + 1) * parameters.lease_s, parameters.slot_s
    begins_s = math.ceil(now / slot_s - 1e-9) * slot_s
    room, sure = capacity, dict[int, float]()
    holders = [asks[row] for row in book.plans if row in asks and book.holds_lease(row)]
    for ask in sorted(holders, key=lambda ask: (-ask.gpus, ask.submit_s, ask.row)):
        gpus = math.ceil(ask.gpus) if ask.planned else 0
        if gpus <= room:
            room -= gpus
            sure[ask.row] = ends_s - (now if ask.runs else begins_s)
    return sure
