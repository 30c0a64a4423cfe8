"""How near a replay of the site's own policy comes to what the trace recorded: whole distributions, by group.

The same jobs are compared on both sides: those of which the trace recorded a start and an end, and that the
replay finished too.  *Misplaced waiting* is one figure for all of it.  In each group the waits of both sides
are sorted and compared place by place; the differences, added up over the groups, are divided by all that was
waited.  It is worked out by size, by tenant and by queue, and the largest of the three counts: a replay with
the right mean whose tail, or whose large jobs, wait differently does not come out as exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.record import Record
from rota.model.trace import Trace
from rota.reports.calibration_words import (
    NEVER_ENDED,
    NO_POLICY,
    NO_STARTS,
    calibration_text,
    not_simulated,
)
from rota.reports.likeness import WITHIN, Calibration, Likeness, PolicyFit, Statistics, is_near, misplaced_s
from rota.reports.metrics import METRICS, Value, waiting_s
from rota.reports.sample import Sample
from rota.reports.window import Window
from rota.reports.wording import SIZES, size_codes

COMPARED = ("mean_jct_s", "mean_waiting_s", "p50_waiting_s", "p90_waiting_s", "p99_waiting_s", "utilisation")
"""Metrics of which a calibration has the relative difference."""
FEWEST_OF_A_GROUP = 10
"""Tenants, partitions and QOS with fewer jobs are one group, `others`."""
OTHERS = "others"
ALL = "all"


def calibration(
    records: Sequence[Record],
    site_policy: str | None = None,
    window: Window | None = None,
    trace: Trace | None = None,
    fit: PolicyFit | None = None,
) -> Calibration:
    """Compare the runs of `site_policy` with the observed row among `records`: a verdict, then the numbers.

    `trace`, which the records are of, tells partitions and QOS; without it there are no such groups.
    """
    observed = next((record for record in records if record.observed), None)
    site = [record for record in records if record.policy == site_policy and not record.observed]
    if observed is None:
        return Calibration(NO_STARTS, site_policy)
    if not site_policy:
        return Calibration(NO_POLICY)
    if not site:
        return Calibration(not_simulated(site_policy))
    ended = observed.jobs.filter(pl.col("start_s").is_not_null() & pl.col("finish_s").is_not_null())["job"]
    if ended.is_empty():
        return Calibration(NEVER_ENDED, site_policy)
    truth, runs = _sample(observed, window, ended), [_sample(record, window, ended) for record in site]
    groups = tuple(_groups(truth, runs, trace))
    off_s = _misplaced_s(groups)
    compared = Calibration(
        "",
        site_policy,
        errors=_errors(truth, runs),
        agrees=_agrees(groups[0], off_s),
        misplaced_s=off_s,
        groups=groups,
        utilisation=_utilisation(truth, runs),
        fit=fit,
    )
    return replace(compared, text=calibration_text(compared))


def _misplaced_s(groups: Sequence[Likeness]) -> float:
    """Misplaced waiting by the kind of group in which it is most."""
    by_kind: dict[str, float] = {}
    for group in groups:
        by_kind[group.kind] = by_kind.get(group.kind, 0.0) + group.misplaced_s
    return max(by_kind.values(), default=0.0)


def _agrees(whole: Likeness, off_s: float) -> bool:
    """Whether the mean wait is near what it was, and no more than `WITHIN` of the waiting is misplaced.

    `off_s` is misplaced in all; less than a minute a job is nothing.
    """
    if not whole.jobs or "mean" in whole.unlike:
        return False
    return off_s <= WITHIN * whole.waited_s or is_near(off_s / whole.jobs, 0.0)


def _sample(record: Record, window: Window | None, jobs: pl.Series) -> Sample:
    """The part of `jobs`, those that really ran to an end, that is measured.

    Jobs that users cancelled while these waited would wait in a replay: nothing compares with that.
    """
    whole = Sample.of(record, window)
    known = record.jobs["job"].is_in(jobs.implode()).to_numpy()
    return whole.at(whole.rows[known[whole.rows]])


def _errors(truth: Sample, runs: Sequence[Sample]) -> dict[str, float | None]:
    metrics = {key: METRICS[key].of for key in COMPARED}
    return {key: _error(_mean([of(run) for run in runs]), of(truth)) for key, of in metrics.items()}


def _utilisation(truth: Sample, runs: Sequence[Sample]) -> tuple[float | None, float | None]:
    """Utilisation of the replay, and as observed."""
    of = METRICS["utilisation"].of
    return _mean([of(run) for run in runs]), of(truth)


def _groups(truth: Sample, runs: Sequence[Sample], trace: Trace | None) -> Iterator[Likeness]:
    """All jobs, then the groups of each kind."""
    yield _likeness("all", ALL, truth, runs, np.ones(len(truth), dtype=np.bool_))
    for kind, names in _kinds(truth, trace):
        for name in _ordered(kind, names):
            yield _likeness(kind, name, truth, runs, names == name)


def _kinds(truth: Sample, trace: Trace | None) -> Iterator[tuple[str, Array]]:
    """Kinds of groups that tell some jobs apart (sizes always), and the name of each job's group."""
    names_of_sizes = np.array([name for name, _ in SIZES], dtype=object)
    yield "size", names_of_sizes[size_codes(truth.column("gpus"))]
    named: dict[str, Array] = {"tenant": truth.record.jobs["tenant"][truth.rows].fill_null("").to_numpy()}
    if trace is not None:
        named |= _queues(trace, truth.record.jobs["job"].to_numpy()[truth.rows])
    for kind, names in named.items():
        if len(pooled := _pooled(names)) and len(set(pooled.tolist())) > 1:
            yield kind, pooled


