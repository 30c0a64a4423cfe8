"""Scaling curves: how fast a job is on each number of GPUs, and the sources of that knowledge.

A policy receives a table with one curve for each class of jobs:

`by_row`   `curve` [job]: the class;  `unit` [job]: the rate on the curve that counts as 1 for this job
`shared`   `rates` [class, k] on k = 0, 1, 2, ... GPUs; column 0 is 0, and beyond the last a curve is flat

`rates_on`, `curves_of` and `shared_curves` read it: iterations per second of the whole job, or seconds of
work per second in a world that counts work so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provenance, Provider, Table
from rota.knowledge.registry import Setup, Where, provides
from rota.knowledge.throughput import ThroughputTable, workload_codes
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints, read_only
from rota.model.jobs import JobTable


def concave(rates: Floats) -> Floats:
    """The least concave curve through 0 that is nowhere below `rates` (rate on 0, 1, 2, ... GPUs).

    Real tables have dips, for instance at 3 GPUs; a rule that looks one GPU ahead would stop there.
    """
    corners = [0]
    for k in range(1, len(rates)):
        while len(corners) > 1 and _slope(rates, corners[-1], k) >= _slope(rates, corners[-2], corners[-1]):
            corners.pop()
        corners.append(k)
    smooth = np.interp(np.arange(len(rates)), corners, rates[corners])
    return np.maximum.accumulate(smooth)


def _slope(rates: Floats, low: int, high: int) -> float:
    return float((rates[high] - rates[low]) / (high - low))


@dataclass(frozen=True)
class ScalingCurves:
    """Concave curves by workload."""

    workloads: tuple[str, ...]
    rates: Floats
    """Work per second, [workload, number of GPUs]; column 0 is 0."""
    source: str = "curves"

    @classmethod
    def build(
        cls, measured: Mapping[str, Mapping[int, float]], source: str = "curves", *, clean: bool = True
    ) -> ScalingCurves:
        """Curves through `measured`: workload -> number of GPUs -> work per second.

        Numbers between two measured ones are interpolated; `clean` takes the concave envelope.
        """
        most = max((count for rates in measured.values() for count in rates), default=1)
        curves = np.zeros((len(measured), most + 1))
        for curve, points in zip(curves, measured.values(), strict=True):
            counts = sorted(points)
            through = np.interp(np.arange(most + 1), [0, *counts], [0.0, *(points[c] for c in counts)])
            curve[:] = concave(through) if clean else through
        return cls(tuple(measured), read_only(curves), source)

    @classmethod
    def from_table(cls, table: ThroughputTable, gpu_type: str) -> ScalingCurves:
        """The curves of a throughput table on one type of GPU."""
        folded = [name.casefold() for name in table.types]
        if gpu_type.casefold() not in folded:
            known = ", ".join(table.types)
            raise InputError.at(
                f"has no rates for {gpu_type!r}", file=table.source, expected=f"one of {known}"
            )
        column = folded.index(gpu_type.casefold())
        measured = {}
        for workload, rates in zip(table.workloads, table.rates[:, column].tolist(), strict=True):
            points = {c: rate for c, rate in zip(table.counts, rates, strict=True) if rate == rate}
            if points:
                measured[workload] = points
        return cls.build(measured, table.source)

    def of_jobs(self, jobs: JobTable) -> Table:
        """The curve of each job; InputError for a workload without one."""
        codes = workload_codes(jobs, self.workloads)
        unknown = np.flatnonzero(codes < 0)
        if len(unknown):
            row = int(unknown[0])
            name = jobs.name_of("workload", row)
            expected = "one of " + ", ".join(self.workloads)
            raise InputError.at(
                f"job {jobs.ids[row]} runs {name!r}, which has no scaling curve",
                file=self.source,
                expected=expected,
            )
        return Table({"curve": codes, "unit": np.ones(len(jobs))}, {"rates": read_only(self.rates)})


def rates_on(scaling: Table, rows: Ints, gpus: Ints) -> Floats:
    """The rate of each of `rows` on as many GPUs as `gpus` says; the two are broadcast against each other."""
    rates = scaling.shared["rates"]
    column = np.minimum(gpus, rates.shape[1] - 1)
    on: Floats = rates[scaling.by_row["curve"][rows], column] / scaling.by_row["unit"][rows]
    return on


def as_measured(scaling: Table) -> Table:
    """The table with curves through what was measured, concave or not, where that is known."""
    shared = scaling.shared
    return Table(scaling.by_row, {"rates": shared.get("measured", shared["rates"])})


def curves_of(scaling: Table, rows: Ints, most: int) -> Floats:
    """The rate of each of `rows` on 0, 1, ..., `most` GPUs, [row, GPUs]."""
    return rates_on(scaling, rows[:, None], np.arange(most + 1))


def shared_curves(scaling: Table, rows: Ints, most: int) -> list[list[float]]:
    """The result of `curves_of` as lists; jobs with the same curve share one list, which saves memory."""
    pairs = zip(scaling.by_row["curve"][rows].tolist(), scaling.by_row["unit"][rows].tolist(), strict=True)
    numbers: dict[tuple[int, float], int] = {}
    which = [numbers.setdefault(pair, len(numbers)) for pair in pairs]
    alike = np.zeros(len(numbers), dtype=np.int64)
    alike[which] = rows
    curves: list[list[float]] = curves_of(scaling, alike, most).tolist()
    return [curves[number] for number in which]


def given_scaling(curves: Table, provenance: Provenance = Provenance.ORACLE) -> Given:
    """Provides `curves`."""
    return Given(Knowledge.SCALING, curves, provenance)


def linear_scaling(jobs: JobTable, cluster: Cluster, provenance: Provenance = Provenance.ORACLE) -> Given:
    """Speed in proportion to GPUs, 1 at the number asked for: what a trace of durations says."""
    by_row = {"curve": np.zeros(len(jobs), dtype=np.int64), "unit": np.maximum(jobs.gpus, 1.0)}
    return given_scaling(Table(by_row, {"rates": np.arange(cluster.gpus + 1.0)[None, :]}), provenance)


@provides(Knowledge.SCALING, Provenance.ASSUMED, "in proportion to GPUs", where={Where.SIMULATED})
def assumed_scaling(setup: Setup) -> Provider:
    return linear_scaling(setup.jobs, setup.cluster, Provenance.ASSUMED)
