"""How much of the cluster was held, how busy that was, and which users held GPUs that did nothing."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Array, Bools, Floats
from rota.model.units import format_duration, plural
from rota.model.words import hours
from rota.reports.curves import over_time
from rota.reports.finding import LIKELY, SURE, Bar, Bars, Finding, Remedy, Said, Unsaid
from rota.reports.findings.history import HOUR_S, JobHistory, named_jobs
from rota.reports.findings.pools import Pools
from rota.reports.findings.thresholds import Thresholds
from rota.reports.series import Steps
from rota.reports.usage.busy import WORKING_CORES, Counters
from rota.reports.wording import SIZES, gpu_count, listed, percent

STUDY = "utilisation"
WHAT = "who holds GPUs that idle"
CPU_MARGIN = 5.0
"""Processor time separates idle jobs from others only if the median job uses this many thresholds."""
NEEDS = "TRESUsageInTot with gres/gpuutil, of the steps (sacct without --allocations)"
SHARING = Remedy("gandiva", "systems/gandiva.md", "packs jobs that keep a GPU little busy on one GPU")


def study(history: JobHistory, pools: Pools, thresholds: Thresholds) -> Said:
    """Allocation over time, utilisation by size and tenant, idle holders."""
    return Said.together(
        (_held(history, pools), _busy(history, thresholds), idle_holders(history, thresholds))
    )


def idle_holders(history: JobHistory, thresholds: Thresholds) -> Said:
    """Users that hold idle GPUs, by the use of the GPUs or, where they were not measured, of the CPUs."""
    counters = Counters.of(history.trace)
    long = history.ran & (history.run_s >= thresholds.idle_run_h * HOUR_S)
    on_gpus = np.isfinite(history.utilisation)
    cores = counters.cores[long & np.isfinite(counters.cores)]
    counted = len(cores) > 0 and float(np.median(cores)) >= CPU_MARGIN * thresholds.idle_cpu_cores
    by_cpu = np.isfinite(counters.cores) & (counted and not on_gpus.any())
    known = history.ran & (on_gpus | by_cpu)
    if not known.any():
        return Said.gap(STUDY, WHAT, f"{NEEDS}, or TotalCPU")
    with np.errstate(invalid="ignore"):
        still = np.where(
            by_cpu,
            counters.cores <= thresholds.idle_cpu_cores,
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
    users = tuple(_idle_user(history, thresholds, counters, i, idle, mine, wasted) for i in order)
    return Said((*users, *_not_collected(history, counters)))


def _idle_user(
    history: JobHistory,
    thresholds: Thresholds,
    counters: Counters,
    user: int,
    idle: Bools,
    mine: Floats,
    wasted: Floats,
) -> Finding:
    name = history.user.names[user]
    own = idle & (history.user.code == user)
    jobs = int(own.sum())
    gpu_hours, rest = float(wasted[user]), float(mine[user] - wasted[user])
    part = gpu_hours / float(mine[user])
    if np.isfinite(history.utilisation[own]).any():
        level = float(np.average(history.utilisation[own], weights=history.gpu_hours[own]))
        did = f"kept the GPUs busy {percent(level)} of the time"
        level_said = f"whose GPUs were busy at most {percent(thresholds.idle_utilisation)} of the time"
    else:
        level = float(np.average(history.cpu_cores[own], weights=history.gpu_hours[own]))
        did = f"kept {level:.2g} CPU cores busy, too little to drive a GPU"
        level_said = f"that kept at most {thresholds.idle_cpu_cores:g} CPU cores busy for each GPU"
    sentence = (
        f"{name} held GPUs that did nothing: {plural(jobs, 'job')} with {hours(gpu_hours)} GPU-hours "
        f"({percent(part)} of the measured ones of this user) {did}."
    )
    certainty, evidence = _evidence(history, counters, own)
    return Finding(
        *("idle_user", STUDY, sentence, gpu_hours, "GPU-hours"),
        fault=True,
        subject=name,
        user=name,
        certainty=certainty,
        evidence=evidence,
        numbers={"jobs": jobs, "share_of_user": part, "level": level},
        bar=Bar(name, (gpu_hours, rest), f"{hours(gpu_hours)} of {hours(gpu_hours + rest)}"),
        note=f"Idle: a job of {thresholds.idle_run_h:g} h or more {level_said}.",
        remedies=(SHARING,),
        jobs=named_jobs(history, np.flatnonzero(own)),
    )


def _evidence(history: JobHistory, counters: Counters, own: Bools) -> tuple[str, str]:
    """How sure it is that the jobs `own` left their GPUs idle, and why."""
    if not np.isfinite(history.utilisation[own]).any():
        return LIKELY, "the use of GPUs was not measured; it follows from CPU time alone"
    jobs, moved = int(own.sum()), int((own & counters.moved).sum())
    taken = "memory of the GPUs was taken, or some use was counted, so that their use was collected"
    if moved == jobs:
        return SURE, f"in {'all' if jobs > 1 else 'the'} {plural(jobs, 'job')} {taken}"
    still = "no counter of the GPUs moved, and the CPUs did next to nothing either"
    if not moved:
        return LIKELY, f"in {'all' if jobs > 1 else 'the'} {plural(jobs, 'job')} {still}"
    return LIKELY, f"in {moved:,} of {jobs:,} jobs {taken}; in the others {still}"


def _not_collected(history: JobHistory, counters: Counters) -> tuple[Finding, ...]:
    """Number of unmeasured jobs by user, if other jobs have been measured."""
    missing = history.ran & np.isfinite(counters.utilisation) & ~counters.collected
    if not missing.any() or not np.isfinite(history.utilisation).any():
        return ()
    ones = missing.astype(np.float64)
    of, all_of = history.user.sums(ones), history.user.sums(history.ran.astype(np.float64))
    order = [i for i in np.argsort(-of, kind="stable").tolist() if of[i] > 0]
    share = float(history.gpu_hours[missing].sum() / history.gpu_hours.sum())
    jobs, metered = int(missing.sum()), int((missing & counters.metered).sum())
    worked = bool((counters.cores[missing] > WORKING_CORES).all())
    sentence = (
        f"Use was not collected for {plural(jobs, 'job')} of {plural(len(order), 'user')} "
        f"({percent(share)} of the GPU-hours): use and memory of their GPUs are zero"
        f"{' while their CPUs worked' if worked else ''}, so that nothing is said of how busy they were."
    )
    each = [f"{history.user.names[i]} for {of[i]:,.0f} of {all_of[i]:,.0f}" for i in order]
    rows = [
        (history.user.names[i], (float(of[i]), float(all_of[i] - of[i])), f"{of[i]:,.0f} of {all_of[i]:,.0f}")
        for i in order
    ]
    energy = (
        f" For {metered:,} of them energy was metered: they may have run on CPUs alone." if metered else ""
    )
    return (
        Finding(
            *("use_not_collected", STUDY, sentence, float(jobs), "jobs"),
            numbers={
                "share": share,
                "metered": metered,
                "by_user": {history.user.names[i]: int(of[i]) for i in order},
            },
            figure=Bars.of(
                "Jobs whose use was not collected", "Jobs by user.", rows, ("not collected", "the rest")
            ),
            note=f"By user: {listed(each, 5)}.{energy}",
        ),
    )


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
    """Utilisation of held GPUs, by size, tenant and over time."""
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
