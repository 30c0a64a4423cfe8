"""Why a job waits: all binding constraints, derived from the snapshot when somebody asks."""

from __future__ import annotations

from rota.model.grants import Code, Constraint
from rota.scheduler.decision import Decision
from rota.scheduler.occupancy import Occupancy
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.fit import quota_left
from rota.scheduler.state import Phase


def explain(snapshot: Snapshot, decision: Decision, row: int) -> tuple[Constraint, ...]:
    """All constraints that keep `row` waiting once `decision` is in force, dominant first.

    Empty if the job does not wait.  What only the policy knows comes first; then what no order could
    change (size, type, quota), then what is free, then the jobs in front.
    """
    state = snapshot.state
    if row in state.held:
        return (Constraint(Code.DEPENDENCY, detail=_unfinished(snapshot, row)),)
    granted = {grant.job for grant in decision.grants}
    if row in granted or state.phase[row] not in (Phase.PENDING, Phase.RUNNING):
        return ()
    if state.phase[row] == Phase.RUNNING and row not in decision.preempt:
        return ()
    after = _after(snapshot, decision)
    found = [decision.reasons[row]] if row in decision.reasons else []
    if row in decision.preempt:
        found.append(_displaced(snapshot, decision, row))
    found += _never(snapshot, row) or [
        *_quota(snapshot, after, row),
        *_room(snapshot, after, row),
        *_reserved(snapshot, decision, row),
    ]
    ahead = sum(other != row and other not in granted for other in _in_front(snapshot, row))
    if ahead or not found:
        found.append(Constraint(Code.PRIORITY, provided=ahead))
    return tuple(dict.fromkeys(found))


def first_reason(snapshot: Snapshot, decision: Decision, row: int) -> Constraint:
    """The dominant reason in constant time, for the record of a simulation."""
    if row in decision.reasons:
        return decision.reasons[row]
    state = snapshot.state
    gpus, free = state.gpus_of[row], state.occupancy.free.total
    if gpus > free:
        return Constraint(Code.RESOURCES, gpus, free)
    largest = state.occupancy.free.nonempty.bit_length() - 1
    if gpus > largest:
        return Constraint(Code.FRAGMENTATION, gpus, largest, "node")
    return Constraint(Code.PRIORITY, provided=len(state.waiting) - 1)


def _after(snapshot: Snapshot, decision: Decision) -> Occupancy:
    """The occupancy once the decision is carried out."""
    after = snapshot.scratch()
    for job in (*decision.preempt, *decision.cancel, *(grant.job for grant in decision.grants)):
        if job in snapshot.grants:
            after.release(snapshot.grants[job])
    for grant in decision.grants:
        after.hold(grant)
    return after


def _unfinished(snapshot: Snapshot, row: int) -> str:
    state = snapshot.state
    names = [state.jobs.ids[r] for r in state.jobs.after.get(row, ()) if state.phase[r] < Phase.COMPLETED]
    return ", ".join(names) or state.held[row]


def _displaced(snapshot: Snapshot, decision: Decision, row: int) -> Constraint:
    """Who got the devices of a preempted job."""
    devices = set(snapshot.grants[row].devices)
    heirs = [g.job for g in decision.grants if devices.intersection(g.devices)]
    names = ", ".join(snapshot.state.jobs.ids[heir] for heir in heirs[:3]) or "jobs before it"
    return Constraint(Code.PREEMPTED, len(devices), detail=names)


def _acceptable(snapshot: Snapshot, row: int) -> list[int]:
    """Codes of the GPU types the job accepts."""
    jobs, cluster = snapshot.state.jobs, snapshot.cluster
    wanted = jobs.gpu_types.item(row)
    names = {name for bit, name in enumerate(jobs.type_names) if wanted >> bit & 1}
    return [code for code, name in enumerate(cluster.type_names) if not wanted or name in names]


def _never(snapshot: Snapshot, row: int) -> list[Constraint]:
    """What no waiting can cure."""
    gpus = snapshot.state.gpus_of[row]
    room = max((snapshot.cluster.gpus_of_type(code) for code in _acceptable(snapshot, row)), default=0)
    return [Constraint(Code.GANG_TOO_LARGE, gpus, room)] if gpus > room else []


def _quota(snapshot: Snapshot, after: Occupancy, row: int) -> list[Constraint]:
    cluster, jobs = snapshot.cluster, snapshot.state.jobs
    gpus = jobs.gpus.item(row) * jobs.gpu_share.item(row)
    found = []
    for tenant in cluster.tenants.lineage(jobs.name_of("tenant", row)):
        left = max(
            (quota_left(after, tenant, c, cluster.type_names[c]) for c in _acceptable(snapshot, row)),
            default=0,
        )
        if tenant.hard and gpus > left:
            used = after.tenant_gpus.get((tenant.path, -1), 0.0)
            found.append(
                Constraint(Code.QUOTA, used + gpus, min(tenant.quota_gpus, used + left), tenant.path)
            )
    return found


def _room(snapshot: Snapshot, after: Occupancy, row: int) -> list[Constraint]:
    """Too few free devices of the acceptable types, or enough but scattered."""
    gpus, cluster = snapshot.state.gpus_of[row], snapshot.cluster
    codes = set(_acceptable(snapshot, row))
    counts = [n for node, n in enumerate(after.free.count) if int(cluster.node_type[node]) in codes]
    free, most = sum(counts), max(counts, default=0)
    if gpus > free:
        if len(codes) < len(cluster.type_names):
            names = "|".join(cluster.type_names[code] for code in sorted(codes))
            return [Constraint(Code.GPU_TYPE, gpus, free, names)]
        return [Constraint(Code.RESOURCES, gpus, free)]
    if gpus > most:
        return [Constraint(Code.FRAGMENTATION, gpus, most, "node")]
    return []


def _reserved(snapshot: Snapshot, decision: Decision, row: int) -> list[Constraint]:
    held = snapshot.state.reservations if decision.reservations is None else decision.reservations
    others = [r for r in held if r.job != row and r.until_s > snapshot.now]
    if not others:
        return []
    free = snapshot.occupancy.free.total - sum(len(r.devices) for r in others)
    gpus = snapshot.state.gpus_of[row]
    names = ", ".join(snapshot.state.jobs.ids[r.job] for r in others[:3])
    return [Constraint(Code.RESERVATION, gpus, max(free, 0), names)] if gpus > free else []


def _in_front(snapshot: Snapshot, row: int) -> list[int]:
    """Waiting jobs submitted before `row`: without the policy's order, the best guess of who is ahead."""
    return [other for other in snapshot.waiting.tolist() if other < row]
