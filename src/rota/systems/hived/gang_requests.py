"""Jobs as gangs: how many pods of how many GPUs, in whose virtual cluster, on which nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rota.model.cells import CellKind
from rota.model.grants import Grant, Role
from rota.model.job_columns import JobKind
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter, host_room
from rota.stages.place import consolidate
from rota.systems.hived.cells import OPPORTUNISTIC, Gang
from rota.systems.hived.clusters import VirtualClusters
from rota.systems.hived.layout import Layout
from rota.table.occupancy import EPSILON, Occupancy

Shape = tuple[object, ...]
"""Equal for jobs that fit, or do not, alike."""


_ASKED = (
    "gpus", "gpu_share", "gpu_types", "priority", "kind", "node_set", "cpus", "memory_gib", "gpu_memory_gib",
)  # fmt: skip


class AskedOnce:
    """What requests and cells alone determine, by row, computed once."""

    def __init__(self, jobs: JobTable, layout: Layout) -> None:
        self.jobs, self.layout = jobs, layout
        self.vc: dict[int, str] = {}
        self.shape: dict[int, Shape] = {}
        self.gangs: dict[tuple[Shape, bool], list[Gang]] = {}
        """By shape, and whether it has a guarantee: unused gangs, to make gangs from."""


class Requests:
    """The requests of the jobs of one snapshot, in cells."""

    def __init__(
        self, snapshot: Snapshot, layout: Layout, *, lazy: bool, asked: AskedOnce | None = None
    ) -> None:
        self.snapshot, self.layout, self.lazy = snapshot, layout, lazy
        self.jobs = snapshot.jobs.table
        is_known = asked is not None and asked.jobs is self.jobs and asked.layout is layout
        self.asked = asked if asked is not None and is_known else AskedOnce(self.jobs, layout)
        self.fit = Fitter(snapshot, consolidate)
        self.homeless: set[int] = set()
        """Jobs that have run, and that the cells of their tenants could not hold any more, since these have
        moved: they go on as opportunists."""
        self._has_caps = snapshot.cluster.tenants.has_caps()

    def vc_of(self, row: int) -> str:
        """The virtual cluster of the job's tenant; empty if it has none."""
        vc = self.asked.vc.get(row)
        if vc is None:
            vc = self.asked.vc[row] = self.layout.vc_of(self.jobs.name_of("tenant", row))
        return vc

    def is_guaranteed(self, row: int) -> bool:
        is_eager = self.jobs.kind.item(row) == JobKind.OPPORTUNISTIC or row in self.homeless
        return not is_eager and bool(self.vc_of(row))

    def has_run(self, row: int) -> bool:
        return bool(self.snapshot.by_row.starts.item(row)) and self.snapshot.gpus_of[row] > 0

    def shape(self, row: int) -> Shape:
        """Key that decides whether the job fits."""
        shape = self.asked.shape.get(row)
        if shape is None:
            jobs = self.jobs
            whose = jobs.tenant.item(row) if self._has_caps else self.vc_of(row)
            shape = self.asked.shape[row] = (whose, *(getattr(jobs, name).item(row) for name in _ASKED))
        return shape

    def gangs(self, row: int, clusters: VirtualClusters) -> list[Gang]:
        """The gang of `row` as pods for each kind of nodes that it accepts and its virtual cluster has."""
        jobs, vc = self.jobs, self.vc_of(row)
        guaranteed = self.is_guaranteed(row)
        priority = max(jobs.priority.item(row), 0) if guaranteed else OPPORTUNISTIC
        pin = self.layout.pin_for(vc, jobs.name_of("node_set", row)) if guaranteed else ""
        wanted = jobs.gpu_types.item(row)
        types = jobs.types_in(wanted) if wanted else ()
        gangs = []
        for kind in self.layout.kinds:
            largest = self._largest(clusters, vc, kind, pin) if guaranteed else kind.gpus(kind.node_level)
            fed = self._fed(row, kind)
            if (types and kind.gpu_type not in types) or not min(largest, fed):
                continue
            pods = pods_of(jobs.gpus.item(row), min(largest, fed))
            gangs.append(
                Gang(jobs.ids[row], vc, priority, pods, (), kind.name, pin, self.lazy, most_per_node=fed)
            )
        return gangs

    def running(self, row: int) -> Gang:
        """The gang of a job that runs."""
        jobs, vc = self.jobs, self.vc_of(row)
        guaranteed = self.is_guaranteed(row)
        priority = max(jobs.priority.item(row), 0) if guaranteed else OPPORTUNISTIC
        pin = self.layout.pin_for(vc, jobs.name_of("node_set", row)) if guaranteed else ""
        return Gang(jobs.ids[row], vc, priority, (jobs.gpus.item(row),), (), "", pin, self.lazy)

    def _largest(self, clusters: VirtualClusters, vc: str, kind: CellKind, pin: str) -> int:
        """GPUs of the largest node that the virtual cluster has of a kind; 0 if it has none."""
        own = clusters.vcs[vc]
        packing = own.pin_packings.get(pin) if pin else own.packings.get(kind.name)
        if packing is None or not packing.nodes or packing.nodes[0].kind != kind:
            return 0
        return packing.largest

    def _fed(self, row: int, kind: CellKind) -> int:
        """GPUs of the job that an idle node of the kind has cores and memory for."""
        cluster, jobs = self.snapshot.cluster, self.jobs
        most, asked = kind.gpus(kind.node_level), max(jobs.gpus.item(row), 1)
        for need, capacities in (
            (jobs.cpus.item(row), cluster.node_cpus),
            (jobs.memory_gib.item(row), cluster.node_memory_gib),
        ):
            if need:
                capacity = capacities[[node for top in self.layout.kinds[kind] for node in top]]
                if capacity.all():
                    most = min(most, math.floor(float(capacity.max()) * asked / need + EPSILON))
        return most

    def suggested(self, scratch: Occupancy, row: int, gang: Gang) -> WillDo:
        """Nodes that will do for `row`: by their names, and by the cores and the memory that are left."""
        most = min(gang.gpus, gang.most_per_node)
        return WillDo(scratch, row, self.fit.accepted(row), most / max(gang.gpus, 1))

    def grant(self, row: int, gang: Gang) -> Grant:
        """What `row` holds as `gang`."""
        devices = tuple(sorted(leaf.device for pod in gang.physical for leaf in pod))
        return grant_of(self.jobs.gpu_share.item(row), row, devices)


