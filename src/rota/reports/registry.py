"""The registry behind `metrics`: a decorated function becomes a metric, its docstring the definition."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.model.columns import Floats
from rota.reports.sample import Sample
from rota.reports.wording import Unit

Value = float | int | None
Better = Literal["lower", "higher", "neither"]
Scope = Literal["jobs", "cluster", "run"]


@dataclass(frozen=True)
class Metric:
    """One number: `of` computes it from a sample; `scope` says whether it makes sense per group."""

    key: str
    label: str
    unit: Unit
    better: Better
    scope: Scope
    definition: str
    of: Callable[[Sample], Value]


METRICS: dict[str, Metric] = {}
"""All metrics by key, in the order of reports."""

DISTRIBUTIONS: dict[str, str] = {}
"""Definition of each distribution by the stem of its keys (`jct_s`)."""


def metric(
    label: str, unit: Unit, better: Better = "neither", scope: Scope = "jobs"
) -> Callable[[Callable[[Sample], Value]], Callable[[Sample], Value]]:
    """Register the function as the metric of its name."""

    def register(of: Callable[[Sample], Value]) -> Callable[[Sample], Value]:
        key = of.__name__
        METRICS[key] = Metric(key, label, unit, better, scope, inspect.getdoc(of) or "", of)
        return of

    return register


def distribution(
    label: str, unit: Unit, better: Better
) -> Callable[[Callable[[Sample], Floats]], Callable[[Sample], Floats]]:
    """Register the mean and three percentiles of the function's values per job (NaN: does not count)."""

    def register(of: Callable[[Sample], Floats]) -> Callable[[Sample], Floats]:
        stem, words = of.__name__, inspect.getdoc(of) or ""
        DISTRIBUTIONS[stem] = words
        for prefix, reduce in _REDUCTIONS.items():
            METRICS[f"{prefix}_{stem}"] = Metric(
                f"{prefix}_{stem}",
                f"{prefix} {label}",
                unit,
                better,
                "jobs",
                words,
                _reduced(stem, of, reduce),
            )
        return of

    return register


_REDUCTIONS: dict[str, Callable[[Floats], float]] = {
    "mean": lambda values: float(np.mean(values)),
    "p50": lambda values: float(np.percentile(values, 50)),
    "p90": lambda values: float(np.percentile(values, 90)),
    "p99": lambda values: float(np.percentile(values, 99)),
}


def _reduced(
    stem: str, of: Callable[[Sample], Floats], reduce: Callable[[Floats], float]
) -> Callable[[Sample], Value]:
    def value(sample: Sample) -> Value:
        values = sample.once(stem, lambda: _without_nan(of(sample)))
        return reduce(values) if len(values) else None

    return value


def _without_nan(values: Floats) -> Floats:
    return values[~np.isnan(values)]
