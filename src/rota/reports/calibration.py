"""How near a replay of the site's own policy comes to the recorded trace: whole distributions, by group.

Both sides consist of equal jobs: those with a start and an end in the trace that finished in the replay as
well.  *Misplaced waiting* is one figure for all of it.  In each group the waits of both sides
are sorted and compared place by place; the sum of the differences over the groups is divided by the total
wait.  It is computed by size, by tenant and by queue, and the largest of the three counts: a replay with the
right mean but another tail, or other waits of large jobs, does not count as exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.record import Record
from rota.model.trace import Trace
from rota.model.units import format_duration, plural
from rota.reports.finding import DataTable, Details, Paragraph, Section, TableCell, TableColumn, TableRow
from rota.reports.likeness import WITHIN, Calibration, Likeness, PolicyFit, Statistics, is_near, misplaced_s
from rota.reports.metrics import METRICS, Value, waiting_s
from rota.reports.sample import Sample
from rota.reports.window import Window
from rota.reports.wording import SIZES, factor_words, part_words, size_codes, words

COMPARED = ("mean_jct_s", "mean_waiting_s", "p50_waiting_s", "p90_waiting_s", "p99_waiting_s", "utilisation")
"""Metrics with a relative difference in a calibration."""
FEWEST_OF_A_GROUP = 10
"""Tenants, partitions and QOS with fewer jobs are one group, `others`."""
OTHERS = "others"
ALL = "all"
NO_STARTS = "Uncalibrated: no recorded starts to compare with, so how close this is to reality is unknown."
NO_POLICY = "Uncalibrated: the policy that the site itself ran is not named."
NEVER_ENDED = "Uncalibrated: of no job is recorded both when it started and when it ended."
MOST_GROUPS = 3
"""Groups that a sentence names."""
STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99"}


def calibration(
    records: Sequence[Record],
    site_policy: str | None = None,
    window: Window | None = None,
    trace: Trace | None = None,
    fit: PolicyFit | None = None,
) -> Calibration:
    """Compare the runs of `site_policy` with the observed row among `records`: a verdict, then the numbers.

    `trace`, the source of the records, gives partitions and QOS; without it there are no such groups.
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
    """Misplaced waiting by the kind of group that has most of it."""
    by_kind: dict[str, float] = {}
    for group in groups:
        by_kind[group.kind] = by_kind.get(group.kind, 0.0) + group.misplaced_s
    return max(by_kind.values(), default=0.0)


def _agrees(whole: Likeness, off_s: float) -> bool:
    """True if the mean wait is near the recorded one, and at most `WITHIN` of the waiting is misplaced.

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
    """`names`, with groups of few jobs merged as `others`."""
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


# -- in words -------------------------------------------------------------------------------------------


def not_simulated(policy: str) -> str:
    """Message if no record is of `policy`."""
    return f"Uncalibrated: the site's own policy {policy!r} was not simulated."


def calibration_text(calibration: Calibration) -> str:
    """The verdict, then the numbers, then the groups that are not explained."""
    return " ".join(_sentences(calibration))


def _sentences(calibration: Calibration) -> Iterator[str]:
    whole, unlike = calibration.groups[0], calibration.unexplained()
    yield f"Calibration: {_verdict(calibration, whole)}"
    if not whole.jobs:
        return
    share, share_seen = calibration.utilisation
    numbers = [
        f"mean JCT {_both(whole.jct.mean, whole.jct_seen.mean)}",
        f"waiting {_waits(whole, tuple(STATISTICS))}",
        f"utilisation {words(share, 'share')} against {words(share_seen, 'share')}",
    ]
    yield f"Replayed against observed: {', '.join(numbers)}; {misplaced_words(calibration)}."
    if unlike:
        yield f"Not explained: {unexplained_words(unlike)}."


def _replay(calibration: Calibration) -> str:
    """The replayed policy, and why it was taken for the site's own."""
    if calibration.fit is None:
        return f"a replay of the site's own policy, {calibration.site_policy!r},"
    tried = f"{len(calibration.fit.misplaced_s)} policies"
    part = f" on {calibration.fit.part}" if calibration.fit.part else ""
    return f"a replay of {calibration.site_policy!r}, which fits best of the {tried} tried{part},"


def misplaced_words(calibration: Calibration) -> str:
    """`43% of the waiting is misplaced`; in seconds a job where the jobs had not waited."""
    whole = calibration.groups[0]
    if calibration.error is not None:
        return f"{part_words(calibration.error)} of the waiting is misplaced"
    off_s = whole.misplaced_s / whole.jobs if whole.jobs else 0.0
    return "no job waited" if not off_s else f"no job waited, {words(off_s, 's')} on average in the replay"


def unexplained_words(unlike: Sequence[Likeness]) -> str:
    """`jobs of >8 GPUs (wait 6h against 24h), tenant a/b (...) and 3 other groups`."""
    named = [f"{one.title} ({_worst(one)})" for one in unlike[:MOST_GROUPS]]
    more = len(unlike) - MOST_GROUPS
    return ", ".join(named) + (f" and {plural(more, 'other group')}" if more > 0 else "")