class WillDo:
    """Nodes of a mask that have cores and memory left for a part of a job; computed when asked for."""

    def __init__(self, scratch: Occupancy, row: int, accepted: int, part: float) -> None:
        self.scratch, self.row, self.accepted, self.part = scratch, row, accepted, part
        jobs = scratch.jobs
        self._asks = bool(jobs.cpus.item(row) or jobs.memory_gib.item(row))
        self._known: dict[int, bool] = {}

    def isdisjoint(self, nodes: Iterable[int], /) -> bool:
        """True if none of `nodes` is suitable."""
        return not any(self._has(node) for node in nodes)

    def _has(self, node: int) -> bool:
        if not self.accepted >> node & 1:
            return False
        if not self._asks:
            return True
        if node not in self._known:
            self._known[node] = host_room(self.scratch, node, self.part, self.row)
        return self._known[node]


def grant_of(share: float, row: int, devices: tuple[int, ...]) -> Grant:
    """Whole GPUs, or the part of each that the job asks for: no other job gets the rest."""
    return Grant(row, devices, share, Role.ALONE if share == 1.0 else Role.PACKED)


def pods_of(gpus: int, most: int) -> tuple[int, ...]:
    """As few pods as possible of at most `most` GPUs."""
    full, rest = divmod(gpus, most)
    return (most,) * full + ((rest,) if rest else ())
