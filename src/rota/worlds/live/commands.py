"""Users' commands, carried out at one moment; each outcome is stored with its command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rota.scheduler.decision import Event
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.wire.sync import Wanted
from rota.worlds.live import lifecycle, node_states
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.dependencies import impossible, tenant_of
from rota.worlds.live.holds import OFFERED, SUSPENDED, USER, Hold
from rota.worlds.live.idle_jobs import suspend_for
from rota.worlds.live.inbox import CommandAsked
from rota.worlds.live.jobs import LiveJobs
from rota.worlds.live.resize import DEVICES, resize

_FOR_CONTROLLER = {"policy", "shadow", "tenants", "update", "accept"}
"""Commands that change more than this world: the controller carries them out after the step."""


def has_to_wait(live: LiveJobs, asked: CommandAsked, batch: BatchBuilder) -> bool:
    """True if it is about a job that has changed at this moment already."""
    if asked.row is not None or "array" not in asked.args:
        return asked.row in batch.touched
    touched = (live[row] for row in batch.touched if row in live)
    return any(job.array_first == asked.args["array"] for job in touched)


def carry_out(live: LiveJobs, asked: CommandAsked, batch: BatchBuilder) -> None:
    """Carry out `asked`; its outcome is `{"error": sentence}`, `{"refused": {sentence: ids}}` or `{}`."""
    batch.notable = True
    if asked.kind in _FOR_CONTROLLER:
        error = _prepare(live, asked, batch)
        if error:
            live.unsaved.done.append((asked.seq, {"error": error}))
        else:
            live.unsaved.asked.append(asked)
        return
    if "array" in asked.args:
        outcome = _for_array(live, asked, batch)
    else:
        error = _for_one(live, asked, batch)
        outcome = {"error": error} if error else {}
    live.unsaved.done.append((asked.seq, outcome))


def _prepare(live: LiveJobs, asked: CommandAsked, batch: BatchBuilder) -> str:
    """Prepare the command for the controller; returns why it may not carry it out, or nothing."""
    job = live.get(-1 if asked.row is None else asked.row)
    if asked.kind == "accept" and (job is None or OFFERED not in job.holds):
        return "no later deadline is offered to it"
    if job is None or job.is_over or asked.kind != "update":
        return ""
    if "time_s" in asked.args and job.attempt is not None and job.attempt.told is How.TIMEOUT:
        return "it has had the notice of its time limit, and is on its way out"
    if not DEVICES & asked.args.keys():
        return ""
    return resize(live, job, asked, batch)


def _for_one(live: LiveJobs, asked: CommandAsked, batch: BatchBuilder) -> str:
    """Carry out what concerns one node or one job; returns why not, or nothing."""
    if asked.kind in _OF_NODES:
        return _OF_NODES[asked.kind](live, asked, batch)
    job = live.get(-1 if asked.row is None else asked.row)
    if job is None or job.is_over:
        _kill_if_forced(live, job, asked)
        return "" if asked.kind == "cancel" and job is not None else "it has ended"
    return _for_job(live, job, asked, batch)


def _for_array(live: LiveJobs, asked: CommandAsked, batch: BatchBuilder) -> dict[str, Any]:
    """Carry it out for each job of an array that is not over; the outcome names those that refuse."""
    refused: dict[str, list[str]] = {}
    members = live.members(asked.args["array"])
    for job in reversed(members):  # jobs that wait for a place in their array are at the front
        if job.is_over:
            _kill_if_forced(live, job, asked)
        elif error := _for_job(live, job, asked, batch):
            refused.setdefault(error, []).append(job.id)
    return {"refused": refused} if refused else {}


def _for_job(live: LiveJobs, job: LiveJob, asked: CommandAsked, batch: BatchBuilder) -> str:
    error = _OF_JOBS[asked.kind](live, job, asked, batch)
    if not error:
        reason = str(asked.args.get("reason") or "")
        live.unsaved.event(asked.kind, job.id, reason, who=asked.user)
    return error


def _cancel(live: LiveJobs, job: LiveJob, asked: CommandAsked, batch: BatchBuilder) -> str:
    """End the job: its processes get their grace, or none if forced."""
    reason = str(asked.args.get("reason") or "")
    text = f"cancelled by {asked.user}" + (f": {reason}" if reason else "")
    lifecycle.cancel(live, job, text, batch, Wanted.KILL if asked.args.get("force") else Wanted.STOP)
    return ""


def _kill_if_forced(live: LiveJobs, job: LiveJob | None, asked: CommandAsked) -> None:
    """On a forced cancel of an ended job, kill its remaining processes without more patience."""
    if job is None or asked.kind != "cancel" or not asked.args.get("force"):
        return
    for attempt in job.living:
        lifecycle.send_away(
            live, job, attempt, attempt.told or How.CANCELLED, "cancelled", job.cause, Wanted.KILL
        )


def _hold(live: LiveJobs, job: LiveJob, asked: CommandAsked, batch: BatchBuilder) -> str:
    if live.is_running(job):
        return "it is running; suspend it to take its devices away and keep it"
    lifecycle.hold(live, job, Hold(USER, asked.user), batch)
    return ""


def _release(live: LiveJobs, job: LiveJob, asked: CommandAsked, batch: BatchBuilder) -> str:
    if USER not in job.holds:
        return "" if not job.holds else "no person holds it; it waits for something else"
    lifecycle.unhold(live, job, USER, batch)
    return ""


def _suspend(live: LiveJobs, job: LiveJob, asked: CommandAsked, batch: BatchBuilder) -> str:
    """Suspend it until a user resumes it; its devices go to other jobs."""
    suspend_for(live, job, Hold(SUSPENDED, asked.user), f"suspended by {asked.user}", batch)
    return ""


def _resume(live: LiveJobs, job: LiveJob, asked: CommandAsked, batch: BatchBuilder) -> str:
    if SUSPENDED not in job.holds:
        return "it is not suspended"
    lifecycle.unhold(live, job, SUSPENDED, batch)
    return ""


def _requeue(live: LiveJobs, job: LiveJob, asked: CommandAsked, batch: BatchBuilder) -> str:
    """Let it leave, by a checkpoint if it can, and start again."""
    attempt = job.attempt
    if live.is_running(job) and attempt is not None and not attempt.is_over:
        batch.end(job.row, How.PREEMPTED, Phase.PENDING)
        text = f"requeued by {asked.user}"
        lifecycle.send_away(live, job, attempt, How.PREEMPTED, "preempted", text, Wanted.LEAVE)
        return ""
    if SUSPENDED in job.holds:
        return "it is suspended; resume it first"
    if attempt is not None and not attempt.is_over and attempt.is_suspended:
        return "it is suspended until its turn comes, and holds no devices; it goes on by itself"
    return "it is not running"


def _drain(live: LiveJobs, asked: CommandAsked, batch: BatchBuilder) -> str:
    """No new jobs on a node; those that run there run on."""
    node = live.machines.named(asked.node or "")
    if node is None:
        return f"there is no node {asked.node}"
    position = node.position
    node.drained_by, node.reason = asked.user, str(asked.args.get("reason") or "")
    if node.state == "up":
        node.state = "drained"
        batch.drain(position)
    batch.cause |= Event.CAPACITY
    live.unsaved.nodes.add(position)
    live.unsaved.event("drain", "", f"node {node.name} {node.reason}".strip(), who=asked.user)
    return ""


def _undrain(live: LiveJobs, asked: CommandAsked, batch: BatchBuilder) -> str:
    node = live.machines.named(asked.node or "")
    if node is None:
        return f"there is no node {asked.node}"
    position = node.position
    node.drained_by = node.reason = ""
    if node.state == "drained":
        node.state = "up"
        node_states.reopen(live, node, batch)
    batch.cause |= Event.CAPACITY
    live.unsaved.nodes.add(position)
    live.unsaved.event("undrain", "", f"node {node.name}", who=asked.user)
    return ""


def _forget(live: LiveJobs, asked: CommandAsked, batch: BatchBuilder) -> str:
    """A lost node is no part of the cluster any more; it keeps its place, and its devices their numbers."""
    node = live.machines.named(asked.node or "")
    if node is None:
        return "" if asked.node in live.machines.position else f"there is no node {asked.node}"
    if node.state != "lost":
        return (
            f"it is {node.state}, and only a lost node can be forgotten; stop its agent and wait until it is"
        )
    lifecycle.forget(live, node, asked.user)
    _hold_impossible(live, batch, without=node.position)
    return ""


def _hold_impossible(live: LiveJobs, batch: BatchBuilder, without: int) -> None:
    """Hold waiting jobs that could run on that node only, until another node comes."""
    cluster = live.machines.cluster
    left = replace(cluster, gone=(*cluster.gone, without))
    for job in live.values():
        if job.is_over or job.living or live.is_running(job) or job.row in batch.touched:
            continue
        never = impossible(left, job.spec, tenant_of(live, job))
        if never is not None:
            lifecycle.hold(live, job, never, batch)


_OF_JOBS: dict[str, Callable[[LiveJobs, LiveJob, CommandAsked, BatchBuilder], str]] = {
    "cancel": _cancel,
    "hold": _hold,
    "release": _release,
    "suspend": _suspend,
    "resume": _resume,
    "requeue": _requeue,
}
_OF_NODES: dict[str, Callable[[LiveJobs, CommandAsked, BatchBuilder], str]] = {
    "drain": _drain,
    "undrain": _undrain,
    "forget": _forget,
}
