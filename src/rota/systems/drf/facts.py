"""Data that stays the same during a run: parameters, needs of jobs, capacity, how tenants are compared."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

import numpy as np

from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.columns import Array, Ints
from rota.model.jobs import JobTable
from rota.solvers.dominant_share import DominantShare
from rota.stages.place import Placement
from rota.stages.requests import request_kinds

_ROUNDING: Final = 1e-9
"""A job that needs a slot's part exactly takes one, whatever the division says."""
_MILLI: Final = 1000
"""Amounts are counted in whole thousandths."""


class Share(StrEnum):
    """The quantity by which tenants are compared."""

    DOMINANT = "dominant"  # the largest of their shares
    ASSETS = "assets"  # the sum of their shares
    GPUS = "gpus"  # their share of the GPUs alone
    SLOTS = "slots"  # their share of equal slots, which are all that is handed out


@dataclass(frozen=True)
class DrfParameters:
    """Parameters of `drf`."""

    share: Share = Share.DOMINANT
    """The quantity by which tenants are compared."""
    weighted: bool = True
    """Divide by the weights of the tenants; without, all are equal."""
    preempt: bool = False
    """Stop jobs of tenants that would still have more than the tenant that waits."""
    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""

    def __post_init__(self) -> None:
        if self.preempt and self.share is Share.SLOTS:
            raise InputError("policy 'drf': slots are not taken back; expected preempt=no with share=slots")


@dataclass(frozen=True)
class Facts:
    """Data that stays the same during a run."""

    jobs: JobTable
    amounts: Ints
    """Thousandths of each resource that a job needs: rows x resources."""
    kinds: Ints
    """Kind of the request of each row."""
    arrival: Ints
    """First row of each tenant."""
    shares: DominantShare
    """Shares of tenants; the owner of the book enters what they hold."""
    service: DominantShare
    """Factors for service received."""
    most: int
    """Number of slots there are, in thousandths; nothing else limits what is handed out."""

    @classmethod
    def of(cls, jobs: JobTable, cluster: Cluster, p: DrfParameters) -> Facts:
        resources = _resources(jobs, cluster)
        if p.share is Share.GPUS:
            resources = resources[:1]
        if p.share is Share.SLOTS:
            resources = [_slots(resources)]
        capacity = [round(_MILLI * total) for total, _ in resources]
        amounts = np.stack([np.rint(_MILLI * needed) for _, needed in resources], axis=1).astype(np.int64)
        weights = _weights(jobs, cluster) if p.weighted else {}
        combine = sum if p.share is Share.ASSETS else max
        return cls(
            jobs=jobs,
            amounts=amounts,
            kinds=request_kinds(jobs, cluster),
            arrival=first_of_each(jobs.tenant, np.arange(len(jobs)), len(jobs.tenant_names)),
            shares=DominantShare(capacity, weights, combine),
            service=DominantShare([1], weights),
            most=capacity[0] if p.share is Share.SLOTS else sys.maxsize,
        )


def _resources(jobs: JobTable, cluster: Cluster) -> list[tuple[float, Array]]:
    """Capacity of the cluster and need of each job by resource; GPUs first."""
    resources = [(float(cluster.gpus), jobs.gpus * jobs.gpu_share)] if cluster.gpus else []
    hosts = ((cluster.node_cpus, jobs.cpus), (cluster.node_memory_gib, jobs.memory_gib))
    resources += [(float(has.sum()), needed) for has, needed in hosts if has.all()]
    if not resources:
        raise InputError("policy 'drf': the cluster has no GPU, and states neither CPUs nor memory to share")
    return resources


def _slots(resources: list[tuple[float, Array]]) -> tuple[float, Array]:
    """Number of slots, one for each unit of the first resource, and how many each job takes."""
    total = resources[0][0]
    parts = [np.ceil(needed * total / capacity - _ROUNDING) for capacity, needed in resources]
    return total, np.maximum(np.max(parts, axis=0), 1.0)


def _weights(jobs: JobTable, cluster: Cluster) -> dict[int, Fraction]:
    """Weight by code of the tenant, as the exact decimal that was written: 0.1 is a tenth."""
    weights = {}
    for code, path in enumerate(jobs.tenant_names):
        weight = cluster.tenants.get(path).weight
        if not 0 < weight < float("inf"):
            raise InputError(f"policy 'drf': tenant {path} has weight {weight:g}; expected one above 0")
        if weight != 1.0:
            weights[code] = Fraction(repr(float(weight)))
    return weights


def first_of_each(codes: Array, rows: Ints, count: int) -> Ints:
    """The first of `rows`, which ascend, with each code; -1 if there is none."""
    first = np.full(count, -1, dtype=np.int64)
    first[codes[::-1]] = rows[::-1]  # of several values for one place the last one stays
    return first
