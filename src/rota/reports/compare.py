"""Comparison of several runs: ratios against a baseline, and the best of each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.errors import InputError
from rota.model.columns import Floats
from rota.reports.confidence import likely
from rota.reports.metrics import METRICS, Metric
from rota.reports.summary import Spread, Summary, spread
from rota.reports.wording import words


@dataclass(frozen=True)
class MetricCell:
    """One metric of one policy: mean over seeds, ratio to the baseline (None where it means nothing)."""

    metric: Metric
    spread: Spread | None
    ratio: float | None
    best: bool
    likely: tuple[float, float] | None = None
    """Its range in other mixtures of these weeks; None if that was not asked for."""
    likely_ratio: tuple[float, float] | None = None
    """The range of the ratio; both its sides are over equal jobs."""

    @property
    def value(self) -> float | None:
        return self.spread.mean if self.spread else None

    @property
    def text(self) -> str:
        return words(self.value, self.metric.unit)

    @property
    def margin(self) -> str:
        """`4h to 6h` where confidence was asked for, else `± 4m` over seeds; empty for one run."""
        if self.likely is not None:
            low, high = (words(edge, self.metric.unit) for edge in self.likely)
            return f"[{low}, {high}]"
        if not self.spread or self.spread.runs < 2:
            return ""
        return f"± {words(self.spread.std, self.metric.unit)}"


@dataclass(frozen=True)
class ComparisonRow:
    """One policy: all its cells by key."""

    policy: str
    observed: bool
    ranked: bool
    """True for a compared policy; False for observations and bounds."""
    runs: int
    partial: bool
    """Finished fewer jobs than another policy: its means leave out jobs that the others count."""
    cells: dict[str, MetricCell]


@dataclass(frozen=True)
class Comparison:
    """All policies over one trace, the baseline's name, and the summaries behind them."""

    lines: tuple[ComparisonRow, ...]
    baseline: str
    summaries: tuple[Summary, ...]
    site_policy: str | None = None
    """The policy that represents the site's own, if it is among them."""
    shared_jobs: int = 0
    """Jobs over which policies are compared with the observations; 0 for all of them."""

    @property
    def reference(self) -> ComparisonRow:
        """The baseline's row."""
        return next(line for line in self.lines if line.policy == self.baseline)

    @property
    def observed(self) -> ComparisonRow | None:
        """The values that the trace recorded, if any."""
        return next((line for line in self.lines if line.observed), None)

    def tells_apart(self, key: str) -> bool:
        """True if the metric `key` is worth a column: it has a value, and several runs differ in it."""
        texts = {line.cells[key].text for line in self.lines}
        return any(line.cells[key].value for line in self.lines) and (len(texts) > 1 or len(self.lines) == 1)

    @property
    def contenders(self) -> tuple[ComparisonRow, ...]:
        """The policies, without observations and bounds."""
        return tuple(line for line in self.lines if line.ranked)


