"""Which jobs a cluster could ever hold; the others are refused at submission, whoever schedules."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Bools, Ints
from rota.model.jobs import JobTable

_ROUNDING = 1e-9
"""A node that has what ten devices need feeds ten, whatever the division says."""


def feasible_rows(jobs: JobTable, cluster: Cluster) -> Bools:
    """Rows that fit an empty cluster: enough GPUs of one type they accept (their fewest, if elastic)."""
    per_type = [cluster.gpus_of_type(code) for code in range(len(cluster.type_names))]
    room = np.zeros(len(jobs), dtype=np.int64)
    for mask in np.unique(jobs.gpu_types).tolist():
        room[jobs.gpu_types == mask] = _most(per_type, cluster, jobs.types_in(mask))
    for code in np.unique(jobs.node_set[jobs.node_set >= 0]).tolist():
        _narrow(room, jobs, cluster, code)
    feasible: Bools = np.minimum(jobs.gpus, jobs.gpus_min) <= room
    return feasible


def _narrow(room: Ints, jobs: JobTable, cluster: Cluster, code: int) -> None:
    """Correct the GPUs there are for the jobs of one node set; -1 for those without a node at all."""
    nodes = cluster.admitted(jobs.node_set_names[code])
    types = cluster.device_type[nodes[cluster.device_node]]
    per_type = np.bincount(types, minlength=len(cluster.type_names)).tolist()
    own = jobs.node_set == code
    for mask in np.unique(jobs.gpu_types[own]).tolist():
        most = _most(per_type, cluster, jobs.types_in(mask)) if nodes.any() else -1
        room[own & (jobs.gpu_types == mask)] = most


def _most(per_type: list[int], cluster: Cluster, names: Container[str]) -> int:
    """The most GPUs there are of one type among `names`, of any if there are none."""
    counts = zip(per_type, cluster.type_names, strict=True)
    return max((n for n, name in counts if not names or name in names), default=0)


class HostNeed(NamedTuple):
    """What a job wants of its nodes besides devices, in all; 0 is unknown."""

    gpus: int
    gpus_min: int
    """Fewest devices it can run on."""
    cpus: float
    memory_gib: float
    types: Container[str] = ()
    """Device types that will do; empty for any."""


def host_need(jobs: JobTable, row: int) -> HostNeed:
    """What the job of `row` wants."""
    mask = jobs.gpu_types.item(row)
    return HostNeed(
        jobs.gpus.item(row),
        jobs.gpus_min.item(row),
        jobs.cpus.item(row),
        jobs.memory_gib.item(row),
        jobs.types_in(mask),
    )


class Shortfall(NamedTuple):
    """What the devices of a job on one node need of it, and the most that a node has."""

    needed: float
    most: float
    what: str
    """`CPU cores` or `GiB of host memory`."""


def host_shortfalls(cluster: Cluster, need: HostNeed) -> list[Shortfall]:
    """Of CPU cores and host memory what the nodes, even with nobody on them, have too little of.

    CPU and memory follow the devices.  Too few devices are no shortfall of this kind.
    """
    if not need.cpus and not need.memory_gib:
        return []
    nodes = np.ones(cluster.nodes, dtype=bool)
    nodes[list(cluster.gone)] = False
    if need.gpus and need.types:
        codes = [code for code, name in enumerate(cluster.type_names) if name in need.types]
        nodes &= np.isin(cluster.node_type, codes)
    room = cluster.node_gpus[nodes] if need.gpus else np.ones(int(nodes.sum()), dtype=np.int64)
    least = min(max(need.gpus_min, 1), int(room.sum()))
    shortfalls = []
    for wanted, capacities, what in (
        (need.cpus, cluster.node_cpus, "CPU cores"),
        (need.memory_gib, cluster.node_memory_gib, "GiB of host memory"),
    ):
        capacity = capacities[nodes]
        if not wanted or not capacity.any():
            continue
        of_each = wanted / max(need.gpus, 1)
        fed = np.where(capacity > 0, np.floor(capacity / of_each + _ROUNDING), np.inf)  # 0 is unlimited
        if np.minimum(room, fed).sum() < least:
            on_one = of_each * min(least, int(room.max()))
            shortfalls.append(Shortfall(on_one, float(capacity.max()), what))
    return shortfalls
