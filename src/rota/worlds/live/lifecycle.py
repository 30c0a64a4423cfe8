"""The verbs of a live job's life: held, released, begun, resumed, sent away, voided, ended."""

from __future__ import annotations

import math

from rota.model.grants import Grant
from rota.model.promises import Offer, Promise
from rota.model.units import format_duration
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.wire.sync import Notice, Part, PartStatus, Wanted
from rota.worlds.live import preemption
from rota.worlds.live.attempts import WITHDRAWN, Attempt, LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.dependencies import array_is_full, wake_array
from rota.worlds.live.holds import ACCOUNT, ARRAY, OFFERED, Hold, note_of
from rota.worlds.live.jobs import AFTERWARDS_S, LiveJobs
from rota.worlds.live.machines import LiveNode
from rota.worlds.live.node_parts import part_of, places_of
from rota.worlds.live.observations import draw_end, rate_of

# -- holds ---------------------------------------------------------------------------------------


def hold(live: LiveJobs, job: LiveJob, why: Hold, batch: BatchBuilder) -> None:
    """Hide `job` from its policy; it waits, is held already, or stops at this moment."""
    job.holds[why.kind] = why
    live.unsaved.job(job)
    batch.hold(job.row, note_of(job.holds))
    live.set_timers(job)
    wake_array(live, job)


def offer(live: LiveJobs, job: LiveJob, made: Offer) -> None:
    """Hold the waiting `job` until its user accepts the later deadline or the offer lapses."""
    job.holds[OFFERED] = Hold(OFFERED, made.why, made.until_s, requested=made.deadline_s)
    live.unsaved.job(job)
    live.unsaved.event("offer", job.id, made.why)
    live.set_timers(job)
    wake_array(live, job)


def promise(live: LiveJobs, job: LiveJob, made: Promise) -> None:
    """Record the policy's statement on the deadline of `job`: promised, at risk, or safe again."""
    before, job.promise = job.promise, made
    live.unsaved.job(job)
    if before is None or before.due_s != made.due_s:
        live.unsaved.event("promise", job.id, "its deadline is promised")
    elif before.is_at_risk != made.is_at_risk:
        told = _risk_of(made) if made.is_at_risk else "is expected to be kept again"
        live.unsaved.event("promise", job.id, f"its promised deadline {told}")
        live.unsaved.risks.append((job.row, f"its promised deadline {told}"))


def _risk_of(made: Promise) -> str:
    late_s = made.expected_s - made.due_s
    late = f"{format_duration(late_s)} late as it looks" if late_s < math.inf else "no plan keeps it"
    return f"is at risk: {late}"


def unhold(live: LiveJobs, job: LiveJob, kind: str, batch: BatchBuilder) -> None:
    """End one hold of a held job; without any hold left it waits for devices."""
    if job.holds.pop(kind, None) is None:
        return
    live.unsaved.job(job)
    if job.row not in live.state.held:
        return
    if job.barred:
        job.holds[ACCOUNT] = Hold(ACCOUNT, job.barred)
    if kind != ARRAY and not job.holds and array_is_full(live, job):
        job.holds[ARRAY] = Hold(ARRAY, provided=job.array_most)
    if job.holds:
        batch.hold(job.row, note_of(job.holds))
    else:
        batch.release(job.row)


# -- attempts ------------------------------------------------------------------------------------


