"""Which jobs a cluster could ever hold; the others are refused at submission, whoever schedules."""

from __future__ import annotations

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Bools
from rota.model.jobs import JobTable


def feasible_rows(jobs: JobTable, cluster: Cluster) -> Bools:
    """Rows that fit an empty cluster: enough GPUs of one type they accept (their fewest, if elastic)."""
    per_type = [cluster.gpus_of_type(code) for code in range(len(cluster.type_names))]
    room = np.zeros(len(jobs), dtype=np.int64)
    for mask in np.unique(jobs.gpu_types).tolist():
        names = {name for bit, name in enumerate(jobs.type_names) if mask >> bit & 1}
        counts = [
            n for n, name in zip(per_type, cluster.type_names, strict=True) if not mask or name in names
        ]
        room[jobs.gpu_types == mask] = max(counts, default=0)
    feasible: Bools = np.minimum(jobs.gpus, jobs.gpus_min) <= room
    return feasible
