"""Throughput by workload, GPU type and number of GPUs: the table, and the sources of that knowledge.

A policy receives one array, [job, type of the cluster]: iterations per second of the whole job at the number
of GPUs it asks for, 0 where it cannot run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provenance, Provider
from rota.knowledge.pairs import MeasuredPairs, PairTable
from rota.knowledge.registry import Setup, provides
from rota.knowledge.unmeasured import UnmeasuredError
from rota.model.cluster import Cluster
from rota.model.columns import Bools, Floats, Ints, read_only
from rota.model.jobs import JobTable
from rota.model.units import plural


@dataclass(frozen=True)
class ThroughputTable:
    """Measured throughputs: iterations per second of a workload on a number of GPUs of a type."""

    workloads: tuple[str, ...]
    types: tuple[str, ...]
    counts: tuple[int, ...]
    """Numbers of GPUs, ascending."""
    rates: Floats
    """Iterations per second of all GPUs together, [workload, type, count]; NaN where unmeasured."""
    source: str = "table"
    """File it came from, for messages."""
    pairs: PairTable = field(default_factory=PairTable)
    """Rates of two workloads that share the same GPUs."""

    @classmethod
    def build(
        cls,
        measured: Mapping[tuple[str, str, int], float],
        source: str = "table",
        pairs: MeasuredPairs | None = None,
    ) -> ThroughputTable:
        """The table of `measured`: (workload, GPU type, number of GPUs) -> iterations per second."""
        workloads = tuple(dict.fromkeys(workload for workload, _, _ in measured))
        types = tuple(dict.fromkeys(gpu_type for _, gpu_type, _ in measured))
        counts = tuple(sorted({count for _, _, count in measured}))
        rates = np.full((len(workloads), len(types), len(counts)), np.nan)
        places = [{name: i for i, name in enumerate(names)} for names in (workloads, types, counts)]
        for key, rate in measured.items():
            rates[tuple(place[part] for place, part in zip(places, key, strict=True))] = rate
        return cls(workloads, types, counts, read_only(rates), source, PairTable.build(pairs or {}))

    def by_size(self, gpu_types: Sequence[str]) -> list[list[dict[int, float]]]:
        """Iterations per second by workload, by type of a cluster, by number of GPUs; what was measured."""
        column = {name.casefold(): j for j, name in enumerate(self.types)}
        places = [column.get(gpu_type.casefold(), -1) for gpu_type in gpu_types]
        return [
            [
                {}
                if place < 0
                else {
                    count: rate for count, rate in zip(self.counts, rates[place], strict=True) if rate == rate
                }
                for place in places
            ]
            for rates in self.rates.tolist()
        ]

    def of_jobs(self, jobs: JobTable, cluster: Cluster) -> Floats:
        """Iterations per second of each job on each type of `cluster`, [job, type], 0 where it cannot run.

        Types are matched without regard to case.  Raises InputError for a job that the table does not know,
        or knows on no type that the cluster has and the job accepts.
        """
        workload = workload_codes(jobs, self.workloads)
        count = _positions(np.array(self.counts), jobs.gpus)
        folded = tuple(name.casefold() for name in self.types)
        column = self._codes(folded, tuple(name.casefold() for name in cluster.type_names))
        self._refuse_unknown(jobs, workload, count)
        known = np.nan_to_num(self.rates, nan=0.0)[workload, :, count]
        rates = np.where(column < 0, 0.0, known[:, column]) * accepted(jobs, cluster)
        self._refuse_idle(jobs, rates, known, cluster)
        return rates

    @staticmethod
    def _codes(names: tuple[str, ...], wanted: tuple[str, ...]) -> Ints:
        """Position in `names` of each wanted name, -1 where it is missing; one more -1 for code -1."""
        place = {name: i for i, name in enumerate(names)}
        return np.array([*(place.get(name, -1) for name in wanted), -1], dtype=np.int64)[: len(wanted) or 1]

    def _refuse_unknown(self, jobs: JobTable, workload: Ints, count: Ints) -> None:
        bad = np.flatnonzero((workload < 0) | (count < 0))
        if len(bad):
            row = int(bad[0])
            bad = bad[(workload[bad] < 0) == (workload[row] < 0)]  # of one kind
            name, gpus = jobs.name_of("workload", row), jobs.gpus.item(row)
            what = f"workload {name!r}" if workload[row] < 0 else f"{name!r} on {plural(gpus, 'GPU')}"
            expected = (
                f"one of {', '.join(self.workloads[:3])}, ..."
                if workload[row] < 0
                else "among " + ", ".join(str(count) for count in self.counts)
            )
            problem = f"runs {what}, which is not measured"
            raise UnmeasuredError.of(jobs, bad, problem, file=self.source, expected=expected)

    def _refuse_idle(self, jobs: JobTable, rates: Floats, known: Floats, cluster: Cluster) -> None:
        idle = np.flatnonzero(~(rates > 0.0).any(axis=1))
        if len(idle):
            row = int(idle[0])
            what = f"{jobs.name_of('workload', row)} on {plural(jobs.gpus.item(row), 'GPU')}"
            takes = accepted(jobs, cluster)[row].tolist()
            usable = ", ".join(
                name for name, takes_it in zip(cluster.type_names, takes, strict=True) if takes_it
            )
            able = [name for name, rate in zip(self.types, known[row].tolist(), strict=True) if rate > 0.0]
            raise UnmeasuredError.of(
                jobs,
                idle,
                f"({what}) has no throughput on {usable or 'types it accepts'}",
                file=self.source,
                expected=f"a cluster with {' or '.join(able)}"
                if able
                else "a table that has it on some type",
            )


def between(measured: Mapping[int, float], gpus: int) -> float:
    """The rate on `gpus` GPUs: on a line between the two measured numbers around it, 0 being one of them.

    Beyond the largest it stays what it is there.  Without any it is 0.
    """
    counts = sorted(measured)
    return float(np.interp(gpus, [0, *counts], [0.0, *(measured[count] for count in counts)]))


def only_where_measured(jobs: JobTable, rates: Floats, cluster: Cluster) -> JobTable:
    """The jobs; none accepts a type of `cluster` any more on which its rate, [job, type], is unknown.

    On such a type it would hold GPUs and never end.
    """
    unable = np.flatnonzero((accepted(jobs, cluster) & ~(rates > 0.0)).any(axis=1))
    if not len(unable):
        return jobs
    names = tuple(dict.fromkeys((*jobs.type_names, *cluster.type_names)))
    bits = np.array([1 << names.index(name) for name in cluster.type_names])
    masks = jobs.gpu_types.copy()
    masks[unable] = (rates[unable] > 0.0) @ bits
    return replace(jobs, gpu_types=read_only(masks), type_names=names)


def with_batch(workload: str, batch_size: float) -> str:
    """How tables name a workload that they measured at several batch sizes."""
    return f"{workload} (batch size {batch_size:g})"


def workload_codes(jobs: JobTable, known: Sequence[str]) -> Ints:
    """Position in `known` of what each job runs: by its name, or by name and batch size; -1 if neither."""
    place = {name: i for i, name in enumerate(known)}
    codes = np.array([*(place.get(name, -1) for name in jobs.workload_names), -1])[jobs.workload]
    for row in np.flatnonzero((codes < 0) & ~np.isnan(jobs.batch_size)).tolist():
        name = with_batch(jobs.name_of("workload", row), jobs.batch_size.item(row))
        codes[row] = place.get(name, -1)
    return codes


def _positions(sorted_values: Ints, wanted: Ints) -> Ints:
    """Position of each wanted value, -1 where it is missing."""
    place = np.minimum(np.searchsorted(sorted_values, wanted), len(sorted_values) - 1)
    return np.where(sorted_values[place] == wanted, place, -1)


def accepted(jobs: JobTable, cluster: Cluster) -> Bools:
    """Which types of the cluster each job may run on, [job, type]."""
    masks, which = np.unique(jobs.gpu_types, return_inverse=True)
    allowed = np.zeros((len(masks), len(cluster.type_names)), dtype=bool)
    for i, mask in enumerate(masks.tolist()):
        names = jobs.types_in(mask)
        allowed[i] = [not mask or name in names for name in cluster.type_names]
    of_jobs: Bools = allowed[which]
    return of_jobs


def given_throughput(rates: Floats, provenance: Provenance = Provenance.ORACLE) -> Given:
    """Provides `rates`, [job, type]."""
    return Given(Knowledge.THROUGHPUT, read_only(rates), provenance)


def uniform_throughput(jobs: JobTable, cluster: Cluster, provenance: Provenance = Provenance.ORACLE) -> Given:
    """Every type a job accepts is as fast as any other: what a trace of durations says."""
    return given_throughput(accepted(jobs, cluster).astype(np.float64), provenance)


@provides(Knowledge.THROUGHPUT, Provenance.ASSUMED, "all types are equally fast")
def assumed_throughput(setup: Setup) -> Provider:
    """Rate 1 on all types; live, the types that jobs still to come accept are unknown."""
    if setup.truth is not None:
        return uniform_throughput(setup.jobs, setup.cluster, Provenance.ASSUMED)
    rates = np.ones((len(setup.jobs), max(1, len(setup.cluster.type_names))))
    return Given(Knowledge.THROUGHPUT, read_only(rates), Provenance.ASSUMED)
