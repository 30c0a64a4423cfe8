"""From ranks to grants: which jobs get GPUs now, and which give way."""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

import numpy as np

from rota.model.columns import Ints
from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.order import Front, Item
from rota.stages.trial import admit_in_order, admit_placed, running_set_placed
from rota.systems.chronus.asks import LiveAsks
from rota.systems.chronus.ranks import ServiceOrder

_NEVER = -1
"""Place of jobs that never give way."""


class InOrder:
    """Waiting jobs in order, one list for each kind of request."""

    def __init__(self, rows: Ints, places: Ints, kinds: Ints) -> None:
        """`places` of `rows`, which are of those `kinds`, ascend."""
        order = np.argsort(kinds, kind="stable")
        self._rows, self._places = rows[order], places[order]
        ordered = kinds[order]
        begins = np.flatnonzero(np.diff(ordered, prepend=-1))
        ends = np.append(begins[1:], len(ordered))[: len(begins)]
        spans = zip(begins.tolist(), ends.tolist(), strict=True)
        self._lists = dict(zip(ordered[begins].tolist(), spans, strict=True))
        """By kind: the range of places of its jobs."""

    def _item(self, at: int) -> Item:
        return float(self._places.item(at)), self._rows.item(at)

    def fronts(self) -> list[Front]:
        """The first job of each kind with that kind, as a heap."""
        fronts = [(self._item(begin), kind) for kind, (begin, _) in self._lists.items()]
        heapify(fronts)
        return fronts

    def advance(self, fronts: list[Front], passed: dict[int, int]) -> None:
        """Drop the head of `fronts`; the next job of its kind takes its place."""
        kind = fronts[0][1]
        count = passed[kind] = passed.get(kind, 0) + 1
        begin, end = self._lists[kind]
        if begin + count < end:
            heapreplace(fronts, (self._item(begin + count), kind))
        else:
            heappop(fronts)


def carry_out(
    snapshot: Snapshot, fit: Fitter, order: ServiceOrder, asks: LiveAsks, *, begins: bool
) -> tuple[list[Grant], list[int]]:
    """New grants and rows that give way.

    When a lease `begins`, all jobs without one stand in one order.  Within a lease, running jobs stay, but
    not ahead of jobs that hold it or are sure of their GPUs: for these the last in order give way.
    """
    at = asks.places(order.rows)
    runs, late = asks.runs[at], np.arange(len(at)) >= order.sure
    places = np.arange(len(at)) + (0 if begins else len(at)) * (late & ~runs)
    first = np.argsort(places[~runs], kind="stable")
    rows = order.rows[~runs][first]
    waiting = InOrder(rows, places[~runs][first], asks.requested.kinds[rows])
    if not begins and late[~runs].all() and not snapshot.reservations:  # none gives way to them
        return admit_in_order(waiting, snapshot, fit, rooms={}), []
    stays = ~(late & asks.bears_stops[at] & (asks.claims[at] != 0.0))
    places = np.where(stays, _NEVER, places)
    running = zip(places[runs].tolist(), order.rows[runs].tolist(), strict=True)
    items = sorted((float(place), row) for place, row in running)
    return _where_they_are(snapshot, fit, *running_set_placed(waiting, items, snapshot, fit)[:2])


def _where_they_are(
    snapshot: Snapshot, fit: Fitter, grants: list[Grant], gone: list[int]
) -> tuple[list[Grant], list[int]]:
    """The same jobs run, but each that goes on keeps its GPUs, if those that come find room beside them."""
    coming = [grant.job for grant in grants if grant.job not in snapshot.grants]
    if len(coming) == len(grants):
        return grants, gone
    moved = {grant.job for grant in grants}
    stopped = [row for row in gone if row not in moved]
    scratch = fit.scratch(snapshot)
    for row in stopped:
        scratch.release(snapshot.grants[row])
    placed = admit_placed(coming, scratch, fit)
    return (placed, stopped) if len(placed) == len(coming) else (grants, gone)


def let_go(
    snapshot: Snapshot, fit: Fitter, order: ServiceOrder, asks: LiveAsks
) -> tuple[list[Grant], list[int]]:
    """The authors' way to begin a lease: its holders run, all others give way and are placed again after."""
    planned = order.rows[: order.planned].tolist()
    gives_way = asks.runs & asks.bears_stops & (asks.claims != 0.0)
    gives_way[asks.places(planned)] = False
    gone = asks.rows[gives_way].tolist()
    scratch = fit.scratch(snapshot)
    for row in gone:
        scratch.release(snapshot.grants[row])
    starting = [row for row in planned if row not in snapshot.grants]
    return admit_placed(starting, scratch, fit), gone
