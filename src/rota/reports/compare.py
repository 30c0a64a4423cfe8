"""Several runs beside each other: ratios against a baseline, the best of each column, the calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rota.errors import InputError
from rota.model.columns import Floats
from rota.model.record import Record
from rota.reports.blocks import likely
from rota.reports.metrics import METRICS, Metric, Value
from rota.reports.sample import Sample
from rota.reports.summary import Spread, Summary, spread
from rota.reports.window import Window
from rota.reports.wording import factor_words, words


@dataclass(frozen=True)
class MetricCell:
    """One metric of one policy: mean over seeds, ratio to the baseline (None where it means nothing)."""

    metric: Metric
    spread: Spread | None
    ratio: float | None
    best: bool
    likely: tuple[float, float] | None = None
    """Within which it is, in other mixtures of the same weeks; None if that was not asked for."""
    likely_ratio: tuple[float, float] | None = None
    """The same of the ratio, of which both sides are of the same jobs."""

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
    """One of the policies compared; not what was observed, and no bound."""
    runs: int
    partial: bool
    """Finished fewer jobs than another policy: its means leave out what the others count."""
    cells: dict[str, MetricCell]


@dataclass(frozen=True)
class Comparison:
    """All policies over one trace, the baseline's name, and the summaries behind them."""

    lines: tuple[ComparisonRow, ...]
    baseline: str
    summaries: tuple[Summary, ...]
    site_policy: str | None = None
    """The policy that stands for what the site itself ran, if it is among them."""
    shared_jobs: int = 0
    """Jobs over which changes between what was observed and others are; 0 for all of them."""

    @property
    def reference(self) -> ComparisonRow:
        """The baseline's row."""
        return next(line for line in self.lines if line.policy == self.baseline)

    @property
    def observed(self) -> ComparisonRow | None:
        """What the trace recorded, if it did."""
        return next((line for line in self.lines if line.observed), None)

    def tells_apart(self, key: str) -> bool:
        """Whether the metric `key` is worth a column: it has a value, and not the same for all of several."""
        texts = {line.cells[key].text for line in self.lines}
        return any(line.cells[key].value for line in self.lines) and (len(texts) > 1 or len(self.lines) == 1)

    @property
    def contenders(self) -> tuple[ComparisonRow, ...]:
        """The policies: neither what was observed nor a bound is a competitor."""
        return tuple(line for line in self.lines if line.ranked)


def compare(
    summaries: Sequence[Summary], baseline: str | None = None, site_policy: str | None = None
) -> Comparison:
    """Policies in the order given, several seeds of one in one line.

    Unless named, `baseline` is what the site runs (`site_policy`), else what was observed, else the first.
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
    """The draws of both by seed; a run that no seed changes stands beside each of the other's."""
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
    """Names with the best value as it is printed; nobody if all look equal or neither way is better."""
    values = {name: spread.mean for name, spread in of.items() if spread}
    texts = {name: words(value, metric.unit) for name, value in values.items()}
    if metric.better == "neither" or metric.scope == "run" or len(set(texts.values())) < 2:
        return frozenset()
    winner = (min if metric.better == "lower" else max)(values, key=values.__getitem__)
    return frozenset(name for name, text in texts.items() if text == texts[winner])


@dataclass(frozen=True)
class Calibration:
    """How far the site's own policy, simulated, is from what the trace observed."""

    text: str
    site_policy: str | None = None
    errors: dict[str, float | None] | None = None
    """Relative difference (simulated / observed − 1) of each metric compared; None if uncalibrated."""

    agrees: bool | None = None
    """Whether the replay waits about as long as the jobs did; None if uncalibrated."""

    @property
    def calibrated(self) -> bool:
        return self.errors is not None


COMPARED = {"mean_jct_s": "mean JCT", "mean_waiting_s": "mean waiting", "utilisation": "utilisation"}
"""What a calibration compares."""
AGREES_WITHIN = 0.2
"""A replay agrees with what happened if its mean waiting differs by this part of it at most ..."""
AGREES_WITHIN_S = 60.0
"""... or by so many seconds."""


