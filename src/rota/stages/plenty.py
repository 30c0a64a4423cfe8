"""Whether every job can have all the GPUs that it can use, updated from the changes since the last call.

For systems that decide numbers of GPUs, such as AFS and ElasticFlow.  Where all live jobs can have the most
that they can use, and running jobs do, no rule that hands out GPUs gives any job less, in whatever order.
Then a decision is only about the waiting jobs, and its cost depends on what has changed since the last one,
not on the number of live jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set

from rota.knowledge.needs import Knowledge, Known
from rota.model.columns import Row
from rota.model.grants import Can, Grant
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.scheduler.targets import Targets
from rota.stages.fit import Fitter
from rota.table.occupancy import Occupancy

_RESIZE = int(Can.RESIZE)


class Plenty:
    """The live jobs that ask for GPUs, and which of them do not have the most that they can use."""

    def __init__(self, most_of: Callable[[Snapshot, int], int], young_s: float = 0.0) -> None:
        """`most_of` gives the GPUs of a row once it has all that it can use, 0 if that is unknown.

        It depends on the request of the row and on what is known of its speeds, and on nothing else.  A
        resized job is young for `young_s` seconds.
        """
        self.most: dict[int, int] = {}
        """The most GPUs that each live row can use."""
        self.changed: list[int] | None = None
        """Rows that had an event since the last call; None if all rows were looked at."""
        self._most_of = most_of
        self._young_s = young_s
        self._cursor = Cursor()
        self._table: JobTable | None = None
        self._scaling: Known | None = None
        self._total = 0
        """GPUs that all live rows together can use."""
        self._unlike: set[int] = set()
        """Rows that run on another number, or whose number is unknown."""
        self._young: dict[int, float] = {}
        """For running rows that were resized and have a choice of sizes: until when they are young."""

    def holds(self, snapshot: Snapshot) -> bool:
        """True if all live rows can have their `most`, and those that run do.

        Besides, all jobs must be resizable, none may run on closed devices, and nothing may have been
        refused.
        """
        self._follow(snapshot)
        if self._unlike or snapshot.refused:
            return False
        down = snapshot.occupancy.down
        if self._total > snapshot.cluster.gpus - len(down) or (down and _are_held(snapshot.occupancy, down)):
            return False
        return _bear_resizing(snapshot)

    def again_s(self, now: float) -> float:
        """The next moment at which a job stops being young; infinite if there is none."""
        for row in [row for row, until_s in self._young.items() if until_s <= now]:
            del self._young[row]
        return min(self._young.values(), default=math.inf)

    def targets(self) -> Targets:
        """What each live row is to have, for reports."""
        most = self.most.copy()
        return Targets(lambda: dict(sorted(most.items())))

    def _follow(self, snapshot: Snapshot) -> None:
        """Look at the rows that had an event, or at all rows if requests or speeds have changed."""
        table, scaling = snapshot.jobs.table, snapshot.known(Knowledge.SCALING)
        self.changed = snapshot.changes(self._cursor)
        if self.changed is None or table is not self._table or scaling is not self._scaling:
            self.changed, self._table, self._scaling, self._total = None, table, scaling, 0
            self.most.clear()
            self._unlike.clear()
            self._young.clear()
            for row in (*snapshot.running.tolist(), *snapshot.waiting.tolist()):
                self._look_at(snapshot, row)
            return
        for row in self.changed:
            self._look_at(snapshot, row)

    def _look_at(self, snapshot: Snapshot, row: Row) -> None:
        before = self.most.pop(row, 0)
        self._total -= before
        self._unlike.discard(row)
        self._young.pop(row, None)
        grant = snapshot.grants.get(row)
        if grant is None and not snapshot.waits(row):
            return
        if not snapshot.gpus_of[row]:
            if grant is None:
                self._unlike.add(row)  # a job without GPUs that waits for its node
            return
        most = before or self._most_of(snapshot, row)
        self.most[row] = most
        self._total += most
        if not most or (grant is not None and len(grant.devices) != most):
            self._unlike.add(row)
        if grant is not None and self._young_s:
            self._note_young(snapshot, row)

    def _note_young(self, snapshot: Snapshot, row: int) -> None:
        """Remember until when `row`, which runs, is young, if it was resized and has a choice of sizes."""
        table, live = snapshot.jobs.table, snapshot.by_row
        since_s = live.since_s.item(row)
        if table.gpus_min.item(row) < table.gpus_max.item(row) and since_s > live.first_start_s.item(row):
            self._young[row] = since_s + self._young_s


def _are_held(occupancy: Occupancy, devices: Set[int]) -> bool:
    """True if some job holds one of `devices`, or a part of it."""
    claimed, sharers = occupancy.claimed, occupancy.sharers
    return any(claimed[device] or device in sharers for device in devices)


def _bear_resizing(snapshot: Snapshot) -> bool:
    """True if no live job would lose its work by having another number of GPUs."""
    can = snapshot.jobs.can
    if not (can(snapshot.running_unsorted) & _RESIZE).all():
        return False
    return not snapshot.waiting_count or bool((can(snapshot.waiting) & _RESIZE).all())


def start_beside(fit: Fitter, snapshot: Snapshot, shares: Mapping[int, int]) -> list[Grant] | None:
    """Grants with which waiting rows start on the GPUs that `shares` gives them, the largest first.

    Each gets the first type on which `fit` finds a place for it beside the running jobs, which stay where
    they are. None if one row finds no such place.
    """
    occupancy, grants = snapshot.occupancy, list[Grant]()
    kinds = range(len(snapshot.cluster.type_names))
    for row in sorted(shares, key=lambda row: (-shares[row], row)):
        if grants:
            if len(grants) == 1:  # until a second one is tried, there is no other to try it beside
                occupancy = fit.scratch(snapshot)
            occupancy.hold(grants[-1])
        tries = (fit.on_type(occupancy, row, kind, shares[row]) for kind in kinds)
        grant = next((grant for grant in tries if grant is not None), None)
        if grant is None:
            return None
        grants.append(grant)
    return grants
