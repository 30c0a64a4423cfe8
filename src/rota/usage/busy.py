"""How busy the GPUs of a trace's jobs were, where the trace says: Slurm's `gres/gpuutil` of the steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rota.model.columns import Floats
from rota.model.trace import Trace


def used_column(trace: Trace, key: str) -> Floats:
    """What each job used of `key`, as far as `facts["usage"]` says; NaN elsewhere."""
    used = trace.facts.get("usage")
    if not isinstance(used, Mapping) or not used:
        return np.full(len(trace), np.nan)
    return np.array([used.get(id, {}).get(key, np.nan) for id in trace.jobs.ids], dtype=np.float64)


def utilisation_of(trace: Trace) -> tuple[Floats, str]:
    """Busy part of each job's GPUs, 0 to 1, NaN where not measured; and how the figure was read.

    Slurm adds a job's GPUs up (two busy ones are 200 %).  Where wide jobs never pass 100 % although single
    GPUs come near it, the figure is a mean already.  A figure that is 0 for everybody measures nothing.
    """
    busy = used_column(trace, "gpu_utilisation")
    known = np.isfinite(busy) & (trace.jobs.gpus > 0)
    if not known.any():
        return np.full(len(trace), np.nan), ""
    if float(busy[known].max()) <= 0.0:
        return np.full(len(trace), np.nan), "gres/gpuutil is 0 for every job: it was not measured"
    gpus = np.maximum(trace.jobs.gpus, 1)
    wide = known & (gpus > 1)
    summed = bool((busy[wide] > 1.01).any()) or not wide.any()
    if not summed:
        alone, together = busy[known & (gpus == 1)], busy[wide] / gpus[wide]
        # Sums below one GPU's worth for every wide job are believable only if single GPUs idle as well.
        summed = len(alone) > 0 and float(np.median(alone)) <= 2 * float(np.median(together))
    each = np.clip(busy / gpus if summed else busy, 0.0, 1.0)
    how = "the sum over a job's GPUs" if summed else "the mean over a job's GPUs, as none passes 100%"
    measured: Floats = np.where(known, each, np.nan)
    return measured, f"gres/gpuutil is read as {how}"
