"""What is in a trace: one page of figures, for a person (`__rich__`) or a program (`to_dict`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike

import numpy as np
from rich.table import Table

from rota.arguments import Argument, either, instance_of, is_file, takes
from rota.errors import shown
from rota.model.calendar import epoch_of, moment_of
from rota.model.columns import Array, Floats
from rota.model.gpu_slices import said_of_slices
from rota.model.jobs import Outcome
from rota.model.trace import OddRows, Trace
from rota.model.units import format_duration
from rota.model.whole_gpus import gpus_held, slice_hours, types_held
from rota.model.words import hours
from rota.traces.reading import read

_FEW = 8
"""A fact with more parts than this is shown as a count, not as a list."""


@dataclass(frozen=True)
class Quantiles:
    """Mean and percentiles by linear interpolation, in seconds."""

    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float

    @classmethod
    def of(cls, values_s: Floats) -> Quantiles | None:
        """Quantiles of the finite values; None if there are none."""
        finite = values_s[np.isfinite(values_s)]
        if not len(finite):
            return None
        return cls(float(finite.mean()), *(float(p) for p in np.percentile(finite, [50, 90, 99])))

    def __str__(self) -> str:
        mean, p50, p90, p99 = (format_duration(x) for x in (self.mean_s, self.p50_s, self.p90_s, self.p99_s))
        return f"p50 {p50}   p90 {p90}   p99 {p99}   mean {mean}"


@dataclass(frozen=True)
class Description:
    """Figures of a trace.  Shares are of jobs with GPUs, or of their GPU time; None if undefined."""

    source: str
    format: str
    jobs: int
    cpu_jobs: int
    gpu_hours: float
    """Duration x GPUs x share of each GPU, over last attempts; a MIG slice counts as a part of a GPU."""
    failing_gpu_hours: float
    """GPU-hours of attempts that failed before the last one."""
    interrupted_gpu_hours: float
    """GPU-hours of attempts that were preempted or requeued, which is not a failure."""
    single_gpu_share: float | None
    single_gpu_time_share: float | None
    fractional_share: float | None
    """Jobs that ask for less than a whole GPU, or run on MIG slices; they count as single-GPU jobs too."""
    gpu_counts: Mapping[int, int]
    """Number of GPUs asked for -> jobs."""
    durations: Quantiles | None
    unknown_durations: int
    first_submit_s: float | None
    last_submit_s: float | None
    span_s: float
    """Seconds between the first and the last submission."""
    mean_demand_gpus: float | None
    """GPU-seconds of all attempts, including those after the last submission, divided by the span. None if
    the span is 0, or no duration is known."""
    gap_mean_s: float | None
    gap_cv: float | None
    """Standard deviation of the gaps between submissions over their mean; 1 for random (Poisson) arrivals."""
    tenants: int
    groups: int
    workloads: int
    with_deadline: int
    with_limit: int
    elastic: int
    outcomes: Mapping[str, int]
    waits: Quantiles | None
    """Seconds from submission to recorded start, where the trace has it."""
    holds: Quantiles | None
    """Part of these seconds before the job was eligible to start, where the trace has it."""
    odd: tuple[OddRows, ...]
    facts: Mapping[str, object]
    slice_hours: Mapping[str, float]
    """Hours of last attempts by type of MIG slice; each counts as a part of a GPU-hour."""

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)

    def __rich__(self) -> Table:
        table = Table(title=f"{shown(self.source)} ({self.format})", show_header=False, title_justify="left")
        table.add_column("figure", style="bold")
        table.add_column("value")
        for name, value in self.lines():
            table.add_row(name, value)
        return table

    def lines(self) -> list[tuple[str, str]]:
        """Name and value of each line that is not empty, formatted for people."""
        lines = [
            ("jobs", f"{self.jobs:,}" + (f" ({self.cpu_jobs:,} without GPUs)" if self.cpu_jobs else "")),
            ("GPU-hours", self._gpu_hours_text()),
            ("MIG slices", said_of_slices(self.slice_hours)),
            ("single-GPU", f"{_percent(self.single_gpu_share)} of jobs" + (
             f", {_percent(self.single_gpu_time_share)} of GPU time" if self.single_gpu_time_share else "")),
            ("part of a GPU", f"{_percent(self.fractional_share)} of jobs" if self.fractional_share else ""),
            ("jobs by GPUs", "  ".join(f"{gpus}: {n:,}" for gpus, n in self.gpu_counts.items())),
            ("duration", str(self.durations) if self.durations else "unknown"),
            ("without duration", f"{self.unknown_durations:,}" if self.unknown_durations else ""),
            ("submitted", self._span_text()),
            ("mean demand", "" if self.mean_demand_gpus is None else f"{self.mean_demand_gpus:,.1f} GPUs"),
            ("gaps", "" if self.gap_cv is None else
             f"mean {format_duration(self.gap_mean_s or 0.0)}, CV {self.gap_cv:.2f}"),
            ("tenants, groups", f"{self.tenants:,}, {self.groups:,}"),
            ("workloads", f"{self.workloads:,}" if self.workloads else ""),
            ("with deadline", f"{self.with_deadline:,}" if self.with_deadline else ""),
            ("with time limit", f"{self.with_limit:,}" if self.with_limit else ""),
            ("elastic", f"{self.elastic:,}" if self.elastic else ""),
            ("outcomes", "  ".join(f"{name}: {n:,}" for name, n in self.outcomes.items())),
            ("recorded waits", str(self.waits) if self.waits else ""),
            ("of it before eligible", str(self.holds) if self.holds else ""),
        ]  # fmt: skip
        lines += [(f"odd: {odd.what}", f"{odd.count:,} {odd.done}{_examples(odd)}") for odd in self.odd]
        lines += [_fact_line(name, value) for name, value in self.facts.items()]
        return [(name, value) for name, value in lines if value]

    def _gpu_hours_text(self) -> str:
        if self.jobs and self.unknown_durations == self.jobs:
            return "unknown"
        failing = self.failing_gpu_hours
        said = [hours(self.gpu_hours)]
        said += [f"{hours(failing)} in attempts that fail"] if failing else []
        if self.interrupted_gpu_hours:
            said.append(f"{hours(self.interrupted_gpu_hours)} in attempts that were preempted or requeued")
        return " + ".join(said)

    def _span_text(self) -> str:
        if self.first_submit_s is None or self.last_submit_s is None:
            return ""
        first, last = map(self._moment, (self.first_submit_s, self.last_submit_s))
        return f"{first} to {last} ({format_duration(self.span_s)})"

    def _moment(self, seconds: float) -> str:
        """A date if the trace has dates, else the seconds as in the file."""
        epoch = epoch_of(self.facts)
        return f"{seconds:,.0f} s" if epoch is None else f"{moment_of(epoch, seconds):%Y-%m-%d %H:%M}"


TRACE = Argument(
    "trace",
    either(is_file, instance_of(Trace)),
    "a file, or a Trace (of a table: what its `write_parquet` wrote)",
)


@takes(trace=TRACE)
def describe(trace: str | PathLike[str] | Trace) -> Description:
    """The figures of `trace`, or of the trace in a file, in one pass over its columns. Raises InputError."""
    return _described(trace if isinstance(trace, Trace) else read(trace))


def _described(trace: Trace) -> Description:
    jobs, truth = trace.jobs, trace.truth
    submit_s = jobs.submit_s
    held_gpus, types = gpus_held(trace), types_held(trace)
    last_gpu_s = np.nan_to_num(truth.duration_s * held_gpus, posinf=0.0)
    needed_gpu_s = float(np.nan_to_num(truth.run_s() * held_gpus, posinf=0.0).sum())
    demand_gpu_s = float(np.nan_to_num(trace.ran_s() * held_gpus, posinf=0.0).sum())
    span_s = float(submit_s.max() - submit_s.min()) if len(trace) else 0.0
    with_gpus, single = jobs.gpus > 0, jobs.gpus == 1
    gap_mean_s, gap_cv = gap_figures(submit_s)
    return Description(
        source=trace.source,
        format=trace.format,
        jobs=len(trace),
        cpu_jobs=int((~with_gpus).sum()),
        gpu_hours=float(last_gpu_s.sum()) / 3600,
        failing_gpu_hours=(needed_gpu_s - float(last_gpu_s.sum())) / 3600 if truth.failures else 0.0,
        interrupted_gpu_hours=(demand_gpu_s - needed_gpu_s) / 3600,
        single_gpu_share=_share(single, with_gpus),
        single_gpu_time_share=_share(last_gpu_s[single], last_gpu_s),
        fractional_share=_share(with_gpus & (held_gpus / np.maximum(jobs.gpus, 1) < 1 - 1e-9), with_gpus),
        gpu_counts=_counts(jobs.gpus),
        durations=Quantiles.of(truth.duration_s),
        unknown_durations=int((~np.isfinite(truth.duration_s)).sum()),
        first_submit_s=float(submit_s.min()) if len(trace) else None,
        last_submit_s=float(submit_s.max()) if len(trace) else None,
        span_s=span_s,
        mean_demand_gpus=demand_gpu_s / span_s if span_s > 0 and demand_gpu_s > 0 else None,
        gap_mean_s=gap_mean_s,
        gap_cv=gap_cv,
        tenants=len(np.unique(jobs.tenant)),
        groups=_used(jobs.group),
        workloads=_used(jobs.workload),
        with_deadline=int(np.isfinite(jobs.deadline_s).sum()),
        with_limit=int(np.isfinite(jobs.limit_s).sum()),
        elastic=int((jobs.gpus_max > jobs.gpus_min).sum()),
        outcomes={Outcome(code).name: n for code, n in _counts(truth.outcome).items()},
        waits=Quantiles.of(trace.observed.start_s - submit_s) if trace.observed else None,
        holds=_holds(trace),
        odd=trace.odd,
        facts=dict(trace.facts),
        slice_hours=slice_hours(types, np.nan_to_num(truth.duration_s * jobs.gpus * jobs.gpu_share) / 3600),
    )


def _holds(trace: Trace) -> Quantiles | None:
    """Seconds that jobs were held before they were eligible, over the jobs that started."""
    if trace.observed is None:
        return None
    return Quantiles.of(trace.truth.held_s[np.isfinite(trace.observed.start_s)])


def gap_figures(submit_s: Floats) -> tuple[float | None, float | None]:
    """Mean in seconds and coefficient of variation of the gaps between submissions."""
    gaps_s = np.diff(np.sort(submit_s))
    if not len(gaps_s) or gaps_s.sum() == 0:
        return None, None
    return float(gaps_s.mean()), float(gaps_s.std() / gaps_s.mean())


def _share(part: Array, whole: Array) -> float | None:
    total = float(whole.sum())
    return float(part.sum()) / total if total > 0 else None


def _counts(values: Array) -> dict[int, int]:
    """Value -> number of occurrences, in rising order."""
    return {int(value): int(n) for value, n in zip(*np.unique(values, return_counts=True), strict=True)}


def _used(codes: Array) -> int:
    """Number of different codes in use; -1 is none."""
    return len(np.unique(codes[codes >= 0]))


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"


def _examples(odd: OddRows) -> str:
    return f" ({', '.join(odd.examples)})" if odd.examples else ""


def _fact_line(name: str, value: object) -> tuple[str, str]:
    """Label and value of a fact; seconds are written in words."""
    if name.endswith("_s") and isinstance(value, int | float):
        return name.removesuffix("_s"), format_duration(value)
    return name, _fact(value)


def _fact(value: object) -> str:
    """A fact on one line; facts with a value for each job as counts, `gns: 57  static: 4` or `120
    entries`."""
    if not isinstance(value, Mapping | list | tuple) or len(value) <= _FEW:
        return str(value)
    parts = list(value.values()) if isinstance(value, Mapping) else value
    kinds = Counter(part for part in parts if isinstance(part, str))
    if kinds.total() == len(parts) and len(kinds) <= _FEW:
        return "  ".join(f"{kind}: {n:,}" for kind, n in sorted(kinds.items()))
    return f"{len(value):,} entries (--json has them)"
