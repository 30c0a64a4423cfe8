"""The cluster cut in two: a pool in which new jobs get one GPU each, and the nodes for all others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rota.model.cluster import Cluster
from rota.model.grants import Grant, Purpose
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.place import consolidate, packed
from rota.table.free import mask_of
from rota.table.occupancy import Occupancy


class Cut:
    """A pool of the last `nodes` nodes and a view of the others, on one cluster, for one table of jobs.

    The cut is lifted, and the view shows the whole cluster, while there is a job that the others could not
    hold, were they empty.
    """

    def __init__(self, snapshot: Snapshot, nodes: int, least_gpus: int) -> None:
        cluster = self.cluster = snapshot.cluster
        self.jobs = snapshot.jobs.table
        every = range(cluster.nodes)
        self._others = list(every[: cluster.nodes - nodes] or every)
        self._part = cluster.take(np.array(self._others), cluster.tenants)
        pool = list(every[len(self._others) :])
        self.pool = Pool(snapshot, pool, least_gpus)
        self.rest = snapshot.view(self._part, self._others)
        """What the policy of those that have passed sees."""
        self.is_lifted = False
        self._outsized: set[int] = set()
        """Live rows that the other nodes could not hold."""
        self._beside = Empty(self.cluster, self.jobs, barred=pool)

    def is_of(self, snapshot: Snapshot) -> bool:
        return self.cluster is snapshot.cluster and self.jobs is snapshot.jobs.table

    def follow(self, snapshot: Snapshot, rows: Iterable[int]) -> bool:
        """`rows` have changed; True if all are to be looked at: other nodes are lost, or the view is new."""
        before, knows_nodes = self.is_lifted, self._beside.is_up_to_date(snapshot)
        if not self.pool.nodes:
            return False
        if not knows_nodes:
            rows = [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
            self._outsized.clear()
        beside, whole = self._beside.occupancy(snapshot), self.pool.empty.occupancy(snapshot)
        fit = Fitter(snapshot, consolidate)
        fit.reserved = {}  # in time those are free
        for row in rows:
            self._outsized.discard(row)
            is_live = snapshot.waits(row) or row in snapshot.grants
            if is_live and fit(beside, row) is None and fit(whole, row) is not None:
                self._outsized.add(row)
        self.is_lifted = bool(self._outsized)
        if self.is_lifted != before:
            shown = (
                (self.cluster, range(self.cluster.nodes)) if self.is_lifted else (self._part, self._others)
            )
            self.rest = snapshot.view(*shown)
        return self.is_lifted != before or not knows_nodes


class Empty:
    """The cluster without any job, and without the nodes that are `barred`, or lost at the moment."""

    def __init__(self, cluster: Cluster, jobs: JobTable, barred: Iterable[int] = ()) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self.barred = frozenset(barred)
        self._lost: frozenset[int] | None = None
        self._occupancy: Occupancy | None = None

    def is_up_to_date(self, snapshot: Snapshot) -> bool:
        """True if the same nodes are lost as when somebody last asked."""
        return self._lost == _lost(snapshot)

    def occupancy(self, snapshot: Snapshot) -> Occupancy:
        """What would be free now."""
        lost = _lost(snapshot)
        if self._occupancy is None or lost != self._lost:
            self._lost, self._occupancy = lost, Occupancy(self.cluster, self.jobs)
            for node in sorted(lost | self.barred):
                self._occupancy.lose(node)
        return self._occupancy


def _lost(snapshot: Snapshot) -> frozenset[int]:
    """Nodes that are not there, for now or for good."""
    return frozenset(snapshot.occupancy.down_nodes).union(snapshot.cluster.gone)


class Pool:
    """The nodes of the pool on one cluster, for one table of jobs."""

    def __init__(self, snapshot: Snapshot, nodes: list[int], least_gpus: int) -> None:
        self.cluster = snapshot.cluster
        self.jobs = snapshot.jobs.table
        self.nodes = mask_of(nodes)
        self.least_gpus = least_gpus
        self.empty = Empty(self.cluster, self.jobs)

    def serves(self, snapshot: Snapshot, row: int) -> bool:
        """True if `row` is to run here first: it wants so many GPUs, and one that is in the pool would do.

        A tenant with a hard quota runs nothing here: the policy inside counts what it has, and sees no pool.
        """
        jobs, tenants = self.jobs, self.cluster.tenants
        if jobs.gpus.item(row) < max(self.least_gpus, 1):
            return False
        if any(tenant.hard for tenant in tenants.lineage(jobs.name_of("tenant", row))):
            return False
        inside = _Inside(snapshot, self.nodes)
        inside.reserved = {}
        return _one_gpu(inside, self.empty.occupancy(snapshot), row) is not None

    def starts(self, snapshot: Snapshot, rows: Iterable[int], leaving: Iterable[int]) -> list[Grant]:
        """One GPU for each of `rows`, in this order, as far as they go; those of `leaving` are free."""
        scratch, inside = snapshot.scratch(), _Inside(snapshot, self.nodes)
        for row in leaving:
            scratch.release(snapshot.grants[row])
        started = []
        for row in rows:
            grant = _one_gpu(inside, scratch, row)
            if grant is not None:
                scratch.hold(grant)
                started.append(grant)
        return started


class _Inside(Fitter):
    """Places jobs on the nodes of the pool alone."""

    def __init__(self, snapshot: Snapshot, nodes: int) -> None:
        super().__init__(snapshot, packed)
        self.inside = nodes

    def _nodes_by_type(self, row: int) -> list[int]:
        return [nodes & self.inside for nodes in super()._nodes_by_type(row)]


def _one_gpu(fit: Fitter, occupancy: Occupancy, row: int) -> Grant | None:
    """One GPU for `row`, to see whether it fails there."""
    for type_code in range(len(fit.cluster.type_names)):
        grant = fit.on_type(occupancy, row, type_code, gpus=1)
        if grant is not None:
            return grant._replace(purpose=Purpose.PROFILE)
    return None
