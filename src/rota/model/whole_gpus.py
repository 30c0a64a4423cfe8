"""GPUs that jobs hold and nodes have, with MIG slices counted by their part of a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.gpu_slices import gpu_part, slice_of
from rota.model.trace import Trace


def types_held(trace: Trace) -> list[str]:
    """The type that each job got, or the only one that it accepts; empty where that is not known."""
    got = trace.observed.types if trace.observed is not None else {}
    names, masks = trace.jobs.type_names, trace.jobs.gpu_types.tolist()
    only = {mask: _only(names, mask) for mask in set(masks)}
    return [got.get(row) or only[mask] for row, mask in enumerate(masks)]


def _only(names: Sequence[str], mask: int) -> str:
    accepted = [name for code, name in enumerate(names) if not mask or mask >> code & 1]
    return accepted[0] if len(accepted) == 1 else ""


def gpus_held(trace: Trace) -> Floats:
    """GPUs that each job holds while it runs, shape (n,): devices times their share times `gpu_part`."""
    parts = np.array([gpu_part(name) for name in types_held(trace)], dtype=np.float64)
    held: Floats = trace.jobs.gpus * trace.jobs.gpu_share * parts
    return held


def whole_gpus(cluster: Cluster) -> Floats:
    """GPUs of each node of the cluster, shape (nodes,), slices counted by their part."""
    parts = np.array([gpu_part(name) for name in cluster.type_names], dtype=np.float64)
    of_node: Floats = cluster.node_gpus * parts[cluster.node_type]
    return of_node


def slice_hours(gpu_types: list[str], device_hours: Floats) -> dict[str, float]:
    """Hours for which slices were held, by type; `device_hours` are those of each of `gpu_types`."""
    held: dict[str, float] = {}
    for name, amount in zip(gpu_types, device_hours.tolist(), strict=True):
        if amount > 0 and slice_of(name):
            held[name] = held.get(name, 0.0) + amount
    return held
