"""EASY backfill: the first job that does not fit gets a reservation, the others use what it leaves.

The reservation holds at the *shadow time*, when enough of what runs is expected to have ended.  A later
job starts now if it fits now and either is expected to end by then, or uses only what will be *spare* then:
free, and not needed by the first job.  So, if the estimates are right, no job delays the first one.

Source: D. A. Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995; A. W. Mu'alem and D. G. Feitelson,
"Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with
Backfilling", TPDS 12(6), 2001.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints
from rota.model.grants import Grant, Reservation
from rota.model.jobs import JobTable
from rota.model.whole import whole_grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter, is_room
from rota.stages.place import COUNT_ONLY, PLACEMENTS, Placement, by_type
from rota.stages.remaining import remaining_s
from rota.stages.requests import request_kinds
from rota.stages.trial import admit_placed
from rota.systems.fifo.parted import PartQueue, Queues
from rota.table.free import Free
from rota.table.occupancy import Occupancy

SAME_S = 1e-6
"""Moments closer than this count as one, so that rounding of sums does not decide which job may pass."""


class HeadReservation(NamedTuple):
    """The reservation of the first job."""

    at_s: float
    """When it can start; infinite if it could not start even once all running jobs had ended."""
    spare: int
    """GPUs that are free then beyond those it needs."""


def shadow_of(gpus: int, free: int, held: Ints, ends_s: Floats) -> HeadReservation:
    """When a job of `gpus` GPUs can start if `free` are, and jobs holding `held` end at `ends_s`."""
    order = np.argsort(ends_s, kind="stable")
    ends_s, room = ends_s[order], free + np.cumsum(held[order])
    enough = int(np.searchsorted(room, gpus))
    if enough == len(room):
        return HeadReservation(math.inf, 0)
    at_s = float(ends_s[enough])
    last = int(np.searchsorted(ends_s, at_s + SAME_S, side="right")) - 1
    return HeadReservation(at_s, int(room[last]) - gpus)


def fill_under(shadow: HeadReservation, gpus: Ints, ends_s: Floats, free: int) -> tuple[list[int], int]:
    """Which jobs start under the shadow, and the spare GPUs they leave.

    `gpus` and `ends_s` (when each would end if it started now) are in the order of the queue; the answer
    holds places in it.
    """
    short = ends_s <= shadow.at_s + SAME_S
    possible = np.flatnonzero((gpus <= free) & (short | (gpus <= shadow.spare)))
    started, spare = [], shadow.spare
    for place, size, ends_in_time in zip(
        possible.tolist(), gpus[possible].tolist(), short[possible].tolist(), strict=True
    ):
        if size > free or not (ends_in_time or size <= spare):
            continue
        started.append(place)
        free -= size
        if not ends_in_time:
            spare -= size
        if not free:
            break
    return started, spare


def by_submission(snapshot: Snapshot) -> Ints:
    """Waiting rows, higher priorities first, then first come first."""
    rows = snapshot.waiting
    order: Ints = rows[np.argsort(-snapshot.jobs.table.priority[rows], kind="stable")]
    return order


def submitted_first(snapshot: Snapshot) -> Ints:
    """Waiting rows in order of submission, whatever their priority."""
    return snapshot.waiting


class EasyBackfill:
    """Strict order with backfill.

    A job that runs past its estimate is expected to end at any moment: no job passes the first one on the
    strength of an estimate that has proved wrong, only on GPUs the first job will not need.
    """

    def __init__(
        self,
        placement: Placement = Placement.CONSOLIDATE,
        order: Callable[[Snapshot], Ints] = by_submission,
        *,
        one_queue: bool = False,
    ) -> None:
        self.placement = placement
        self.place = PLACEMENTS[placement]
        self.spreads = placement in COUNT_ONLY
        self.order = order
        self.one_queue = one_queue
        self._queues = Queues()
        self._kinds = np.zeros(0, dtype=np.int64)
        """Request kinds of one job table on one cluster."""
        self._kinds_of: tuple[JobTable, Cluster] | None = None
        self._ever: dict[int, bool] = {}
        """By kind of request: whether it has a place on an empty cluster."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        """Jobs to start, and free devices to keep for the first job of a queue that does not fit."""
        counts = snapshot.uniform and self.placement in COUNT_ONLY
        grants: list[Grant] = []
        kept: list[Reservation] = []
        if snapshot.waiting_count and (snapshot.occupancy.free.total or not counts):
            grants, kept = (self._by_count if counts else self._by_place)(snapshot)
        reservations = tuple(kept) if kept else () if snapshot.reservations else None
        wake = Wake(if_waiting=True)
        return Decision(memory, grants, reservations=reservations, wake=wake, ranking=self)

    # -- why a job waits ------------------------------------------------------------------------

    def ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        """Waiting rows before `row` in the order of the queue."""
        order: list[int] = self.order(snapshot).tolist()
        return order[: order.index(row)]

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        """True if `row` could be placed on what `scratch` leaves free."""
        return Fitter(snapshot, self.place)(scratch, row) is not None

    # -- where counting GPUs is enough ----------------------------------------------------------

    def _by_count(self, snapshot: Snapshot) -> tuple[list[Grant], list[Reservation]]:
        rows = self.order(snapshot)
        sizes = snapshot.jobs.gpus[rows]
        free = snapshot.occupancy.free.copy()
        first = int(np.searchsorted(np.cumsum(sizes), free.total, side="right"))
        started = rows[:first]
        grants = self._placed(snapshot, free, started)
        if first == len(rows) or not free.total:
            return grants, []
        ends_s = np.concatenate(
            (_expected_ends(snapshot, started), _expected_ends(snapshot, snapshot.running))
        )
        held = np.concatenate((sizes[:first], snapshot.jobs.gpus[snapshot.running]))
        shadow = shadow_of(int(sizes[first]), free.total, held, ends_s)
        behind = rows[first + 1 :]
        passing, spare = fill_under(shadow, sizes[first + 1 :], _expected_ends(snapshot, behind), free.total)
        grants += self._placed(snapshot, free, behind[passing])
        needed = free.total - spare if shadow.at_s < math.inf else 0
        kept = self.place(free, needed) if needed > 0 else None
        return grants, _reservation(snapshot, int(rows[first]), kept or (), shadow.at_s)

    def _placed(self, snapshot: Snapshot, free: Free, rows: Ints) -> list[Grant]:
        """Devices for `rows`, taken from `free`."""
        place = by_type(self.place, snapshot.occupancy.node_sets.of_type)
        grants = []
        for row in rows.tolist():
            devices = place(free, snapshot.gpus_of[row])
            assert devices is not None, "counting said that the job fits"
            grants.append(whole_grant(row, devices))
        return grants

    # -- where it matters which GPUs ------------------------------------------------------------

    def _by_place(self, snapshot: Snapshot) -> tuple[list[Grant], list[Reservation]]:
        self._sync_kinds(snapshot)
        fit = Fitter(snapshot, self.place)
        fit.reserved = {}  # those in force are this policy's own, and made again below
        scratch = snapshot.scratch()
        grants: list[Grant] = []
        kept: list[Reservation] = []
        order = self.order(snapshot)
        queues = [PartQueue(order, -1)] if self.one_queue else self._queues.of(snapshot, order)
        for queue in queues:
            if not scratch.free.within(queue.nodes) and _want_whole_gpus(snapshot, queue.rows):
                continue  # no job can start, and nothing is free to be kept
            kept += self._serve(snapshot, queue, grants, scratch, fit)
        return grants, kept

    def _serve(
        self, snapshot: Snapshot, queue: PartQueue, grants: list[Grant], scratch: Occupancy, fit: Fitter
    ) -> list[Reservation]:
        """Add the grants for one queue to `grants`; what is kept for its first job that does not fit."""
        ever = partial(self._has_a_place, fit)
        begun = admit_placed(queue.rows.tolist(), scratch, fit, ever)
        grants += begun
        rows = {grant.job for grant in begun}
        left = queue.rows[[row not in rows for row in queue.rows.tolist()]] if rows else queue.rows
        while len(left) and not ever(left.item(0)):
            left = left[1:]  # passed by: no place could be promised to it
        if not len(left):
            return []
        head, behind = left.item(0), left[1:]
        promise = _Promise(snapshot, head, self._around(snapshot, queue, grants), scratch, fit)
        grants += self._pass_by(snapshot, behind, promise, scratch, queue.nodes)
        return _reservation(snapshot, head, promise.free_in(scratch), promise.at_s)

    def _around(self, snapshot: Snapshot, queue: PartQueue, begun: list[Grant]) -> dict[int, Grant]:
        """Grants in force, and those `begun` now, whose end the first job of a queue may wait for."""
        held = {**snapshot.grants, **{grant.job: grant for grant in begun}}
        if queue.nodes < 0 or snapshot.cluster.tenants:  # a quota may be full of what stands elsewhere
            return held
        node_of = snapshot.occupancy.free.node_of
        return {row: grant for row, grant in held.items() if _is_on(grant, queue.nodes, node_of)}

    def _pass_by(
        self, snapshot: Snapshot, behind: Ints, promise: _Promise, scratch: Occupancy, nodes: int
    ) -> list[Grant]:
        """Grants for jobs behind the first one that keep the promise to it."""
        table = snapshot.jobs.table
        shared = table.gpu_share[behind] < 1.0
        behind = behind[shared | (table.gpus[behind] <= scratch.free.within(nodes))]
        codes = self._kinds[behind].tolist()
        short = (_expected_ends(snapshot, behind) <= promise.at_s + SAME_S).tolist()
        grants: list[Grant] = []
        skipped: set[tuple[int, bool]] = set()
        for row, code, ends_in_time in zip(behind.tolist(), codes, short, strict=True):
            if (code, ends_in_time) in skipped:
                continue
            grant = promise.fit(scratch, row) if ends_in_time else promise.fit_beside(scratch, row)
            if grant is None:
                skipped.add((code, ends_in_time))
                continue
            scratch.hold(grant)
            grants.append(grant)
        return grants

    def _has_a_place(self, fit: Fitter, row: int) -> bool:
        """`Fitter.ever`, asked once for each kind of request."""
        kind = self._kinds.item(row)
        known = self._ever.get(kind)
        if known is None:
            known = self._ever[kind] = fit.ever(row)
        return known

    def _sync_kinds(self, snapshot: Snapshot) -> None:
        jobs, cluster = snapshot.jobs.table, snapshot.cluster
        if self._kinds_of is None or self._kinds_of[0] is not jobs or self._kinds_of[1] is not cluster:
            self._kinds, self._kinds_of, self._ever = request_kinds(jobs, cluster), (jobs, cluster), {}


def _want_whole_gpus(snapshot: Snapshot, rows: Ints) -> bool:
    """Whether every one of `rows` needs a device that is wholly free."""
    table = snapshot.jobs.table
    return bool((table.gpus[rows] > 0).all() and (table.gpu_share[rows] == 1.0).all())


def _is_on(grant: Grant, nodes: int, node_of: Sequence[int]) -> bool:
    """Whether `grant` holds something on the nodes of a mask."""
    for device in grant.devices:
        if nodes >> node_of[device] & 1:
            return True
    return grant.node >= 0 and bool(nodes >> grant.node & 1)


class _Promise:
    """The place of the first job at the shadow time, when what ends by then has ended."""

    def __init__(
        self, snapshot: Snapshot, head: int, held: dict[int, Grant], scratch: Occupancy, fit: Fitter
    ) -> None:
        self.head = head
        self.fit = fit
        self.later = scratch.copy()
        self.at_s, self.devices = self._foresee(snapshot, held)

    def _foresee(self, snapshot: Snapshot, held: dict[int, Grant]) -> tuple[float, frozenset[int]]:
        """Let jobs end in `later`, soonest first, until the first job fits; then all that end with them."""
        rows = np.array(sorted(held), dtype=np.int64)
        ends = sorted(zip(_expected_ends(snapshot, rows).tolist(), rows.tolist(), strict=True))
        at_s, place, wanted = math.inf, None, self.fit.room_wanted(self.head)
        for end_s, row in ends:
            if end_s > at_s + SAME_S:
                break
            self.later.release(held[row])
            if place is None and is_room(self.later.free, wanted):
                place = self.fit(self.later, self.head)
                at_s = end_s if place else math.inf
        place = self.fit(self.later, self.head) if place else None
        return at_s, frozenset(place.devices) if place else frozenset()

    def fit_beside(self, scratch: Occupancy, row: int) -> Grant | None:
        """A grant for `row`, which runs beyond the shadow time, that leaves the first job a place.

        It is outside the place foreseen if there is room, else on devices of it that others can replace.
        """
        grant = self._fit_outside(scratch, row)
        if grant and self._is_kept(grant):
            return grant
        grant = self.fit(scratch, row)
        return grant if grant and self._is_kept(grant) else None

    def _fit_outside(self, scratch: Occupancy, row: int) -> Grant | None:
        self.fit.reserved = {self.head: self.devices}
        grant = self.fit(scratch, row)
        self.fit.reserved = {}
        return grant

    def _is_kept(self, grant: Grant) -> bool:
        """True if the first job still finds a place beside `grant`; both are then taken into account."""
        self.later.hold(grant)
        place = self.fit(self.later, self.head)
        if place is None:  # devices, CPU, memory or quota would not be left
            self.later.release(grant)
            return False
        self.devices = frozenset(place.devices)
        return True

    def free_in(self, scratch: Occupancy) -> Sequence[int]:
        """The devices of the place that no job holds now."""
        return sorted(device for device in self.devices if scratch.free.is_free(device))


def _expected_ends(snapshot: Snapshot, rows: Ints) -> Floats:
    """When `rows` end if each runs from now on and its estimate is right; now, if it has outrun it."""
    ends_s: Floats = snapshot.now + np.maximum(remaining_s(snapshot, rows), 0.0)
    return ends_s


def _reservation(snapshot: Snapshot, head: int, devices: Sequence[int], at_s: float) -> list[Reservation]:
    """Free devices kept for the first job until it can start; at an unknown time after a failed estimate."""
    if not devices:
        return []
    return [Reservation(head, tuple(devices), at_s if at_s > snapshot.now else math.inf)]
