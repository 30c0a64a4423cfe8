"""Why a job waits: all binding constraints, derived from the snapshot on request.

What only the policy knows comes first, then what it has lost, then what no order could change (size, quota),
then what is free, then the jobs in front.  A constraint is binding if it alone would keep the job waiting
once the decision is in force.  `rota.scheduler.reasons.running` says why a job runs as it does.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from rota.model.columns import Bools
from rota.model.grants import Reservation
from rota.model.reasons import Code, Constraint, names_of, noted
from rota.model.units import format_duration
from rota.scheduler.decision import Decision, Ranking
from rota.scheduler.reasons.host import acceptable, admitted_nodes, never_fed, not_fed, suitable_nodes
from rota.scheduler.reasons.unsaid import unsaid
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import quota_left
from rota.stages.priority import ByPriority
from rota.table.occupancy import EPSILON, Occupancy
from rota.table.state import Phase

_BY_SUBMISSION: Ranking = ByPriority(lambda snapshot, row: row)
"""The best guess of which jobs are ahead, for policies that do not say."""


@runtime_checkable
class KnowsShares(Protocol):
    """A ranking that orders tenants by what they hold."""

    def share(self, snapshot: Snapshot, row: int) -> tuple[str, float, float] | None:
        """Tenant of `row`, GPUs it holds, and GPUs that are its share; None where tenants do not count."""
        ...


@runtime_checkable
class KnowsTurns(Protocol):
    """A ranking by which jobs take turns in rounds."""

    def turn(self, snapshot: Snapshot, row: int) -> Constraint | None:
        """The part of the time for `row`, what it has had, which jobs are before it and until when."""
        ...


def explain(snapshot: Snapshot, decision: Decision, row: int) -> tuple[Constraint, ...]:
    """All constraints that keep `row` waiting once `decision` is in force, dominant first.

    Empty if the job does not wait.
    """
    if row in snapshot.held:
        return (_held(snapshot, row),)
    granted = {grant.job for grant in decision.grants}
    displaced = row in decision.preempt
    if row in granted or not (displaced or snapshot.waits(row)):
        return ()
    constraints = [decision.reasons[row]] if row in decision.reasons else []
    if row in snapshot.refused:
        constraints.append(_refused(snapshot, row))
    if displaced:
        constraints.append(_displaced(snapshot, decision, row))
    constraints += _resources(snapshot, decision, row)
    ranking = decision.ranking or _BY_SUBMISSION
    turn = ranking.turn(snapshot, row) if isinstance(ranking, KnowsTurns) else None
    if turn is not None:
        # `turn` says already which jobs are before it in its rounds.
        return tuple(dict.fromkeys((*constraints, turn)))
    ahead = [int(other) for other in ranking.ahead(snapshot, row) if other != row and other not in granted]
    constraints += _behind(snapshot, ranking, row, ahead)
    return tuple(dict.fromkeys(constraints or [unsaid(snapshot, decision)]))


# -- before any device -----------------------------------------------------------------------------


def _held(snapshot: Snapshot, row: int) -> Constraint:
    jobs, phase = snapshot.jobs.table, snapshot.by_row.phase
    names = [jobs.ids[r] for r in jobs.after.get(row, ()) if phase[r] < Phase.COMPLETED]
    if names:
        return Constraint(Code.DEPENDENCY, detail=", ".join(names))
    return noted(snapshot.held[row])


def _displaced(snapshot: Snapshot, decision: Decision, row: int) -> Constraint:
    """The jobs that got the devices of a preempted job."""
    devices = set(snapshot.grants[row].devices)
    heirs = [g.job for g in decision.grants if devices.intersection(g.devices)]
    names = _names(snapshot, heirs) or "nobody yet"
    return Constraint(Code.PREEMPTED, len(devices), detail=names)


def _refused(snapshot: Snapshot, row: int) -> Constraint:
    """Why the decision to start `row` was not carried out: usually another job may not be disturbed."""
    refused, held = snapshot.refused, snapshot.grants
    kept = [why for other, why in refused.items() if other in held and other != row]
    causes = kept[:2] if kept and row not in held else [refused[row]]
    return Constraint(Code.REFUSED, detail="; ".join(cause.partition("; rule:")[0] for cause in causes))


# -- others that wait ------------------------------------------------------------------------------


def _behind(snapshot: Snapshot, ranking: Ranking, row: int, ahead: list[int]) -> list[Constraint]:
    """The jobs `ahead`, by what puts them there: their priority, their tenant, their age, or the policy."""
    jobs, constraints = snapshot.jobs.table, []
    own = jobs.priority.item(row)
    higher = [other for other in ahead if jobs.priority.item(other) > own]
    if higher:
        constraints.append(Constraint(Code.PRIORITY, provided=len(higher), detail=_names(snapshot, higher)))
    left = [other for other in ahead if jobs.priority.item(other) <= own]
    if isinstance(ranking, KnowsShares):
        left = _of_poorer(snapshot, ranking, row, left, constraints)
    earlier = [other for other in left if other < row]
    is_by_age = len(earlier) == len(left)
    if earlier and is_by_age:
        constraints.append(Constraint(Code.EARLIER, provided=len(earlier), detail=_names(snapshot, earlier)))
    elif left:
        constraints.append(Constraint(Code.ORDER, provided=len(left), detail=_names(snapshot, left)))
    return constraints


def _of_poorer(
    snapshot: Snapshot, ranking: KnowsShares, row: int, ahead: list[int], constraints: list[Constraint]
) -> list[int]:
    """Notes in `constraints` that poorer tenants come first; the jobs that are ahead for another reason."""
    known = ranking.share(snapshot, row)
    if known is None:
        return ahead
    tenant, holds, share = known
    own = snapshot.jobs.table.tenant.item(row)
    others = [other for other in ahead if snapshot.jobs.table.tenant.item(other) != own]
    if not others or holds <= share + EPSILON:
        return ahead
    constraints.append(Constraint(Code.SHARE, holds, share, tenant))
    return [other for other in ahead if other not in set(others)]


def _names(snapshot: Snapshot, rows: list[int]) -> str:
    ids = snapshot.jobs.table.ids
    return names_of([ids[row] for row in rows])


# -- devices ---------------------------------------------------------------------------------------


def _resources(snapshot: Snapshot, decision: Decision, row: int) -> list[Constraint]:
    """What the cluster lacks for `row`; nothing if it would fit beside all others.

    A closed node comes first only if `row` cannot run without it: others also wait for devices that are in
    use, and should not be shown a node that does not concern them.
    """
    ranking = decision.ranking or _BY_SUBMISSION
    after = _after(snapshot, decision)
    if not ranking.fits(snapshot, after, row):
        closed = _closed(snapshot, ranking, after, row)
        never, lacking = _never(snapshot, ranking, row), never_fed(snapshot, row)
        if never:
            return closed + never + lacking
        lacking += _quota(snapshot, after, row) + _host(snapshot, after, row, lacking)
        lacking += _room(snapshot, after, row)
        reserved = [] if lacking else _reserved(snapshot, decision, after, row)
        lacking = lacking or reserved or [_scattered(snapshot, after, row)]
        is_only_hope = closed and not ranking.fits(snapshot, _empty(snapshot), row)
        return closed + lacking if is_only_hope else lacking + closed
    if ranking.fits(snapshot, _without(after, _reserved_for_others(snapshot, decision, row)), row):
        return []
    return _reserved(snapshot, decision, after, row)


def _reserved(snapshot: Snapshot, decision: Decision, after: Occupancy, row: int) -> list[Constraint]:
    """Devices that would do but are kept free for other jobs; empty if there are none."""
    others = _reserved_for_others(snapshot, decision, row)
    if not others:
        return []
    names = ", ".join(_reserved_for(snapshot, reservation) for reservation in others[:3])
    return [Constraint(Code.RESERVATION, _asked(snapshot, row), _without(after, others).free.total, names)]


def _reserved_for(snapshot: Snapshot, reservation: Reservation) -> str:
    """The job that something is kept for, and for how long."""
    name, left_s = snapshot.jobs.table.ids[reservation.job], reservation.until_s - snapshot.now
    return f"{name} (for another {format_duration(left_s)})" if left_s < float("inf") else name


def _closed(snapshot: Snapshot, ranking: Ranking, after: Occupancy, row: int) -> list[Constraint]:
    """Nodes that take no new jobs, and unhealthy devices, that alone keep `row` from what is free.

    Nodes that the job may not use do not count.
    """
    cluster, constraints, suitable = snapshot.cluster, [], set(suitable_nodes(snapshot, row))
    nodes = sorted((after.down_nodes & suitable).difference(cluster.gone))
    if nodes and not _quota(snapshot, after, row):
        opened = after.copy()
        for node in nodes:
            opened.regain(node)
        if ranking.fits(snapshot, opened, row):
            names = names_of([cluster.node_names[node] for node in nodes])
            constraints.append(Constraint(Code.NODE, detail=names))
    on_open = suitable.difference(after.down_nodes)
    sick = sorted(d for d in after.down if int(cluster.device_node[d]) in on_open)
    if sick and not _quota(snapshot, after, row):
        healed = after.copy()
        healed.open(sick)
        if ranking.fits(snapshot, healed, row):
            names = names_of([_device(snapshot, device) for device in sick])
            constraints.append(Constraint(Code.UNHEALTHY, detail=names))
    return constraints


def _device(snapshot: Snapshot, device: int) -> str:
    """`n0:3`, as people know it."""
    cluster = snapshot.cluster
    node = int(cluster.device_node[device])
    return f"{cluster.node_names[node]}:{device - int(cluster.first_device[node])}"


def _after(snapshot: Snapshot, decision: Decision) -> Occupancy:
    """The occupancy once the decision is carried out."""
    after = snapshot.scratch()
    for job in (*decision.preempt, *decision.cancel, *(grant.job for grant in decision.grants)):
        if job in snapshot.grants:
            after.release(snapshot.grants[job])
    for grant in decision.grants:
        after.hold(grant)
    return after


def _empty(snapshot: Snapshot) -> Occupancy:
    """The cluster if no job held anything; what is closed stays closed."""
    empty = snapshot.scratch()
    for grant in snapshot.grants.values():
        empty.release(grant)
    return empty


def _asked(snapshot: Snapshot, row: int) -> float:
    """GPUs needed; for parts of GPUs, their sum."""
    share: float = snapshot.jobs.table.gpu_share.item(row)
    return snapshot.gpus_of[row] * share


def _never(snapshot: Snapshot, ranking: Ranking, row: int) -> list[Constraint]:
    """More GPUs of one type than the cluster has, closed nodes aside, or than one node of it if it has to be
    one."""
    cluster, gpus, down = snapshot.cluster, snapshot.gpus_of[row], snapshot.occupancy.down
    usable = admitted_nodes(snapshot, row)[cluster.device_node].nonzero()[0].tolist()
    healthy = [int(cluster.device_type[device]) for device in usable if device not in down]
    room = max((healthy.count(code) for code in acceptable(snapshot, row)), default=0)
    if gpus > room:
        return [Constraint(Code.GANG_TOO_LARGE, gpus, room)]
    largest = _largest_node(snapshot, row)
    if gpus > largest and not ranking.spreads and not ranking.fits(snapshot, _empty(snapshot), row):
        return [Constraint(Code.GANG_TOO_LARGE, gpus, largest, "node")]
    return []


def _largest_node(snapshot: Snapshot, row: int) -> int:
    """Healthy devices of the node of an acceptable type that has most of them."""
    cluster, down = snapshot.cluster, snapshot.occupancy.down
    codes, admitted = set(acceptable(snapshot, row)), admitted_nodes(snapshot, row)
    counts = [0] * cluster.nodes
    for device, node in enumerate(cluster.device_node):
        if admitted[node] and device not in down and int(cluster.device_type[device]) in codes:
            counts[int(node)] += 1
    return max(counts, default=0)


def _quota(snapshot: Snapshot, after: Occupancy, row: int) -> list[Constraint]:
    cluster, jobs = snapshot.cluster, snapshot.jobs.table
    gpus = _asked(snapshot, row)
    constraints = []
    for tenant in cluster.tenants.lineage(jobs.name_of("tenant", row)):
        left = max(
            (quota_left(after, tenant, c, cluster.type_names[c]) for c in acceptable(snapshot, row)),
            default=0,
        )
        if tenant.hard and gpus > left + EPSILON:
            used = after.tenant_gpus.get((tenant.path, -1), 0.0)
            quota = min(tenant.quota_gpus, used + left)
            constraints.append(Constraint(Code.QUOTA, used + gpus, quota, tenant.path))
    return constraints


def _host(snapshot: Snapshot, after: Occupancy, row: int, said: list[Constraint]) -> list[Constraint]:
    """CPU cores or host memory that are in use, unless `said` names a lack of them already."""
    known = {one.detail for one in said}
    return [one for one in not_fed(snapshot, after, row) if one.detail not in known]


def _room(snapshot: Snapshot, after: Occupancy, row: int) -> list[Constraint]:
    """Too few free devices of one acceptable type, or too little memory on them."""
    codes = acceptable(snapshot, row)
    asked, free = _devices_asked(snapshot, row), _most_free(after, codes, row, admitted_nodes(snapshot, row))
    if asked > free + EPSILON:
        if asked <= _most_free(after, codes, row, np.ones(snapshot.cluster.nodes, dtype=bool)) + EPSILON:
            return [Constraint(Code.NODE_SET, asked, free, snapshot.jobs.table.name_of("node_set", row))]
        if len(snapshot.cluster.type_names) > 1:
            names = "|".join(snapshot.cluster.type_names[code] for code in codes)
            return [Constraint(Code.GPU_TYPE, asked, free, names)]
        return [Constraint(Code.RESOURCES, asked, free)]
    return _memory(after, codes, row)


def _scattered(snapshot: Snapshot, after: Occupancy, row: int) -> Constraint:
    """Enough is free and allowed, but the placement refuses: it lies on too many nodes."""
    codes, kinds = acceptable(snapshot, row), after.cluster.node_type
    most = max((n for node, n in enumerate(after.free.count) if int(kinds[node]) in codes), default=0)
    return Constraint(Code.FRAGMENTATION, _devices_asked(snapshot, row), most, "node")


def _devices_asked(snapshot: Snapshot, row: int) -> float:
    """GPUs needed: for a gang of parts, one for each part; for a single part, its size."""
    gpus: int = snapshot.gpus_of[row]
    return gpus if gpus > 1 else _asked(snapshot, row)


def _most_free(after: Occupancy, codes: list[int], row: int, admitted: Bools) -> float:
    """Free GPUs of the type that has most of them on `admitted` nodes; for a part, the most one has left.

    For a gang of parts, devices with room for one part count.
    """
    cluster, share = after.cluster, after.jobs.gpu_share.item(row)
    room = [0] * len(cluster.type_names)
    for node, count in enumerate(after.free.count):
        room[int(cluster.node_type[node])] += count * bool(admitted[node])
    usable = [
        d for d in after.spare if admitted[cluster.device_node[d]] and int(cluster.device_type[d]) in codes
    ]
    if share < 1.0 and after.jobs.gpus.item(row) > 1:
        for device in usable:
            room[int(cluster.device_type[device])] += after.spare[device] >= share - EPSILON
    most = max((room[code] for code in codes), default=0)
    if share == 1.0 or most or after.jobs.gpus.item(row) > 1:
        return most
    return max((after.spare[d] for d in usable), default=0.0)


def _memory(after: Occupancy, codes: list[int], row: int) -> list[Constraint]:
    """Device memory that no acceptable device with room has left."""
    need, cluster = after.jobs.gpu_memory_gib.item(row), after.cluster
    share = after.jobs.gpu_share.item(row)
    left = [
        cluster.device_memory_gib.item(device) - after.device_memory.used.get(device, 0.0)
        for device in range(cluster.gpus)
        if int(cluster.device_type[device]) in codes
        and (after.free.is_free(device) or after.spare.get(device, 0.0) >= share - EPSILON)
    ]
    limited = bool(left) and all(cluster.device_memory_gib)
    if need and limited and need > max(left) + EPSILON:
        return [Constraint(Code.MEMORY, need, max(left))]
    return []


# -- reservations ----------------------------------------------------------------------------------


def _reserved_for_others(snapshot: Snapshot, decision: Decision, row: int) -> list[Reservation]:
    held = snapshot.reservations if decision.reservations is None else decision.reservations
    return [r for r in held if r.job != row and r.until_s > snapshot.now]


def _without(after: Occupancy, reservations: list[Reservation]) -> Occupancy:
    """The occupancy in which reserved devices are not free either."""
    scratch = after.copy()
    for device in {device for reservation in reservations for device in reservation.devices}:
        if scratch.free.is_free(device):
            scratch.free.remove(device)
    return scratch
