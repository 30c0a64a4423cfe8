"""Profiling runs: a new job is measured for a short while, on nodes set apart, before the plan sees it.

Section   "Profiler" of the paper: four nodes, 30 s for each GPU, two minutes at most
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rota.model.grants import Grant
from rota.model.jobs import JobTable
from rota.scheduler.policy import Policy
from rota.stages.fit import Fitter
from rota.stages.place import Place, consolidate
from rota.stages.set_apart import SetApart
from rota.table.occupancy import Occupancy


@dataclass(frozen=True)
class Trials:
    """Measures each job once, on as many GPUs as it asks for.

    Jobs that name nodes, ask for parts of GPUs or belong to tenants with hard quotas go without, and so do
    all jobs while no other nodes are left.  The nodes stay apart: promises count on the other nodes alone.
    """

    nodes: int
    """Nodes set apart for profiling runs: the last ones."""
    per_gpu_s: float = 30.0
    """Length of a run for each GPU."""
    most_s: float = 120.0
    """Longest run, in seconds."""
    patience_s: float = 600.0
    """A job that has waited this long for a run goes without."""
    most_gpus: int = 8
    """Jobs with more GPUs are not measured."""
    again: bool = False
    lifts: bool = False
    place: Place = consolidate

    def wants(self, jobs: JobTable, row: int) -> bool:
        is_whole = jobs.gpu_share.item(row) == 1.0 and jobs.node_set.item(row) < 0
        return is_whole and 1 <= jobs.gpus.item(row) <= self.most_gpus

    def grant(self, fit: Fitter, occupancy: Occupancy, row: int) -> Grant | None:
        return fit(occupancy, row)

    def length_s(self, gpus: int) -> float:
        return min(self.most_s, self.per_gpu_s * gpus)


def profiled(make: Callable[[], Policy], trials: Trials) -> SetApart:
    """The policy that `make` builds, for jobs that have been measured."""
    return SetApart(
        make,
        trials,
        "it is to be measured first, on nodes set apart for that",
        "waits for GPUs beside the nodes on which jobs are measured",
    )
