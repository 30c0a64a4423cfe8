"""What jobs are like: sizes, run times, bursts, recurrence, fractions of GPUs, GPU types, time limits."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats
from rota.model.units import format_duration
from rota.model.words import hours
from rota.reports.curves import distribution
from rota.reports.finding import Bars, Finding, Remedy, Replay, Said
from rota.reports.findings.history import HOUR_S, JobHistory
from rota.reports.findings.pools import Pools
from rota.reports.wording import SIZES, percent

STUDY = "workload"
BURSTY_CV = 2.0
"""Gaps between submissions that vary more than this are bursts; 1 is Poisson."""
EVEN_CV = 0.5
"""Gaps that vary less come rather evenly."""
UNEVEN = 0.2
"""GPU types are loaded unevenly if their held parts differ by more."""
RECURRING = 5
"""Fewest jobs of one name and user that a predictor can learn from (the PAI study's number)."""
_PREDICT = Remedy(
    *("pai", "systems/pai.md", "predicts run times from earlier jobs of the same kind, shortest first"),
    replay=Replay("sjf"),
)
_FRACTIONS = Remedy("pai", "systems/pai.md", "puts jobs that ask for fractions of a GPU on one GPU")
_TYPES = Remedy("gavel", "systems/gavel.md", "spreads jobs over GPU types by what each gains from them")


def study(history: JobHistory, pools: Pools) -> Said:
    """The workload, one subject after the other."""
    return Said.together(
        (
            _sizes(history),
            _durations(history),
            _bursts(history),
            _recurrence(history),
            _fractions(history),
            _types(history, pools),
        )
    )


def _sizes(history: JobHistory) -> Said:
    """Jobs and GPU-hours by size."""
    with_gpus = history.gpus > 0
    if not with_gpus.any():
        return Said.gap(STUDY, "how large jobs are", "jobs that ask for GPUs")
    whole = float(history.gpu_hours.sum())
    rows, numbers = [], {}
    for code, (name, _) in enumerate(SIZES):
        own = with_gpus & (history.size == code)
        if own.any():
            jobs = float(own.sum() / with_gpus.sum())
            part = float(history.gpu_hours[own].sum()) / whole if whole else 0.0
            rows.append((name, (part,), f"{percent(jobs)} of jobs, {percent(part)} of GPU-hours"))
            numbers[name] = {"jobs": jobs, "gpu_hours": part}
    single = float((history.trace.jobs.gpus[with_gpus] == 1).mean())
    wide = float(history.gpu_hours[history.wide].sum()) / whole if whole else 0.0
    sentence = (
        f"{len(history.gpus):,} jobs took {hours(whole)} GPU-hours: {percent(single)} asked for one GPU, and "
        f"those that asked for more took {percent(wide)} of the GPU-hours."
    )
    figure = Bars.of("Jobs by size", "Length: share of GPU-hours.", rows, top=1.0)
    if not whole:  # it is unknown how long they ran
        sentence = f"Of {len(history.gpus):,} jobs, {percent(single)} asked for one GPU."
        counted = [(name, numbers[name]["jobs"]) for name, _, _ in rows]
        figure = Bars.shares("Jobs by size", "Share of jobs.", counted)
    numbers_all = {
        "jobs": len(history.gpus),
        "gpu_hours": whole,
        "single_share": single,
        "wide_gpu_hours_share": wide,
        "largest": int(history.trace.jobs.gpus.max()),
        "by_size": numbers,
    }
    return Said.one(Finding("sizes", STUDY, sentence, single, "share", numbers=numbers_all, figure=figure))


def _durations(history: JobHistory) -> Said:
    """Run times, and how much of the GPU time the longest hold."""
    run_s = history.run_s[history.ran]
    if not len(run_s):
        return Said.gap(STUDY, "how long jobs run", "run times")
    p50, p90, p99 = (float(of) for of in np.percentile(run_s, [50, 90, 99]))
    long = history.ran & (history.run_s >= p90)
    whole = float(history.gpu_hours.sum())
    part = float(history.gpu_hours[long].sum()) / whole
    sentence = (
        f"Half of the jobs ran for less than {format_duration(p50)}, and the longest tenth, from "
        f"{format_duration(p90)} on, took {percent(part)} of the GPU-hours."
    )
    of_size = [
        (name, history.run_s[history.ran & (history.size == code)]) for code, (name, _) in enumerate(SIZES)
    ]
    by_size = [(name, own) for name, own in of_size if len(own)]
    figure = distribution("run-times", "Run time by size", "all attempts together", by_size)
    numbers = {"p50_s": p50, "p90_s": p90, "p99_s": p99, "long_tenth_share": part}
    return Said.one(Finding("durations", STUDY, sentence, p50, "s", numbers=numbers, figure=figure))


def _coming(variation: float) -> str:
    if variation > BURSTY_CV:
        return "in bursts"
    return "rather evenly" if variation < EVEN_CV else "about as they would independently of each other"


def _bursts(history: JobHistory) -> Said:
    """How unevenly jobs come, all together and tenant by tenant."""
    variation = _variation(history.submit_s)
    if not np.isfinite(variation):
        return Said.gap(STUDY, "how jobs come", "several moments of submission")
    of_tenants = {
        name: _variation(history.submit_s[history.tenant.code == code])
        for code, name in enumerate(history.tenant.names)
        if int((history.tenant.code == code).sum()) >= 100
    }
    cvs = [cv for cv in of_tenants.values() if np.isfinite(cv)]
    gaps_s = np.diff(np.sort(history.submit_s))
    together = float((gaps_s < 5.0).mean())
    said = f", and between {min(cvs):.1f} and {max(cvs):.1f} tenant by tenant" if len(cvs) > 1 else ""
    kind = _coming(max([variation, *cvs]))
    sentence = (
        f"Jobs come {kind}: the coefficient of variation of the gaps between submissions is {variation:.1f}"
        f"{said} (1 if they came independently), and {percent(together)} come within 5 s of the one before."
    )
    hour = _hours(history)
    rows = [
        (f"{6 * i:02d} to {6 * i + 6:02d} h", (float(part),), percent(float(part)))
        for i, part in enumerate(hour)
    ]
    figure = Bars.of("Submissions by time of day", "Share of jobs.", rows) if len(rows) else None
    numbers = {"cv": variation, "cv_by_tenant": of_tenants, "within_5s": together}
    return Said.one(
        Finding("burstiness", STUDY, sentence, variation, "ratio", numbers=numbers, figure=figure)
    )


def _variation(submit_s: Floats) -> float:
    """Coefficient of variation of the gaps; NaN if there is none."""
    gaps_s = np.diff(np.sort(submit_s))
    return float(gaps_s.std() / gaps_s.mean()) if len(gaps_s) > 1 and gaps_s.mean() > 0 else float("nan")


def _hours(history: JobHistory) -> Floats:
    """Share of the submissions in each quarter of the day; empty without a clock."""
    if history.clock is None:
        return np.zeros(0)
    began = history.clock.at(0.0)
    offset_s = began.hour * HOUR_S + began.minute * 60.0 + began.second
    quarter = ((history.submit_s + offset_s) % 86400.0 // (6 * HOUR_S)).astype(np.int64)
    return np.bincount(quarter, minlength=4) / len(quarter)


def _recurrence(history: JobHistory) -> Said:
    """How many jobs come again under one name of one user, and how alike their run times are."""
    jobs = history.trace.jobs
    if not jobs.group_names or not (jobs.group >= 0).any():
        return Said.gap(STUDY, "which jobs come again", "JobName (group)")
    _, code, count = np.unique(
        np.stack((jobs.tenant, jobs.group), 1), axis=0, return_inverse=True, return_counts=True
    )
    code = code.ravel()
    again = (count[code] >= RECURRING) & (jobs.group >= 0)
    share = float(again.mean())
    known = again & history.ran
    spread = float("nan")
    if known.any():
        log_s = np.log(history.run_s[known])
        n = np.maximum(np.bincount(code[known]), 1)
        mean = np.bincount(code[known], weights=log_s) / n
        spread = float(np.exp(np.median(np.abs(log_s - mean[code[known]]))))
    alike = (
        f"; the median one ran within a factor of {spread:.1f} of its kind's mean"
        if np.isfinite(spread)
        else ""
    )
    sentence = (
        f"{percent(share)} of the jobs belong to a kind (one name of one user) that came at least "
        f"{RECURRING} times{alike}."
    )
    marks = [1, 2, 5, 10, 50]
    rows = [(f"{mark} times or more", float((count[code] >= mark).mean())) for mark in marks]
    figure = Bars.shares("Jobs by how often their kind came", "Share of jobs.", rows)
    numbers = {"kinds": len(count), "spread_factor": spread}
    remedies = (_PREDICT,) if share >= 0.3 else ()
    return Said.one(
        Finding(
            *("recurrence", STUDY, sentence, share, "share"),
            numbers=numbers,
            figure=figure,
            remedies=remedies,
        )
    )


def _fractions(history: JobHistory) -> Said:
    """Jobs that ask for a part of a GPU, or run on MIG slices."""
    share = history.gpus / np.maximum(history.trace.jobs.gpus, 1)
    part = (share < 1.0 - 1e-9) & (history.gpus > 0)
    if not part.any():
        needs = "jobs that ask for one (gpu_share), or MIG slices"
        return Said.gap(STUDY, "how fractions of GPUs are used", needs)
    jobs = float(part.sum() / (history.gpus > 0).sum())
    held = float(history.gpu_hours[part].sum() / max(history.gpu_hours.sum(), 1e-12))
    mean = float(share[part].mean())
    sentence = (
        f"{percent(jobs)} of the jobs ask for a fraction of a GPU or a MIG slice, {mean:.2f} GPU on average; "
        f"they took {percent(held)} of the GPU-hours."
    )
    marks = [0.25, 0.5, 0.75]
    rows = [(f"at most {mark:g} GPU", float((share[part] <= mark).mean())) for mark in marks]
    figure = Bars.shares("Fractions asked for", "Share of the jobs that ask for one.", rows)
    return Said(
        (Finding(*("fractions", STUDY, sentence, jobs, "share"), figure=figure, remedies=(_FRACTIONS,)),)
    )


def _types(history: JobHistory, pools: Pools) -> Said:
    """How unevenly GPU types were held."""
    types = sorted({cell.gpu_type for cell in pools.cells if cell.gpu_type})
    low_s, high_s = history.span_s
    if not history.starts or not types or high_s <= low_s:
        needs = "types of GPUs (AllocTRES with gres/gpu:TYPE, ran_type) and starts"
        return Said.gap(STUDY, "how load lies between GPU types", needs)
    if len(types) < 2:
        return Said()
    share = {}
    for name in types:
        cells = tuple(i for i, cell in enumerate(pools.cells) if cell.gpu_type == name)
        room = pools.room(cells)
        held = sum(pools.cells[i].used.integral(low_s, high_s) for i in cells)
        share[name] = held / (room * (high_s - low_s))
    full, empty = max(share, key=lambda name: share[name]), min(share, key=lambda name: share[name])
    sentence = (
        f"GPU types are loaded unevenly: {full} was held {percent(share[full])} of the time, {empty} "
        f"{percent(share[empty])}."
        if share[full] - share[empty] >= UNEVEN
        else f"GPU types are loaded alike: between {percent(share[empty])} and {percent(share[full])} held."
    )
    rows = [(name, share[name]) for name in types]
    gap = share[full] - share[empty]
    finding = Finding(
        *("type_imbalance", STUDY, sentence, gap, "share"),
        numbers={"held": share},
        figure=Bars.shares("Held by type of GPU", "Part of the time, of the GPUs seen.", rows),
        note=pools.why,
        remedies=(_TYPES,) if gap >= UNEVEN else (),
    )
    return Said.one(finding)
