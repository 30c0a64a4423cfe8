"""What people ask for, carried out at one moment; each command has an outcome that is stored with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rota.scheduler.decision import Event
from rota.scheduler.state import Phase
from rota.scheduler.world import How
from rota.wire.sync import Wanted
from rota.worlds.local.attempts import LiveJob
from rota.worlds.local.holds import SUSPENDED, USER, Hold
from rota.worlds.local.inbox import Asked
from rota.worlds.local.moment import Moment

if TYPE_CHECKING:
    from rota.worlds.local.news import LiveNode
    from rota.worlds.local.world import LiveWorld

_FOR_CONTROLLER = {"policy", "shadow", "update"}
"""Commands that change more than this world: the controller carries them out after the step."""


def obey(world: LiveWorld, asked: Asked, moment: Moment) -> None:
    """Carry out `asked`; its outcome is `{"error": sentence}` or `{}`."""
    moment.notable = True
    if asked.kind in _FOR_CONTROLLER:
        world.news.asked.append(asked)
        return
    if asked.kind in _OF_NODES:
        error = _OF_NODES[asked.kind](world, asked, moment)
    else:
        job = world.live.get(-1 if asked.row is None else asked.row)
        if job is None or job.is_over:
            error = "" if asked.kind == "cancel" and job is not None else "it has ended"
            if asked.kind == "cancel" and job is not None and asked.args.get("force"):
                _kill_rest(world, job)
        else:
            error = _OF_JOBS[asked.kind](world, job, asked, moment)
            if not error:
                reason = str(asked.args.get("reason") or "")
                world.news.events.append((asked.user, asked.kind, job.id, reason))
    world.news.done.append((asked.seq, {"error": error} if error else {}))


def _cancel(world: LiveWorld, job: LiveJob, asked: Asked, moment: Moment) -> str:
    """End the job: its processes get their grace, or none if forced."""
    reason = str(asked.args.get("reason") or "")
    text = f"cancelled by {asked.user}" + (f": {reason}" if reason else "")
    was_running = job.row in world.state.running
    world.over(job, Phase.CANCELLED, "CANCELLED", text)
    wanted = Wanted.KILL if asked.args.get("force") else Wanted.STOP
    for attempt in job.living:
        world.send_away(job, attempt, How.CANCELLED, "cancelled", text, wanted)
    if was_running:
        moment.end(job.row, How.CANCELLED, Phase.CANCELLED)
    else:
        moment.settle(job.row, Phase.CANCELLED)
    world.drop_if_gone(job)
    return ""


def _kill_rest(world: LiveWorld, job: LiveJob) -> None:
    """A cancelled job whose processes take their time: no more patience."""
    for attempt in job.living:
        world.send_away(job, attempt, attempt.told or How.CANCELLED, "cancelled", job.cause, Wanted.KILL)


def _hold(world: LiveWorld, job: LiveJob, asked: Asked, moment: Moment) -> str:
    if job.row in world.state.running:
        return "it is running; suspend it to take its devices away and keep it"
    world.hold(job, Hold(USER, asked.user), moment)
    return ""


def _release(world: LiveWorld, job: LiveJob, asked: Asked, moment: Moment) -> str:
    if USER not in job.holds:
        return "" if not job.holds else "no person holds it; it waits for something else"
    world.unhold(job, USER, moment)
    return ""


def _suspend(world: LiveWorld, job: LiveJob, asked: Asked, moment: Moment) -> str:
    """Its devices go to others until somebody resumes it."""
    hold = Hold(SUSPENDED, asked.user)
    if job.row in world.state.running:
        attempt = job.attempt
        moment.end(job.row, How.PREEMPTED, Phase.PENDING)
        if attempt is not None and not attempt.is_over:
            text = f"suspended by {asked.user}"
            world.send_away(job, attempt, How.PREEMPTED, "suspended", text, Wanted.SUSPEND)
    world.hold(job, hold, moment)
    return ""


def _resume(world: LiveWorld, job: LiveJob, asked: Asked, moment: Moment) -> str:
    if SUSPENDED not in job.holds:
        return "it is not suspended"
    world.unhold(job, SUSPENDED, moment)
    return ""


def _requeue(world: LiveWorld, job: LiveJob, asked: Asked, moment: Moment) -> str:
    """Let it leave, by a checkpoint if it can, and start again."""
    attempt = job.attempt
    if job.row in world.state.running and attempt is not None and not attempt.is_over:
        moment.end(job.row, How.PREEMPTED, Phase.PENDING)
        text = f"requeued by {asked.user}"
        world.send_away(job, attempt, How.PREEMPTED, "preempted", text, Wanted.LEAVE)
        return ""
    return "it is not running"


def _node(world: LiveWorld, asked: Asked) -> LiveNode | None:
    """The node a command is about; None if there is none of that name, or no longer."""
    position = world.position.get(asked.node or "")
    node = None if position is None else world.nodes[position]
    return None if node is None or node.is_forgotten else node


def _drain(world: LiveWorld, asked: Asked, moment: Moment) -> str:
    """No new jobs on a node; those that run there run on."""
    node = _node(world, asked)
    if node is None:
        return f"there is no node {asked.node}"
    position = node.position
    node.drained_by, node.reason = asked.user, str(asked.args.get("reason") or "")
    if node.state == "up":
        node.state = "drained"
        moment.drain(position)
    moment.cause |= Event.CAPACITY
    world.news.nodes.add(position)
    world.news.events.append((asked.user, "drain", "", f"node {node.name} {node.reason}".strip()))
    return ""


def _undrain(world: LiveWorld, asked: Asked, moment: Moment) -> str:
    node = _node(world, asked)
    if node is None:
        return f"there is no node {asked.node}"
    position = node.position
    node.drained_by = node.reason = ""
    if node.state == "drained":
        node.state = "up"
        moment.regain(position, world.sick_devices(node))
    moment.cause |= Event.CAPACITY
    world.news.nodes.add(position)
    world.news.events.append((asked.user, "undrain", "", f"node {node.name}"))
    return ""


def _forget(world: LiveWorld, asked: Asked, moment: Moment) -> str:
    """A lost node is no part of the cluster any more; it keeps its place, and its devices their numbers."""
    node = _node(world, asked)
    if node is None:
        return "" if asked.node in world.position else f"there is no node {asked.node}"
    if node.state != "lost":
        return (
            f"it is {node.state}, and only a lost node can be forgotten; stop its agent and wait until it is"
        )
    node.state, node.reason, node.drained_by = "forgotten", f"forgotten by {asked.user}", ""
    world.news.nodes.add(node.position)
    world.news.events.append((asked.user, "forget", "", f"node {node.name}"))
    world.news.rebuild = world.news.rebuild or f"node {node.name} was forgotten"
    return ""


_OF_JOBS: dict[str, Callable[[LiveWorld, LiveJob, Asked, Moment], str]] = {
    "cancel": _cancel,
    "hold": _hold,
    "release": _release,
    "suspend": _suspend,
    "resume": _resume,
    "requeue": _requeue,
}
_OF_NODES: dict[str, Callable[[LiveWorld, Asked, Moment], str]] = {
    "drain": _drain,
    "undrain": _undrain,
    "forget": _forget,
}
