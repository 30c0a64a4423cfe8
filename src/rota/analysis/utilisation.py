"""How much of the cluster was held, how busy what was held was, and who held GPUs and let them idle."""

from __future__ import annotations

import numpy as np

from rota.analysis.figures import bars, over_time, steps_of
from rota.analysis.finding import Finding, Remedy, Said, Unsaid, hours, percent
from rota.analysis.history import HOUR_S, JobHistory
from rota.analysis.pools import Pools
from rota.analysis.thresholds import Thresholds
from rota.model.columns import Array, Bools, Floats
from rota.model.units import format_duration, plural
from rota.reports.series import Steps
from rota.usage.held import SIZES

STUDY = "utilisation"
CPU_MARGIN = 5.0
"""Processor time tells idle jobs from others only where the median job uses so many times the threshold."""
_NEEDS = "TRESUsageInTot with gres/gpuutil, of the steps (sacct without --allocations)"
_SHARING = Remedy("gandiva", "systems/gandiva.md", "packs jobs that keep a GPU little busy on one GPU")


def study(history: JobHistory, pools: Pools, thresholds: Thresholds) -> Said:
    """Allocation over time, utilisation by size and tenant, idle holders."""
    return Said.together(
        (_held(history, pools), _busy(history, thresholds), _idle_users(history, thresholds))
    )


def _held(history: JobHistory, pools: Pools) -> Said:
    """How much of the cluster was held, or would have been had nothing waited."""
    dated = history.dated
    low_s, high_s = history.span_s
    if not dated.any() or high_s <= low_s:
        return Said(unsaid=(Unsaid(STUDY, "how much of the cluster was held", "jobs that ran"),))
    held = steps_of(history.start_s[dated], history.end_s[dated], history.gpus[dated])
    if not history.starts:
        return _demand(history, held)
    mean = held.integral(low_s, high_s) / (high_s - low_s)
    capacity = pools.capacity
    share = mean / capacity
    sentence = (
        f"Of {capacity:,.0f} GPUs, {mean:,.0f} were held on average ({percent(share)}) between the first and "
        f"the last submission, {format_duration(high_s - low_s)} apart."
    )
    text = f"GPUs held over time, of {capacity:,.0f}; mean {mean:,.0f}."
    figure = over_time("held", "GPUs held", text, history, [("held", held)], "GPUs", capacity)
    numbers = {"gpus": capacity, "held_mean": mean, "gpu_hours": float(history.gpu_hours.sum())}
    return Said(
        (
            Finding(
                *("allocation", STUDY, sentence, share, "share"),
                numbers=numbers,
                figure=figure,
                note=pools.why,
            ),
        ),
        (),
    )


def _demand(history: JobHistory, held: Steps) -> Said:
    low_s, high_s = history.span_s
    mean = held.integral(low_s, high_s) / (high_s - low_s)
    sentence = (
        f"Had no job waited, {mean:,.0f} GPUs would have been held on average over the "
        f"{format_duration(high_s - low_s)} of submissions, and {float(held.value.max()):,.0f} at the peak."
    )
    text = f"GPUs that jobs would hold had none waited; mean {mean:,.0f}."
    figure = over_time("held", "GPUs asked for", text, history, [("asked for", held)], "GPUs")
    numbers = {"gpus_mean": mean, "gpu_hours": float(history.gpu_hours.sum())}
    finding = Finding("demand", STUDY, sentence, mean, "GPUs", numbers=numbers, figure=figure)
    missing = Unsaid(STUDY, "how much of the cluster was held over time", "the start of each job")
    return Said((finding,), (missing,))


def _busy(history: JobHistory, thresholds: Thresholds) -> Said:
    """Utilisation of what was held, by size, tenant and over time."""
    known = history.ran & np.isfinite(history.utilisation)
    if not known.any():
        needs = history.utilisation_note or _NEEDS
        return Said(unsaid=(Unsaid(STUDY, "how busy the held GPUs were", needs),))
    weight = history.gpu_hours
    busy = np.where(known, history.utilisation, 0.0)
    mean = float((busy * weight)[known].sum() / weight[known].sum())
    idle = known & (history.utilisation <= thresholds.idle_utilisation)
    idle_part = float(weight[idle].sum() / weight[known].sum())
    seen = float(weight[known].sum() / weight.sum())
    sentence = (
        f"Held GPUs were busy {percent(mean)} of the time; {percent(idle_part)} of the measured GPU-hours "
        f"were held by jobs that kept them busy at most {percent(thresholds.idle_utilisation)}."
    )
    rows = _by(history, known, busy, [name for name, _ in SIZES], history.size)
    rows += _by(history, known, busy, history.tenant.names, history.tenant.code)[:6]
    figure = bars(
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
        remedies=(_SHARING,) if mean < 0.6 else (),
    )
    return Said((finding, *_busy_over_time(history, known)))


