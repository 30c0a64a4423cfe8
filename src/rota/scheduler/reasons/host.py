"""Which CPU cores and host memory a job waits for: those in use now, and those that no node has at all."""

from __future__ import annotations

from rota.model.columns import Bools, Floats
from rota.model.feasible import host_shortfalls, need_of
from rota.model.reasons import Code, Constraint
from rota.scheduler.snapshot import Snapshot
from rota.table.occupancy import EPSILON, Occupancy


def never_fed(snapshot: Snapshot, row: int) -> list[Constraint]:
    """What the nodes would lack for `row` even if they were empty."""
    shortfalls = host_shortfalls(snapshot.cluster, need_of(snapshot.jobs.table, row))
    return [Constraint(Code.HOST_TOO_LARGE, *short) for short in shortfalls]


def not_fed(snapshot: Snapshot, after: Occupancy, row: int) -> list[Constraint]:
    """What the nodes lack in `after` for the devices of the job that they could give."""
    jobs, cluster = after.jobs, after.cluster
    return [
        shortfall
        for need, capacity, used, what in (
            (jobs.cpus.item(row), cluster.node_cpus, after.cpus_used, "CPU cores"),
            (jobs.memory_gib.item(row), cluster.node_memory_gib, after.memory_used, "GiB of host memory"),
        )
        if need and (shortfall := _short(snapshot, after, row, (need, capacity, used, what))) is not None
    ]


def _short(
    snapshot: Snapshot, after: Occupancy, row: int, resource: tuple[float, Floats, list[float], str]
) -> Constraint | None:
    """What the best of the nodes that cannot feed the job's devices lacks, if the others are too few."""
    (need, capacity, used, what), gpus = resource, after.jobs.gpus.item(row)
    lacking, room, free_there = [], 0, 0
    for node in suitable_nodes(snapshot, row):
        if node in after.down_nodes:
            continue
        free = after.free.count[node]
        part = min(max(gpus, 1), max(free, 1)) / max(gpus, 1)
        left = capacity.item(node) - used[node]
        if capacity.item(node) and part * need > left + EPSILON:
            lacking.append(Constraint(Code.HOST, part * need, left, what))
            free_there += free
        else:
            room += free if gpus > 1 else max(free, 1)
    if not lacking or room >= max(gpus, 1) or 0 < room + free_there < gpus:
        return None
    return max(lacking, key=lambda one: (one.provided, one.requested))


def acceptable(snapshot: Snapshot, row: int) -> list[int]:
    """Codes of the GPU types the job accepts."""
    jobs, cluster = snapshot.jobs.table, snapshot.cluster
    wanted = jobs.gpu_types.item(row)
    names = jobs.types_in(wanted)
    return [code for code, name in enumerate(cluster.type_names) if not wanted or name in names]


def admitted_nodes(snapshot: Snapshot, row: int) -> Bools:
    """Which nodes will do for the job, by their names and labels."""
    return snapshot.cluster.admitted(snapshot.jobs.table.name_of("node_set", row))


def suitable_nodes(snapshot: Snapshot, row: int) -> list[int]:
    """Nodes, open or closed, that will do for the job by their names and labels, and by their GPUs if it asks
    for any."""
    cluster, codes = snapshot.cluster, acceptable(snapshot, row)
    admitted, any_kind = admitted_nodes(snapshot, row), not snapshot.gpus_of[row]
    return [
        n for n in range(cluster.nodes) if admitted[n] and (any_kind or int(cluster.node_type[n]) in codes)
    ]
