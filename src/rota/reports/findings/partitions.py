"""Jobs sent to the wrong partition: they waited for a full one while another that fits stood empty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.model.columns import Bools, Floats, Ints
from rota.model.units import format_duration, plural
from rota.reports.finding import LIKELY, Bar, Bars, Finding, Remedy, Said
from rota.reports.findings.history import HOUR_S, JobHistory, named_jobs
from rota.reports.findings.pools import Pools, integral, when
from rota.reports.findings.thresholds import Thresholds
from rota.reports.series import Steps
from rota.reports.wording import percent

STUDY = "queueing"
WHAT = "which jobs waited for the wrong partition"
_FEW = 5
"""A partition with fewer jobs does not show how long its jobs may run."""
MANY = 3
"""From this number of users on, half of a partition's, it is no single user's mistake."""
_REMEDY = Remedy("gavel", "systems/gavel.md", "gives every job the GPUs of any type it can use")


@dataclass(frozen=True)
class _Elsewhere:
    """Another partition than the one a job asked for."""

    label: str
    cells: tuple[int, ...]
    """Those that the job's own partition does not have."""


def study(history: JobHistory, pools: Pools, thresholds: Thresholds) -> Said:
    """One finding for each user and pair of partitions."""
    labels = sorted({label for cell in pools.cells for label in cell.labels})
    if not history.starts or not labels:
        needs = "Partition" if history.starts else "the start of each job"
        return Said.gap(STUDY, WHAT, needs)
    if len(labels) < 2:
        return Said()
    waited_s = np.nan_to_num(history.waits_s)
    long = history.dated & (waited_s >= thresholds.wrong_wait_min * 60.0)
    misplaced: dict[tuple[int, str, str], list[int]] = {}
    for kind, (label, _) in enumerate(pools.kinds):
        rows = np.flatnonzero(long & (pools.kind == kind))
        if not len(rows) or not label or "|" in label or label.startswith("!"):
            continue
        left = rows
        for other in _others(pools, kind, label, labels):
            wrong = _wrong(history, pools, kind, other, left, thresholds)
            for row in wrong.tolist():
                key = (int(history.user.code[row]), label, other.label)
                misplaced.setdefault(key, []).append(row)
            left = np.setdiff1d(left, wrong)
    findings = _everybodys(history, waited_s, misplaced, thresholds)
    for (user, label, other_label), own in sorted(
        misplaced.items(), key=lambda item: -float(waited_s[item[1]].sum())
    ):
        total_h = float(waited_s[own].sum()) / HOUR_S
        there = int((_of(history, label) & (history.user.code == user)).sum())
        if len(own) < thresholds.wrong_jobs or total_h < thresholds.wrong_hours:
            continue
        times = _times(history.trace.jobs.submit_s[own], 60.0 * thresholds.wrong_apart_min)
        often = times >= thresholds.wrong_jobs and len(own) >= thresholds.wrong_part_of_user * there
        if often or total_h >= thresholds.wrong_hours_alone:
            findings.append(_finding(history, waited_s, user, label, other_label, np.array(own)))
    return Said(tuple(findings))


def _times(submit_s: Floats, apart_s: float) -> int:
    """The number of choices: jobs that come together are one choice."""
    times, last_s = 0, -np.inf
    for at_s in np.sort(submit_s).tolist():
        if at_s - last_s >= apart_s:
            times, last_s = times + 1, at_s
    return times


def _everybodys(
    history: JobHistory,
    waited_s: Floats,
    misplaced: dict[tuple[int, str, str], list[int]],
    thresholds: Thresholds,
) -> list[Finding]:
    """Partitions where most users waited so: an uneven load, no user's mistake; from `found`."""
    findings = []
    for label, other in sorted({key[1:] for key in misplaced}):
        inside = _of(history, label)
        users = [
            key
            for key, rows in misplaced.items()
            if key[1:] == (label, other)
            and len(rows) < thresholds.wrong_own_part * int((inside & (history.user.code == key[0])).sum())
        ]
        there = len(set(history.user.code[inside].tolist()))
        if len(users) < max(MANY, there / 2):
            continue
        rows = np.array(sorted(row for key in users for row in misplaced.pop(key)), dtype=np.int64)
        if float(waited_s[rows].sum()) / HOUR_S >= thresholds.wrong_hours_alone:
            findings.append(_crowded(history, waited_s, label, other, rows, len(users)))
    return findings


def _crowded(
    history: JobHistory, waited_s: Floats, label: str, other: str, rows: Ints, users: int
) -> Finding:
    total_s = float(waited_s[rows].sum())
    each = format_duration(total_s / len(rows))
    sentence = (
        f"{plural(len(rows), 'job')} of {users:,} users waited {each} each for "
        f"partition {label}, which was full, while {other} could have taken them."
    )
    means = [
        (name, float(np.nanmean(waited_s[inside & history.dated])))
        for name in (label, other)
        if ((inside := _of(history, name)) & history.dated).any()
    ]
    return Finding(
        *("crowded_partition", STUDY, sentence, total_s / HOUR_S, "hours"),
        numbers={
            "partition": label,
            "better": other,
            "jobs": len(rows),
            "users": users,
            "waited_h": total_s / HOUR_S,
        },
        figure=Bars.of(
            "Mean wait once eligible",
            "All jobs.",
            [(name, (mean,), format_duration(mean)) for name, mean in means],
        ),
        note="Most users of the partition: this is how the load lies, not one user's mistake.",
        remedies=(_REMEDY,),
    )


