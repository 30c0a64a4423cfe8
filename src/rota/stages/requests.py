"""What jobs ask for, as one number each: jobs with equal numbers fit, or do not fit, alike."""

from __future__ import annotations

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Ints
from rota.model.jobs import JobTable

REQUEST_COLUMNS = ("gpus", "gpu_share", "gpu_types", "node_set")
"""The columns that decide where a job fits, apart from its tenant's quota and what may be limited."""
LIMITED_BY = {"gpu_memory_gib": "device_memory_gib", "cpus": "node_cpus", "memory_gib": "node_memory_gib"}
"""Columns that decide it too where the cluster has a limit: each with the column of its capacities."""


def request_kinds(jobs: JobTable, cluster: Cluster) -> Ints:
    """The kind of request of each row: where one has been skipped, others of its kind can be too.

    This holds without reservations, and for placements that depend on the request alone.
    """
    limited = [name for name, capacity in LIMITED_BY.items() if getattr(cluster, capacity).any()]
    columns = [getattr(jobs, name) for name in (*REQUEST_COLUMNS, *limited)]
    if cluster.tenants:
        columns.append(jobs.tenant)  # its quota
    kinds = np.zeros(len(jobs), dtype=np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        if len(values) > 1:
            kinds = np.unique(kinds * len(values) + place, return_inverse=True)[1]
    kinds[list(jobs.parts)] = np.arange(len(jobs.parts)) + kinds.max(initial=0) + 1
    return kinds.astype(np.int64)
