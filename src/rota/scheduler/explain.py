"""Why a job waits: all binding constraints, derived from the snapshot when somebody asks.

What only the policy knows comes first, then what it has lost, then what no order could change (size,
quota), then what is free, then the jobs in front.  A constraint is binding if it alone would keep the job
waiting once the decision is in force.
"""

from __future__ import annotations

from rota.model.grants import Code, Constraint, Reservation
from rota.scheduler.decision import Decision, Standing
from rota.scheduler.occupancy import EPSILON, Occupancy
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.fit import quota_left
from rota.scheduler.stages.priority import ByPriority
from rota.scheduler.state import Phase

_BY_SUBMISSION: Standing = ByPriority(lambda snapshot, row: row)
"""The best guess of who is ahead, for policies that do not say."""

_UNSAID = "could start, and the policy gives no reason why it does not"


def explain(snapshot: Snapshot, decision: Decision, row: int) -> tuple[Constraint, ...]:
    """All constraints that keep `row` waiting once `decision` is in force, dominant first.

    Empty if the job does not wait.
    """
    state = snapshot.state
    if row in state.held:
        return (_held(snapshot, row),)
    granted = {grant.job for grant in decision.grants}
    displaced = row in decision.preempt
    if row in granted or not (displaced or state.phase[row] == Phase.PENDING):
        return ()
    found = [decision.reasons[row]] if row in decision.reasons else []
    if row in state.refused:
        found.append(Constraint(Code.REFUSED, detail=state.refused[row]))
    if displaced:
        found.append(_displaced(snapshot, decision, row))
    found += _resources(snapshot, decision, row)
    standing = decision.standing or _BY_SUBMISSION
    ahead = sum(other != row and other not in granted for other in standing.ahead(snapshot, row))
    if ahead:
        found.append(Constraint(Code.PRIORITY, provided=ahead))
    return tuple(dict.fromkeys(found or [_unsaid(decision)]))


def first_reason(snapshot: Snapshot, decision: Decision, row: int) -> Constraint:
    """The dominant reason in constant time, for the record of a simulation.

    `PRIORITY` counts all others that wait, whoever is before them.
    """
    if row in decision.reasons:
        return decision.reasons[row]
    state = snapshot.state
    gpus, free = state.gpus_of[row], state.occupancy.free.total
    if gpus > free:
        return Constraint(Code.RESOURCES, gpus, free)
    largest = state.occupancy.free.nonempty.bit_length() - 1
    if gpus > largest and not (decision.standing or _BY_SUBMISSION).spreads:
        return Constraint(Code.FRAGMENTATION, gpus, largest, "node")
    return Constraint(Code.PRIORITY, provided=len(state.waiting) - 1)


# -- before any device -----------------------------------------------------------------------------


def _held(snapshot: Snapshot, row: int) -> Constraint:
    state = snapshot.state
    names = [state.jobs.ids[r] for r in state.jobs.after.get(row, ()) if state.phase[r] < Phase.COMPLETED]
    if names:
        return Constraint(Code.DEPENDENCY, detail=", ".join(names))
    return Constraint(Code.HELD, detail=state.held[row])


def _displaced(snapshot: Snapshot, decision: Decision, row: int) -> Constraint:
    """Who got the devices of a preempted job."""
    devices = set(snapshot.grants[row].devices)
    heirs = [g.job for g in decision.grants if devices.intersection(g.devices)]
    names = ", ".join(snapshot.state.jobs.ids[heir] for heir in heirs[:3]) or "nobody yet"
    return Constraint(Code.PREEMPTED, len(devices), detail=names)


def _unsaid(decision: Decision) -> Constraint:
    """Nothing binds: the job waits for the policy to come round, or for reasons of its own."""
    if decision.wake.at_s < float("inf"):
        return Constraint(Code.ROUND)
    return Constraint(Code.POLICY, detail=_UNSAID)


# -- devices ---------------------------------------------------------------------------------------


def _resources(snapshot: Snapshot, decision: Decision, row: int) -> list[Constraint]:
    """What the cluster lacks for `row`; nothing if it would fit beside all others."""
    never = _never(snapshot, row)
    if never:
        return never
    standing = decision.standing or _BY_SUBMISSION
    after = _after(snapshot, decision)
    if not standing.fits(snapshot, after, row):
        lacking = _quota(snapshot, after, row) + (_host(after, row) or _room(snapshot, after, row))
        return lacking or [_scattered(snapshot, after, row)]
    others = _reserved_for_others(snapshot, decision, row)
    open_to_all = _without(after, others)
    if standing.fits(snapshot, open_to_all, row):
        return []
    names = ", ".join(snapshot.state.jobs.ids[reservation.job] for reservation in others[:3])
    return [Constraint(Code.RESERVATION, _asked(snapshot, row), open_to_all.free.total, names)]


def _after(snapshot: Snapshot, decision: Decision) -> Occupancy:
    """The occupancy once the decision is carried out."""
    after = snapshot.scratch()
    for job in (*decision.preempt, *decision.cancel, *(grant.job for grant in decision.grants)):
        if job in snapshot.grants:
            after.release(snapshot.grants[job])
    for grant in decision.grants:
        after.hold(grant)
    return after


