"""What hard quotas leave to jobs of a round: a job beyond its quota makes way for others."""

from __future__ import annotations

from rota.model.cluster import Cluster
from rota.model.jobs import JobTable
from rota.model.tenants import Tenant
from rota.scheduler.snapshot import Snapshot
from rota.solvers.division import ALONE
from rota.table.occupancy import EPSILON

_ALL = -1
"""Stands for GPUs of all types together."""

Place = tuple[str, int]
"""Path of a tenant and code of a GPU type, or `_ALL`."""


class RoundQuotas:
    """GPUs that hard quotas leave, by tenant and type.

    A tenant that holds more than its quota, which was lowered, may keep it.
    """

    def __init__(self, cluster: Cluster, jobs: JobTable, used: dict[Place, float]) -> None:
        self._cluster, self._jobs, self._used = cluster, jobs, used
        self._left: dict[Place, float] = {}
        self._hard: dict[int, tuple[Tenant, ...]] = {}
        """By the code of a tenant: itself and its ancestors, as far as they have hard quotas."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> RoundQuotas | None:
        """The quotas of the snapshot; None if no tenant has a hard quota."""
        cluster = snapshot.cluster
        if not cluster.tenants.has_caps():
            return None
        return cls(cluster, snapshot.jobs.table, snapshot.occupancy.tenant_gpus)

    def takes(self, later: int, earlier: int, gpus: float, kind: int) -> bool:
        """Count in an entry with `gpus` GPUs of a type, if there is room for it.

        When two jobs share them, one has to find room for all of them alone first, and then the other for its
        half.
        """
        need = dict.fromkeys(self._places(later, kind), gpus)
        if earlier != ALONE:
            need = dict.fromkeys(self._places(earlier, kind), gpus / 2) | need
        if any(self._room(place) < gpus - EPSILON for place, gpus in need.items()):
            return False
        for place, claim in need.items():
            self._left[place] -= claim
        return True

    def _places(self, row: int, kind: int) -> list[Place]:
        """The quotas that a job on a type counts in."""
        code = self._jobs.tenant.item(row)
        hard = self._hard.get(code)
        if hard is None:
            hard = self._hard[code] = self._cluster.tenants.caps(self._jobs.name_of("tenant", row))
        name = self._cluster.type_names[kind]
        typed = [(tenant.path, kind) for tenant in hard if name in tenant.quota_by_type]
        return [*typed, *((tenant.path, _ALL) for tenant in hard)]

    def _room(self, place: Place) -> float:
        left = self._left.get(place)
        if left is None:
            path, kind = place
            tenant = self._cluster.tenants.by_path[path]
            named = (
                tenant.quota_gpus if kind == _ALL else tenant.quota_by_type[self._cluster.type_names[kind]]
            )
            left = self._left[place] = max(named, self._used.get(place, 0.0))
        return left
