"""Speed from tables: throughput by GPU type, scaling by number of GPUs.  Work is counted in iterations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provenance, Provider, Table
from rota.knowledge.pairs import pairs_table
from rota.knowledge.scaling import ScalingCurves, given_scaling, rates_on
from rota.knowledge.throughput import (
    ThroughputTable,
    between,
    given_throughput,
    only_where_measured,
    uniform_throughput,
    workload_codes,
)
from rota.model.cluster import Cluster
from rota.model.columns import Floats, read_only
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Grant, Role
from rota.model.jobs import JobTable
from rota.model.trace import Trace
from rota.model.units import format_duration
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.slowdowns import Efficiency, Slowdowns, companies

_ALONE = Role.ALONE
_LONGEST_S = 10 * 365 * 86400.0
"""No job takes longer than this alone."""


class ThroughputSpeed:
    """Rate by workload, GPU type and number of GPUs, from a table.

    Across several types the slowest sets the pace.  Unmeasured numbers of GPUs are interpolated linearly
    between their neighbours, and policies get the concave curve over what was measured on the type on
    which the job is fastest.  Two packed jobs run as the table measured them together;
    otherwise shares, company, spread and hosts slow a job down as they do in a world of fixed durations.
    """

    def __init__(
        self, trace: Trace, cluster: Cluster, table: ThroughputTable, slowdowns: Slowdowns | None = None
    ) -> None:
        self.table = table
        self.type_names = cluster.type_names
        self.rates = table.of_jobs(trace.jobs, cluster)
        self.jobs = only_where_measured(trace.jobs, self.rates, cluster)
        """The jobs of the trace, limited to types and sizes in the table: the run should use these."""
        self._type_of: list[int] = cluster.device_type.tolist()
        self._kind_of: dict[tuple[int, ...], int | None] = {}
        """Type of the devices that jobs have had together; None if there were several."""
        self._alone: list[list[float]] = self.rates.tolist()
        self._asked: list[int] = trace.jobs.gpus.tolist()
        self._codes: list[int] = workload_codes(trace.jobs, table.workloads).tolist()
        self._by_size = table.by_size(cluster.type_names)
        self.jobs = self._no_larger_than_measured(self.jobs)
        self.efficiency = Efficiency(trace.jobs, cluster, slowdowns or Slowdowns())
        self.iterations = iterations_of(trace)
        self.per_s = self.rates.max(axis=1)
        alone_s = self.iterations / self.per_s
        self._refuse_endless(trace, cluster)
        knowledge: dict[Knowledge, Provider] = {
            **self.efficiency.knowledge,
            Knowledge.THROUGHPUT: given_throughput(self.rates),
            Knowledge.SCALING: given_scaling(self._curves()),
            Knowledge.DURATION: Given(Knowledge.DURATION, alone_s),
        }
        if table.pairs.rates:
            sized = list(zip(map(self._name, range(len(trace))), trace.jobs.gpus.tolist(), strict=True))
            pairs = pairs_table(table.pairs, sized, self.rates, cluster.type_names)
            knowledge[Knowledge.PAIRS] = Given(Knowledge.PAIRS, pairs)
        self.knowledge: Mapping[Knowledge, Provider] = knowledge

    def _refuse_endless(self, trace: Trace, cluster: Cluster) -> None:
        """Refuse rates at which a job would take years: a mistake in units, and rounds would not end."""
        fits = trace.jobs.gpus[:, None] <= np.bincount(cluster.device_type, minlength=len(self.type_names))
        best = np.where(fits, self.rates, 0.0).max(axis=1, initial=0.0)
        length_s = np.divide(self.iterations, best, out=np.zeros(len(trace)), where=best > 0.0)
        if not (length_s > _LONGEST_S).any():
            return
        row = int(length_s.argmax())
        raise InputError.at(
            f"job {trace.jobs.ids[row]} would take {format_duration(length_s.item(row))} at "
            f"{best.item(row):.6g} iterations a second, the most that {self._name(row)} does here",
            file=self.table.source,
            expected=f"rates at which a job ends within {format_duration(_LONGEST_S)}",
        )

    def _no_larger_than_measured(self, jobs: JobTable) -> JobTable:
        """`jobs`, with the largest sizes of those of several sizes cut to what was measured."""
        kinds = self.rates.argmax(axis=1).tolist()
        sizes = [self._by_size[code][kind] for code, kind in zip(self._codes, kinds, strict=True)]
        largest = np.maximum([max(size, default=0) for size in sizes], jobs.gpus)
        return replace(jobs, gpus_max=read_only(np.minimum(jobs.gpus_max, largest)))

    def _curves(self) -> Table:
        """The curve of each job, by workload and the type on which it is fastest."""
        keys = list(zip(self._codes, self.rates.argmax(axis=1).tolist(), strict=True))
        classes = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        measured = {f"{code} {kind}": self._by_size[code][kind] for code, kind in classes}
        smooth, raw = (ScalingCurves.build(measured, self.table.source, clean=how) for how in (True, False))
        codes = np.array([classes[key] for key in keys], dtype=np.int64)
        return Table(
            {"curve": codes, "unit": np.ones(len(keys))}, {"rates": smooth.rates, "measured": raw.rates}
        )

    @property
    def guessed(self) -> dict[str, list[int]]:
        """Unmeasured numbers of GPUs that jobs may be given, by workload."""
        guessed: dict[str, set[int]] = {}
        for row in np.flatnonzero(self.jobs.gpus_max > self.jobs.gpus_min).tolist():
            measured = self._by_size[self._codes[row]][int(self.rates[row].argmax())]
            missing = set(feasible_counts(self.jobs, row)).difference(measured)
            if missing:
                guessed.setdefault(self._name(row), set()).update(missing)
        return {name: sorted(counts) for name, counts in guessed.items()}

    def _name(self, row: int) -> str:
        """What `row` runs, as the table calls it."""
        return self.table.workloads[self._codes[row]]

    def total(self, trace: Trace) -> Floats:
        return self.iterations

    def lasting(self, row: int, grant: Grant) -> float:
        """The rate of `row`, alone on as many whole devices as it asks for, that holds until its end.

        NaN where more matters: several types, shares, placement.
        """
        if grant[3] is not _ALONE or grant[2] != 1.0 or self.efficiency.places:
            return math.nan
        devices = grant[1]
        if len(devices) != self._asked[row]:
            return math.nan
        if devices not in self._kind_of:
            kinds = {self._type_of[device] for device in devices}
            self._kind_of[devices] = kinds.pop() if len(kinds) == 1 else None
        kind = self._kind_of[devices]
        return math.nan if kind is None else self._alone[row][kind]

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        devices = grant.devices
        kinds = [self._type_of[devices[0]]]
        if len(devices) > 1:
            kinds = list({self._type_of[device] for device in devices})
        if grant.role is Role.PACKED and beside and self.table.pairs.rates and _are_pairs(grant, beside):
            gpus = len(devices)
            rates = [self._rate_beside(row, kind, gpus, other) for kind in kinds for other in beside]
            together = [rate for rate in rates if rate is not None]
            if len(together) == len(rates):
                return Pace(min(together) * self.efficiency.placed(row, grant))
        rate = self._rate(row, kinds[0], len(devices))
        for kind in kinds[1:]:
            rate = min(rate, self._rate(row, kind, len(devices)))
        factor, _, until_s = self.efficiency.of(row, grant, beside, at)
        return Pace(rate * factor, until_s=until_s)

    def _rate(self, row: int, kind: int, gpus: int) -> float:
        if gpus == self.jobs.gpus.item(row):
            return self.rates.item(row, kind)
        sizes = self._by_size[self._codes[row]][kind]
        if gpus not in sizes:
            return between(sizes, gpus)
        return sizes[gpus]

    def _rate_beside(self, row: int, kind: int, gpus: int, other: Grant) -> float | None:
        one, its = (self._name(row), gpus), (self._name(other.job), len(other.devices))
        return self.table.pairs.rate(self.type_names[kind], one, its)


def _are_pairs(grant: Grant, beside: Sequence[Grant]) -> bool:
    """True if no device of `grant` has more than one other on it."""
    return all(len(others) < 2 for others in companies(grant, beside))


class ScalingSpeed:
    """Rate of elastic jobs by number of GPUs, whatever their type.

    A job whose iterations the trace does not state does its duration's worth at the GPUs it asked for.
    """

    def __init__(
        self, trace: Trace, cluster: Cluster, curves: ScalingCurves, slowdowns: Slowdowns | None = None
    ) -> None:
        scaling = curves.of_jobs(trace.jobs)
        self._curve: list[int] = scaling.by_row["curve"].tolist()
        self._rates: list[list[float]] = curves.rates.tolist()
        self.efficiency = Efficiency(trace.jobs, cluster, slowdowns or Slowdowns())
        self.per_s = asked = rates_on(scaling, np.arange(len(trace)), trace.jobs.gpus)
        self.iterations = np.where(
            np.isnan(trace.truth.iterations), trace.truth.duration_s * asked, trace.truth.iterations
        )
        self.knowledge: Mapping[Knowledge, Provider] = {
            **self.efficiency.knowledge,
            Knowledge.THROUGHPUT: uniform_throughput(trace.jobs, cluster, Provenance.ASSUMED),
            Knowledge.SCALING: given_scaling(scaling),
            Knowledge.DURATION: Given(Knowledge.DURATION, self.iterations / asked),
        }

    def total(self, trace: Trace) -> Floats:
        return self.iterations

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        curve = self._rates[self._curve[row]]
        rate = curve[min(len(grant.devices), len(curve) - 1)]
        factor, _, until_s = self.efficiency.of(row, grant, beside, at)
        return Pace(rate * factor, until_s=until_s)


def iterations_of(trace: Trace) -> Floats:
    """Iterations each job has to do; InputError names the first job whose number the trace does not state."""
    missing = np.flatnonzero(np.isnan(trace.truth.iterations))
    if len(missing):
        row = int(missing[0])
        raise InputError.at(
            f"job {trace.jobs.ids[row]} states no iterations, which a throughput table needs",
            file=trace.source,
            expected="a column iterations",
        )
    return trace.truth.iterations
