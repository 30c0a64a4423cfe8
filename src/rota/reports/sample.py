"""The jobs of a record that count, as columns that metric functions read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl

from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.record import Record
from rota.reports.occupancy import arrivals_span, cluster_gpus, job_parts, whole_run
from rota.reports.window import Span, Window
from rota.reports.wording import SIZES, size_codes


@dataclass(frozen=True)
class Sample:
    """Some jobs of a record (inside the window, or of one tenant) and the span measured."""

    record: Record
    span: Span
    rows: Ints
    """Rows of `record.jobs`."""
    tenants: int
    """N of finish-time fairness: tenants with a job in the window."""
    jobs: int
    """Jobs of the window, also in the samples of tenants and sizes."""
    _columns: dict[str, Array] = field(default_factory=dict, repr=False, compare=False)
    """Columns of the whole record that have been read; shared with the samples of tenants and sizes."""

    @classmethod
    def of(cls, record: Record, window: Window | None = None) -> Sample:
        """The jobs submitted inside `window`; all of them without one."""
        span = arrivals_span(record)
        submit_s = record.jobs["submit_s"].to_numpy()
        if window is not None and len(submit_s):
            axis = float(submit_s.min()), float(submit_s.max())
            end_s = window.end.resolve(*axis) if window.end else whole_run(record).end_s
            span = Span(window.start.resolve(*axis), end_s)
        rows = np.flatnonzero((submit_s >= span.start_s) & (submit_s <= span.end_s))
        return cls(record, span, rows, record.jobs["tenant"][rows].n_unique(), len(rows))

    def at(self, rows: Ints) -> Sample:
        """A sample with this span, of other rows of the record."""
        return replace(self, rows=rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def gpus_of_cluster(self) -> int:
        return cluster_gpus(self.record)

    def column(self, name: str) -> Floats:
        """A numeric column; NaN where the record has null."""
        if name not in self._columns:
            whole = self.record.jobs[name].cast(pl.Float64).fill_null(np.nan)
            self._columns[name] = whole.to_numpy()
        return self._columns[name][self.rows]

    def derived(self, name: str, compute: Callable[[Record], Array]) -> Array:
        """A column that `compute` gives for the whole record, once for this sample and its groups."""
        if name not in self._columns:
            self._columns[name] = compute(self.record)
        return self._columns[name][self.rows]

    def once(self, name: str, compute: Callable[[], Floats]) -> Floats:
        """What `compute` gives, kept for later calls with `name` on this sample."""
        if name not in self._kept:
            self._kept[name] = compute()
        return self._kept[name]

    def total(self, name: str) -> float:
        return float(np.nansum(self.column(name)))

    @cached_property
    def _kept(self) -> dict[str, Floats]:
        return {}

    @cached_property
    def state(self) -> Array:
        if "state" not in self._columns:
            self._columns["state"] = self.record.jobs["state"].to_numpy()
        return self._columns["state"][self.rows]

    @cached_property
    def tenant_codes(self) -> Ints:
        """A number for each tenant, in the order of their names."""
        names = self.record.jobs["tenant"][self.rows].fill_null("").to_numpy()
        codes: Ints = np.unique(names.astype(str), return_inverse=True)[1]
        return codes

    @cached_property
    def finished(self) -> Bools:
        """Ran, and ended in whatever way.

        A job that was cancelled while it waited has no work in a replay: a policy that knows durations would
        serve it first, and have a shorter mean wait by that.
        """
        ended: Bools = ~np.isnan(self.column("start_s")) & ~np.isnan(self.column("finish_s"))
        gave_up: Bools = (self.state == "CANCELLED") & (self.column("run_s") == 0)
        return ended & ~gave_up

    @cached_property
    def jct_s(self) -> Floats:
        """Of every job; NaN unless it finished."""
        jct = self.column("finish_s") - self.column("submit_s")
        return np.where(self.finished, jct, np.nan)

    @cached_property
    def service_gpu_s(self) -> Floats:
        """GPU-seconds granted to each job; MIG slices count by their part of a GPU."""
        return self.column("service_gpu_s") * self.derived("gpu_part", job_parts)

    @property
    def granted_gpu_s(self) -> float:
        """GPU-seconds granted to all of them."""
        return float(np.nansum(self.service_gpu_s))

    @cached_property
    def gpus_held(self) -> Floats:
        """GPUs (times share) each job held on average while it ran; 0 if it never did."""
        run_s = self.column("run_s")
        return np.divide(self.service_gpu_s, run_s, out=np.zeros(len(run_s)), where=run_s > 0)


def by_tenant(sample: Sample) -> Iterator[tuple[str, Sample]]:
    """Each tenant's jobs, in the order of tenant names."""
    names = sample.record.jobs["tenant"][sample.rows].fill_null("").to_numpy()
    tenants, code = np.unique(names.astype(str), return_inverse=True)
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(np.bincount(code, minlength=len(tenants)))
    for tenant, first, end in zip(tenants, np.append(0, ends), ends, strict=False):
        yield str(tenant), sample.at(sample.rows[order[first:end]])


def by_account(sample: Sample) -> Iterator[tuple[str, Sample]]:
    """The jobs of every account that has several tenants: `a` has the jobs of `a/x` and `a/y/z`."""
    parts = list(by_tenant(sample))
    below: dict[str, list[Ints]] = {}
    for tenant, part in parts:
        levels = tenant.split("/")
        for depth in range(1, len(levels)):
            below.setdefault("/".join(levels[:depth]), []).append(part.rows)
    own = {tenant: part.rows for tenant, part in parts}
    for account, rows in sorted(below.items()):
        rows += [own[account]] if account in own else []
        if len(rows) > 1:
            yield account, sample.at(np.sort(np.concatenate(rows)))


def by_size(sample: Sample) -> Iterator[tuple[str, Sample]]:
    """The jobs of each size class that occurs, smallest first."""
    of_job = size_codes(sample.column("gpus"))
    for code, (name, _) in enumerate(SIZES):
        if (inside := of_job == code).any():
            yield name, sample.at(sample.rows[inside])
