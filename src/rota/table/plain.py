"""Which jobs have requests so simple that counting GPUs, or checking single devices, shows if they fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Bools, Ints
from rota.model.feasible import feasible_rows
from rota.model.jobs import JobTable

MOST_KINDS = 1000
"""Different requests whose kind is cached; beyond that the cache starts again."""
_ASKED = ("gpus", "gpus_min", "gpu_types", "gang", "gpu_share", "cpus", "memory_gib", "gpu_memory_gib")
_NAMED = ("tenant", "node_set")


class RequestKind(NamedTuple):
    """What the request of one row is: see `plain_rows`, `bare_rows` and `feasible_rows`."""

    is_plain: bool
    is_bare: bool
    is_feasible: bool


class RequestKinds:
    """Classifies rows as they join a growing table, each different request once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[object, ...], RequestKind] = {}

    def of(self, jobs: JobTable, row: int) -> RequestKind:
        """The kind of `row`, as its columns are now."""
        asked = *(getattr(jobs, name).item(row) for name in _ASKED + _NAMED), row in jobs.parts
        kind = self._known.get(asked)
        if kind is None:
            if len(self._known) >= MOST_KINDS:
                self._known.clear()
            kind = self._known[asked] = self._looked_at(jobs.take(np.array([row])))
        return kind

    def _looked_at(self, one: JobTable) -> RequestKind:
        columns = (of(one, self._cluster) for of in (plain_rows, bare_rows, feasible_rows))
        return RequestKind(*(bool(column[0]) for column in columns))


def plain_rows(jobs: JobTable, cluster: Cluster) -> Bools:
    """Rows that ask only for whole, interchangeable GPUs, in a gang of fixed size."""
    plain = whole_rows(jobs, cluster)
    if len(cluster.kinds) > 1:
        plain &= (jobs.gpu_types == 0) & (jobs.gpus == 1)  # a gang gets GPUs of one type, not of all
    elif cluster.kinds and jobs.type_names:
        plain &= (jobs.gpu_types == 0) | np.isin(jobs.gpu_types, _masks_with(jobs, cluster))
    return plain


def whole_rows(jobs: JobTable, cluster: Cluster) -> Bools:
    """Rows that ask only for whole GPUs, of any types, in a gang of fixed size."""
    whole: Bools = bare_rows(jobs, cluster) & (jobs.gpu_share == 1.0)
    return whole


def bare_rows(jobs: JobTable, cluster: Cluster) -> Bools:
    """Rows that ask only for GPUs or parts of them, of any types, in a gang of fixed size."""
    bare: Bools = (jobs.gpus > 0) & jobs.gang & (jobs.node_set < 0)
    if cluster.node_cpus.any():
        bare &= jobs.cpus == 0
    if cluster.node_memory_gib.any():
        bare &= jobs.memory_gib == 0
    if cluster.device_memory_gib.any():
        bare &= jobs.gpu_memory_gib == 0
    bare[list(jobs.parts)] = False
    return bare


def _masks_with(jobs: JobTable, cluster: Cluster) -> Ints:
    """The type masks among the jobs that accept the one type of this cluster."""
    own = cluster.type_names[cluster.kinds[0]]
    accepted = sum(1 << i for i, name in enumerate(jobs.type_names) if name == own)
    masks = np.unique(jobs.gpu_types)
    accepting: Ints = masks[(masks & accepted) != 0]
    return accepting
