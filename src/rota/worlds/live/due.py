"""What time brings to jobs: holds end, dependencies are met, limits are reached, trials are passed."""

from __future__ import annotations

import math

from rota.model.units import format_duration
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.worlds.live import idle_jobs, lifecycle
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.dependencies import array_is_full, impossible, is_met, phases, tenant_of
from rota.worlds.live.holds import ACCOUNT, ARRAY, BACK_OFF, DEPENDENCY, INFEASIBLE, OFFERED, Hold
from rota.worlds.live.inbox import OF_ITSELF, CommandAsked
from rota.worlds.live.jobs import AFTERWARDS_S, LiveJobs


def look_at_row(live: LiveJobs, row: int, batch: BatchBuilder) -> None:
    """Whatever is due for the job of `row`, if nothing has happened to it at this moment already."""
    job = live.get(row)
    if job is None or job.is_over:
        return
    if row in batch.touched:
        live.timers.set(row, batch.now + AFTERWARDS_S)
    elif job.needless:
        lifecycle.cancel(live, job, job.needless, batch)
    elif row in live.state.held:
        _look_at_holds(live, job, batch)
    elif live.is_running(job):
        _look_at_limits(live, job, batch)
    elif job.barred:
        live.unsaved.event("hold", job.id, job.barred)
        lifecycle.hold(live, job, Hold(ACCOUNT, job.barred), batch)


def _look_at_holds(live: LiveJobs, job: LiveJob, batch: BatchBuilder) -> None:
    """Those that wait for something, then those that end by themselves."""
    _look(live, job, batch)
    ended = [h.kind for h in job.holds.values() if h.until_s is not None and h.until_s <= batch.now]
    if OFFERED in ended:
        _give_up(live, job, "the later deadline that it was offered was not accepted in time", batch)
        return
    if OFFERED in job.holds and job.spec.accept_later_deadline:
        live.unsaved.asked.append(CommandAsked(OF_ITSELF, job.user, "accept", job.row))
        batch.notable = True
        return
    for kind in ended:
        lifecycle.unhold(live, job, kind, batch)


def _look_at_limits(live: LiveJobs, job: LiveJob, batch: BatchBuilder) -> None:
    attempt = job.attempt
    if attempt is None or attempt.is_over:
        return
    if any(place.name in (live.directives.unmet or ()) for place in attempt.places):
        return  # it may have ended while no controller was there
    left_s = math.inf
    if job.spec.most_run_s is not None:
        left_s = job.spec.most_run_s - live.state.ran_s(job.row) - AFTERWARDS_S
    if left_s <= 0.0:
        text = f"reached its time limit of {format_duration(job.spec.time_s or 0.0)}"
        lifecycle.end(live, job, "TIMEOUT", text)
        if attempt.told is None:  # else it has had its notice
            lifecycle.send_away(live, job, attempt, How.TIMEOUT, "timeout", text)
        batch.end(job.row, How.FAILED, Phase.FAILED)
    elif left_s <= job.spec.notice_s and attempt.awaits_notice:
        text = f"reaches its time limit of {format_duration(job.spec.time_s or 0.0)}"
        lifecycle.send_away(live, job, attempt, How.TIMEOUT, "timeout", text)
        batch.notable = True
        live.set_timers(job)
    elif attempt.is_trial and attempt.ready_s is not None:
        if batch.now - attempt.ready_s >= live.settings.trial_s - 1e-3:
            _pass_trial(live, job, batch)
    elif idle_jobs.is_to_be_suspended(live, job):
        idle_jobs.suspend(live, job, batch)
    else:
        live.set_timers(job)


def _pass_trial(live: LiveJobs, job: LiveJob, batch: BatchBuilder) -> None:
    """The program has passed its trial: now it may have what it asked for."""
    attempt = job.attempt
    assert attempt is not None
    job.passed_trial = True
    lifecycle.send_away(live, job, attempt, How.PREEMPTED, "resized", "the trial on one device is passed")
    batch.end(job.row, How.PREEMPTED, Phase.PENDING)
    until_it_asks = Hold(BACK_OFF, "it has passed its trial", batch.now)
    lifecycle.hold(live, job, until_it_asks, batch)
    live.unsaved.rebuild = f"job {job.id} has passed its trial"
    live.unsaved.event("trial", job.id, "passed")


def _look(live: LiveJobs, job: LiveJob, batch: BatchBuilder) -> None:
    """Check whether the condition that the held `job` waits for holds, or never will."""
    if DEPENDENCY in job.holds:
        are_met = []
        for before in job.spec.after:
            named = phases(live, before.job)
            are_met.append(is_met(named, before.when))
            if are_met[-1] is False:
                ended = f"did not end as asked ({before.when})" if named else "does not exist"
                _give_up(live, job, f"job {before.job}, which it was to run after, {ended}", batch)
                return
        if all(are_met):
            lifecycle.unhold(live, job, DEPENDENCY, batch)
    if INFEASIBLE in job.holds:
        never = impossible(live.machines.cluster, job.spec, tenant_of(live, job))
        if never is None:
            lifecycle.unhold(live, job, INFEASIBLE, batch)
        elif never != job.holds[INFEASIBLE]:
            lifecycle.hold(live, job, never, batch)
    if ARRAY in job.holds and not array_is_full(live, job):
        lifecycle.unhold(live, job, ARRAY, batch)


def _give_up(live: LiveJobs, job: LiveJob, why: str, batch: BatchBuilder) -> None:
    """The condition that the held `job` waits for will never hold."""
    lifecycle.end(live, job, "CANCELLED", why)
    batch.settle(job.row, Phase.CANCELLED)
    lifecycle.send_all_away(live, job, How.CANCELLED, "cancelled")
