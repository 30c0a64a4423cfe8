"""Why jobs waited: not yet eligible, above their tenant's quota, no place close together, or no room at all.

Each moment of a job's wait has the first cause that applies, as in the Philly study: *before eligible*,
by the record; *fair share*, if its tenant's GPUs and its own would pass the quota; *fragmentation*, if as
many GPUs as it asks for are free where it may run, and yet it waits; *full* otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rota.model.columns import Bools, Floats
from rota.model.units import format_duration
from rota.reports.curves import distribution
from rota.reports.finding import Bars, Finding, Remedy, Replay, Said, Unsaid
from rota.reports.findings.history import HOUR_S, JobHistory
from rota.reports.findings.pools import Pools, integral, when
from rota.reports.series import Steps
from rota.reports.wording import SIZES, percent

STUDY = "queueing"
BEFORE, FAIR, FRAGMENTED, FULL = "before eligible", "fair share", "fragmentation", "full"
SLOW_START_S = 300.0
"""A shorter mean wait with GPUs free may be the time it takes to start."""
LEAST_H = 1.0
"""Waits that add up to less are not worth a split."""
_ORDER = Remedy(
    *("srtf", "systems/srtf.md", "serves the shortest job first, by predicted durations"),
    replay=Replay("srtf"),
)
_SERVICE = Remedy(
    *("tiresias", "systems/tiresias.md", "lets short jobs pass long ones without knowing durations"),
    replay=Replay("tiresias"),
)
_RELAX = Remedy(
    *("philly", "systems/philly.md", "gives locality up after a few failed attempts"),
    replay=Replay("philly", spread=True),
    against=Replay("philly:relax_after=1000000", spread=True),
)
_QUOTA = Remedy(
    *("themis", "systems/themis.md", "gives GPUs to those who are furthest from their fair finish"),
    replay=Replay("themis"),
    metric="max_rho",
)


def study(history: JobHistory, pools: Pools) -> Said:
    """How long jobs waited, and of what that time is made."""
    if not history.starts:
        return Said.gap(STUDY, "how long jobs waited, and why", "the start of each job")
    started = history.dated
    wait_s = np.where(started, np.maximum(history.start_s - history.submit_s, 0.0), 0.0)
    quotas = _quotas(history)
    parts = split(history, pools, quotas)
    unsaid = []
    if not np.isfinite(history.trace.truth.held_s).any():
        unsaid.append(Unsaid(STUDY, "what of the wait passed before jobs were eligible", "Eligible (held_s)"))
    if not quotas:
        needs = "quotas of the tenants, in the file that --cluster names"
        unsaid.append(Unsaid(STUDY, "what of the wait was fair share", needs))
    if not started.any():
        return Said((), tuple(unsaid))
    findings = [_waits(history, started, wait_s, parts)]
    if float(wait_s.sum()) >= LEAST_H * HOUR_S:
        findings += _fragmentation(history, started, parts, pools)
    return Said(tuple(findings), tuple(unsaid))


def split(history: JobHistory, pools: Pools, quotas: Mapping[str, float]) -> dict[str, Floats]:
    """Seconds that each job waited before its first start, by cause; they add up to its wait."""
    n = len(history.submit_s)
    waited = history.dated & (history.start_s > history.submit_s)
    before = np.where(waited, np.minimum(history.eligible_s, history.start_s) - history.submit_s, 0.0)
    before = np.maximum(before, 0.0)
    begin_s = np.where(waited, history.submit_s + before, 0.0)
    end_s = np.where(waited, history.start_s, 0.0)
    fair, fragmented = np.zeros(n), np.zeros(n)
    tenants = {i: quotas[name] for i, name in enumerate(history.tenant.names) if name in quotas}
    used = {i: _used_by(history, i) for i in tenants}
    jobs = history.trace.jobs
    key = np.stack((pools.kind, jobs.gpus, history.tenant.code if tenants else np.zeros_like(jobs.gpus)), 1)
    kinds, code = np.unique(key[waited], axis=0, return_inverse=True)
    rows = np.flatnonzero(waited)
    order = np.argsort(code.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(code.ravel(), minlength=len(kinds)))
    groups = np.split(rows[order], ends[:-1]) if len(rows) else []
    for (kind, _, tenant), own in zip(kinds.tolist(), groups, strict=True):
        asked = float(history.gpus[own[0]])
        free = pools.free(pools.admitted[kind])
        room = when(free, free.value >= asked - 1e-9)
        if tenant in tenants:
            above = when(used[tenant], used[tenant].value + asked > tenants[tenant] + 1e-9)
            fair[own] = integral(above, begin_s[own], end_s[own])
            room = _both(room, above)
        fragmented[own] = integral(room, begin_s[own], end_s[own])
    full = np.maximum(end_s - begin_s - fair - fragmented, 0.0)
    return {BEFORE: before, FAIR: fair, FRAGMENTED: fragmented, FULL: full}


def _both(room: Steps, above: Steps) -> Steps:
    """1 while there is room and the tenant is not above its quota."""
    times = np.unique(np.concatenate((room.time_s, above.time_s)))
    return Steps(times, room.at(times) * (1.0 - above.at(times)))


def _used_by(history: JobHistory, tenant: int) -> Steps:
    own = history.dated & (history.tenant.code == tenant)
    steps = Steps.held(history.start_s[own], history.end_s[own], history.gpus[own])
    return Steps(np.concatenate(([-np.inf], steps.time_s)), np.concatenate(([0.0], steps.value)))


def _quotas(history: JobHistory) -> dict[str, float]:
    """Quotas in GPUs of tenants, as far as the stated cluster has them."""
    if history.cluster is None:
        return {}
    tenants = history.cluster.tenants.by_path
    return {path: tenant.quota_gpus for path, tenant in tenants.items() if np.isfinite(tenant.quota_gpus)}


def _waits(history: JobHistory, started: Bools, wait_s: Floats, parts: Mapping[str, Floats]) -> Finding:
    waits = wait_s[started]
    mean, middle, tail = float(waits.mean()), float(np.median(waits)), float(np.percentile(waits, 90))
    total = float(waits.sum())
    shares = {name: float(of[started].sum()) / total if total else 0.0 for name, of in parts.items()}
    sentence = (
        f"Jobs waited {format_duration(mean)} on average before they started "
        f"(median {format_duration(middle)}, 90th percentile {format_duration(tail)})"
    )
    of_size = [(name, waits[history.size[started] == code]) for code, (name, _) in enumerate(SIZES)]
    by_size = [(name, own) for name, own in of_size if len(own)]
    figure = distribution("waits", "Waiting by size", "from submission to start", by_size)
    return Finding(
        *("waiting", STUDY, sentence + ".", mean, "s"),
        numbers={"median_s": middle, "p90_s": tail, "shares": shares},
        figure=figure if total else None,
        remedies=(_ORDER, _SERVICE) if mean > 60.0 else (),
    )


def _fragmentation(
    history: JobHistory, started: Bools, parts: Mapping[str, Floats], pools: Pools
) -> list[Finding]:
    """The split by size, and the share of the wait with enough GPUs free."""
    named = [name for name in parts if float(parts[name][started].sum()) > 0]
    total = float(sum(of[started].sum() for of in parts.values()))
    shares = {name: float(parts[name][started].sum()) / total for name in parts}
    rows = []
    by_size: dict[str, dict[str, float]] = {}
    for code, (size, _) in enumerate(SIZES):
        own = started & (history.size == code)
        sums = [float(parts[name][own].sum()) for name in named]
        if sum(sums) > 0:
            mean = sum(sums) / int(own.sum())
            of_size = [part / sum(sums) for part in sums]
            rows.append((size, of_size, f"{format_duration(mean)} each"))
            by_size[size] = dict(zip(named, of_size, strict=True))
    largest = sorted(named, key=lambda name: -shares[name])
    words = ", ".join(f"{percent(shares[name])} {_WORDS[name]}" for name in largest)
    sentence = f"Of all the time that jobs waited they spent {words}."
    figure = Bars.of(
        "What the wait is made of, by size", "Shares of the time waited, and the mean wait.", rows, named, 1.0
    )
    remedies = []
    mean_s = total / max(int(started.sum()), 1)
    if shares[FRAGMENTED] * mean_s >= SLOW_START_S:
        remedies.append(_RELAX)
    if shares[FAIR] >= 0.1:
        remedies.append(_QUOTA)
    note = (
        "Free: nobody held it, where the job may run. Fragmentation is the most that less strict locality "
        f"could have spared. {pools.why}"
    )
    return [
        Finding(
            *("delay_causes", STUDY, sentence, shares[FRAGMENTED], "share"),
            numbers={"shares": shares, "by_size": by_size},
            figure=figure,
            note=note,
            remedies=tuple(remedies),
        )
    ]


_WORDS = {
    BEFORE: "before they were eligible",
    FAIR: "while their tenant was at its quota",
    FRAGMENTED: "beside enough free GPUs that would do (fragmentation, the queue's order, or starting up)",
    FULL: "while too few GPUs were free",
}
