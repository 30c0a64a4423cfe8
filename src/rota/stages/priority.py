"""The common composition: order by a key, then admit or rebuild, then place.

FIFO, SJF, SRTF, LAS, Tiresias and others are this with a key each.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final

import numpy as np
from mypy_extensions import mypyc_attr

from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints
from rota.model.grants import Grant
from rota.model.jobs import JobTable
from rota.model.whole import whole_grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.stages.fill import admit, running_set
from rota.stages.fit import Fitter, Room
from rota.stages.order import Item, JobOrder, plain
from rota.stages.place import COUNT_ONLY, PLACEMENTS, Placement, by_type, consolidate
from rota.stages.trial import admit_in_order, admit_placed, running_set_placed
from rota.table.occupancy import Occupancy

_ENOUGH: Final = 48
"""The number of running jobs, last in order, to sort first: usually none before them has to go."""

Key = Callable[[Snapshot, Any], Any]
"""Key of a row, or keys of an array of rows; lowest first, equal keys in order of submission."""


class Drift(Enum):
    """When the key of a job changes with time alone."""

    NEVER = "never"
    RUNNING = "while the job runs"  # time left, service received
    ALWAYS = "while it waits as well"  # ageing; all keys are read, and all jobs sorted, at each call


@mypyc_attr(allow_interpreted_subclasses=True)
class ByPriority:
    """Which jobs run, by a key.

    `preemptive` rebuilds the running set at each call; otherwise waiting jobs are added to it. `strict` stops
    at the first job that does not fit instead of skipping it (not with `preemptive`). `drifts` says when keys
    change with time; without it a key is read once, when its job begins to wait or to run.  `finish` gives
    the moment at which the key of a running job reaches 0 if it falls by 1 a second, which spares reading it
    again as long as all jobs work at full speed. `by_count` lets the number of free GPUs alone decide which
    jobs run, even if `placement` may refuse: a job that then finds no place waits, as in simulators that have
    a pass for the quota and a later one for the placement.
    """

    def __init__(
        self,
        key: Key,
        *,
        preemptive: bool = False,
        strict: bool = False,
        drifts: Drift = Drift.NEVER,
        finish: Key | None = None,
        placement: Placement = Placement.CONSOLIDATE,
        by_count: bool = False,
    ) -> None:
        self.key = key
        self.preemptive = preemptive
        self.strict = strict
        self.drifts = drifts
        self.placement = placement
        self.place = PLACEMENTS[placement]
        self.spreads = placement in COUNT_ONLY
        self.by_count = by_count
        self.finish = finish
        tracks = preemptive and drifts is Drift.NEVER
        self.order = JobOrder(key, tracks_running=tracks, running_key=finish)
        self.order_by_kind = JobOrder(key, tracks_running=tracks, running_key=finish, by_kind=True)
        self._judged: JobTable | None = None  # the table that `_is_alike` is of
        self._is_alike: list[bool] = []
        self._ever: dict[tuple[int, int], bool] = {}  # answers of `fit.ever`, on the cluster below
        self._asked_of: JobTable | None = None
        self._asked_on: Cluster | None = None
        self._rooms: dict[int, Room] = {}  # room wanted by kind of request, on the cluster below
        self._rooms_in: JobTable | None = None
        self._rooms_on: Cluster | None = None
        self.kept_keys: dict[int, Any] = {}
        """Keys of the waiting rows while many questions are asked about one snapshot; otherwise empty."""

    def decide(self, snapshot: Snapshot, memory: Memory, wake: Wake | None = None) -> Decision:
        """The decision that the order implies."""
        if not snapshot.waiting_count:
            return Decision(memory, wake=wake or Wake(if_waiting=True))
        grants, preempt = self.choose(snapshot)
        return Decision(memory, grants, preempt, wake=wake or Wake(if_waiting=True), ranking=self)

    def choose(self, snapshot: Snapshot) -> tuple[list[Grant], list[int]]:
        """Grants to begin and rows to preempt."""
        if self.drifts is Drift.ALWAYS:
            self.forget()
        if snapshot.plain and (self.by_count or self.placement in COUNT_ONLY):
            return self._by_count(snapshot)
        return self._by_place(snapshot)

    def move(self, snapshot: Snapshot, row: int) -> None:
        """The key of `row` has changed."""
        self.order.move(snapshot, row)
        self.order_by_kind.move(snapshot, row)

    def forget(self) -> None:
        """Read all keys again at the next call."""
        self.order.forget()
        self.order_by_kind.forget()

    def stale(self, snapshot: Snapshot) -> list[int]:
        """Waiting rows whose keys have changed without this order being notified."""
        return [*self.order.stale(snapshot), *self.order_by_kind.stale(snapshot)]

    # -- why a job waits ------------------------------------------------------------------------

    def ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        """Waiting rows before `row` in the order of the key."""
        own = (self._key(snapshot, row), row)
        keys = self.kept_keys or self.waiting_keys(snapshot)
        return [other for other, key in keys.items() if (key, other) < own]

    def in_turn(self, snapshot: Snapshot) -> list[int]:
        """All waiting rows in the order of the key."""
        keys = self.waiting_keys(snapshot)
        return sorted(keys, key=lambda row: (keys[row], row))

    def waiting_keys(self, snapshot: Snapshot) -> dict[int, Any]:
        """The key of each waiting row, from `kept_keys` if a caller that asks for many rows has filled it."""
        return {row: plain(self.key(snapshot, row)) for row in snapshot.waiting.tolist()}

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        """True if `row` could be placed on `scratch`."""
        return self.fitter(snapshot)(scratch, row) is not None

    def equal(self, snapshot: Snapshot, one: int, other: int) -> bool:
        """True if only the order of submission decides between the two."""
        return bool(self._key(snapshot, one) == self._key(snapshot, other))

    def _key(self, snapshot: Snapshot, row: int) -> Any:
        return self.kept_keys[row] if row in self.kept_keys else plain(self.key(snapshot, row))

    # -- where counting GPUs is enough ----------------------------------------------------------

    def _by_count(self, snapshot: Snapshot) -> tuple[list[Grant], list[int]]:
        free = snapshot.occupancy.free.total
        losers: list[int] = []
        if snapshot.waiting_gpus <= free:
            rows = self._all_waiting(snapshot)
        elif not self.preemptive:
            if free == 0:
                return [], []
            self.order.sync(snapshot)
            rows = admit(self.order, free, strict=self.strict)
        else:
            self.order.sync(snapshot)
            rows, losers = self._rebuilt(snapshot, free)
        return self._placed(snapshot, rows, losers), losers

    def _all_waiting(self, snapshot: Snapshot) -> list[int]:
        """All waiting rows in order, for when everything fits."""
        rows: list[int] = snapshot.waiting.tolist()
        if len(rows) > 1:
            rows.sort(key=lambda row: (self.key(snapshot, row), row))
        return rows

    def _rebuilt(self, snapshot: Snapshot, free: int) -> tuple[list[int], list[int]]:
        """Rows to start and to preempt; of drifting keys only as many are sorted as may be needed."""
        gpus_of = snapshot.gpus_of
        if self._is_tracked(snapshot):
            items, ahead = self.order.running, self._ahead(snapshot)
            return running_set(self.order, items.items, free, gpus_of, ahead, items.head)[:2]
        rows = snapshot.running_unsorted
        keys = self.key(snapshot, rows)
        rebuilt = running_set(self.order, last_items(keys, rows, _ENOUGH), free, gpus_of)
        if rebuilt.reached and len(rows) > _ENOUGH:
            rebuilt = running_set(self.order, last_items(keys, rows, len(rows)), free, gpus_of)
        return rebuilt[:2]

    def _is_tracked(self, snapshot: Snapshot) -> bool:
        """True if the orders hold the running jobs by correct keys."""
        return self.drifts is Drift.NEVER or (self.finish is not None and snapshot.is_steady)

    def _ahead(self, snapshot: Snapshot) -> float | None:
        """By how much the keys of running jobs are larger than those of waiting ones."""
        return snapshot.now if self.finish is not None else None

    def _placed(self, snapshot: Snapshot, rows: list[int], losers: list[int]) -> list[Grant]:
        """Devices for `rows`, on what is free once the losers are gone."""
        if not rows:
            return []
        gpus_of, place = snapshot.gpus_of, by_type(self.place, snapshot.occupancy.node_sets.of_type)
        if len(rows) == 1 and not losers and place is consolidate:  # no other job to try it beside
            gpus = gpus_of[rows[0]]
            node = snapshot.occupancy.free.best_fit(gpus)
            if node >= 0:
                return [whole_grant(rows[0], snapshot.occupancy.free.lowest(node, gpus))]
        free = snapshot.occupancy.free.copy()
        for row in losers:
            free.put_all(snapshot.grants[row].devices)
        grants = []
        for row in rows:
            devices = place(free, gpus_of[row])
            assert devices is not None or self.by_count, "counting said that the job fits"
            if devices is not None:
                grants.append(whole_grant(row, devices))
        return grants

    # -- where it matters which GPUs ------------------------------------------------------------

    def _by_place(self, snapshot: Snapshot) -> tuple[list[Grant], list[int]]:
        fit = self.fitter(snapshot)
        if not self.preemptive and snapshot.waiting_count == 1:  # no order is needed
            grant = fit(snapshot.occupancy, snapshot.waiting.item(0))
            return [] if grant is None else [grant], []
        key = self.key
        if not self.preemptive and not snapshot.reservations:
            self.order_by_kind.sync(snapshot)
            blocks = partial(self._blocks, fit) if self.strict else None
            rooms = self._rooms_of(fit)
            return admit_in_order(self.order_by_kind, snapshot, fit, blocks, rooms), []
        if not self.preemptive:
            order = sorted(snapshot.waiting.tolist(), key=lambda row: (key(snapshot, row), row))
            return admit_placed(order, fit.scratch(snapshot), fit, fit.ever if self.strict else None), []
        by_kind = self.order_by_kind
        by_kind.sync(snapshot)
        alike, rooms = self._alike(snapshot, fit), self._rooms_of(fit)
        if self._is_tracked(snapshot):
            items, ahead = by_kind.running, self._ahead(snapshot)
            return running_set_placed(by_kind, items.items, snapshot, fit, alike, ahead, items.head, rooms)[
                :2
            ]
        rows = snapshot.running_unsorted
        keys = key(snapshot, rows)
        rebuilt = running_set_placed(
            by_kind, last_items(keys, rows, _ENOUGH), snapshot, fit, alike, rooms=rooms
        )
        if rebuilt[2] and len(rows) > _ENOUGH:
            snapshot.occupancy.take_back()  # what was tried on the scratch is forgotten
            everybody = last_items(keys, rows, len(rows))
            rebuilt = running_set_placed(by_kind, everybody, snapshot, fit, alike, rooms=rooms)
        return rebuilt[:2]

    def _rooms_of(self, fit: Fitter) -> dict[int, Room]:
        """The `fit.room_wanted` of each kind of request."""
        if fit.jobs is not self._rooms_in or fit.cluster is not self._rooms_on:
            self._rooms_in, self._rooms_on = fit.jobs, fit.cluster
            self._rooms = {}
        return self._rooms

    def _blocks(self, fit: Fitter, row: int) -> bool:
        """The result of `fit.ever`, cached: the same first job is looked at in every event while it waits."""
        if fit.jobs is not self._asked_of or fit.cluster is not self._asked_on:
            self._asked_of, self._asked_on = fit.jobs, fit.cluster
            self._ever = {}
        like = (row, -1) if type(fit) is not Fitter else (-1, self.order_by_kind.kind_of(row))
        ever = self._ever.get(like)
        if ever is None:
            ever = self._ever[like] = fit.ever(row)
        return ever

    def _alike(self, snapshot: Snapshot, fit: Fitter) -> list[bool]:
        """By row: no job of its kind finds a place where it found none.  Empty if that is so of no row."""
        if type(fit) is not Fitter or snapshot.reservations:
            return []
        jobs = snapshot.jobs.table
        if self._judged is not jobs:
            self._judged, self._is_alike = jobs, _monotone(jobs, snapshot.cluster)
        return self._is_alike

    def fitter(self, snapshot: Snapshot) -> Fitter:
        """The fitter of single jobs; policies with rules of their own override it."""
        return Fitter(snapshot, self.place)


def _monotone(jobs: JobTable, cluster: Cluster) -> list[bool]:
    """False for each job that may find a place although room has shrunk.

    A node has to feed as many GPUs of a gang as are free on it: once fewer of them are free, it may qualify
    again.
    """
    monotone = np.ones(len(jobs), dtype=bool)
    limits = ((jobs.cpus, cluster.node_cpus), (jobs.memory_gib, cluster.node_memory_gib))
    for needs, capacity in limits:
        if capacity.any():
            monotone &= (jobs.gpus <= 1) | (needs == 0.0)
    return [bool(one) for one in monotone]


def last_items(keys: Floats, rows: Ints, count: int) -> list[Item]:
    """The `count` last items in order of key and row, and all that tie with the first of them."""
    if count < len(keys):
        least = np.partition(keys, len(keys) - count)[len(keys) - count]
        kept = np.flatnonzero(keys >= least)
        keys, rows = keys[kept], rows[kept]
    order = np.lexsort((rows, keys))
    return list(zip(keys[order].tolist(), rows[order].tolist(), strict=True))
