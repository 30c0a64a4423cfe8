"""Holds that follow from a job's specification: other jobs, its array, its begin time, the cluster."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from itertools import islice

from rota.model.cluster import Cluster
from rota.model.feasible import Need, never_fits
from rota.table.state import Phase
from rota.wire.job import JobSpec
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.holds import ARRAY, BEGIN, DEPENDENCY, INFEASIBLE, USER, Hold
from rota.worlds.live.jobs import LiveJobs


def expect(live: LiveJobs, job: LiveJob) -> None:
    """`job` is to be looked at whenever one of those that it is to run after ends."""
    for before in job.spec.after:
        for row in live.names.rows(before.job):
            live.dependents.setdefault(row, set()).add(job.row)


def derived_holds(live: LiveJobs, job: LiveJob, now: float) -> Iterator[Hold]:
    """The holds of a job that has just arrived."""
    spec = job.spec
    if spec.hold:
        yield Hold(USER, job.user)
    waits = [before for before in spec.after if not is_met(phases(live, before.job), before.when)]
    if waits:
        yield Hold(DEPENDENCY, ", ".join(before.job for before in waits))
    begin = begins(spec, live.epoch_unix_s, now)
    if begin is not None:
        yield begin
    infeasible = impossible(live.machines.cluster, spec, tenant_of(live, job))
    if infeasible is not None:
        yield infeasible
    if array_is_full(live, job):
        yield Hold(ARRAY, provided=job.array_most)


def begins(spec: JobSpec, epoch_unix_s: float, now: float) -> Hold | None:
    """A hold until the earliest start that the job asks for, if that is still to come."""
    if spec.begin_s is None or spec.begin_s - epoch_unix_s <= now:
        return None
    when = datetime.fromtimestamp(spec.begin_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Hold(BEGIN, when, spec.begin_s - epoch_unix_s)


def phases(live: LiveJobs, name: str) -> set[int]:
    """Phases of the jobs that `name` refers to; empty if there are none."""
    return {_phase(live, row) for row in live.names.rows(name)}


def _phase(live: LiveJobs, row: int) -> int:
    """The phase of a job at this moment; the loop's table lacks jobs that have just ended."""
    job = live.get(row)
    if job is not None and job.is_over:
        return Phase.COMPLETED if job.state == "COMPLETED" else Phase.FAILED
    return live.state.phase.item(row) if row < live.state.submitted else Phase.ABSENT


def is_met(phases: Collection[int], when: str) -> bool | None:
    """True once jobs in these phases have ended as they had to, False if they never will have, else None.

    `ok`: all of them well; `any`: all of them; `failed`: all of them, and one at least not well.  No jobs
    never end.
    """
    if not phases:
        return False
    is_bad = any(phase > Phase.COMPLETED for phase in phases)
    if when == "ok" and is_bad:
        return False
    if any(phase < Phase.COMPLETED for phase in phases):
        return None
    return is_bad if when == "failed" else True


def tenant_of(live: LiveJobs, job: LiveJob) -> str:
    """Tenant whose quota it counts against: the one that it names, or its user's own."""
    return live.state.jobs.name_of("tenant", job.row)


def impossible(cluster: Cluster, spec: JobSpec, tenant: str) -> Hold | None:
    """A hold if the cluster as it is could never run the job of `tenant`, empty as it may be."""
    return next(lacks(cluster, spec, tenant), None)


def lacks(cluster: Cluster, spec: JobSpec, tenant: str) -> Iterator[Hold]:
    """All that the cluster has too little of, empty as it may be: devices, memory, cores, a hard quota."""
    need = Need(
        spec.gpus,
        spec.range[0],
        spec.cpus,
        spec.memory_gib,
        tuple(spec.gpu_types),
        spec.gpu_share,
        spec.gpu_memory_gib,
        tenant,
        spec.nodes,
    )
    for code, requested, provided, detail in never_fits(cluster, need):
        asked, there = (None if math.isnan(value) else value for value in (requested, provided))
        yield Hold(INFEASIBLE, detail, requested=asked, provided=there, code=code.value)


def array_is_full(live: LiveJobs, job: LiveJob) -> bool:
    """True if its array already has as many jobs, neither held nor over, as may run at once."""
    if not job.array_most:
        return False
    others = (
        other.array_first == job.array_first and not other.holds and not other.is_over and other is not job
        for other in live.values()
    )
    return sum(others) >= job.array_most


def wake_array(live: LiveJobs, job: LiveJob) -> None:
    """`job` needs its place in its array no more: one of those that wait for a place may have it."""
    if not job.array_most:
        return
    waiting = (
        other.row
        for other in live.values()
        if other.array_first == job.array_first and other.holds.keys() == {ARRAY}
    )
    for row in islice(waiting, job.array_most):
        live.timers.set(row, live.now)
