"""How much of their time limits jobs use, and which users ask for far more than their jobs need."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats
from rota.model.jobs import Outcome
from rota.model.units import format_duration, plural
from rota.reports.finding import SURE, Bar, Bars, Finding, Remedy, Replay, Said
from rota.reports.findings.history import JobHistory, named_jobs
from rota.reports.findings.thresholds import Thresholds
from rota.reports.wording import percent

STUDY = "workload"
_BACKFILL = Remedy(
    *("fifo", "systems/fifo.md", "backfills by predicted run times instead of users' limits"),
    replay=Replay("fifo:backfill=easy", knowledge="duration=predicted"),
    against=Replay("fifo:backfill=easy", knowledge="duration=user"),
)
_NEARLY_ALL = 95.0


def study(history: JobHistory, thresholds: Thresholds) -> Said:
    """The site's median use of limits, and the users that deviate from a site with realistic limits."""
    limit_s = history.trace.jobs.limit_s
    # A job that failed at once or was cancelled says nothing of how long the job would have run.
    known = history.ran & np.isfinite(limit_s) & (limit_s > 0) & (history.outcome == Outcome.COMPLETED)
    if not known.any():
        return Said.gap(STUDY, "how generous time limits are", "TimelimitRaw (limit_s)")
    run_s = history.trace.truth.duration_s
    used = np.where(known, np.minimum(run_s / np.where(known, limit_s, 1.0), 1.0), np.nan)
    middle = float(np.median(used[known]))
    factor = 1.0 / max(middle, 1e-9)
    sentence = (
        f"The median job uses {percent(middle)} of the time limit that its user stated: limits are "
        f"{factor:,.2g} times too long."
        if middle < 0.8
        else f"The median job uses {percent(middle)} of the time limit that its user stated."
    )
    marks = [0.1, 0.25, 0.5, 0.9]
    rows = [(f"at most {percent(mark)}", float((used[known] <= mark).mean())) for mark in marks]
    figure = Bars.shares("Part of the time limit that is used", "Share of completed jobs.", rows)
    finding = Finding(
        *("limits", STUDY, sentence, middle, "share"),
        numbers={"p10": float(np.percentile(used[known], 10)), "p90": float(np.percentile(used[known], 90))},
        figure=figure,
        note="Of jobs that completed.",
        remedies=(_BACKFILL,) if middle < 0.5 else (),
    )
    return Said((finding, *_over_asking(history, used, thresholds)))


def _over_asking(history: JobHistory, used: Floats, thresholds: Thresholds) -> list[Finding]:
    """Users with jobs that nearly all use next to nothing of their limits, where other users use theirs."""
    known = np.isfinite(used)
    findings = []
    for code in np.unique(history.user.code[known]).tolist():
        own = known & (history.user.code == code)
        others = known & (history.user.code != code)
        if int(own.sum()) < thresholds.limit_jobs or not others.any():
            continue
        most = float(np.percentile(used[own], _NEARLY_ALL))
        rest = float(np.median(used[others]))
        if most <= thresholds.limit_used and rest >= thresholds.limit_factor * most:
            findings.append(_finding(history, used, code, most, rest))
    return sorted(findings, key=lambda one: -len(one.jobs))


def _finding(history: JobHistory, used: Floats, code: int, most: float, rest: float) -> Finding:
    own = np.isfinite(used) & (history.user.code == code)
    name = history.user.names[code]
    limit_s = float(np.median(history.trace.jobs.limit_s[own]))
    run_s = float(np.median(history.trace.truth.duration_s[own]))
    sentence = (
        f"{name} asks for {format_duration(limit_s)} and runs {format_duration(run_s)} (medians of "
        f"{plural(int(own.sum()), 'job')}): 95% of these jobs use at most {percent(most)} of their "
        f"limits, the median job of the others {percent(rest)}."
    )
    mine = float(np.median(used[own]))
    return Finding(
        *("over_asked_limits", STUDY, sentence, most, "share"),
        fault=True,
        subject=name,
        user=name,
        certainty=SURE,
        evidence="run times and limits are on record",
        numbers={"jobs": int(own.sum()), "others_median": rest, "median": mine},
        bar=Bar(name, (mine,), f"{percent(mine)}; others {percent(rest)}"),
        jobs=named_jobs(history, np.flatnonzero(own)),
        remedies=(_BACKFILL,),
    )
