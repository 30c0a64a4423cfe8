"""Carries out a decision: jobs leave, begin, resume, move; directives for agents are staged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.model.grants import Grant, Role, is_same_claim
from rota.model.units import plural
from rota.scheduler.world import Change, How, Refusal
from rota.wire.sync import Wanted
from rota.worlds.live import lifecycle
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.jobs import AFTERWARDS_S, LiveJobs
from rota.worlds.live.node_parts import can_resume
from rota.worlds.live.preemption import way_out


def carry_out(live: LiveJobs, changes: Sequence[Change], how: Mapping[int, How]) -> list[Refusal]:
    """Stage the directives that carry out `changes`; `how` says why stopped jobs were stopped.

    Returns the changes that no agent can carry out.
    """
    heirs, refusals = _heirs(live, changes), []
    for change in changes:
        job = live[change.row]
        live.unsaved.job(job)
        if change.new is not None and _counts_on_turns(job, change.new):
            refusals.append(Refusal(job.row, "would take turns in device memory, which no agent arranges"))
        elif change.new is None and change.old is None:
            _put_out(live, job)
        elif change.new is None:
            _vacate(live, job, change, how.get(job.row, How.PREEMPTED), heirs.get(change.row, ""))
        elif change.old is None:
            refusals += _start(live, job, change.new)
        elif is_same_claim(change.old, change.new):
            refusals += _adjust(live, job, change.old, change.new)
        else:
            refusals += _move(live, job, change.old, change.new)
    return refusals


def _refuse(live: LiveJobs, job: LiveJob) -> list[Refusal]:
    """`job` may begin nothing; it is held once the table shows that it waits."""
    live.timers.set(job.row, live.now + AFTERWARDS_S)
    return [Refusal(job.row, f"has no account that it may run as: {job.barred}")]


def _counts_on_turns(job: LiveJob, grant: Grant) -> bool:
    """True if `grant` takes for granted that the job needs all of its device memory only in its turn."""
    return grant.role is Role.TURNS and job.spec.gpu_persistent_gib > 0.0


def _heirs(live: LiveJobs, changes: Sequence[Change]) -> dict[int, str]:
    """By row of a stopped job, the ids of the jobs that get its devices."""
    owner = {d: c.row for c in changes if c.new is not None for d in c.new.devices}
    heirs = {}
    for change in changes:
        if change.old is not None and change.new is None:
            rows = dict.fromkeys(owner[d] for d in change.old.devices if d in owner)
            heirs[change.row] = ", ".join(live.table.jobs.ids[row] for row in list(rows)[:3])
    return heirs


def _vacate(live: LiveJobs, job: LiveJob, change: Change, how: How, heirs: str) -> None:
    """The job is stopped by the decision: preempted, or ended."""
    attempt = job.attempt
    if attempt is None or attempt.is_over:
        return
    job.preempted_for = heirs
    if how is How.CANCELLED:
        lifecycle.end(live, job, "CANCELLED", "ended by the policy")
        lifecycle.send_away(live, job, attempt, how, "cancelled", "ended by the policy")
        return
    text = f"preempted for {'job ' + heirs if heirs else 'others'}"
    if attempt.has_begun:
        live.unsaved.event("preempt", job.id, text)
    wanted = way_out(job, change.leave, stays=change.stays)
    lifecycle.send_away(live, job, attempt, how, "preempted", text, wanted, for_others=True)


def _put_out(live: LiveJobs, job: LiveJob) -> None:
    """The job is suspended, and others need the host memory it holds."""
    for attempt in job.living:
        if attempt.wanted is Wanted.SUSPEND:
            text = "leaves host memory, which other jobs need"
            lifecycle.send_away(
                live, job, attempt, How.PREEMPTED, "preempted", text, Wanted.LEAVE, for_others=True
            )
            live.unsaved.event("put-out", job.id, f"attempt {attempt.number}: {text}")


def _start(live: LiveJobs, job: LiveJob, grant: Grant) -> list[Refusal]:
    """Begin an attempt, or continue a suspended one that can use the devices."""
    if job.barred:
        return _refuse(live, job)
    attempt = job.attempt
    job.preempted_for = ""
    if attempt is not None and attempt.is_suspended and not _is_to_leave(attempt):
        if can_resume(live.machines, job, attempt, grant):
            lifecycle.resume(live, job, attempt, grant)
            return []
        how = How.RESIZED if len(attempt.grant.devices) != len(grant.devices) else How.MIGRATED
        text = "continues on other devices"
        lifecycle.send_away(live, job, attempt, how, how.value, text, Wanted.LEAVE, for_others=True)
    lifecycle.begin(live, job, grant)
    return []


def _is_to_leave(attempt: Attempt) -> bool:
    """Whether its owner wants another attempt in its place, and not only others its devices."""
    return attempt.wanted not in (Wanted.RUN, Wanted.SUSPEND) and not attempt.is_for_others


def _adjust(live: LiveJobs, job: LiveJob, old: Grant, new: Grant) -> list[Refusal]:
    """Tell the agents of another batch size, cores or memory: those they can change while a job runs.

    Nothing restarts: the job has begun when it began.
    """
    same = old._replace(purpose=new.purpose, cpus=new.cpus, memory_gib=new.memory_gib)
    if same._replace(batch_size=new.batch_size) != new:
        return [Refusal(job.row, "would run on under other limits, which its agents cannot change")]
    if same != new and job.capability is not None and not job.capability.batch_size:
        return [Refusal(job.row, "would go on with another batch size, and cannot change it while it runs")]
    attempt = job.attempt
    if attempt is not None and not attempt.is_over:
        attempt.grant = new
        lifecycle.order(live, job, attempt)
    return []


def _move(live: LiveJobs, job: LiveJob, old: Grant, new: Grant) -> list[Refusal]:
    """Other devices, or another claim on the present ones."""
    attempt = job.attempt
    if attempt is None or attempt.is_over:
        if job.barred:
            return _refuse(live, job)
        lifecycle.begin(live, job, new)
    elif old.devices == new.devices or (
        can_resume(live.machines, job, attempt, new)
        and all(live.machines.is_cpu(p.node) for p in attempt.places)
    ):
        ready_s = attempt.ready_s
        lifecycle.resume(live, job, attempt, new)
        if ready_s is not None:
            attempt.ready_s = ready_s if old.devices == new.devices else live.now
            lifecycle.work_on(live, job, attempt)
    else:
        how = How.RESIZED if len(old.devices) != len(new.devices) else How.MIGRATED
        text = f"continues on {plural(len(new.devices), 'device')}"
        lifecycle.send_away(live, job, attempt, how, how.value, text, Wanted.LEAVE, for_others=True)
        if job.barred:
            return _refuse(live, job)
        lifecycle.begin(live, job, new)
    return []
