"""How much of the cluster was held, and how busy what was held was."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Array, Bools, Floats
from rota.model.units import format_duration
from rota.model.words import hours
from rota.reports.curves import over_time
from rota.reports.finding import Bars, Finding, Said, Unsaid
from rota.reports.findings import idle
from rota.reports.findings.history import HOUR_S, JobHistory
from rota.reports.findings.idle import NEEDS, SHARING
from rota.reports.findings.pools import Pools
from rota.reports.findings.thresholds import Thresholds
from rota.reports.series import Steps
from rota.reports.wording import SIZES, gpu_count, percent

STUDY = "utilisation"


def study(history: JobHistory, pools: Pools, thresholds: Thresholds) -> Said:
    """Allocation over time, utilisation by size and tenant, idle holders."""
    return Said.together((_held(history, pools), _busy(history, thresholds), idle.study(history, thresholds)))


def _held(history: JobHistory, pools: Pools) -> Said:
    """How much of the cluster was held, or would have been had nothing waited."""
    dated = history.dated
    low_s, high_s = history.span_s
    if not dated.any() or high_s <= low_s:
        return Said.gap(STUDY, "how much of the cluster was held", "jobs that ran")
    held = Steps.held(history.start_s[dated], history.end_s[dated], history.gpus[dated])
    if not history.starts:
        return _demand(history, held)
    mean = held.integral(low_s, high_s) / (high_s - low_s)
    capacity = pools.capacity
    share = mean / capacity
    sentence = (
        f"Of {gpu_count(capacity)} GPUs, {gpu_count(mean)} were held on average ({percent(share)}) "
        f"between the first and the last submission, {format_duration(high_s - low_s)} apart."
    )
    text = f"GPUs held over time, of {gpu_count(capacity)}; mean {gpu_count(mean)}."
    figure = over_time(
        "held", "GPUs held", text, [("held", held)], "GPUs", history.span_s, history.clock, capacity
    )
    numbers = {"gpus": capacity, "held_mean": mean, "gpu_hours": float(history.gpu_hours.sum())}
    return Said.one(
        Finding(
            *("allocation", STUDY, sentence, share, "share"),
            numbers=numbers,
            figure=figure,
            note=pools.why,
        )
    )


def _demand(history: JobHistory, held: Steps) -> Said:
    low_s, high_s = history.span_s
    mean, peak = held.integral(low_s, high_s) / (high_s - low_s), float(held.value.max())
    sentence = (
        f"Had no job waited, {gpu_count(mean)} GPUs would have been held on average over the "
        f"{format_duration(high_s - low_s)} of submissions, and {gpu_count(peak)} at the peak."
    )
    text = f"GPUs that jobs would hold had none waited; mean {gpu_count(mean)}."
    figure = over_time(
        "held", "GPUs asked for", text, [("asked for", held)], "GPUs", history.span_s, history.clock
    )
    numbers = {"gpus_mean": mean, "gpu_hours": float(history.gpu_hours.sum())}
    finding = Finding("demand", STUDY, sentence, mean, "GPUs", numbers=numbers, figure=figure)
    missing = Unsaid(STUDY, "how much of the cluster was held over time", "the start of each job")
    return Said((finding,), (missing,))


def _busy(history: JobHistory, thresholds: Thresholds) -> Said:
    """Utilisation of what was held, by size, tenant and over time."""
    known = history.ran & np.isfinite(history.utilisation)
    if not known.any():
        needs = history.utilisation_note or NEEDS
        return Said.gap(STUDY, "how busy the held GPUs were", needs)
    weight = history.gpu_hours
    busy = np.where(known, history.utilisation, 0.0)
    mean = float((busy * weight)[known].sum() / weight[known].sum())
    still = known & (history.utilisation <= thresholds.idle_utilisation)
    idle_part = float(weight[still].sum() / weight[known].sum())
    seen = float(weight[known].sum() / weight.sum())
    sentence = (
        f"Held GPUs were busy {percent(mean)} of the time; {percent(idle_part)} of the measured GPU-hours "
        f"were held by jobs that kept them busy at most {percent(thresholds.idle_utilisation)}."
    )
    rows = _by(history, known, busy, [name for name, _ in SIZES], history.size)
    rows += _by(history, known, busy, history.tenant.names, history.tenant.code)[:6]
    figure = Bars.of(
        "Utilisation by size and tenant", "Busy part of held GPUs, GPU-hours as weights.", rows, top=1.0
    )
    finding = Finding(
        *("utilisation", STUDY, sentence, mean, "share"),
        numbers={
            "idle_share": idle_part,
            "measured_share": seen,
            "by": {name: of[0] for name, of, _ in rows},
        },
        figure=figure,
        note=f"{percent(seen)} of the GPU-hours were measured; {history.utilisation_note}.",
        remedies=(SHARING,) if mean < 0.6 else (),
    )
    return Said((finding, *_busy_over_time(history, known)))


def _busy_over_time(history: JobHistory, known: Bools) -> tuple[Finding, ...]:
    if not history.starts:
        return ()
    known = known & history.dated
    start_s, end_s, gpus = (of[known] for of in (history.start_s, history.end_s, history.gpus))
    held = Steps.held(start_s, end_s, gpus)
    busy = Steps.held(start_s, end_s, gpus * history.utilisation[known])
    low_s, high_s = history.span_s
    wasted = (held.integral(low_s, high_s) - busy.integral(low_s, high_s)) / HOUR_S
    text = "GPUs held by measured jobs, and the part of them that was busy, over time."
    figure = over_time(
        "busy", "Held and busy", text, [("held", held), ("busy", busy)], "GPUs", history.span_s, history.clock
    )
    sentence = f"GPUs that were held and not busy add up to {hours(wasted)} GPU-hours."
    return (Finding("held_and_idle", STUDY, sentence, wasted, "GPU-hours", figure=figure),)


def _by(
    history: JobHistory, known: Bools, busy: Floats, names: object, code: Array
) -> list[tuple[str, tuple[float], str]]:
    """Mean utilisation of each group that was measured; those with most GPU-hours first."""
    listed = list(names) if isinstance(names, list | tuple) else []
    weight = np.where(known, history.gpu_hours, 0.0)
    sums = np.bincount(code, weights=weight, minlength=len(listed))
    of = np.bincount(code, weights=weight * busy, minlength=len(listed))
    return [
        (listed[i], (float(of[i] / sums[i]),), percent(float(of[i] / sums[i])))
        for i in np.argsort(-sums, kind="stable").tolist()
        if sums[i] > 0
    ]
