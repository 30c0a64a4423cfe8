"""What a decision costs a job in ElasticFlow's simulator."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats, Ints

LARGE_CLUSTER_GPUS = 256


def spared_s(cluster_gpus: int) -> float:
    """Seconds a job stands still on devices that have worked together before: a constant."""
    return 7.0 if cluster_gpus >= LARGE_CLUSTER_GPUS else 2.0


def overhead_s(gpus: Ints, cluster_gpus: int, restarts: bool) -> Floats:
    """Seconds for which a job on `gpus` GPUs stands still when it is set up again.

    A constant, a part that grows with the depth of the communication tree, and the restart of all trainer
    processes once in a fixed number of decisions; constants of clusters from 256 GPUs on are larger.
    """
    restart_s = (47.0 if cluster_gpus >= LARGE_CLUSTER_GPUS else 27.0) if restarts else 0.0
    cost: Floats = spared_s(cluster_gpus) + restart_s + 2.0 * (np.log2(np.maximum(gpus, 1)) + 1.0)
    return cost
