"""A decision carried out: jobs leave, begin, resume, move; what agents shall do is staged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rota.model.grants import Grant, is_adjustment
from rota.model.units import plural
from rota.scheduler.world import Change, How, Refusal
from rota.table.state import Phase
from rota.wire.sync import Wanted
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.leaving import way_out
from rota.worlds.live.parts import can_resume

if TYPE_CHECKING:
    from rota.worlds.live.world import LiveWorld


def carry_out(world: LiveWorld, changes: Sequence[Change], how: Mapping[int, How]) -> list[Refusal]:
    """Stage what makes `changes` true; `how` says why jobs stopped that were.

    Returns what no agent can be told.
    """
    heirs, refusals = _heirs(world, changes), []
    for change in changes:
        job = world.live[change.row]
        world.news.jobs[job.row] = job
        if change.new is None and change.old is None:
            _put_out(world, job)
        elif change.new is None:
            _vacate(world, job, change, how.get(job.row, How.PREEMPTED), heirs.get(change.row, ""))
        elif change.old is None:
            _start(world, job, change.new)
        elif is_adjustment(change.old, change.new):
            refusals += _adjust(world, job, change.old, change.new)
        else:
            _move(world, job, change.old, change.new)
    return refusals


def _heirs(world: LiveWorld, changes: Sequence[Change]) -> dict[int, str]:
    """Who gets the devices of the jobs that are stopped: ids, by row."""
    owner = {d: c.row for c in changes if c.new is not None for d in c.new.devices}
    found = {}
    for change in changes:
        if change.old is not None and change.new is None:
            rows = dict.fromkeys(owner[d] for d in change.old.devices if d in owner)
            found[change.row] = ", ".join(world.jobs.ids[row] for row in list(rows)[:3])
    return found


def _vacate(world: LiveWorld, job: LiveJob, change: Change, how: How, heirs: str) -> None:
    """The job is stopped by the decision: preempted, or ended."""
    attempt = job.attempt
    if attempt is None or attempt.is_over:
        return
    job.preempted_for = heirs
    if how is How.CANCELLED:
        world.over(job, Phase.CANCELLED, "CANCELLED", "ended by the policy")
        world.send_away(job, attempt, how, "cancelled", "ended by the policy")
        return
    text = f"preempted for {'job ' + heirs if heirs else 'others'}"
    wanted = way_out(job, change.leave, stays=change.stays)
    world.send_away(job, attempt, how, "preempted", text, wanted, for_others=True)


def _put_out(world: LiveWorld, job: LiveJob) -> None:
    """The job is suspended, and others need the host memory it holds."""
    for attempt in job.living:
        if attempt.wanted is Wanted.SUSPEND:
            text = "leaves host memory, which other jobs need"
            world.send_away(job, attempt, How.PREEMPTED, "preempted", text, Wanted.LEAVE, for_others=True)
            world.news.events.append(("rota", "put-out", job.id, f"attempt {attempt.number}: {text}"))


def _start(world: LiveWorld, job: LiveJob, grant: Grant) -> None:
    """Begin, or go on with what is suspended if it can use the devices."""
    attempt = job.attempt
    job.preempted_for = ""
    if attempt is not None and attempt.is_suspended and can_resume(world, attempt, grant):
        world.resume(job, attempt, grant)
        return
    if attempt is not None and attempt.is_suspended:
        how = How.RESIZED if len(attempt.grant.devices) != len(grant.devices) else How.MIGRATED
        text = "continues on other devices"
        world.send_away(job, attempt, how, how.value, text, Wanted.LEAVE, for_others=True)
    world.begin(job, grant)


def _adjust(world: LiveWorld, job: LiveJob, old: Grant, new: Grant) -> list[Refusal]:
    """Tell the agents of another batch size, the only thing that they can change of a job that runs.

    Nothing restarts: the job has begun when it began.
    """
    if old._replace(batch_size=new.batch_size) != new:
        return [Refusal(job.row, "would run on under other limits, which its agents cannot change")]
    if job.capability is not None and not job.capability.batch_size:
        return [Refusal(job.row, "would go on with another batch size, and cannot change it while it runs")]
    attempt = job.attempt
    if attempt is not None and not attempt.is_over:
        attempt.grant = new
        world.order(job, attempt)
    return []


def _move(world: LiveWorld, job: LiveJob, old: Grant, new: Grant) -> None:
    """Other devices, or another claim on the same."""
    attempt = job.attempt
    if attempt is None or attempt.is_over:
        world.begin(job, new)
    elif old.devices == new.devices or (
        can_resume(world, attempt, new)
        and all(world.nodes[p.node].info.kind == "cpu" for p in attempt.places)
    ):
        is_running = attempt.ready_s is not None
        world.resume(job, attempt, new)
        if is_running:
            attempt.ready_s = world.state.now
            world.pace(job, attempt)
    else:
        how = How.RESIZED if len(old.devices) != len(new.devices) else How.MIGRATED
        text = f"continues on {plural(len(new.devices), 'device')}"
        world.send_away(job, attempt, how, how.value, text, Wanted.LEAVE, for_others=True)
        world.begin(job, new)
