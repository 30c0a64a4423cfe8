"""Arrays, and a user's jobs of one name, that all die in one way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rota.model.columns import Bools
from rota.model.failures import NO_SIGNATURE, FailureClass, class_of
from rota.model.jobs import Outcome
from rota.model.units import format_duration
from rota.model.words import hours
from rota.reports.finding import SURE, Bar, Finding, Said
from rota.reports.findings.failures import FailedAttempts
from rota.reports.findings.history import JobHistory, failed, named_jobs
from rota.reports.findings.thresholds import Thresholds

STUDY = "failures"
WHAT = "which arrays die in the same way"


@dataclass(frozen=True)
class _Group:
    """Jobs that belong together."""

    name: str
    rows: tuple[int, ...]
    is_array: bool


def study(history: JobHistory, thresholds: Thresholds) -> Said:
    """One finding for each group that ended almost wholly in one failure."""
    died = failed(history) & (history.run_s >= 0) & np.isfinite(history.trace.truth.duration_s)
    jobs, seen = history.trace.jobs, history.trace.observed
    if not (jobs.group_names or (seen is not None and seen.arrays)):
        return Said.gap(STUDY, WHAT, "JobID of array tasks (17_3), or JobName (group)")
    if not (history.outcome != Outcome.COMPLETED).any():
        return Said.gap(STUDY, WHAT, "the outcome of each job (State, outcome), or none failed")
    if not died.any():
        return Said()
    ways = _ways(history)
    groups = _groups(history, int(thresholds.array_tasks))
    alike = Counter(group.is_array for group in groups)
    died_alike = {group: _same_way(group, died, ways) for group in groups}
    striking = [
        group
        for group, (way, dead) in died_alike.items()
        if class_of(way) != FailureClass.INFRASTRUCTURE
        and _stands_out(group, dead, died, alike[group.is_array], thresholds)
    ]
    findings = [_finding(history, group, *died_alike[group], thresholds) for group in _largest(striking)]
    return Said(tuple(sorted(findings, key=lambda one: (-one.value, one.subject))))


def _largest(groups: list[_Group]) -> list[_Group]:
    """Those that are no part of another."""
    kept: list[_Group] = []
    seen: set[int] = set()
    for group in sorted(groups, key=lambda one: -len(one.rows)):
        if not seen.issuperset(group.rows):
            kept.append(group)
            seen.update(group.rows)
    return kept


def _ways(history: JobHistory) -> Mapping[int, str]:
    """How the last attempt of each failed job died."""
    trials = FailedAttempts.of(history)
    return {
        int(row): reason or NO_SIGNATURE
        for row, reason, last in zip(trials.row, trials.reason, trials.last, strict=True)
        if last
    }


def _groups(history: JobHistory, least: int) -> list[_Group]:
    """Groups: arrays as the trace names them; other jobs by user and name; and those of them that were
    submitted in one second."""
    jobs, seen = history.trace.jobs, history.trace.observed
    arrays = seen.arrays if seen is not None else {}
    rows_of: dict[tuple[str, str], list[int]] = {}
    for row, array in arrays.items():
        rows_of.setdefault(("array", array), []).append(row)
    if jobs.group_names:
        columns = zip(history.user.code.tolist(), jobs.group.tolist(), jobs.submit_s.tolist(), strict=True)
        for row, (user, group, submit_s) in enumerate(columns):
            if row not in arrays and group >= 0:
                rows_of.setdefault((f"user {user}", jobs.group_names[group]), []).append(row)
                rows_of.setdefault((f"user {user} at {submit_s}", jobs.group_names[group]), []).append(row)
    groups = []
    for (kind, name), rows in rows_of.items():
        if len(rows) >= least:
            groups.append(_Group(name, tuple(sorted(rows)), kind == "array"))
    return groups


def _same_way(group: _Group, died: Bools, ways: Mapping[int, str]) -> tuple[str, list[int]]:
    """The commonest way of dying in the group, and the rows that died in it."""
    dead = [row for row in group.rows if died[row]]
    counts = Counter(ways.get(row, NO_SIGNATURE) for row in dead)
    if not counts:
        return "", []
    way = counts.most_common(1)[0][0]
    return way, [row for row in dead if ways.get(row, NO_SIGNATURE) == way]


def _stands_out(group: _Group, dead: list[int], died: Bools, groups: int, thresholds: Thresholds) -> bool:
    """Enough of them, nearly all, and too many for chance at the failure rate of all others."""
    rows = list(group.rows)
    if len(dead) < thresholds.array_tasks:
        return False
    all_dead = int(died[rows].sum())
    if len(dead) < thresholds.array_part * all_dead or all_dead < thresholds.array_part * len(rows):
        return False
    others = len(died) - len(rows)
    rate = (float(died.sum()) - all_dead + 1.0) / (others + 2.0)
    return groups * _at_least(len(dead), len(rows), rate) <= thresholds.array_chance


def _at_least(k: int, n: int, rate: float) -> float:
    """Chance of `k` or more of `n` at that rate each."""
    from scipy.special import bdtrc

    return float(bdtrc(k - 1, n, rate))


def _finding(
    history: JobHistory, group: _Group, way: str, dead: list[int], thresholds: Thresholds
) -> Finding:
    rows = list(group.rows)
    jobs = history.trace.jobs
    user = history.user.names[int(history.user.code[rows[0]])]
    label = jobs.name_of("group", rows[0])
    run_s = np.array([history.trace.truth.duration_s[row] for row in dead])
    cost = float(history.gpu_hours[rows].sum())
    what = f"Array {group.name}" + (f" ({label})" if label else "") if group.is_array else f"{label!r}"
    reason = "failed" if way == NO_SIGNATURE else way
    every = "all" if len(dead) == len(rows) else f"{len(dead):,} of"
    after = format_duration(float(np.median(run_s)))
    sentence = (
        f"{what} of {user} died in the same way ({reason}): {every} {len(rows):,} "
        f"{'tasks' if group.is_array else 'jobs'}, after {after} each (median), with {hours(cost)} GPU-hours."
    )
    return Finding(
        *("failing_array", STUDY, sentence, float(len(dead)), "jobs"),
        fault=True,
        subject=group.name if group.is_array else f"{user}: {label}",
        user=user,
        certainty=SURE,
        evidence=f"states and exit codes are on record, and chance alone would do this once in "
        f"{1 / thresholds.array_chance:,.0f} histories or less",
        numbers={
            "user": user,
            "name": label,
            "jobs": len(rows),
            "died": len(dead),
            "reason": way,
            "gpu_hours": cost,
        },
        bar=Bar(what, (float(len(dead)), float(len(rows) - len(dead))), f"{len(dead):,} of {len(rows):,}"),
        jobs=named_jobs(history, np.array(dead, dtype=np.int64)),
    )
