"""Tables per tenant and per size class: groups down, policies across; accounts above their tenants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rota.reports.compare import Comparison, ratio
from rota.reports.metrics import METRICS, Value
from rota.reports.summary import Summary
from rota.reports.wording import change_words, words

SHOWN_MAX = 20
"""Accounts printed, and tenants of each, those with most GPU time; `summary.json` has them all."""
_KEYS = {
    "sizes": ("mean_waiting_s", "p99_waiting_s", "mean_jct_s", "mean_slowdown"),
    "tenants": ("mean_waiting_s", "mean_jct_s", "mean_rho"),
}
_Values = Mapping[str, Mapping[str, Value]]


@dataclass(frozen=True)
class GroupCell:
    text: str
    change: str
    """Against the baseline; empty for the baseline itself."""
    value: float | None


@dataclass(frozen=True)
class GroupRow:
    name: str
    jobs: int
    cells: tuple[GroupCell, ...]
    """One per policy."""
    parent: str = ""
    """The account above it, if that has a row."""
    children: int = 0
    """Tenants of an account."""


@dataclass(frozen=True)
class GroupTable:
    """One metric of every group under every policy."""

    key: str
    title: str
    policies: tuple[str, ...]
    rows: tuple[GroupRow, ...]
    left_out: int
    """Groups not shown."""


@dataclass(frozen=True)
class _Group:
    """A row to be: a tenant, or an account of several."""

    name: str
    account: bool = False
    parent: str = ""
    children: int = 0

    def values(self, summary: Summary, by: str) -> Mapping[str, Value] | None:
        of: _Values = summary.accounts if self.account else getattr(summary, by)
        return of.get(self.name)


def group_tables(comparison: Comparison, by: Literal["sizes", "tenants"]) -> list[GroupTable]:
    """One table per metric; empty if there is but one group, which would repeat the headline."""
    runs: dict[str, list[Summary]] = {}
    for summary in comparison.summaries:
        runs.setdefault(summary.policy, []).append(summary)
    base = runs[comparison.baseline][0]
    groups, left_out = _tree(base) if by == "tenants" else ([_Group(name) for name in base.sizes], 0)
    if len(groups) < 2:
        return []
    return [
        GroupTable(
            key,
            METRICS[key].label,
            tuple(runs),
            tuple(_row(group, by, key, runs, comparison.baseline) for group in groups),
            left_out,
        )
        for key in _KEYS[by]
    ]


def _tree(base: Summary) -> tuple[list[_Group], int]:
    """Accounts with most GPU time first, each followed by its tenants; how many are left out."""
    parent_of = {name: _account_of(name, base, own=True) for name in base.tenants}
    account_of = {name: _account_of(name, base, own=False) for name in base.accounts}
    shown: list[_Group] = []
    left_out = 0

    def below(parent: str) -> None:
        nonlocal left_out
        groups = [_Group(name, False, parent) for name, of in parent_of.items() if of == parent]
        groups += [_Group(name, True, parent) for name, of in account_of.items() if of == parent]
        groups.sort(key=lambda group: -float((group.values(base, "tenants") or {}).get("granted_gpu_s") or 0))
        for group in groups[:SHOWN_MAX]:
            tenants = sum(name == group.name or name.startswith(f"{group.name}/") for name in base.tenants)
            shown.append(replace(group, children=tenants) if group.account else group)
            if group.account:
                below(group.name)
        left_out += max(len(groups) - SHOWN_MAX, 0)

    below("")
    return shown, left_out


def _account_of(name: str, base: Summary, *, own: bool) -> str:
    """The nearest account above `name`; a tenant may be one itself, and then stands below it too."""
    levels = name.split("/")
    above = ["/".join(levels[:depth]) for depth in range(len(levels) - (not own), 0, -1)]
    return next((account for account in above if account in base.accounts), "")


def _row(group: _Group, by: str, key: str, runs: Mapping[str, list[Summary]], baseline: str) -> GroupRow:
    means = {policy: _mean(group, by, key, of) for policy, of in runs.items()}
    reference, unit = means[baseline], METRICS[key].unit
    cells = []
    for policy, value in means.items():
        against = None if policy == baseline else ratio(value, reference)
        change = "" if against is None else change_words(against, unit)
        cells.append(GroupCell(words(value, unit), change, value))
    jobs = (group.values(runs[baseline][0], by) or {}).get("jobs") or 0
    return GroupRow(group.name or "(none)", int(jobs), tuple(cells), group.parent, group.children)


def _mean(group: _Group, by: str, key: str, runs: list[Summary]) -> float | None:
    """Over seeds; None if no run has a value."""
    values = [(group.values(run, by) or {}).get(key) for run in runs]
    known = [float(value) for value in values if value is not None]
    return float(np.mean(known)) if known else None