def _busy_over_time(history: JobHistory, known: Bools) -> tuple[Finding, ...]:
    if not history.starts:
        return ()
    known = known & history.dated
    start_s, end_s, gpus = (of[known] for of in (history.start_s, history.end_s, history.gpus))
    held = steps_of(start_s, end_s, gpus)
    busy = steps_of(start_s, end_s, gpus * history.utilisation[known])
    low_s, high_s = history.span_s
    idle = held.integral(low_s, high_s) - busy.integral(low_s, high_s)
    wasted = idle / HOUR_S
    text = "GPUs held by measured jobs, and the part of them that was busy, over time."
    figure = over_time("busy", "Held and busy", text, history, [("held", held), ("busy", busy)], "GPUs")
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


def _idle_users(history: JobHistory, thresholds: Thresholds) -> Said:
    """Users who hold GPUs that do nothing, by what the GPUs or, where nobody measured them, the CPUs did."""
    long = history.ran & (history.run_s >= thresholds.idle_run_h * HOUR_S)
    on_gpus = np.isfinite(history.utilisation)
    each_gpu = history.cpu_cores / np.maximum(history.gpus, 1e-9)
    cores = each_gpu[long & np.isfinite(each_gpu)]
    counted = len(cores) > 0 and float(np.median(cores)) >= CPU_MARGIN * thresholds.idle_cpu_cores
    by_cpu = np.isfinite(each_gpu) & (counted and not on_gpus.any())
    known = history.ran & (on_gpus | by_cpu)
    if not known.any():
        needs = f"{_NEEDS}, or TotalCPU"
        return Said(unsaid=(Unsaid(STUDY, "who holds GPUs that idle", needs),))
    with np.errstate(invalid="ignore"):
        still = np.where(
            by_cpu,
            each_gpu <= thresholds.idle_cpu_cores,
            history.utilisation <= thresholds.idle_utilisation,
        )
    idle = known & long & still
    weight = np.where(known, history.gpu_hours, 0.0)
    mine, wasted = history.user.sums(weight), history.user.sums(np.where(idle, weight, 0.0))
    whole = float(weight.sum())
    named = (wasted >= thresholds.idle_gpu_hours) & (
        (wasted >= thresholds.idle_part_of_user * mine) | (wasted >= thresholds.idle_part_of_all * whole)
    )
    order = [i for i in np.argsort(-wasted, kind="stable").tolist() if named[i]]
    findings = tuple(_idle_user(history, thresholds, i, idle, mine, wasted) for i in order)
    return Said(findings)


def _idle_user(
    history: JobHistory, thresholds: Thresholds, user: int, idle: Bools, mine: Floats, wasted: Floats
) -> Finding:
    name = history.user.names[user]
    own = idle & (history.user.code == user)
    jobs = int(own.sum())
    gpu_hours = float(wasted[user])
    part = gpu_hours / float(mine[user])
    if np.isfinite(history.utilisation[own]).any():
        level = float(np.average(history.utilisation[own], weights=history.gpu_hours[own]))
        did = f"kept the GPUs busy {percent(level)} of the time"
    else:
        level = float(np.average(history.cpu_cores[own], weights=history.gpu_hours[own]))
        did = f"kept {level:.2g} CPU cores busy, too little to drive a GPU"
    sentence = (
        f"{name} held GPUs that did nothing: {plural(jobs, 'job')} with {hours(gpu_hours)} GPU-hours "
        f"({percent(part)} of this user's) {did}."
    )
    rows = [
        (history.user.names[i], (float(wasted[i]), float(mine[i] - wasted[i])), f"{hours(float(mine[i]))}")
        for i in np.argsort(-wasted, kind="stable").tolist()
        if wasted[i] > 0
    ]
    ids = [history.trace.jobs.ids[row] for row in np.flatnonzero(own)[:5].tolist()]
    return Finding(
        *("idle_user", STUDY, sentence, gpu_hours, "GPU-hours"),
        fault=True,
        subject=name,
        numbers={"jobs": jobs, "share_of_user": part, "level": level, "examples": ids},
        figure=bars("Idle GPU-hours by user", "GPU-hours measured.", rows, ("idle", "the rest")),
        note=f"Idle: a job of {thresholds.idle_run_h:g} h or more at that level or below it.",
        remedies=(_SHARING,),
    )
