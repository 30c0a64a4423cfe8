"""Tenants, which share the cluster, as a tree of paths (`vision/alice`) with quotas and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Between(StrEnum):
    """How a policy divides the cluster between tenants; hard quotas hold under every policy."""

    NOTHING = "nothing"  # it looks at jobs, not at their owners
    EQUALLY = "equally"
    WEIGHTS = "weights"
    QUOTAS = "quotas"  # which are lent while they are idle, and taken back
    CELLS = "cells"
    UNITS = "units"  # units of the cluster that are named after tenants


@dataclass(frozen=True)
class CellQuota:
    """The number of units of one level that a tenant is entitled to (HiveD's guarantee)."""

    level: str
    """A level of the cluster, of its devices, `node` or `device`."""
    count: int
    gpu_type: str = ""
    """Type of its devices; empty if the cluster has one."""
    gpus: int = 0
    """Devices of each; 0 unless nodes of several sizes have the level."""
    at: str = ""
    """Name of the unit, if it is to be this one: `r1`, `n3`, or `n3/1`, the second unit in that node."""


@dataclass(frozen=True)
class Tenant:
    """One team, user or virtual cluster; `path` names its parents, separated by slashes."""

    path: str
    quota_gpus: float = math.inf
    """GPUs it is entitled to; infinite if it has no quota."""
    hard: bool = False
    """True if the quota is a cap that the guard enforces; False if it may borrow what is idle."""
    weight: float = 1.0
    """Share relative to its siblings under contention (tickets in Gandiva_fair's words)."""
    quota_by_type: Mapping[str, float] = field(default_factory=dict)
    """Quota per GPU type; types not named are bounded by `quota_gpus` alone."""

    cells: tuple[CellQuota, ...] = ()

    @property
    def parent(self) -> str:
        return self.path.rpartition("/")[0]


@dataclass(frozen=True)
class Tenants:
    """The configured tenants; all others have no quota and weight 1."""

    by_path: Mapping[str, Tenant] = field(default_factory=dict)

    @classmethod
    def none(cls) -> Tenants:
        return cls()

    @classmethod
    def of(cls, *tenants: Tenant) -> Tenants:
        return cls({tenant.path: tenant for tenant in tenants})

    def __bool__(self) -> bool:
        return bool(self.by_path)

    def get(self, path: str) -> Tenant:
        """The tenant at `path`, or one without quota if it is not configured."""
        return self.by_path.get(path) or Tenant(path)

    def lineage(self, path: str) -> tuple[Tenant, ...]:
        """The configured tenants from `path` up to the root; a job counts against each of them."""
        configured = []
        while path:
            if path in self.by_path:
                configured.append(self.by_path[path])
            path = path.rpartition("/")[0]
        return tuple(configured)

    def has_caps(self) -> bool:
        """True if any tenant has a hard quota."""
        return any(tenant.hard for tenant in self.by_path.values())

    def caps(self, path: str) -> tuple[Tenant, ...]:
        """The tenants in the lineage of `path` that have hard quotas."""
        return tuple(tenant for tenant in self.lineage(path) if tenant.hard)

    def most_at_once(self, asked: Mapping[str, float]) -> float:
        """The most GPUs that hard quotas let run together, of those that each path asks for, gangs aside."""
        left, at_once = dict(asked), 0.0
        while left:
            path = max(left, key=lambda path: (path.count("/"), path))  # all below it has been counted
            gpus, tenant = left.pop(path), self.by_path.get(path)
            if tenant is not None and tenant.hard:
                gpus = min(gpus, tenant.quota_gpus)
            parent = path.rpartition("/")[0]
            if parent:
                left[parent] = left.get(parent, 0.0) + gpus
            else:
                at_once += gpus
        return at_once
