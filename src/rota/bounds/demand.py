"""Demands of jobs on a relaxed cluster: work, the fastest they can do it, the earliest start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.columns import Bools, Floats, Ints
from rota.model.feasible import feasible_rows
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import JobTable
from rota.model.trace import Trace


@dataclass(frozen=True)
class RelaxedDemand:
    """One value per job of the trace."""

    submit_s: Floats
    release_s: Floats
    """Earliest start in any schedule: at submission, or when the jobs before it could be done; infinite if
    they never are, or if the cluster could never hold the job."""
    run_s: Floats
    """Seconds at the requested size, failing attempts included."""
    fastest_s: Floats
    """Seconds at the largest size the job can use, failing attempts included."""
    gpus: Floats
    """GPUs requested, times the share of each; 0 for CPU jobs."""
    work_gpu_s: Floats
    """`gpus` x `run_s`, whatever the size."""
    feasible: Bools
    """False for jobs the whole cluster could not hold."""
    capacity: int
    """GPUs of the cluster."""
    after: Mapping[int, tuple[int, ...]]
    """Rows that have to end before a job starts."""


class Schedule(NamedTuple):
    """When each job starts and ends, in seconds; infinite if it never does."""

    start_s: Floats
    finish_s: Floats


def demand_of(trace: Trace, cluster: Cluster) -> RelaxedDemand:
    """The demand of `trace`; raises InputError if it does not say how long a job runs."""
    jobs, run_s = trace.jobs, trace.truth.run_s()
    _refuse_unknown(trace, run_s)
    feasible = feasible_rows(jobs, cluster)
    gpus = jobs.gpus * jobs.gpu_share
    fastest_s = run_s * np.divide(jobs.gpus, largest_sizes(jobs), out=np.ones(len(jobs)), where=jobs.gpus > 0)
    return RelaxedDemand(
        submit_s=jobs.submit_s,
        release_s=_releases(jobs, fastest_s, feasible),
        run_s=run_s,
        fastest_s=fastest_s,
        gpus=gpus,
        work_gpu_s=gpus * run_s,
        feasible=feasible,
        capacity=cluster.gpus,
        after=jobs.after,
    )


def _refuse_unknown(trace: Trace, run_s: Floats) -> None:
    unknown = np.flatnonzero(~(run_s >= 0.0) | np.isinf(run_s))
    if len(unknown):
        name = trace.jobs.ids[int(unknown[0])]
        raise InputError(f"{trace.source}: job {name} has no duration; bounds need one for every job")


def largest_sizes(jobs: JobTable) -> Ints:
    """Most GPUs each job can use: its request, or more if it is elastic."""
    most = np.maximum(jobs.gpus_max, 1)
    powers = 2 ** np.floor(np.log2(most)).astype(np.int64)
    sizes: Ints = np.maximum(
        jobs.gpus, np.where(jobs.counts == AllowedCounts.POWERS_OF_TWO, powers, jobs.gpus_max)
    )
    return sizes


def _releases(jobs: JobTable, fastest_s: Floats, feasible: Bools) -> Floats:
    """Earliest starts, along the order in which jobs wait for one another; jobs in a cycle never start."""
    release_s = np.where(feasible, jobs.submit_s, np.inf)
    if not jobs.after:
        return release_s
    left = {row: len(befores) for row, befores in jobs.after.items() if befores}
    heirs = heirs_of(jobs.after)
    ready = [row for row in heirs if row not in left]
    while ready:
        row = ready.pop()
        for heir in heirs.get(row, ()):
            release_s[heir] = max(release_s[heir], release_s[row] + fastest_s[row])
            left[heir] -= 1
            if not left[heir]:
                del left[heir]
                ready.append(heir)
    release_s[list(left)] = np.inf
    return release_s


def heirs_of(after: Mapping[int, tuple[int, ...]]) -> dict[int, list[int]]:
    """Rows that wait for each row; one that waits twice is listed twice."""
    heirs: dict[int, list[int]] = {}
    for row, befores in after.items():
        for before in befores:
            heirs.setdefault(before, []).append(row)
    return heirs
