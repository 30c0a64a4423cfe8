"""What jobs ask for, as one number each: equal numbers fit or do not fit alike."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Ints
from rota.model.jobs import JobTable

_COLUMNS = (
    *("gpus", "gpu_share", "gpu_memory_gib", "gpu_types", "cpus", "memory_gib"),
    "tenant",  # its quota
)


def shapes(jobs: JobTable) -> Ints:
    """Code of the request of each row; once a job has been skipped, later ones of its code can be too."""
    codes = np.zeros(len(jobs), dtype=np.int64)
    for name in _COLUMNS:
        _, values = np.unique(getattr(jobs, name), return_inverse=True)
        _, codes = np.unique(codes * (int(values.max(initial=0)) + 1) + values, return_inverse=True)
    codes[list(jobs.parts)] = np.arange(len(jobs.parts)) + codes.max(initial=0) + 1
    return codes.astype(np.int64)