def calibration(
    records: Sequence[Record], site_policy: str | None = None, window: Window | None = None
) -> Calibration:
    """Compare the run of `site_policy` with the observed row among `records`: a verdict, then the numbers."""
    observed = next((record for record in records if record.observed), None)
    site = [record for record in records if record.policy == site_policy and not record.observed]
    if observed is None:
        return Calibration(
            "Uncalibrated: no recorded starts to compare with, so how close this is to reality is unknown.",
            site_policy,
        )
    if not site_policy:
        return Calibration("Uncalibrated: nobody named the policy that the site itself ran.")
    if not site:
        return Calibration(f"Uncalibrated: the site's own policy {site_policy!r} was not simulated.")
    ended = observed.jobs.filter(pl.col("start_s").is_not_null() & pl.col("finish_s").is_not_null())["job"]
    if ended.is_empty():
        return Calibration(
            "Uncalibrated: of no job is recorded both when it started and when it ended.", site_policy
        )
    truth = _compared(observed, window, ended)
    runs = [_compared(record, window, ended) for record in site]
    ours = {key: _mean_of([run[key] for run in runs]) for key in COMPARED}
    errors = {key: _error(ours[key], truth[key]) for key in COMPARED}
    waits = ours["mean_waiting_s"], truth["mean_waiting_s"]
    verdict = _verdict(site_policy, *waits)
    parts = [
        f"{name} {words(ours[key], METRICS[key].unit)} against {words(truth[key], METRICS[key].unit)}"
        for key, name in COMPARED.items()
    ]
    text = f"Calibration: {verdict} Replayed against observed: {', '.join(parts)}."
    return Calibration(text, site_policy, errors, _agree(*waits))


def _compared(record: Record, window: Window | None, jobs: pl.Series) -> dict[str, Value]:
    """What is compared of a run: means over `jobs` alone, those that really ran to an end.

    Whom users cancelled while they waited would wait in a replay, and there is nothing to compare that with.
    """
    whole = Sample.of(record, window)
    known = record.jobs["job"].is_in(jobs.implode()).to_numpy()
    part = whole.at(whole.rows[known[whole.rows]])
    return {key: METRICS[key].of(part if METRICS[key].scope == "jobs" else whole) for key in COMPARED}


def _mean_of(values: Sequence[Value]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _verdict(policy: str, ours_s: float | None, truth_s: float | None) -> str:
    """Whether the replay waits as the site's jobs did, and what to try if it does not."""
    replay = f"a replay of the site's own policy, {policy!r},"
    if ours_s is None or truth_s is None:
        return f"{replay} finished no job, so nothing can be compared."
    if _agree(ours_s, truth_s):
        return f"{replay} waits about as long as your jobs did: the other rows can be set against observed."
    if ours_s < truth_s:
        less = factor_words(ours_s / truth_s).replace("shorter", "less")
        return (
            f"{replay} waits {less} than your jobs did, so what is gained over observed is overstated: the "
            "site had fewer GPUs at hand, or held jobs back by rules that are not replayed. Try --cluster "
            f"with the site's real nodes and partitions{_or_another(policy, 'fifo')}."
        )
    more = f"{factor_words(ours_s / truth_s)} than your jobs did" if truth_s else "where your jobs did not"
    return (
        f"{replay} waits {more}, so what is lost to observed is overstated: this cluster is smaller than the "
        "site's, or its policy lets more jobs pass. Try a larger --cluster"
        f"{_or_another(policy, 'fifo:skip=yes')}."
    )


def _or_another(policy: str, other: str) -> str:
    """The advice to replay `other`, for whom that is not what was replayed."""
    return f", or --site-policy {other}" if policy != other else ""


def _agree(ours_s: float | None, truth_s: float | None) -> bool:
    if ours_s is None or truth_s is None:
        return False
    return abs(ours_s - truth_s) <= max(AGREES_WITHIN * truth_s, AGREES_WITHIN_S)


def _error(ours: float | None, truth: float | None) -> float | None:
    return ours / truth - 1 if ours is not None and truth else None
