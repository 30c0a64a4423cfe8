"""Quotas of virtual clusters: which uses how much of its own, and from which to take GPUs back.

A virtual cluster is a configured tenant without a configured parent.  A quota here is no cap: what others
leave idle may be borrowed.  Jobs of unconfigured tenants share a virtual cluster without quota;
where no tenant is configured at all, one virtual cluster owns the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from rota.model.cluster import Cluster
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Snapshot
from rota.table.occupancy import EPSILON

NOBODY: Final = ""
"""Name of the virtual cluster of all tenants that are not configured."""


class VirtualClusterQuotas:
    """The virtual cluster of each job, and the GPUs each is due, by the cluster and the table of jobs."""

    def __init__(self, cluster: Cluster, jobs: JobTable) -> None:
        self.jobs = jobs
        self.tenants = cluster.tenants
        tops = [t for t in self.tenants.by_path.values() if len(self.tenants.lineage(t.path)) == 1]
        self.quota = {t.path: float(t.quota_gpus) for t in tops}
        self.quota[NOBODY] = 0.0 if tops else float(cluster.gpus)
        self._of: dict[int, str] = {}

    def of(self, row: int) -> str:
        """The virtual cluster of a job."""
        code: int = self.jobs.tenant.item(row)
        name = self._of.get(code)
        if name is None:
            lineage = self.tenants.lineage(self.jobs.name_of("tenant", row))
            name = self._of[code] = lineage[-1].path if lineage else NOBODY
        return name


class QuotaShares:
    """GPUs that each virtual cluster uses and is due; used are granted GPUs, reservations do not count."""

    def __init__(self, snapshot: Snapshot, clusters: VirtualClusterQuotas) -> None:
        self.clusters = clusters
        self.quota = clusters.quota
        occupancy = snapshot.occupancy
        held = sum(occupancy.claimed[device] > EPSILON for device in occupancy.down)
        self.there = float(snapshot.cluster.gpus - len(occupancy.down) + held)
        """GPUs that are held or could be granted: GPUs of lost nodes do not count."""
        self.granted = self.there - occupancy.free.total
        """GPUs granted to jobs."""
        self.used = {name: occupancy.tenant_gpus.get((name, -1), 0.0) for name in self.quota if name}
        self.used[NOBODY] = self.granted - sum(self.used.values())

    def of(self, row: int) -> str:
        """The virtual cluster of a job."""
        return self.clusters.of(row)

    def ratio(self, name: str) -> float:
        """Used GPUs over quota."""
        quota = self.quota[name]
        if quota <= 0.0:
            return math.inf
        return self.used[name] / quota

    def grant(self, row: int, gpus: float) -> None:
        """Add `gpus` GPUs to the use of `row`; negative to take them away."""
        self.used[self.of(row)] += gpus
        self.granted += gpus

    def is_due(self, name: str, gpus: float) -> bool:
        """True if `gpus` GPUs more would not bring the virtual cluster above its quota."""
        return self.used[name] + gpus <= self.quota[name] + EPSILON

    def somebody_borrows(self) -> bool:
        """True if a virtual cluster uses more than its quota."""
        return any(used > self.quota[name] + EPSILON for name, used in self.used.items())

    def is_above(self, name: str) -> bool:
        return self.used[name] > self.quota[name] + EPSILON


def reclaim(
    shares: QuotaShares, running: list[tuple[float, int, float]], fits: Callable[[int], bool]
) -> list[int] | None:
    """Rows to preempt until `fits`, called with each victim as it goes, says True; None if it never does.

    `running` holds (start, row, GPUs).  Victims come from the virtual cluster with the largest ratio of use
    to quota, latest start first, larger row first on ties; no job is taken whose loss would leave its
    virtual cluster below its quota.  `shares` shows the losses only if the answer is not None.
    """
    queues: dict[str, list[tuple[float, int, float]]] = {}
    for item in sorted(running):
        queues.setdefault(shares.of(item[1]), []).append(item)
    victims: list[tuple[int, float]] = []
    while True:
        rich = [name for name, queue in queues.items() if queue and shares.is_above(name)]
        if not rich:
            for row, gpus in victims:
                shares.grant(row, gpus)
            return None
        name = max(rich, key=lambda name: (shares.ratio(name), name))
        _, row, gpus = queues[name].pop()
        if shares.used[name] - gpus < shares.quota[name] - EPSILON:
            continue
        shares.grant(row, -gpus)
        victims.append((row, gpus))
        if fits(row):
            return [victim for victim, _ in victims]