def _queues(trace: Trace, rows: Ints) -> dict[str, Array]:
    """Names of the partitions of `rows`, and of their QOS, or their priorities where no QOS is recorded."""
    jobs, qos = trace.jobs, {} if trace.observed is None else trace.observed.qos
    partitions = np.array([*jobs.node_set_names, ""], dtype=object)[jobs.node_set[rows]]
    if qos:
        return {"partition": partitions, "QOS": np.array([qos.get(row, "") for row in rows.tolist()])}
    return {"partition": partitions, "priority": jobs.priority[rows].astype(str)}


def _pooled(names: Array) -> Array:
    """`names` with those of few jobs as `others`."""
    unique, code, counts = np.unique(names.astype(str), return_inverse=True, return_counts=True)
    kept = np.where(counts >= FEWEST_OF_A_GROUP, unique.astype(object), OTHERS)
    kept[kept == ""] = "none"
    pooled: Array = kept[code]
    return pooled


def _ordered(kind: str, names: Array) -> list[str]:
    present = set(names.tolist())
    if kind == "size":
        return [name for name, _ in SIZES if name in present]
    return sorted(present, key=lambda name: (name == OTHERS, name))


def _likeness(kind: str, name: str, truth: Sample, runs: Sequence[Sample], inside: Bools) -> Likeness:
    """How one group waits on both sides, over the jobs that finished on both."""
    rows: Ints = np.flatnonzero(inside)
    columns = [_columns(run, rows) for run in (truth, *runs)]
    both = np.all([~np.isnan(wait_s) for wait_s, _ in columns], axis=0)
    (seen_wait, seen_jct), *ours = [(wait_s[both], jct_s[both]) for wait_s, jct_s in columns]
    return Likeness(
        kind=kind,
        name=name,
        jobs=int(both.sum()),
        waiting=Statistics.mean_of([Statistics.of(wait_s) for wait_s, _ in ours]),
        waiting_seen=Statistics.of(seen_wait),
        jct=Statistics.mean_of([Statistics.of(jct_s) for _, jct_s in ours]),
        jct_seen=Statistics.of(seen_jct),
        misplaced_s=float(np.mean([misplaced_s(wait_s, seen_wait) for wait_s, _ in ours])),
    )


def _columns(sample: Sample, rows: Ints) -> tuple[Floats, Floats]:
    """Waits and times from submission to end of `rows` of the sample; NaN where a job did not finish."""
    return waiting_s(sample)[rows], sample.jct_s[rows]


def _mean(values: Sequence[Value]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _error(ours: float | None, truth: float | None) -> float | None:
    """The relative difference; None where nothing is there to be relative to."""
    if ours is None or truth is None:
        return None
    return ours / truth - 1 if truth else 0.0 if not ours else None