def compare(
    summaries: Sequence[Summary], baseline: str | None = None, site_policy: str | None = None
) -> Comparison:
    """Policies in the order given, several seeds of one in one line.

    Unless named, `baseline` is the site's policy (`site_policy`), else the observations, else the first.
    """
    if not summaries:
        raise InputError("there is no run to report on; expected at least one")
    groups: dict[str, list[Summary]] = {}
    for summary in summaries:
        groups.setdefault(summary.policy, []).append(summary)
    ranked = [name for name, group in groups.items() if group[0].ranked]
    site = site_policy if site_policy in groups else None
    observed = next((name for name, group in groups.items() if group[0].observed), None)
    chosen = baseline or site or observed or (ranked or list(groups))[0]
    if chosen not in groups:
        raise InputError.at(
            f"no run of policy {chosen!r}", field="--baseline", expected=f"one of {', '.join(groups)}"
        )
    spreads = {name: spread(group) for name, group in groups.items()}
    shared = {name: spread(group, shared=True) for name, group in groups.items()}
    to_observed = {name: shared if observed in (name, chosen) else spreads for name in groups}
    rivals = {name: spreads[name] for name in ranked}
    most = max((_mean(of["finished"]) or 0 for of in rivals.values()), default=0)
    whole = [name for name, of in rivals.items() if (_mean(of["finished"]) or 0) == most]
    best = {key: _best(metric, {n: spreads[n][key] for n in whole}) for key, metric in METRICS.items()}
    lines = tuple(
        ComparisonRow(
            policy=name,
            observed=group[0].observed,
            ranked=group[0].ranked,
            runs=len(group),
            partial=name in rivals and name not in whole,
            cells={
                key: MetricCell(
                    metric,
                    spreads[name][key],
                    _ratio(metric, to_observed[name][name][key], to_observed[name][chosen][key]),
                    name in best[key],
                    *_likely(key, group, groups[chosen], observed in (name, chosen)),
                )
                for key, metric in METRICS.items()
            },
        )
        for name, group in groups.items()
    )
    return Comparison(lines, chosen, tuple(summaries), site, summaries[0].shared_jobs if observed else 0)


def _likely(
    key: str, of: Sequence[Summary], base: Sequence[Summary], is_shared: bool
) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """The intervals of the metric and of its ratio to `base`, over all seeds."""
    own = [one.draws[key] for one in of if key in one.draws]
    if not own or not np.isfinite(np.concatenate(own)).any():
        return None, None
    pairs = [
        (mine[key], theirs[key])
        for mine, theirs in zip(*(_as_many(of, base, is_shared)), strict=True)
        if key in mine and key in theirs
    ]
    ratios = [_divided(mine, theirs) for mine, theirs in pairs]
    known = bool(ratios) and bool(np.isfinite(np.concatenate(ratios)).any())
    return likely(np.concatenate(own)), likely(np.concatenate(ratios)) if known else None


def _as_many(
    of: Sequence[Summary], base: Sequence[Summary], is_shared: bool
) -> tuple[list[Mapping[str, Floats]], list[Mapping[str, Floats]]]:
    """The draws of both by seed; a run that no seed changes is paired with each of the other's."""
    most = max(len(of), len(base))

    def each(some: Sequence[Summary]) -> list[Mapping[str, Floats]]:
        draws = [one.shared_draws or one.draws if is_shared else one.draws for one in some]
        return [draws[place % len(draws)] for place in range(most)]

    return each(of), each(base)


def _divided(values: Floats, base: Floats) -> Floats:
    """Draw by draw; NaN where the base is residue."""
    ratios: Floats = np.divide(values, base, out=np.full(len(values), np.nan), where=base >= LEAST)
    return ratios


LEAST = 1e-3
"""A millisecond, or as little of anything else, is residue of arithmetic: nothing is a multiple of it."""


def _mean(of: Spread | None) -> float | None:
    return of.mean if of else None


def _ratio(metric: Metric, of: Spread | None, base: Spread | None) -> float | None:
    """Only times, work and ratios are compared by division; shares and counts speak for themselves."""
    comparable = metric.unit in ("s", "times", "gpu_s") and metric.better != "neither"
    return ratio(of.mean, base.mean) if comparable and of and base else None


def ratio(value: float | None, base: float | None) -> float | None:
    """`value` / `base`, both 0 or more; None where that means nothing."""
    if value is None or base is None or base < LEAST:
        return None
    return value / base if value >= LEAST else 0.0


def _best(metric: Metric, of: dict[str, Spread | None]) -> frozenset[str]:
    """Names with the best value as it is printed; none if all look equal or neither way is better."""
    values = {name: spread.mean for name, spread in of.items() if spread}
    texts = {name: words(value, metric.unit) for name, value in values.items()}
    if metric.better == "neither" or metric.scope == "run" or len(set(texts.values())) < 2:
        return frozenset()
    winner = (min if metric.better == "lower" else max)(values, key=values.__getitem__)
    return frozenset(name for name, text in texts.items() if text == texts[winner])