def order(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """Stage the directives for `attempt`, unless an earlier attempt has to leave first."""
    live.unsaved.attempt(attempt)
    earlier = [other for other in job.living if other.number < attempt.number]
    attempt.is_ordered = not earlier
    if attempt.is_ordered:
        for place in attempt.places:
            if not place.is_over:
                live.directives.stage(place.name, part_of(live, job, attempt, place))


def dismiss(live: LiveJobs, node: str, row: int, job_id: str, attempt: int, *, alive: bool) -> None:
    """Tell `node` that a part it knows is void (if a process may be there) or done with."""
    wanted = Wanted.KILL if alive else Wanted.FORGET
    live.directives.stage(node, Part(row=row, job=job_id, attempt=attempt, version=0, wanted=wanted))


def begin(live: LiveJobs, job: LiveJob, grant: Grant) -> None:
    """Begin a new attempt on `grant`; it is ordered once the earlier ones have gone."""
    attempt = Attempt(
        row=job.row,
        number=len(job.attempts) + 1,
        grant=grant,
        places=places_of(live.machines, job.spec, grant),
        wanted=Wanted.RUN,
        wanted_s=live.now,
        is_trial=job.needs_trial,
        saved_base=live.progress.base.item(job.row),
    )
    job.attempts.append(attempt)
    live.note_program(job)
    order(live, job, attempt)
    live.set_timers(job)


def resume(live: LiveJobs, job: LiveJob, attempt: Attempt, grant: Grant) -> None:
    """Let the suspended `attempt` go on, on the devices of `grant`."""
    for place, new in zip(attempt.places, places_of(live.machines, job.spec, grant), strict=True):
        place.devices, place.ranks, place.idle_s = new.devices, new.ranks, None
    attempt.grant, attempt.wanted, attempt.told = grant, Wanted.RUN, None
    attempt.is_for_others = False
    is_running = all(place.status is PartStatus.RUNNING for place in attempt.places)
    attempt.notice, attempt.wanted_s = None, live.now
    attempt.ready_s = live.now if is_running else None
    order(live, job, attempt)
    live.set_timers(job)


def work_on(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """The attempt works from now on."""
    grant = attempt.grant
    rate = grant.share if attempt.is_trial else rate_of(job, grant, live.machines.type_of(grant))
    live.progress.pace(job.row, rate, live.now, live.now)
    live.note_progress(job.row)


def send_away(
    live: LiveJobs,
    job: LiveJob,
    attempt: Attempt,
    how: How,
    reason: str,
    text: str,
    wanted: Wanted = Wanted.STOP,
    *,
    for_others: bool = False,
) -> None:
    """Tell the living `attempt` to give its devices back; one that was never ordered vanishes.

    `for_others` if a decision preempts the job: the jobs that get its devices wait for what that costs.
    """
    attempt.told, attempt.wanted, attempt.is_for_others = how, wanted, for_others
    job.idle_since_s = None
    deadline = live.epoch_unix_s + live.now + job.spec.notice_s + job.spec.grace_s
    attempt.notice = Notice(reason=reason, text=text, deadline_s=deadline)
    if not attempt.is_ordered:
        withdraw(live, attempt)
        return
    order(live, job, attempt)


def withdraw(live: LiveJobs, attempt: Attempt) -> None:
    """End `attempt` before it began; no agent knows it."""
    attempt.end_s, attempt.how, attempt.cause = live.now, WITHDRAWN, "never began"
    live.unsaved.attempt(attempt)


def void(live: LiveJobs, job: LiveJob, attempt: Attempt, why: str) -> None:
    """Void `attempt`: it does not count any more, whatever its processes do on an unreachable machine."""
    keep_work(live, job, attempt, completely=False)
    draw_end(live, job)
    attempt.end_s, attempt.how, attempt.cause = live.now, How.LOST, why
    live.unsaved.job(job)  # of one that is over it may have been the last
    live.unsaved.attempt(attempt)
    for place in attempt.places:
        dismiss(live, place.name, job.row, job.id, attempt.number, alive=not place.is_over)
    live.unsaved.event("lost", job.id, f"attempt {attempt.number}: {why}")


def keep_work(live: LiveJobs, job: LiveJob, attempt: Attempt, *, completely: bool) -> None:
    """Keep what remains of the work of `attempt` after its processes have gone; all of it if `completely`."""
    if attempt is job.attempt:
        live.progress.stop(job.row, attempt.until_s(live.now))  # the loop receives the end later
    preemption.keep_saved(live, job, attempt, completely=completely)
    live.note_progress(job.row)


def forget(live: LiveJobs, node: LiveNode, who: str) -> None:
    """Take the empty `node` out of the cluster; the loop is built again."""
    node.state, node.reason, node.drained_by = "forgotten", f"forgotten by {who}", ""
    live.unsaved.nodes.add(node.position)
    live.unsaved.event("forget", "", f"node {node.name}", who=who)
    live.unsaved.rebuild = live.unsaved.rebuild or f"node {node.name} was forgotten"


# -- the end -------------------------------------------------------------------------------------


def end(live: LiveJobs, job: LiveJob, state: str, cause: str, at_s: float | None = None) -> None:
    """End `job` as `state`, at `at_s` or now; some of its processes may still be leaving."""
    job.is_over, job.state, job.cause = True, state, cause
    job.finish_s = live.now if at_s is None else at_s
    job.holds.clear()
    live.unsaved.job(job)
    for dependent in live.dependents.get(job.row, ()):
        live.timers.set(dependent, live.now + AFTERWARDS_S)  # once the table shows the end
    wake_array(live, job)


def send_all_away(live: LiveJobs, job: LiveJob, how: How, reason: str, wanted: Wanted = Wanted.STOP) -> None:
    """Tell all living attempts of an ended job to leave; a job without any is forgotten."""
    for attempt in job.living:
        send_away(live, job, attempt, how, reason, job.cause, wanted)
    live.drop_if_gone(job)


def end_others(live: LiveJobs, first: LiveJob, batch: BatchBuilder) -> None:
    """`first` has completed: cancel the other submitted jobs of its group that have `group_rule` `first`."""
    if first.spec.group_rule != "first":
        return
    group = live.state.jobs.group
    for job in list(live.values()):
        is_sibling = job.row < live.state.submitted and group[job.row] == group[first.row]
        if not is_sibling or job.is_over or job.spec.group_rule != "first":
            continue
        why = f"job {first.id} of its group has completed"
        if job.row in batch.touched:
            job.needless = why
            live.unsaved.job(job)
            live.timers.set(job.row, batch.now + AFTERWARDS_S)
        else:
            cancel(live, job, why, batch)


def cancel(live: LiveJobs, job: LiveJob, why: str, batch: BatchBuilder, wanted: Wanted = Wanted.STOP) -> None:
    """End `job`, which waits, is held or runs; its processes leave as `wanted` says."""
    was_running = live.is_running(job)
    end(live, job, "CANCELLED", why)
    send_all_away(live, job, How.CANCELLED, "cancelled", wanted)
    if was_running:
        batch.end(job.row, How.CANCELLED, Phase.CANCELLED)
    else:
        batch.settle(job.row, Phase.CANCELLED)
