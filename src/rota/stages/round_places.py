"""Devices for the jobs that run in a round: as many as possible stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rota.model.grants import Grant, Role
from rota.model.whole import whole_grant
from rota.scheduler.decision import Decision
from rota.scheduler.snapshot import Snapshot
from rota.solvers.division import ALONE
from rota.stages.fit import Fitter
from rota.stages.place import Place, consolidate, lowest
from rota.stages.requests import REQUEST_COLUMNS
from rota.stages.trial import admit_placed
from rota.table.occupancy import EPSILON, Occupancy


class Pick(NamedTuple):
    """An entry that runs in this round."""

    later: int
    earlier: int
    """The row it shares its GPUs with, or `ALONE`."""
    kind: int
    """Code of the GPU type."""

    @property
    def members(self) -> tuple[int, ...]:
        return (self.later,) if self.earlier == ALONE else (self.earlier, self.later)


_make: Callable[[Any, tuple[Any, ...]], Any] = tuple.__new__


def make_pick(later: int, earlier: int, kind: int) -> Pick:
    """A pick; no function of a named tuple is called."""
    pick: Pick = _make(Pick, (later, earlier, kind))
    return pick


def place_picks(
    snapshot: Snapshot,
    picks: Sequence[Pick],
    then: Sequence[int] = (),
    *,
    admits_idle: bool = True,
    place: Place = consolidate,
) -> Decision:
    """Devices for the picks: a job that stays on its type keeps its devices, then the largest come first.

    What is free after that goes to rows of `then` that fit, in their order; all others stop.  Jobs without
    GPUs take no turns: they start as soon as a node has room, if `admits_idle` is true.
    """
    if place is consolidate and not then and not admits_idle and _is_plain(snapshot):
        decision = _place_plainly(snapshot, picks)
        if decision is not None:
            return decision
    stays = {row for pick in picks if _is_placed(snapshot, pick) for row in pick.members}
    if place is lowest:
        return _place_by_size(snapshot, picks, stays, admits_idle=admits_idle)
    moving = sorted(row for row, grant in snapshot.grants.items() if grant.devices and row not in stays)
    starts = [pick for pick in picks if pick.later not in stays]
    idle: list[int] = []
    if admits_idle:
        idle = snapshot.waiting[snapshot.jobs.gpus[snapshot.waiting] == 0].tolist()
    if not (starts or then or idle):
        return Decision({}, [], moving)
    fit = Fitter(snapshot, place)
    scratch = fit.scratch(snapshot)
    for row in moving:
        scratch.release(snapshot.grants[row])
    starts.sort(key=lambda pick: (-snapshot.gpus_of[pick.later], pick))
    grants: list[Grant] = []
    for pick in starts:
        for grant in _grants(snapshot, fit, scratch, pick):
            scratch.hold(grant)
            grants.append(grant)
    grants += _fill(snapshot, fit, scratch, then) + admit_placed(idle, scratch, fit)
    granted = {grant.job for grant in grants}
    return Decision({}, grants, [row for row in moving if row not in granted])


def _is_plain(snapshot: Snapshot) -> bool:
    """True if nothing but free devices of its types decides where a job may run."""
    occupancy, jobs = snapshot.occupancy, snapshot.jobs.table
    return not (
        occupancy.counts_hosts
        or occupancy.down
        or occupancy.sharers
        or snapshot.reservations
        or jobs.parts
        or jobs.node_set_names
    )


def _place_plainly(snapshot: Snapshot, picks: Sequence[Pick]) -> Decision | None:
    """`place_picks` where `_is_plain`, on an index of free devices; None if jobs share or hold parts."""
    jobs, grants, gpus_of = snapshot.jobs.table, snapshot.grants, snapshot.gpus_of
    free, node_sets = snapshot.occupancy.free, snapshot.occupancy.node_sets
    of_type, node_of, share_of = node_sets.of_type, free.node_of, jobs.gpu_share
    stays: set[int] = set()
    starts: list[tuple[int, int, int]] = []
    for pick in picks:
        later, earlier, kind = pick[0], pick[1], pick[2]
        if earlier != ALONE:
            return None
        held = grants.get(later)
        if held is not None:
            devices = held[1]
            if devices and of_type[kind] >> node_of[devices[0]] & 1:
                stays.add(later)
                continue
        if share_of.item(later) != 1.0:
            return None
        starts.append((-gpus_of[later], later, kind))
    moving = sorted([row for row, grant in grants.items() if row not in stays and grant[1]])
    if not starts:
        return Decision({}, [], moving)
    starts.sort()
    free = free.copy()
    for row in moving:
        free.put_all(grants[row][1])
    come: list[Grant] = []
    placed: set[int] = set()
    accepted: dict[int, list[int]] = {}
    types_of, names = jobs.gpu_types, jobs.type_names
    for less, row, kind in starts:
        wanted: int = types_of.item(row)
        nodes = accepted.get(wanted)
        if nodes is None:
            nodes = accepted[wanted] = node_sets.accepted(wanted, names)
        taken = consolidate(free, -less, nodes[kind])
        if taken is not None:
            come.append(whole_grant(row, taken))
            placed.add(row)
    return Decision({}, come, [row for row in moving if row not in placed])


def _place_by_size(
    snapshot: Snapshot, picks: Sequence[Pick], stays: set[int], *, admits_idle: bool
) -> Decision:
    """The largest first, and among equals those that stay: smaller jobs give their GPUs to larger ones."""
    fit = Fitter(snapshot, lowest)
    scratch = fit.scratch(snapshot)
    running = sorted(row for row, grant in snapshot.grants.items() if grant.devices)
    for row in running:
        scratch.release(snapshot.grants[row])
    grants: dict[int, Grant] = {}
    by_size = sorted(picks, key=lambda pick: (-snapshot.gpus_of[pick.later], pick.later not in stays))
    for pick in by_size:
        held = snapshot.grants[pick.later] if pick.later in stays else None
        keeps = held is not None and all(map(scratch.free.is_free, held.devices))
        grant = held if keeps else fit.on_type(scratch, pick.later, pick.kind)
        if grant is not None:
            scratch.hold(grant)
            grants[pick.later] = grant
    idle: list[int] = []
    if admits_idle:
        idle = snapshot.waiting[snapshot.jobs.gpus[snapshot.waiting] == 0].tolist()
    now = {row: snapshot.grants[row].devices for row in running}
    changed = [grant for row, grant in grants.items() if grant.devices != now.get(row)]
    stops = [row for row in running if row not in grants]
    return Decision({}, [*changed, *admit_placed(idle, scratch, fit)], stops)


def _fill(snapshot: Snapshot, fit: Fitter, scratch: Occupancy, rows: Sequence[int]) -> list[Grant]:
    """Grants for those of `rows` that fit, one by one; one misfit stands for all requests like it."""
    jobs, grants = snapshot.jobs.table, list[Grant]()
    misfits: set[tuple[object, ...]] = set()
    for row in rows:
        if jobs.gpu_share.item(row) == 1.0 and snapshot.gpus_of[row] > scratch.free.total:
            continue
        alike = (*REQUEST_COLUMNS, "tenant") if row not in jobs.parts else ()
        request = tuple(getattr(jobs, name).item(row) for name in alike) or (row,)
        if request in misfits:
            continue
        grant = fit(scratch, row)
        if grant is None:
            misfits.add(request)
        else:
            scratch.hold(grant)
            grants.append(grant)
    return grants


def _is_placed(snapshot: Snapshot, pick: Pick) -> bool:
    """True if the members hold what they are to hold, devices of the type that no other job shares."""
    later, earlier, kind = pick
    first = snapshot.grants.get(later if earlier == ALONE else earlier)
    if first is None or not first.devices or snapshot.cluster.device_type.item(first.devices[0]) != kind:
        return False
    if earlier != ALONE:
        return snapshot.grants.get(later) == first._replace(job=later) and first.role is Role.PACKED
    return first.share == snapshot.jobs.table.gpu_share.item(later)


def _grants(snapshot: Snapshot, fit: Fitter, scratch: Occupancy, pick: Pick) -> list[Grant]:
    """What the members get: devices that one had, if they are free, or others; none if nothing fits."""
    first = _of_one(snapshot, fit, scratch, pick)
    if first is None or pick.earlier == ALONE:
        return [] if first is None else [first]
    pair = [first._replace(job=row, share=0.5, role=Role.PACKED) for row in pick.members]
    scratch.hold(pair[0])
    both_fit = fit.admits(scratch, pair[1]) and _has_memory(snapshot, pair)
    scratch.release(pair[0])
    return pair if both_fit else [first]


def _of_one(snapshot: Snapshot, fit: Fitter, scratch: Occupancy, pick: Pick) -> Grant | None:
    row = pick.later
    kinds = snapshot.cluster.device_type
    if snapshot.jobs.table.gpu_share.item(row) == 1.0:
        for member in reversed(pick.members):
            held = snapshot.grants.get(member)
            if held is not None and held.devices and kinds[held.devices[0]] == pick.kind:
                same = Grant(row, held.devices)
                if all(map(scratch.free.is_free, held.devices)) and fit.admits(scratch, same):
                    return same
    return fit.on_type(scratch, row, pick.kind)


def _has_memory(snapshot: Snapshot, pair: list[Grant]) -> bool:
    """True if both find room in the memory of each device they share."""
    need = sum(snapshot.jobs.table.gpu_memory_gib.item(grant.job) for grant in pair)
    capacity = snapshot.cluster.device_memory_gib[list(pair[0].devices)]
    return bool(np.all((capacity == 0.0) | (need <= capacity + EPSILON)))
