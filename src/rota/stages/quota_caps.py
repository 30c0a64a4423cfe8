"""What hard quotas leave to jobs that share GPUs by number, as limits that these jobs have in common."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Bools, Floats, Ints
from rota.model.grants import Grant
from rota.model.tenants import Tenant
from rota.scheduler.snapshot import Snapshot
from rota.solvers.shared_caps import SharedCaps

_ALL = -1
"""Stands for GPUs of all types together."""


def caps_of(snapshot: Snapshot, rows: Ints) -> SharedCaps | None:
    """Limits for `rows`, numbered by their places, less what all others hold; None if none binds them.

    GPUs of all types count alike.
    """
    limits = _limits(snapshot, rows, by_type=False)
    return (
        None if limits is None else SharedCaps(limits.left, limits.of, snapshot.jobs.gpu_share[rows].tolist())
    )


class TypedLimits(NamedTuple):
    """Limits of options that each have GPUs of one type."""

    left: Floats
    counts_in: Bools
    """Which of them each option counts in, [option, limit]."""


def typed_limits(snapshot: Snapshot, rows: Ints, job: Ints, kind: Ints) -> TypedLimits | None:
    """The limits of `caps_of`, and of types, for options of `job`, a place in `rows`, on type `kind`."""
    limits = _limits(snapshot, rows, by_type=True)
    if limits is None:
        return None
    is_member = np.zeros((len(rows), len(limits.left)), dtype=bool)
    for place, own in enumerate(limits.of):
        is_member[place, own] = True
    of_kind = np.array(limits.kinds)
    counts_in: Bools = is_member[job] & ((of_kind == _ALL) | (of_kind == kind[:, None]))
    return TypedLimits(np.array(limits.left), counts_in)


class _Limits(NamedTuple):
    left: list[float]
    kinds: list[int]
    """The type of GPUs that each limit counts, or `_ALL`."""
    of: list[list[int]]
    """By place of a row, the limits that it counts in."""


def _limits(snapshot: Snapshot, rows: Ints, *, by_type: bool) -> _Limits | None:
    """A tenant that holds more than its quota, which was lowered, may keep it."""
    cluster, jobs = snapshot.cluster, snapshot.jobs.table
    if not cluster.tenants.has_caps():
        return None
    limits, known = _Limits([], [], []), dict[str, list[int]]()
    for row in rows.tolist():
        own = list[int]()
        for tenant in cluster.tenants.caps(jobs.name_of("tenant", row)):
            if tenant.path not in known:
                known[tenant.path] = _add(limits, snapshot, tenant, by_type=by_type)
            own += known[tenant.path]
        limits.of.append(own)
        grant = snapshot.grants.get(row)
        if grant is not None:
            for limit in own:  # it is to be handed out as well
                limits.left[limit] += _held(grant, limits.kinds[limit], cluster)
    return limits if limits.left else None


def _add(limits: _Limits, snapshot: Snapshot, tenant: Tenant, *, by_type: bool) -> list[int]:
    """Add the limits of a tenant; their numbers."""
    cluster, used = snapshot.cluster, snapshot.occupancy.tenant_gpus
    quotas = {_ALL: tenant.quota_gpus if by_type else _in_all(tenant, cluster)}
    if by_type:
        types = enumerate(cluster.type_names)
        quotas |= {k: tenant.quota_by_type[name] for k, name in types if name in tenant.quota_by_type}
    first = len(limits.left)
    for kind, quota in quotas.items():
        holds = used.get((tenant.path, kind), 0.0)
        limits.left.append(max(quota - holds, 0.0))
        limits.kinds.append(kind)
    return list(range(first, len(limits.left)))


def _held(grant: Grant, kind: int, cluster: Cluster) -> float:
    """GPUs of a type that count against quotas."""
    devices = list(grant.devices)
    count = len(devices) if kind == _ALL else int((cluster.device_type[devices] == kind).sum())
    return count * grant.share


def _in_all(tenant: Tenant, cluster: Cluster) -> float:
    """GPUs, of whatever type, that a tenant may hold together."""
    by_type = tenant.quota_by_type
    gpus: list[int] = np.bincount(cluster.device_type, minlength=len(cluster.type_names)).tolist()
    most = (min(by_type.get(name, math.inf), n) for name, n in zip(cluster.type_names, gpus, strict=True))
    return min(tenant.quota_gpus, sum(most)) if by_type else tenant.quota_gpus
