"""How fast the jobs of a fork work: as the moment knows it, as whoever plans in it does.

A policy that plans with measured speeds (by GPU type, by number of GPUs) would be forecast wrongly in a world
where types are equal and speed is in proportion to GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rota.knowledge.needs import Knowledge, Known, Provenance, Table
from rota.knowledge.scaling import linear_scaling, rates_on
from rota.knowledge.throughput import accepted
from rota.model.cluster import Cluster
from rota.model.columns import Array, Floats, Ints
from rota.model.grants import Grant
from rota.model.jobs import JobTable
from rota.model.trace import Trace
from rota.scheduler.moments.packing import unpack_known
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.slowdowns import Efficiency, Slowdowns
from rota.worlds.simulated.speed import FixedDuration, SpeedModel

SPEEDS = (Knowledge.THROUGHPUT, Knowledge.SCALING)
"""Kinds that say how fast a job is on what."""


def speed_of(known: Mapping[Knowledge, Known], jobs: JobTable, cluster: Cluster) -> SpeedModel:
    """The speeds that `known` tells; durations as they are where it tells none."""
    if not any(kind in known for kind in SPEEDS):
        return FixedDuration(jobs, cluster)
    return KnownSpeed(known, jobs, cluster)


class KnownSpeed:
    """Rates by GPU type and number of GPUs; work in seconds at the requested number on the fastest type."""

    def __init__(self, known: Mapping[Knowledge, Known], jobs: JobTable, cluster: Cluster) -> None:
        self.jobs = jobs
        self.efficiency = Efficiency(jobs, cluster, Slowdowns())
        self._type_of: list[int] = cluster.device_type.tolist()
        self._by_type = self._scaling = None
        if Knowledge.THROUGHPUT in known:
            self._by_type = _relative(known[Knowledge.THROUGHPUT].values)
        if Knowledge.SCALING in known:
            self._scaling = known[Knowledge.SCALING].values

    def total(self, trace: Trace) -> Floats:
        return trace.truth.duration_s

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        asked, gpus = self.jobs.gpus.item(row), len(grant.devices)
        if not asked:
            return Pace(1.0)
        rate = gpus / asked
        if isinstance(self._scaling, Table) and gpus != asked:
            there, here = rates_on(self._scaling, np.array([row]), np.array([asked, gpus])).tolist()
            rate = here / there if there else rate
        if self._by_type is not None:
            rate *= min([self._by_type.item(row, self._type_of[device]) for device in grant.devices])
        factor, _, until_s = self.efficiency.of(row, grant, beside, at)
        return Pace(rate * factor, until_s=until_s)


def _relative(rates: Any) -> Floats:
    """Rates of each job relative to its best type, [job, type]; 1 for a job that has none."""
    best = rates.max(axis=1, keepdims=True)
    relative: Floats = np.where(best > 0.0, rates / np.where(best > 0.0, best, 1.0), 1.0)
    return relative


# -- from a moment ---------------------------------------------------------------------------------


def known_speeds(
    stored: Mapping[str, Mapping[str, Any]], jobs: JobTable, cluster: Cluster
) -> dict[Knowledge, Known]:
    """The speeds that a moment stores, for all jobs of `jobs`, of which the last may be newer than it.

    A newer job is as fast as the last one of the same workload and size; one that is like no other is as fast
    as it would be without any knowledge.
    """
    known = {}
    for kind in SPEEDS:
        if kind.value in stored:
            values = unpack_known(stored[kind.value]["values"])
            if isinstance(values, Table):
                values = _scaling_of_all(values, jobs, cluster)
            else:
                values = _of_all(values, _like(jobs, len(values)), accepted(jobs, cluster).astype(np.float64))
            known[kind] = Known(values, Provenance(stored[kind.value]["provenance"]))
    return known


def _scaling_of_all(scaling: Table, jobs: JobTable, cluster: Cluster) -> Table:
    like = _like(jobs, len(scaling.by_row["curve"]))
    if (like == np.arange(len(like))).all():
        return scaling
    linear = linear_scaling(jobs, cluster).known()
    assert isinstance(linear, Table)
    curves, line = scaling.shared["rates"], linear.shared["rates"]
    width = max(curves.shape[1], line.shape[1])
    rates = np.vstack([np.pad(each, ((0, 0), (0, width - each.shape[1])), "edge") for each in (curves, line)])
    by_row = {
        "curve": _of_all(scaling.by_row["curve"], like, linear.by_row["curve"] + len(curves)),
        "unit": _of_all(scaling.by_row["unit"], like, linear.by_row["unit"]),
    }
    return Table(by_row, {"rates": rates})


def _of_all(column: Array, like: Ints, fresh: Array) -> Array:
    """`column` for all jobs: the value of the one each is like, of those like none that of `fresh`."""
    of_all = fresh.copy()
    of_all[like >= 0] = column[like[like >= 0]]
    return of_all


def _like(jobs: JobTable, known: int) -> Ints:
    """For each job one of the first `known` that is as fast: itself, or the last like it; -1 if none."""
    like = np.arange(len(jobs))
    for row in range(known, len(jobs)):
        same = (jobs.workload[:known] == jobs.workload[row]) & (jobs.gpus[:known] == jobs.gpus[row])
        twins = np.flatnonzero(same & (jobs.workload[row] >= 0))
        like[row] = twins[-1] if len(twins) else -1
    return like