def _asked(snapshot: Snapshot, row: int) -> float:
    """GPUs needed, as a share of one if it asks for less than a whole."""
    share: float = snapshot.state.jobs.gpu_share.item(row)
    return snapshot.state.gpus_of[row] * share


def _acceptable(snapshot: Snapshot, row: int) -> list[int]:
    """Codes of the GPU types the job accepts."""
    jobs, cluster = snapshot.state.jobs, snapshot.cluster
    wanted = jobs.gpu_types.item(row)
    names = {name for bit, name in enumerate(jobs.type_names) if wanted >> bit & 1}
    return [code for code, name in enumerate(cluster.type_names) if not wanted or name in names]


def _never(snapshot: Snapshot, row: int) -> list[Constraint]:
    """More GPUs of one type than the cluster has, lost nodes aside."""
    gpus, kinds, down = snapshot.state.gpus_of[row], snapshot.cluster.device_type, snapshot.occupancy.down
    healthy = [int(kind) for device, kind in enumerate(kinds) if device not in down]
    room = max((healthy.count(code) for code in _acceptable(snapshot, row)), default=0)
    return [Constraint(Code.GANG_TOO_LARGE, gpus, room)] if gpus > room else []


def _quota(snapshot: Snapshot, after: Occupancy, row: int) -> list[Constraint]:
    cluster, jobs = snapshot.cluster, snapshot.state.jobs
    gpus = _asked(snapshot, row)
    found = []
    for tenant in cluster.tenants.lineage(jobs.name_of("tenant", row)):
        left = max(
            (quota_left(after, tenant, c, cluster.type_names[c]) for c in _acceptable(snapshot, row)),
            default=0,
        )
        if tenant.hard and gpus > left + EPSILON:
            used = after.tenant_gpus.get((tenant.path, -1), 0.0)
            quota = min(tenant.quota_gpus, used + left)
            found.append(Constraint(Code.QUOTA, used + gpus, quota, tenant.path))
    return found


def _host(after: Occupancy, row: int) -> list[Constraint]:
    """CPU cores or host memory that no healthy node has left, for a job on a single node."""
    jobs, cluster = after.jobs, after.cluster
    if jobs.gpus.item(row) > 1:
        return []
    found = []
    for need, capacity, used, what in (
        (jobs.cpus.item(row), cluster.node_cpus, after.cpus_used, "CPU cores"),
        (jobs.memory_gib.item(row), cluster.node_memory_gib, after.memory_used, "GiB of host memory"),
    ):
        healthy = [node for node in range(cluster.nodes) if node not in after.down_nodes]
        limited = bool(healthy) and all(capacity.item(node) for node in healthy)
        most = max((capacity.item(node) - used[node] for node in healthy), default=0.0)
        if limited and need > most + EPSILON:
            found.append(Constraint(Code.HOST, need, most, what))
    return found


def _room(snapshot: Snapshot, after: Occupancy, row: int) -> list[Constraint]:
    """Too few free devices of one acceptable type, or too little memory on them."""
    codes = _acceptable(snapshot, row)
    asked, free = _asked(snapshot, row), _most_free(after, codes, row)
    if asked > free + EPSILON:
        if len(snapshot.cluster.type_names) > 1:
            names = "|".join(snapshot.cluster.type_names[code] for code in codes)
            return [Constraint(Code.GPU_TYPE, asked, free, names)]
        return [Constraint(Code.RESOURCES, asked, free)]
    return _memory(after, codes, row)


def _scattered(snapshot: Snapshot, after: Occupancy, row: int) -> Constraint:
    """Enough is free and allowed, and yet the placement refuses: it lies on too many nodes."""
    codes, kinds = _acceptable(snapshot, row), after.cluster.node_type
    most = max((n for node, n in enumerate(after.free.count) if int(kinds[node]) in codes), default=0)
    return Constraint(Code.FRAGMENTATION, _asked(snapshot, row), most, "node")


def _most_free(after: Occupancy, codes: list[int], row: int) -> float:
    """Free GPUs of the type that has most of them; for part of a GPU, the most that one has left."""
    cluster = after.cluster
    whole = [0] * len(cluster.type_names)
    for node, count in enumerate(after.free.count):
        whole[int(cluster.node_type[node])] += count
    most = max((whole[code] for code in codes), default=0)
    if after.jobs.gpu_share.item(row) == 1.0 or most:
        return most
    return max((left for d, left in after.spare.items() if int(cluster.device_type[d]) in codes), default=0.0)


def _memory(after: Occupancy, codes: list[int], row: int) -> list[Constraint]:
    """Device memory that no acceptable device with room has left."""
    need, cluster = after.jobs.gpu_memory_gib.item(row), after.cluster
    share = after.jobs.gpu_share.item(row)
    left = [
        cluster.device_memory_gib.item(device) - after.gpu_memory_used.get(device, 0.0)
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
    held = snapshot.state.reservations if decision.reservations is None else decision.reservations
    return [r for r in held if r.job != row and r.until_s > snapshot.now]


def _without(after: Occupancy, reservations: list[Reservation]) -> Occupancy:
    """The occupancy on which what is reserved is not free either."""
    scratch = after.copy()
    for device in {device for reservation in reservations for device in reservation.devices}:
        if scratch.free.is_free(device):
            scratch.free.remove(device)
    return scratch
