"""All numbers of one run, and how they spread over several runs of one policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rota.model.columns import Bools, Floats
from rota.model.record import Record
from rota.reports.confidence import drawn, likely
from rota.reports.metrics import METRICS, Value
from rota.reports.sample import Sample, by_account, by_size, by_tenant
from rota.reports.window import Span, Window


@dataclass(frozen=True)
class Summary:
    """One run in numbers.  `summary["mean_jct_s"]`; keys and definitions in `metrics.METRICS`."""

    policy: str
    observed: bool
    """True if these are the trace's own starts and ends, not a simulation."""
    ranked: bool
    """False for observations and bounds: shown next to the policies, never the best of them."""
    window: str
    """The window as it was asked for, `all` without one."""
    span: Span
    """The measured window, in seconds from the world's epoch."""
    values: Mapping[str, Value]
    tenants: Mapping[str, Mapping[str, Value]]
    """Values per tenant; only metrics that make sense for a group of jobs."""
    accounts: Mapping[str, Mapping[str, Value]]
    """Values per account that has several tenants: `a` has the jobs of `a/x` and `a/y`."""
    sizes: Mapping[str, Mapping[str, Value]]
    """Values per size class: `1 GPU`, `2-4 GPUs`, `5-8 GPUs`, `>8 GPUs`, and `CPU only`."""
    provenance: Mapping[str, object] = field(default_factory=dict)
    shared: Mapping[str, Value] = field(default_factory=dict)
    """Values over the jobs with recorded start and end only, for comparison with the observations;
    empty if no job has them, or all have."""
    shared_jobs: int = 0
    draws: Mapping[str, Floats] = field(default_factory=dict)
    """Metrics in other mixtures of these weeks (`confidence.drawn`), if asked for."""
    shared_draws: Mapping[str, Floats] = field(default_factory=dict)
    """Such metrics over the jobs of `shared`."""

    def __getitem__(self, key: str) -> Value:
        return self.values[key]

    def to_dict(self) -> dict[str, object]:
        """Plain data for `summary.json`: the values at the top level, the groups below them."""
        return {
            "policy": self.policy,
            "observed": self.observed,
            "window": {"asked": self.window, "start_s": self.span.start_s, "end_s": self.span.end_s},
            **self.values,
            **({"likely": {key: likely(draws) for key, draws in self.draws.items()}} if self.draws else {}),
            "tenants": {name: dict(values) for name, values in self.tenants.items()},
            "accounts": {name: dict(values) for name, values in self.accounts.items()},
            "sizes": {name: dict(values) for name, values in self.sizes.items()},
            "provenance": dict(self.provenance),
        }


def summarise_all(
    records: Sequence[Record], window: Window | None = None, *, confidence: bool = False
) -> tuple[Summary, ...]:
    """The summary of each of `records`, with `shared` where one of them is observed.

    `confidence` adds the numbers in other mixtures of these weeks, which takes a while.
    """
    observed = next((record for record in records if record.observed), None)
    known = None
    if observed is not None and all(len(record.jobs) == len(observed.jobs) for record in records):
        ended = Sample.of(observed).at(np.arange(len(observed.jobs))).finished
        known = None if ended.all() or not ended.any() else ended
    return tuple(summarise(record, window, known, confidence=confidence) for record in records)


def summarise(
    record: Record, window: Window | None = None, known: Bools | None = None, *, confidence: bool = False
) -> Summary:
    """Every metric of `record`, over jobs submitted inside `window`; `known` marks the jobs of `shared`."""
    sample = Sample.of(record, window)
    part = None if known is None else sample.at(sample.rows[known[sample.rows]])
    return Summary(
        policy=record.policy,
        observed=record.observed,
        ranked=record.ranked,
        window=str(window) if window else "all",
        span=sample.span,
        values={key: metric.of(sample) for key, metric in METRICS.items()},
        tenants=_groups(by_tenant(sample)),
        accounts=_groups(by_account(sample)),
        sizes=_groups(by_size(sample)),
        provenance=record.provenance,
        shared={} if part is None else {key: metric.of(part) for key, metric in METRICS.items()},
        shared_jobs=0 if part is None else len(part),
        draws=drawn(sample) if confidence else {},
        shared_draws=drawn(part) if confidence and part is not None else {},
    )


def _groups(groups: Iterable[tuple[str, Sample]]) -> dict[str, dict[str, Value]]:
    of_jobs = [metric for metric in METRICS.values() if metric.scope == "jobs"]
    return {name: {metric.key: metric.of(part) for metric in of_jobs} for name, part in groups}


@dataclass(frozen=True)
class Spread:
    """One metric over several seeds; `std` is the sample standard deviation, 0 for one run."""

    runs: int
    mean: float
    low: float
    high: float
    std: float


def spread(summaries: Sequence[Summary], *, shared: bool = False) -> dict[str, Spread | None]:
    """Per metric the mean, the extremes and the deviation over runs; None where no run has a value.

    `shared` takes the values over the jobs with recorded start and end, if these are fewer.
    """
    values = [summary.shared or summary.values if shared else summary.values for summary in summaries]
    return {key: _spread([of[key] for of in values]) for key in METRICS}


def _spread(values: Sequence[Value]) -> Spread | None:
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if len(known) == 0:
        return None
    low, high = float(known.min()), float(known.max())
    if low == high:  # of equal values the sums make others, a rounding error apart
        return Spread(len(known), low, low, high, 0.0)
    return Spread(len(known), float(known.mean()), low, high, float(known.std(ddof=1)))
