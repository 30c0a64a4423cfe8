"""The cluster cut in two: nodes set apart on which jobs run first, and the nodes for all others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from rota.model.cluster import Cluster
from rota.model.grants import Grant, Purpose
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import Place, consolidate
from rota.table.free import mask_of
from rota.table.occupancy import Occupancy


class FirstRuns(Protocol):
    """Which jobs run on the nodes set apart first, on how much of them, and for how long."""

    @property
    def nodes(self) -> int:
        """Nodes set apart: the last ones; a cluster that has no more has none."""
        ...

    @property
    def patience_s(self) -> float:
        """A job that has waited this many seconds for a run goes without it."""
        ...

    @property
    def again(self) -> bool:
        """Whether a job that something else stopped there, such as a failure, has to run there again."""
        ...

    @property
    def lifts(self) -> bool:
        """Whether there are no nodes apart while some job needs them, as the others could not hold it."""
        ...

    @property
    def place(self) -> Place:
        """The rule for the order in which nodes are tried."""
        ...

    def wants(self, jobs: JobTable, row: int) -> bool:
        """True if `row` is one of those that run there first."""
        ...

    def grant(self, fit: Fitter, occupancy: Occupancy, row: int) -> Grant | None:
        """What `row` gets for its run of what `occupancy` leaves free."""
        ...

    def length_s(self, gpus: int) -> float:
        """Seconds that a run on `gpus` GPUs lasts."""
        ...


class Cut:
    """A pool of the last nodes and a view of the others, on one cluster, for one table of jobs.

    Where `runs` lift it, the cut is no more, and the view shows the whole cluster, while there is a job that
    the others could not hold, were they empty.
    """

    def __init__(self, snapshot: Snapshot, runs: FirstRuns) -> None:
        cluster = self.cluster = snapshot.cluster
        self.jobs = snapshot.jobs.table
        self.lifts = runs.lifts
        there = [node for node in range(cluster.nodes) if node not in cluster.gone]
        apart = there[-runs.nodes :] if len(there) > runs.nodes else []
        self._others = [node for node in range(cluster.nodes) if node not in set(apart)]
        self._part = cluster.take(np.array(self._others, dtype=np.int64), cluster.tenants)
        self.pool = Pool(snapshot, apart, runs)
        self.rest = snapshot.view(self._part, self._others)
        """What the policy of those that have passed sees."""
        self.is_lifted = False
        self._outsized: set[int] = set()
        """Live rows that the other nodes could not hold."""
        self._beside = Empty(self.cluster, self.jobs, barred=apart)

    def is_of(self, snapshot: Snapshot) -> bool:
        return self.cluster is snapshot.cluster and self.jobs is snapshot.jobs.table

    def follow(self, snapshot: Snapshot, rows: Iterable[int]) -> bool:
        """`rows` have changed; True if all are to be looked at: other nodes are lost, or the view is new."""
        before, knows_nodes = self.is_lifted, self._beside.is_up_to_date(snapshot)
        if not self.pool.nodes or not self.lifts:
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
        """True if the same nodes are lost as at the last call of `occupancy`."""
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
    """The nodes set apart on one cluster, for one table of jobs."""

    def __init__(self, snapshot: Snapshot, nodes: list[int], runs: FirstRuns) -> None:
        self.cluster = snapshot.cluster
        self.jobs = snapshot.jobs.table
        self.nodes = mask_of(nodes)
        self.runs = runs
        self.empty = Empty(self.cluster, self.jobs)

    def serves(self, snapshot: Snapshot, row: int) -> bool:
        """True if `row` is to run here first, and these nodes could have it.

        A tenant with a hard quota runs nothing here: the policy inside counts what it has, and sees no pool.
        """
        jobs, tenants = self.jobs, self.cluster.tenants
        if not self.nodes or not self.runs.wants(jobs, row):
            return False
        if any(tenant.hard for tenant in tenants.lineage(jobs.name_of("tenant", row))):
            return False
        inside = _Inside(snapshot, self)
        inside.reserved = {}
        return self.runs.grant(inside, self.empty.occupancy(snapshot), row) is not None

    def starts(self, snapshot: Snapshot, rows: Iterable[int], leaving: Iterable[int]) -> list[Grant]:
        """Runs of `rows`, in this order, as far as there is room; what those of `leaving` have is free."""
        scratch, inside = snapshot.scratch(), _Inside(snapshot, self)
        for row in leaving:
            scratch.release(snapshot.grants[row])
        started = []
        for row in rows:
            grant = self.runs.grant(inside, scratch, row)
            if grant is not None:
                scratch.hold(grant)
                started.append(grant._replace(purpose=Purpose.PROFILE))
        return started


class _Inside(Fitter):
    """Places jobs on the nodes of the pool alone."""

    def __init__(self, snapshot: Snapshot, pool: Pool) -> None:
        super().__init__(snapshot, pool.runs.place)
        self.inside = pool.nodes

    def _nodes_by_type(self, row: int) -> list[int]:
        return [nodes & self.inside for nodes in super()._nodes_by_type(row)]
