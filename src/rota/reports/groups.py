"""Tables per tenant and per size class: groups down, policies across."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.reports.compare import Comparison
from rota.reports.metrics import METRICS, Value
from rota.reports.summary import Summary
from rota.reports.wording import change_words, words

SHOWN_MAX = 20
"""Tenants printed, those with most GPU time; `summary.json` has them all."""
_KEYS = {
    "sizes": ("mean_jct_s", "mean_delay_s", "mean_slowdown"),
    "tenants": ("mean_jct_s", "mean_delay_s", "mean_rho"),
}


@dataclass(frozen=True)
class GroupRow:
    name: str
    jobs: str
    cells: tuple[tuple[str, str], ...]
    """Value and ratio to the baseline, per policy."""


@dataclass(frozen=True)
class GroupTable:
    """One metric of every group under every policy."""

    title: str
    policies: tuple[str, ...]
    rows: tuple[GroupRow, ...]
    left_out: int
    """Groups not shown."""


def group_tables(comparison: Comparison, by: Literal["sizes", "tenants"]) -> list[GroupTable]:
    """One table per metric; empty if there is but one group, which would repeat the headline."""
    groups: dict[str, list[Summary]] = {}
    for summary in comparison.summaries:
        groups.setdefault(summary.policy, []).append(summary)
    base = _of(groups[comparison.baseline][0], by)
    names = list(base)
    if by == "tenants":
        names = sorted(names, key=lambda name: -float(base[name]["granted_gpu_s"] or 0))
    if len(names) < 2:
        return []
    tables = []
    for key in _KEYS[by]:
        means = {policy: _means(runs, by, key) for policy, runs in groups.items()}
        rows = tuple(_row(name, base, key, means, comparison.baseline) for name in names[:SHOWN_MAX])
        left_out = len(names) - len(rows)
        tables.append(GroupTable(METRICS[key].label, tuple(groups), rows, left_out))
    return tables


def _of(summary: Summary, by: str) -> Mapping[str, Mapping[str, Value]]:
    return summary.sizes if by == "sizes" else summary.tenants


def _means(runs: list[Summary], by: str, key: str) -> dict[str, float]:
    """Per group the mean over seeds."""
    values_of: dict[str, list[float]] = {}
    for run in runs:
        for name, values in _of(run, by).items():
            if (value := values[key]) is not None:
                values_of.setdefault(name, []).append(float(value))
    return {name: float(np.mean(values)) for name, values in values_of.items()}


def _row(
    name: str,
    base: Mapping[str, Mapping[str, Value]],
    key: str,
    means: Mapping[str, Mapping[str, float]],
    baseline: str,
) -> GroupRow:
    reference, unit = means[baseline].get(name), METRICS[key].unit
    cells = []
    for policy, of_policy in means.items():
        value = of_policy.get(name)
        ratio = value / reference if value is not None and reference and policy != baseline else None
        cells.append((words(value, unit), "" if ratio is None else change_words(ratio, unit)))
    return GroupRow(name or "(none)", words(base[name]["jobs"], "count"), tuple(cells))
