"""Which jobs a cluster could ever hold; the others are refused at submission under every policy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Array, Bools, Ints
from rota.model.jobs import JobTable
from rota.model.reasons import Code, Constraint

MOST_ANSWERS = 1000
"""Answers kept for one cluster; beyond that the cache is emptied."""
_ROUNDING = 1e-9
"""Rounding: a node that has what ten devices need feeds ten, whatever the division says."""


def feasible_rows(jobs: JobTable, cluster: Cluster) -> Bools:
    """Rows that fit an empty cluster: those for which `never_fits` has no constraint."""
    if len(jobs) == 1:  # as they come in a live world
        return np.array([not never_fits(cluster, need_of(jobs, 0))])
    feasible: Bools = np.ones(len(jobs), dtype=bool)
    if len(jobs):
        first, kind = _kinds(_asked_in(jobs, cluster, least=True))
        feasible = np.array([not never_fits(cluster, need_of(jobs, row)) for row in first.tolist()])[kind]
    return feasible


def holding_types(jobs: JobTable, cluster: Cluster, rows: Ints) -> Bools:
    """The types on which each of `rows` could ever have all the GPUs that it asks for, [row, type]."""
    columns = [column[rows] for column in _asked_in(jobs, cluster, least=False)]
    holds: Bools = np.ones((len(rows), len(cluster.type_names)), dtype=bool)
    if len(rows):
        first, kind = _kinds(columns)
        for place, row in enumerate(rows[first].tolist()):
            need = need_of(jobs, row)
            names = types_that_hold(cluster, need._replace(gpus_min=need.gpus))
            holds[kind == place] = [name in names for name in cluster.type_names]
    return holds


def refusals(jobs: JobTable, cluster: Cluster, rows: Iterable[int]) -> dict[int, str]:
    """The rows that the cluster could never hold, each with the first reason."""
    said: dict[Need, str] = {}
    why: dict[int, str] = {}
    for row in rows:
        need = need_of(jobs, row)
        if need not in said:
            said[need] = next((one.sentence() for one in never_fits(cluster, need)), "")
        why[row] = said[need]
    return {row: sentence for row, sentence in why.items() if sentence}


def _asked_in(jobs: JobTable, cluster: Cluster, *, least: bool) -> list[Array]:
    """The columns that decide whether an empty cluster holds a job; `least` GPUs may be enough."""
    columns: list[Array] = [jobs.gpus, jobs.gpu_types, jobs.node_set]
    columns += [np.minimum(jobs.gpus, jobs.gpus_min)] if least else []
    columns += [jobs.cpus] if cluster.node_cpus.any() else []
    columns += [jobs.memory_gib] if cluster.node_memory_gib.any() else []
    columns += [jobs.gpu_memory_gib] if cluster.device_memory_gib.any() else []
    columns += [jobs.tenant, jobs.gpu_share] if cluster.tenants.has_caps() else []
    return columns


def _kinds(columns: Sequence[Array]) -> tuple[Ints, Ints]:
    """The first row of each distinct combination, and the number of the combination that each row is of."""
    kind = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, codes = np.unique(column, return_inverse=True)
        _, kind = np.unique(kind * (codes.max() + 1) + codes, return_inverse=True)
    _, first = np.unique(kind, return_index=True)
    return first, kind


class Need(NamedTuple):
    """What a job needs of an empty cluster; 0 is unknown."""

    gpus: int
    gpus_min: int
    """Fewest devices it can run on."""
    cpus: float = 0.0
    """CPU cores in all; like host memory, they follow the devices."""
    memory_gib: float = 0.0
    types: tuple[str, ...] = ()
    """Device types that will do; empty for any."""
    share: float = 1.0
    """Part of each device."""
    gpu_memory_gib: float = 0.0
    """Memory on each device."""
    tenant: str = ""
    node_set: str = ""
    """Nodes that will do, as `Cluster.admitted` reads it; empty for any."""

    @property
    def least(self) -> int:
        """Fewest devices, and one at least for a job that wants any."""
        return max(min(self.gpus, self.gpus_min), 1)


def need_of(jobs: JobTable, row: int) -> Need:
    """What the job of `row` needs."""
    return Need(
        jobs.gpus.item(row),
        jobs.gpus_min.item(row),
        jobs.cpus.item(row),
        jobs.memory_gib.item(row),
        tuple(sorted(jobs.types_in(jobs.gpu_types.item(row)))),
        jobs.gpu_share.item(row),
        jobs.gpu_memory_gib.item(row),
        jobs.name_of("tenant", row),
        jobs.name_of("node_set", row),
    )


def never_fits(cluster: Cluster, need: Need) -> tuple[Constraint, ...]:
    """Why the cluster could not hold the job even if it were empty; an empty tuple if it could.

    A gang gets devices of one type, so that each thing is looked for among the types that have what comes
    before it: devices, their memory, what feeds them, a hard quota.  Most jobs ask for what others have asked
    for, and a live world needs the answer four times for each, so that answers are kept with the cluster.
    """
    return _answered(cluster, need).lacks


def types_that_hold(cluster: Cluster, need: Need) -> tuple[str, ...]:
    """The types that could ever give a job the GPUs that it asks for; none if it never fits."""
    return _answered(cluster, need).types


class _Answer(NamedTuple):
    """What an empty cluster offers for one need."""

    lacks: tuple[Constraint, ...]
    types: tuple[str, ...] = ()
    """The types that hold it, if it wants GPUs and nothing is lacking."""


def _answered(cluster: Cluster, need: Need) -> _Answer:
    kept = cluster.answers
    known = kept.get(need)
    if known is None:
        if len(kept) >= MOST_ANSWERS:
            kept.clear()
        known = kept[need] = _answer(cluster, need)
    answer: _Answer = known
    return answer


def _answer(cluster: Cluster, need: Need) -> _Answer:
    present = _present(cluster, need)
    if not present.any():
        return _Answer((Constraint(Code.NODE_SET, need.gpus, math.nan, need.node_set),))
    if not need.gpus:
        return _Answer(tuple(_unfed(cluster, need, present)))
    rooms = _rooms(cluster, need)
    if not rooms:
        return _Answer((Constraint(Code.GPU_TYPE, math.nan, 0.0, "|".join(need.types)),))
    lacks: list[Constraint] = []
    for lack in (_lack_of_devices, _lack_of_memory, _lack_of_hosts, _lack_of_quota):
        rooms, constraints = lack(cluster, need, rooms)
        lacks += constraints
    return _Answer(tuple(lacks), () if lacks else tuple(rooms))


Rooms = Mapping[str, Ints]
"""Devices of each node, by type that will do; 0 where a node does not count."""


def _present(cluster: Cluster, need: Need) -> Bools:
    nodes = cluster.admitted(need.node_set)
    nodes[list(cluster.gone)] = False
    return nodes


def _rooms(cluster: Cluster, need: Need) -> Rooms:
    gpus = cluster.node_gpus * _present(cluster, need)
    names = [name for name in cluster.type_names if not need.types or name in need.types]
    return {name: gpus * (cluster.node_type == cluster.type_names.index(name)) for name in names}


def _lack_of_devices(cluster: Cluster, need: Need, rooms: Rooms) -> tuple[Rooms, list[Constraint]]:
    """The types with enough devices; if there are none, all types and what is lacking."""
    large = {name: room for name, room in rooms.items() if room.sum() >= need.least}
    if large:
        return large, []
    return rooms, [
        Constraint(Code.GANG_TOO_LARGE, need.least, max(int(room.sum()) for room in rooms.values()))
    ]


def _lack_of_memory(cluster: Cluster, need: Need, rooms: Rooms) -> tuple[Rooms, list[Constraint]]:
    """The types with enough device memory, and what is lacking; nodes with too little no longer count."""
    memory_gib = np.zeros(cluster.nodes)
    memory_gib[cluster.device_node] = cluster.device_memory_gib
    has = (memory_gib == 0.0) | (memory_gib >= need.gpu_memory_gib)
    roomy = {
        name: room * has
        for name, room in rooms.items()
        if (room * has).sum() >= min(need.least, int(room.sum()))
    }
    if roomy:
        return roomy, []
    largest = round(float(memory_gib[_suitable(cluster, need)].max(initial=0.0)), 3)
    return rooms, [Constraint(Code.MEMORY_TOO_LARGE, need.gpu_memory_gib, largest)]


def _lack_of_hosts(cluster: Cluster, need: Need, rooms: Rooms) -> tuple[Rooms, list[Constraint]]:
    """The types with enough cores and host memory, and what is lacking if there are none."""
    lacks = {name: _unfed(cluster, need, room > 0) for name, room in rooms.items()}
    fed = {name: room for name, room in rooms.items() if not lacks[name]}
    return (fed, []) if fed else (rooms, min(lacks.values(), key=len))


def _lack_of_quota(cluster: Cluster, need: Need, rooms: Rooms) -> tuple[Rooms, list[Constraint]]:
    """The types within hard quotas, of the tenant and of those above it, else what is lacking."""
    wants = need.least * need.share
    for tenant in cluster.tenants.lineage(need.tenant):
        if not tenant.hard:
            continue
        most = {name: min(tenant.quota_gpus, tenant.quota_by_type.get(name, math.inf)) for name in rooms}
        allowed = {name: room for name, room in rooms.items() if wants <= most[name] + _ROUNDING}
        if not allowed:
            return rooms, [Constraint(Code.QUOTA, wants, max(most.values()), tenant.path)]
        rooms = allowed
    return rooms, []


def _unfed(cluster: Cluster, need: Need, nodes: Bools) -> list[Constraint]:
    return [Constraint(Code.HOST_TOO_LARGE, *short) for short in host_shortfalls(cluster, need, nodes)]


class Shortfall(NamedTuple):
    """What the devices of a job on one node need of it, and the most that a node has."""

    needed: float
    most: float
    what: str
    """The resource: `CPU cores` or `GiB of host memory`."""


def host_shortfalls(cluster: Cluster, need: Need, nodes: Bools | None = None) -> list[Shortfall]:
    """The CPU cores and the host memory of which the nodes, even if empty, have too little.

    CPU and memory follow the devices.  Too few devices are no shortfall of this kind.  Only `nodes` count, or
    else those with devices that will do.
    """
    if not need.cpus and not need.memory_gib:
        return []
    nodes = _suitable(cluster, need) if nodes is None else nodes
    room = cluster.node_gpus[nodes] if need.gpus else np.ones(int(nodes.sum()), dtype=np.int64)
    least = min(max(need.gpus_min, 1), int(room.sum()))
    shortfalls: list[Shortfall] = []
    fed_by_all = np.full(len(room), math.inf)
    for wanted, capacities, what in (
        (need.cpus, cluster.node_cpus, "CPU cores"),
        (need.memory_gib, cluster.node_memory_gib, "GiB of host memory"),
    ):
        capacity = capacities[nodes]
        if not wanted or not capacity.any():
            continue
        of_each = wanted / max(need.gpus, 1)
        fed = np.where(capacity > 0, np.floor(capacity / of_each + _ROUNDING), np.inf)  # 0 is unlimited
        # Nodes that have one and lack the other feed no job; what is short by itself is named alone.
        fed_by_all = np.minimum(fed_by_all, fed) if not shortfalls else fed
        short = Shortfall(of_each * min(least, int(room.max())), float(capacity.max()), what)
        if np.minimum(room, fed_by_all).sum() < least:
            shortfalls.append(short)
    return shortfalls


def _suitable(cluster: Cluster, need: Need) -> Bools:
    """Nodes that are there, with devices of a type that will do if the job wants any."""
    if not need.gpus:
        return _present(cluster, need)
    nodes: Bools = np.sum(list(_rooms(cluster, need).values()), axis=0) > 0
    return nodes