def _others(pools: Pools, kind: int, label: str, labels: list[str]) -> list[_Elsewhere]:
    """Partitions with cells that jobs of `kind` do not have, and GPUs that they accept; largest first."""
    mine = set(pools.admitted[kind])
    types = pools.kinds[kind][1]
    others = []
    for other in labels:
        cells = tuple(
            i
            for i, cell in enumerate(pools.cells)
            if other in cell.labels
            and label not in cell.labels
            and i not in mine
            and (not types or cell.gpu_type in types)
        )
        if cells:
            others.append(_Elsewhere(other, cells))
    return sorted(others, key=lambda one: (-pools.room(one.cells), one.label))


def _wrong(
    history: JobHistory, pools: Pools, kind: int, other: _Elsewhere, rows: Ints, thresholds: Thresholds
) -> Ints:
    """The `rows` that would have had room in `other` while their own partition was full."""
    rows = rows[_fits(history, pools, other, rows) & _may_use(history, other, rows)]
    if not len(rows):
        return rows
    mine, there = pools.free(pools.admitted[kind]), pools.free(other.cells)
    # Full is measured against the partition's own busiest moment: nodes are rarely all full at once, and
    # where stamps overlap, the nodes' peaks add up to more GPUs than there are.
    room = pools.room(pools.admitted[kind])
    peak = min(room, pools.peak(pools.admitted[kind]))
    full_at = room - thresholds.wrong_full * peak
    least = thresholds.wrong_free * pools.room(other.cells)
    part = np.zeros(len(rows))
    times = np.unique(np.concatenate((mine.time_s, there.time_s)))
    free_mine, free_there = mine.at(times), there.at(times)
    for asked in np.unique(history.gpus[rows]).tolist():
        own = history.gpus[rows] == asked
        both = (
            ((free_mine < asked - 1e-9) | (free_mine <= full_at))
            & (free_there >= asked - 1e-9)
            & (free_there >= least)
        )
        begin_s, end_s = history.eligible_s[rows[own]], history.start_s[rows[own]]
        part[own] = integral(when(Steps(times, free_mine), both), begin_s, end_s) / (end_s - begin_s)
    return rows[part >= thresholds.wrong_part]


def _fits(history: JobHistory, pools: Pools, other: _Elsewhere, rows: Ints) -> Bools:
    """Nodes of the other partition are wide enough, and its jobs may run as long as these asked for."""
    jobs, seen = history.trace.jobs, history.trace.observed
    nodes = seen.nodes if seen is not None else {}
    wide = np.array([history.gpus[row] / max(len(nodes.get(row, ())), 1) for row in rows.tolist()])
    wide_enough = max(pools.cells[i].widest for i in other.cells) >= wide - 1e-9
    if nodes == {}:
        wide_enough = np.ones(len(rows), dtype=np.bool_)
    limits_s = jobs.limit_s[_of(history, other.label)]
    limits_s = limits_s[np.isfinite(limits_s)]
    most_s = float(limits_s.max()) if len(limits_s) >= _FEW else np.inf
    short = ~(jobs.limit_s[rows] > most_s)
    return np.asarray(wide_enough & short)


def _of(history: JobHistory, label: str) -> Bools:
    """Jobs that asked for partition `label`."""
    jobs = history.trace.jobs
    codes = [code for code, name in enumerate(jobs.node_set_names) if label in name.split("|")]
    return np.asarray(np.isin(jobs.node_set, codes))


def _may_use(history: JobHistory, other: _Elsewhere, rows: Ints) -> Bools:
    """The user's tenant has run there, or several have, or none: the partition is no other tenant's own."""
    there = _of(history, other.label)
    tenants = set(history.tenant.code[there].tolist())
    if len(tenants) != 1:
        return np.ones(len(rows), dtype=np.bool_)
    return np.array([int(history.tenant.code[row]) in tenants for row in rows.tolist()], dtype=np.bool_)


def _finding(history: JobHistory, waited_s: Floats, user: int, label: str, other: str, rows: Ints) -> Finding:
    name = history.user.names[user]
    total_s = float(waited_s[rows].sum())
    sentence = (
        f"{name} sent {plural(len(rows), 'job')} to partition {label}, which was full, and waited "
        f"{format_duration(total_s / len(rows))} for each, while {other} could have taken them."
    )
    here = history.user.code == user
    part = len(rows) / max(int((here & _of(history, label)).sum()), 1)
    return Finding(
        *("wrong_partition", STUDY, sentence, total_s / HOUR_S, "hours"),
        fault=True,
        subject=name,
        numbers={
            "partition": label,
            "better": other,
            "jobs": len(rows),
            "share_of_users_jobs_there": part,
            "waited_h": total_s / HOUR_S,
        },
        user=name,
        certainty=LIKELY,
        evidence="sizes, types and limits of the other partition are known from its jobs alone",
        bar=Bar(
            f"{name}: {label}", (total_s / HOUR_S,), f"{total_s / HOUR_S:,.0f} h, {plural(len(rows), 'job')}"
        ),
        jobs=named_jobs(history, rows),
        note=(
            f"{percent(part)} of this user's jobs in {label}. The other one has the GPUs they accept, nodes "
            "wide enough and limits long enough, as far as its jobs tell; it may not be open to all users."
        ),
        remedies=(_REMEDY,),
    )
