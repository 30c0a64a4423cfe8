"""The runs of a comparison under several seeds; runs that draw nothing run once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np

from rota.errors import InputError, PolicyError
from rota.model.cluster import Cluster
from rota.model.record import Record
from rota.model.trace import Trace
from rota.scheduler.policy import Policy, PolicySpec
from rota.worlds.simulated.faults import Fault, parse_faults
from rota.worlds.simulated.many import Task, run_all
from rota.worlds.simulated.run import Setting

Progress = Callable[[str, int, int], None]
"""Receives the name of a run, the number of its jobs that have ended, and the number of all."""
MOST_SEEDS = 10_000
"""Each seed is a replay, and its record is kept."""
PolicyRun = tuple[PolicySpec | Policy, Setting]


def run_seeds(
    runs: Sequence[PolicyRun],
    seeds: Sequence[int],
    faults: str | Sequence[Fault],
    trace: Trace,
    cluster: Cluster,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Record]:
    """The records of `runs`, policy by policy: one for each seed, or one where another seed changes nothing.

    The record of the first seed says whether anything in the run was drawn.
    """
    is_only = len(runs) == len(seeds) == 1

    def ran(some: Sequence[PolicyRun], under: Sequence[int], *, again: bool) -> list[Record]:
        tasks = _tasks(some, under, faults, trace, cluster)
        tasks = tasks if is_only else [replace(task, policy=_copy(task.policy)) for task in tasks]
        report = _named(progress, tasks, len(trace), again=again)
        return run_all(tasks, trace, cluster, workers=workers, progress=report)

    firsts = ran(runs, seeds[:1], again=False)
    drawn = [(isinstance(faults, str) and bool(faults)) or bool(one.provenance["draws"]) for one in firsts]
    others = seeds[1:]
    more = iter(ran([run for run, draws in zip(runs, drawn, strict=True) if draws], others, again=True))
    records: list[Record] = []
    for first, draws in zip(firsts, drawn, strict=True):
        records += [first, *(next(more) for _ in (others if draws else ()))]
    return records


def check_seeds(count: int) -> int:
    """`count` itself, if it is a number of seeds.  Raises InputError."""
    if not 1 <= count <= MOST_SEEDS:
        raise InputError.at(f"{count:,} seeds", field="--seeds", expected=f"from 1 to {MOST_SEEDS:,}")
    return count


def seeds_from(first: int, count: int) -> range:
    """`count` seeds from `first` on."""
    if first < 0:
        raise InputError.at(f"{first} is no seed", field="--seed", expected="0 or above")
    return range(first, first + check_seeds(count))


def _tasks(
    runs: Sequence[PolicyRun],
    seeds: Sequence[int],
    faults: str | Sequence[Fault],
    trace: Trace,
    cluster: Cluster,
) -> list[Task]:
    """Each of `runs` with each of `seeds`, each with faults of its own if they are drawn."""
    return [
        Task(policy, replace(setting, seed=seed, faults=_faults(faults, trace, cluster, seed)))
        for policy, setting in runs
        for seed in seeds
    ]


def _copy(policy: PolicySpec | Policy) -> PolicySpec | Policy:
    """A copy for one run of several, since an instance may keep caches of it."""
    try:
        return deepcopy(policy)
    except TypeError:
        name = type(policy).__name__
        raise PolicyError(
            f"{name} has compiled parts, which cannot be copied for several runs; give the policy by name, "
            "or run it alone"
        ) from None


def _faults(faults: str | Sequence[Fault], trace: Trace, cluster: Cluster, seed: int) -> Sequence[Fault]:
    return (
        parse_faults(faults, cluster, _horizon_s(trace, cluster), seed) if isinstance(faults, str) else faults
    )


def _horizon_s(trace: Trace, cluster: Cluster) -> float:
    """Time at which any policy that uses at least half of the cluster has ended."""
    run_s = np.nan_to_num(trace.truth.run_s(), posinf=0.0)
    demand_gpu_s = float((run_s * trace.jobs.gpus).sum())
    last_s = float(trace.jobs.submit_s.max(initial=0.0))
    return last_s + float(run_s.max(initial=0.0)) + 2.0 * demand_gpu_s / max(cluster.gpus, 1)


def _named(
    progress: Progress | None, tasks: Sequence[Task], jobs: int, *, again: bool
) -> Callable[[int, int], None] | None:
    """`progress` for a caller that knows runs by number, not by name."""
    if progress is None:
        return None
    names = [f"{task.policy} seed {task.setting.seed}" if again else str(task.policy) for task in tasks]

    def report(number: int, done: int) -> None:
        progress(names[number], done, jobs)

    return report
