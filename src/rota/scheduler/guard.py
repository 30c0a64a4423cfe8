"""The guard: no decision breaks a rule of the cluster, whoever made it.

It recomputes every claim from the grants themselves and trusts nothing of the policy's own accounting.
Each rule has a code, so that tests and reports can name it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rota.model.grants import Grant, Role
from rota.model.jobs import Counts
from rota.scheduler.decision import Decision
from rota.scheduler.occupancy import EPSILON
from rota.scheduler.stages.fit import quota_left
from rota.scheduler.state import State

RULES = {
    "named-twice": "a job is named once in a decision",
    "not-live": "only submitted jobs that have not ended are granted, preempted or ended",
    "not-running": "only running jobs are preempted",
    "not-waiting": "only waiting jobs are rejected",
    "no-device": "a grant names devices that exist",
    "device-twice": "a grant names a device once",
    "unhealthy": "no grant on a lost device",
    "gang": "a gang is whole or absent",
    "size": "an elastic job gets a number of GPUs it can use",
    "type": "a job runs on a GPU type it accepts",
    "share": "a share is above 0 and at most 1; less than asked only with a role",
    "oversubscribed": "shares on a device sum to at most 1, opportunistic ones aside",
    "alone": "a job alone on a device shares it with nobody",
    "memory": "device memory is never oversubscribed",
    "cpu": "CPU and memory of a node are never oversubscribed",
    "quota": "a hard quota is never exceeded",
    "reserved": "a reserved device is granted to nobody else",
}


class Breach(NamedTuple):
    """One rule broken by one job."""

    rule: str
    job: int
    message: str


def check(state: State, decision: Decision) -> list[Breach]:
    """All breaches of `decision` in the state in which it would be carried out; empty if it is sound."""
    if _is_plainly_sound(state, decision):
        return []
    breaches = _check_names(state, decision)
    if breaches:
        return breaches
    for grant in decision.grants:
        breaches += _check_shape(state, grant)
    if breaches:
        return breaches
    return _check_claims(state, decision)


def _is_plainly_sound(state: State, decision: Decision) -> bool:
    """All rules in one pass, for the common case: waiting gangs start on whole devices that are free.

    Says True only if nothing else is involved; anything unusual gets the full check.
    """
    if decision.reject or decision.cancel or decision.reservations is not None or not state.plain:
        return False
    freed: set[int] = set()
    for row in decision.preempt:
        if row not in state.running or not freed.isdisjoint(state.grants[row].devices):
            return False  # of two that are equal, the second is not disjoint
        freed.update(state.grants[row].devices)
    return _are_fresh_starts(state, decision.grants, freed)


def _are_fresh_starts(state: State, grants: Iterable[Grant], freed: set[int]) -> bool:
    """True if each grant starts another waiting job, whole and alone, on devices free or freed."""
    waiting, gpus_of, claimed = state.waiting, state.gpus_of, state.occupancy.claimed
    taken: set[int] = set()
    jobs: set[int] = set()
    last = len(claimed) - 1
    for grant in grants:
        row, devices = grant.job, grant.devices
        if row not in waiting or row in jobs or len(devices) != gpus_of[row]:
            return False
        if grant.share != 1.0 or grant.role:
            return False
        jobs.add(row)
        for device in devices:
            if device in taken or not 0 <= device <= last or (claimed[device] and device not in freed):
                return False
            taken.add(device)
    return True


def _check_names(state: State, decision: Decision) -> list[Breach]:
    waits, runs = state.waiting, state.running
    live = [grant.job for grant in decision.grants]
    if decision.cancel:
        live += decision.cancel
    dead = [row for row in live if row not in waits and row not in runs]
    found = [_breach(state, "not-live", row, "neither waits nor runs") for row in dead]
    idle = [row for row in decision.preempt if row not in runs]
    found += [_breach(state, "not-running", row, "does not run") for row in idle]
    busy = [row for row in decision.reject if row not in waits]
    found += [_breach(state, "not-waiting", row, "does not wait") for row in busy]
    return found + _named_twice(state, decision)


def _named_twice(state: State, decision: Decision) -> list[Breach]:
    named = [grant.job for grant in decision.grants]
    named += (*decision.preempt, *decision.reject, *decision.cancel)
    if len(named) < 2 or len(set(named)) == len(named):
        return []
    twice = {row for row in named if named.count(row) > 1}
    return [_breach(state, "named-twice", row, "is named twice in one decision") for row in sorted(twice)]


def _check_shape(state: State, grant: Grant) -> list[Breach]:
    """Rules that concern one grant alone."""
    row, devices, jobs = grant.job, grant.devices, state.jobs
    count = len(devices)
    if count == 1:
        if not 0 <= devices[0] < len(state.occupancy.claimed):
            return [_breach(state, "no-device", row, f"is granted device {devices[0]}, which does not exist")]
    elif count:
        if min(devices) < 0 or max(devices) >= len(state.occupancy.claimed):
            return [_breach(state, "no-device", row, "is granted a device that does not exist")]
        if len(set(devices)) != count:
            return [_breach(state, "device-twice", row, "is granted one device twice")]
    elif not 0 <= grant.node < state.cluster.nodes:
        return [_breach(state, "no-device", row, "is granted neither a device nor a node")]
    down = state.occupancy.down
    if down and not down.isdisjoint(devices):
        return [_breach(state, "unhealthy", row, "is granted a device that is lost")]
    if count == state.gpus_of[row] and grant.share == 1.0 and not jobs.type_names:
        return []
    return [*_check_size(state, grant, count), *_check_type(state, grant), *_check_share(state, grant)]


def _check_size(state: State, grant: Grant, count: int) -> list[Breach]:
    row, jobs = grant.job, state.jobs
    wanted = state.gpus_of[row]
    if count == wanted:
        return []
    least, most = jobs.gpus_min.item(row), jobs.gpus_max.item(row)
    if least == most or not jobs.gang[row]:
        if jobs.gang[row] or count > wanted:
            return [_breach(state, "gang", row, f"asks for {wanted} GPUs in a gang and is granted {count}")]
        return []
    powers = jobs.counts[row] == Counts.POWERS_OF_TWO
    if not least <= count <= most or (powers and count & (count - 1)):
        among = " in powers of two" if powers else ""
        return [_breach(state, "size", row, f"can use {least} to {most} GPUs{among} and is granted {count}")]
    return []


def _check_type(state: State, grant: Grant) -> list[Breach]:
    row, jobs = grant.job, state.jobs
    wanted = jobs.gpu_types.item(row)
    if not wanted:
        return []
    names = {name for bit, name in enumerate(jobs.type_names) if wanted >> bit & 1}
    for device in grant.devices:
        name = state.cluster.type_names[state.cluster.device_type[device]]
        if name not in names:
            return [
                _breach(state, "type", row, f"accepts {', '.join(sorted(names))} and is granted a {name}")
            ]
    return []


def _check_share(state: State, grant: Grant) -> list[Breach]:
    share, role, wanted = grant.share, grant.role, state.jobs.gpu_share.item(grant.job)
    if share == 1.0 or (
        role is not Role.ALONE and 0.0 <= share <= 1.0 and (share > 0.0 or role is Role.TURNS)
    ):
        return []
    return [
        _breach(
            state,
            "share",
            grant.job,
            f"asks for a share of {wanted:g} and is granted {share:g} {role.name.lower()}",
        )
    ]


def _check_claims(state: State, decision: Decision) -> list[Breach]:
    """Rules that concern all grants together, after everything the decision releases is released."""
    gone = [state.grants[row] for row in decision.preempt]
    gone += [state.grants[row] for row in decision.cancel if row in state.grants]
    gone += [state.grants[grant.job] for grant in decision.grants if grant.job in state.grants]
    found = _check_devices(state, gone, decision.grants)
    reservations = state.reservations if decision.reservations is None else decision.reservations
    if reservations:
        found += _check_reserved(state, decision, reservations)
    if state.special or state.cluster.tenants.by_path:
        found += _check_hosts(state, gone, decision.grants)
    return found


def _check_devices(state: State, gone: list[Grant], grants: Iterable[Grant]) -> list[Breach]:
    """Claims per device, and who must be alone."""
    claims: dict[int, float] = {}
    leavers: dict[int, set[int]] = {}
    for grant in gone:
        counted = 0.0 if grant.role is Role.OPPORTUNISTIC else grant.share
        for device in grant.devices:
            claims[device] = claims.get(device, 0.0) - counted
            leavers.setdefault(device, set()).add(grant.job)
    found = []
    claimed, sharers = state.occupancy.claimed, state.occupancy.sharers
    for grant in grants:
        counted = 0.0 if grant.role is Role.OPPORTUNISTIC else grant.share
        for device in grant.devices:
            claims[device] = claims.get(device, 0.0) + counted
            total = claimed[device] + claims[device]
            if total > 1.0 + EPSILON:
                found.append(_oversubscribed(state, grant, device, total))
            elif sharers and grant.role is Role.ALONE:
                others = [row for row in sharers.get(device, ()) if row not in leavers.get(device, ())]
                if others:
                    message = f"is to be alone on device {device}, where {state.jobs.ids[others[0]]} runs"
                    found.append(_breach(state, "alone", grant.job, message))
    return found


def _oversubscribed(state: State, grant: Grant, device: int, total: float) -> Breach:
    node = state.cluster.node_names[state.cluster.device_node[device]]
    message = f"would claim device {device} (node {node}), whose shares would sum to {total:g}"
    return _breach(state, "oversubscribed", grant.job, message)


def _check_reserved(state: State, decision: Decision, reservations: Iterable) -> list[Breach]:  # type: ignore[type-arg]
    owner = {d: r.job for r in reservations if r.until_s > state.now for d in r.devices}
    return [
        _breach(
            state, "reserved", grant.job, f"is granted device {d}, reserved for {state.jobs.ids[owner[d]]}"
        )
        for grant in decision.grants
        for d in grant.devices
        if d in owner
        and owner[d] != grant.job
        and state.grants.get(grant.job, grant).devices != grant.devices
    ]


def _check_hosts(state: State, gone: list[Grant], grants: Iterable[Grant]) -> list[Breach]:
    """Device memory, CPU, host memory and hard quotas, on a scratch copy."""
    scratch = state.occupancy.copy()
    for grant in gone:
        scratch.release(grant)
    found = []
    for grant in grants:
        scratch.hold(grant)
        row = grant.job
        for device in grant.devices:
            capacity = state.cluster.device_memory_gib.item(device)
            if capacity and scratch.gpu_memory_used.get(device, 0.0) > capacity + EPSILON:
                used = scratch.gpu_memory_used[device]
                found.append(
                    _breach(
                        state, "memory", row, f"would bring device {device} to {used:g} of {capacity:g} GiB"
                    )
                )
        for node, _ in scratch.parts(grant):
            found += _check_node(state, scratch, row, node)
        found += _check_quota(state, scratch, grant)
    return found


def _check_node(state: State, scratch, row: int, node: int) -> list[Breach]:  # type: ignore[no-untyped-def]
    cluster = state.cluster
    name = cluster.node_names[node]
    for what, used, capacity in (
        ("CPUs", scratch.cpus_used[node], cluster.node_cpus.item(node)),
        ("GiB", scratch.memory_used[node], cluster.node_memory_gib.item(node)),
    ):
        if capacity and used > capacity + EPSILON * max(1.0, capacity):
            return [_breach(state, "cpu", row, f"would bring node {name} to {used:g} of {capacity:g} {what}")]
    return []


def _check_quota(state: State, scratch, grant: Grant) -> list[Breach]:  # type: ignore[no-untyped-def]
    cluster = state.cluster
    for tenant in cluster.tenants.lineage(state.jobs.name_of("tenant", grant.job)):
        for kind in {int(cluster.device_type[d]) for d in grant.devices} if tenant.hard else ():
            left = quota_left(scratch, tenant, kind, cluster.type_names[kind])
            if left < -EPSILON:
                message = f"would bring tenant {tenant.path} {-left:g} GPUs above its quota"
                return [_breach(state, "quota", grant.job, message)]
    return []


def _breach(state: State, rule: str, row: int, what: str) -> Breach:
    name = state.jobs.ids[row] if 0 <= row < len(state.jobs) else str(row)
    return Breach(rule, row, f"job {name} {what}; rule: {RULES[rule]}")