def _worst(group: Likeness) -> str:
    """`wait 6h against 24h` on average, or the statistic that does not agree if the mean does."""
    key = next((key for key in ("mean", "p99", "p90", "p50") if key in group.unlike), "mean")
    name = "" if key == "mean" else f"{STATISTICS[key]} "
    return f"{name}wait {_both(getattr(group.waiting, key), getattr(group.waiting_seen, key))}"


def _waits(group: Likeness, keys: Sequence[str]) -> str:
    """`mean 6h against 24h, p99 17h against 41h`."""
    return ", ".join(
        f"{STATISTICS[key]} {_both(getattr(group.waiting, key), getattr(group.waiting_seen, key))}"
        for key in keys
    )


def _both(ours_s: float, seen_s: float) -> str:
    return f"{words(ours_s, 's')} against {words(seen_s, 's')}"


def _verdict(calibration: Calibration, whole: Likeness) -> str:
    """Whether the replay waits as the site's jobs did, and what to try if it does not."""
    replay = _replay(calibration)
    ours_s, seen_s = whole.waiting.mean, whole.waiting_seen.mean
    if not whole.jobs:
        return f"{replay} finished no job, so nothing can be compared."
    if calibration.agrees:
        return f"{replay} waits about as long as your jobs did: the other rows can be set against observed."
    if "mean" not in whole.unlike:
        return (
            f"{replay} waits about as long as your jobs did on average, but not the same jobs do: of the "
            "other rows only means of all jobs can be set against observed, not tails nor groups."
        )
    if ours_s < seen_s:
        less = factor_words(ours_s / seen_s).replace("shorter", "less")
        return (
            f"{replay} waits {less} than your jobs did, so what is gained over observed is overstated: the "
            "site had fewer GPUs at hand, or held jobs back by rules that are not replayed. Try --cluster "
            f"with the site's real nodes and partitions{_or_another(calibration, 'fifo')}."
        )
    more = f"{factor_words(ours_s / seen_s)} than your jobs did" if seen_s else "where your jobs did not"
    return (
        f"{replay} waits {more}, so what is lost to observed is overstated: this cluster is smaller than the "
        "site's, or its policy lets more jobs pass. Try a larger --cluster"
        f"{_or_another(calibration, 'fifo:skip=yes')}."
    )


def _or_another(calibration: Calibration, other: str) -> str:
    """The advice to replay `other`, unless it was the one replayed, or was tried and fits less."""
    is_tried = calibration.fit is not None or calibration.site_policy == other
    return "" if is_tried else f", or --site-policy {other}"


# -- on a page ------------------------------------------------------------------------------------------


def fit_section(calibration: Calibration) -> Section:
    """How the replay of the site's own policy fits the observations: a row for each group of jobs."""
    whole = calibration.groups[0]
    in_all = ""
    if calibration.error is not None:
        in_all = f" ({part_words(calibration.error)} in all, by the kind of group in which it is most)"
    note = (
        f"Each cell: the replay of {calibration.site_policy} / what the trace recorded, over the "
        f"{whole.jobs:,} jobs that ended in both. ≠: further apart than a fifth, and than a minute. "
        "Misplaced: the waits of both sides, sorted and compared place by place; a part of all waiting"
        f"{in_all}."
    )
    parts: list[object] = [Paragraph(note), _fit_table(calibration)]
    if more := len(calibration.groups) - len(calibration.shown):
        parts.append(
            Paragraph(f"{plural(more, 'more tenant')}, with less misplaced waiting, are in the JSON.")
        )
    if calibration.fit:
        parts.append(_tried(calibration.fit))
    return Section("fit", "Replayed against observed", tuple(parts))


def _fit_table(calibration: Calibration) -> DataTable:
    whole_s = calibration.groups[0].waited_s
    rows = []
    for group in calibration.shown:
        waits = [
            _pair(group.waiting, group.waiting_seen, key, "≠ " if key in group.unlike else "")
            for key in STATISTICS
        ]
        part = group.misplaced_s / whole_s if whole_s else None
        cells = (
            TableCell(f"{group.jobs:,}", value=group.jobs),
            *waits,
            _pair(group.jct, group.jct_seen, "mean"),
            TableCell(words(part, "share"), value=group.misplaced_s),
        )
        rows.append(TableRow(group.title, cells))
    heads = ("count", *(f"{name} wait" for name in STATISTICS.values()), "mean JCT", "misplaced")
    title = "Replayed against observed"
    return DataTable(title, "Jobs", tuple(map(TableColumn, heads)), tuple(rows), style="cards sortable")


def _pair(ours: Statistics, seen: Statistics, key: str, mark: str = "") -> TableCell:
    """`6h / 24h`: of the replay, and as observed."""
    here_s, there_s = getattr(ours, key), getattr(seen, key)
    return TableCell(f"{mark}{words(here_s, 's')} / {words(there_s, 's')}", value=there_s)


def _tried(fit: PolicyFit) -> Details:
    """The policies that were tried for the site's own, and how each fits."""
    where = f"Replayed on {fit.part}. " if fit.part else ""
    took = format_duration(fit.spent_s)
    rows = [(policy, words(off_s, "s")) for policy, off_s in fit.misplaced_s.items()]
    return Details(
        "The policies that were tried",
        (
            Paragraph(f"{where}Misplaced waiting of each; the least fits best. It took {took}."),
            DataTable.of_texts("Policies tried", ("Policy", "misplaced waiting"), rows),
        ),
    )
