"""How busy the GPUs of a trace's jobs were, where the trace says: Slurm's `gres/gpuutil` of the steps.

A counter that stands at 0 is no measurement by itself: where GPUs are not accounted for, all counters of a
job's GPUs stand at 0 while it works.  Use counts as collected for a job if

- a counter of its GPUs moved: they were used, or their memory was taken; or
- other counters of the job moved, and they say that its CPUs did next to nothing either.

Energy proves nothing here: many sites meter that of the node without its GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Bools, Floats
from rota.model.trace import Trace

WORKING_CORES = 0.05
"""CPU cores kept busy for each GPU above which a job's CPUs worked."""


def used_column(trace: Trace, key: str) -> Floats:
    """What each job used of `key`, as far as `facts["usage"]` says; NaN elsewhere."""
    used = trace.facts.get("usage")
    if not isinstance(used, Mapping) or not used:
        return np.full(len(trace), np.nan)
    return np.array([used.get(id, {}).get(key, np.nan) for id in trace.jobs.ids], dtype=np.float64)


@dataclass(frozen=True)
class Counters:
    """What stands for and against each job's counters of use; arrays of one value per job."""

    utilisation: Floats
    """As written: 1 is one GPU all the time; NaN where nothing is written."""
    memory_taken: Bools
    """Memory of its GPUs was taken."""
    metered: Bools
    """Energy was metered, of its nodes or of its GPUs."""
    accounted: Bools
    """CPU time or host memory is more than 0: something was collected for the job."""
    cores: Floats
    """CPU cores kept busy for each GPU while the last attempt ran; NaN where not counted."""

    @classmethod
    def of(cls, trace: Trace) -> Counters:
        """The counters of `trace`."""
        run_s = trace.truth.duration_s
        known = np.isfinite(run_s) & (run_s > 0)
        gpu_s = np.where(known, run_s, 1.0) * np.maximum(trace.jobs.gpus, 1)
        return cls(
            utilisation=used_column(trace, "gpu_utilisation"),
            memory_taken=np.nan_to_num(used_column(trace, "gpu_memory_gib")) > 0,
            metered=np.nan_to_num(used_column(trace, "energy_j")) > 0,
            accounted=(np.nan_to_num(used_column(trace, "cpu_s")) > 0)
            | (np.nan_to_num(used_column(trace, "memory_gib")) > 0),
            cores=np.where(known, used_column(trace, "cpu_s") / gpu_s, np.nan),
        )

    @property
    def moved(self) -> Bools:
        """A counter of its GPUs is more than 0."""
        return np.asarray((self.utilisation > 0) | self.memory_taken)

    @property
    def collected(self) -> Bools:
        """The figure of use measures something."""
        cpus_rested = self.accounted & (self.cores <= WORKING_CORES)
        return np.asarray(np.isfinite(self.utilisation) & (self.moved | cpus_rested))


def utilisation_of(trace: Trace) -> tuple[Floats, str]:
    """Busy part of each job's GPUs, 0 to 1, NaN where it was not collected; and how the figure was read.

    Slurm adds a job's GPUs up (two busy ones are 200 %).  Where wide jobs never pass 100 % although single
    GPUs come near it, the figure is a mean already.  A figure that is 0 for every job measures nothing.
    """
    counters = Counters.of(trace)
    busy = counters.utilisation
    known = counters.collected & (trace.jobs.gpus > 0)
    written = np.isfinite(busy) & (trace.jobs.gpus > 0)
    if not written.any():
        return np.full(len(trace), np.nan), ""
    if float(busy[written].max()) <= 0.0:
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
