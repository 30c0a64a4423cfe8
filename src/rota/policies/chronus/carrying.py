"""From ranks to grants: who gets GPUs now, and who gives way."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

from rota.model.grants import Grant
from rota.policies.chronus.asks import LeaseAsk
from rota.policies.chronus.ranks import Ranked, ServiceRank
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.order import Front, Item
from rota.scheduler.stages.requests import request_kinds
from rota.scheduler.stages.trial import admit_placed, running_set_placed

_NEVER = -1.0
"""Place of those that never give way."""


class InOrder:
    """Waiting jobs in order, one list for each kind of request."""

    def __init__(self, items: Sequence[Item], kinds: Sequence[int]) -> None:
        """`items` ascend, `kinds` are by row."""
        self._lists: dict[int, list[Item]] = {}
        for item in items:
            self._lists.setdefault(kinds[item[1]], []).append(item)

    def fronts(self) -> list[Front]:
        """The first job of each kind with that kind, as a heap."""
        fronts = [(items[0], kind) for kind, items in self._lists.items()]
        heapify(fronts)
        return fronts

    def advance(self, fronts: list[Front], passed: dict[int, int]) -> None:
        """The head of `fronts` is dealt with; the next job of its kind takes its place."""
        kind = fronts[0][1]
        count = passed[kind] = passed.get(kind, 0) + 1
        items = self._lists[kind]
        if count < len(items):
            heapreplace(fronts, (items[count], kind))
        else:
            heappop(fronts)


def carry_out(
    snapshot: Snapshot, fit: Fitter, ranked: Sequence[Ranked], asks: dict[int, LeaseAsk], *, begins: bool
) -> tuple[list[Grant], list[int]]:
    """New grants and rows that give way.

    When a lease `begins`, all who hold none stand in one order.  Within a lease those who run stay, but for
    jobs that hold it or are sure of their GPUs: for them the last in order give way.
    """
    table = snapshot.jobs.table
    kinds = request_kinds(table, snapshot.cluster).tolist()
    running: list[Item] = []
    waiting: list[Item] = []
    for place, one in enumerate(ranked):
        is_sure = one.rank <= ServiceRank.GUARANTEED
        if one.row in snapshot.grants:
            stays = is_sure or not asks[one.row].bears_stops or not asks[one.row].gpus
            running.append((_NEVER if stays else float(place), one.row))
        else:
            late = 0 if begins or is_sure else len(ranked)
            waiting.append((float(place + late), one.row))
    return running_set_placed(InOrder(waiting, kinds), sorted(running), snapshot, fit)[:2]


def let_go(
    snapshot: Snapshot, fit: Fitter, ranked: Sequence[Ranked], asks: dict[int, LeaseAsk]
) -> tuple[list[Grant], list[int]]:
    """The authors' way to begin a lease: who holds it runs, all others give way and are placed anew after."""
    planned = [one.row for one in ranked if one.rank is ServiceRank.PLANNED]
    keeps = set(planned)
    gone = [
        row
        for row in snapshot.running.tolist()
        if row not in keeps and asks[row].bears_stops and asks[row].gpus
    ]
    scratch = fit.scratch(snapshot)
    for row in gone:
        scratch.release(snapshot.grants[row])
    starting = [row for row in planned if row not in snapshot.grants]
    return admit_placed(starting, scratch, fit), gone
