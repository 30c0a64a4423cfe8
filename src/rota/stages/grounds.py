"""Where jobs could run if the cluster were empty, for policies that settle a job on servers beforehand."""

from __future__ import annotations

import sys

from rota.model.cluster import Cluster
from rota.model.feasible import need_of, types_that_hold
from rota.model.jobs import JobTable
from rota.stages.requests import request_kinds
from rota.table.free import nodes_in
from rota.table.occupancy import EPSILON
from rota.table.plain import whole_rows


class Grounds:
    """Where jobs could run if the cluster were empty, worked out once for each kind of request."""

    def __init__(self, cluster: Cluster, jobs: JobTable) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self._sizes: list[int] = cluster.node_gpus.tolist()
        self.kind: list[int] = request_kinds(jobs, cluster).tolist()
        """Equal for jobs that could run on the same nodes and need the same amounts of them."""
        self.whole_gpus: list[bool] = whole_rows(jobs, cluster).tolist()
        """True for jobs that ask for nothing but whole GPUs: counting decides which fit on their nodes."""
        self.all_whole_gpus = all(self.whole_gpus)
        self.all_ask_for_gpus = bool((jobs.gpus > 0).all())
        self.demand: list[float] = (jobs.gpus * jobs.gpu_share).tolist()
        """GPUs that each job asks for; less than one for a job that asks for a share."""
        self.stretches: list[bool] = (jobs.gpus_max > jobs.gpus).tolist()
        """True for jobs that can use more GPUs."""
        self.somebody_stretches = any(self.stretches)
        self._masks: dict[int, list[int]] = {}
        self._parts: dict[int, dict[int, int]] = {}

    def accepting(self, row: int) -> list[int]:
        """Masks of the nodes `row` could run on, lost ones included, one for each type it accepts."""
        kind = self.kind[row]
        if kind not in self._masks:
            self._masks[kind] = self._accepting(row)
        return self._masks[kind]

    def in_part(self, row: int) -> dict[int, int]:
        """For a gang that the nodes of `accepting` could never hold: the GPUs it could use of each node.

        Cores and memory keep it from the others.  Empty for all other jobs.
        """
        kind, gpus = self.kind[row], self.jobs.gpus.item(row)
        if kind not in self._parts:
            rooms = [sum(self._sizes[node] for node in nodes_in(mask)) for mask in self.accepting(row)]
            is_held = gpus < 2 or max(rooms, default=0) >= gpus
            self._parts[kind] = {} if is_held else self._in_part(row)
        return self._parts[kind]

    def _in_part(self, row: int) -> dict[int, int]:
        """The GPUs the gang could use of each node of the first type that has enough of them."""
        cluster, jobs, gpus = self.cluster, self.jobs, self.jobs.gpus.item(row)
        for mask in self._accepting(row, 1.0 / gpus):
            parts = {}
            for node in nodes_in(mask):
                parts[node] = min(
                    self._sizes[node],
                    fed(cluster.node_cpus.item(node), jobs.cpus.item(row) / gpus),
                    fed(cluster.node_memory_gib.item(node), jobs.memory_gib.item(row) / gpus),
                )
            if sum(parts.values()) >= gpus:
                return parts
        return {}

    def _accepting(self, row: int, most: float = 1.0) -> list[int]:
        """Masks of nodes with cores and memory for their part of the job, or for `most` of it if less.

        Only types that could hold all of it count, hard quotas included.
        """
        cluster, jobs = self.cluster, self.jobs
        need = need_of(jobs, row)
        names = types_that_hold(cluster, need._replace(gpus_min=need.gpus))
        masks = [0] * len(cluster.type_names)
        admitted = cluster.admitted(jobs.name_of("node_set", row)).tolist()
        for node in range(cluster.nodes):
            part = min(most, self._sizes[node] / jobs.gpus.item(row))
            if (
                admitted[node]
                and cluster.type_names[cluster.node_type[node]] in names
                and holds(cluster.node_cpus.item(node), part * jobs.cpus.item(row))
                and holds(cluster.node_memory_gib.item(node), part * jobs.memory_gib.item(row))
                and holds(device_memory_gib(cluster, node), jobs.gpu_memory_gib.item(row))
            ):
                masks[cluster.node_type[node]] |= 1 << node
        return [mask for mask in masks if mask]


def device_memory_gib(cluster: Cluster, node: int) -> float:
    """Memory of each GPU of a node; 0 if unlimited, or if it has none."""
    first, end = cluster.first_device.item(node), cluster.first_device.item(node + 1)
    memory: float = cluster.device_memory_gib.item(first) if first < end else 0.0
    return memory


def fed(capacity: float, need: float) -> int:
    """How many portions of `need` a capacity holds; 0 stands for an unlimited capacity."""
    return int((capacity + EPSILON) / need) if capacity and need else sys.maxsize


def holds(capacity: float, need: float) -> bool:
    """True if `need` is within a capacity, where 0 stands for unlimited."""
    return not capacity or need <= capacity + EPSILON
