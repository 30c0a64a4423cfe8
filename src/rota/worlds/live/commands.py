"""What people ask for, carried out at one moment; each command has an outcome that is stored with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rota.scheduler.decision import Event
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.wire.sync import Wanted
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.holds import SUSPENDED, USER, Hold
from rota.worlds.live.inbox import CommandAsked
from rota.worlds.live.resizing import DEVICES, resize

if TYPE_CHECKING:
    from rota.worlds.live.news import LiveNode
    from rota.worlds.live.world import LiveWorld

_FOR_CONTROLLER = {"policy", "shadow", "update"}
"""Commands that change more than this world: the controller carries them out after the step."""


def has_to_wait(world: LiveWorld, asked: CommandAsked, moment: BatchBuilder) -> bool:
    """True if it is about a job to which something has happened at this moment already."""
    if asked.row is not None or "array" not in asked.args:
        return asked.row in moment.touched
    touched = (world.live[row] for row in moment.touched if row in world.live)
    return any(job.array_first == asked.args["array"] for job in touched)


def obey(world: LiveWorld, asked: CommandAsked, moment: BatchBuilder) -> None:
    """Carry out `asked`; its outcome is `{"error": sentence}`, `{"refused": {sentence: ids}}` or `{}`."""
    moment.notable = True
    if asked.kind in _FOR_CONTROLLER:
        error = _prepare(world, asked, moment)
        if error:
            world.news.done.append((asked.seq, {"error": error}))
        else:
            world.news.asked.append(asked)
        return
    if "array" in asked.args:
        outcome = _obey_for_all(world, asked, moment)
    else:
        error = _obey(world, asked, moment)
        outcome = {"error": error} if error else {}
    world.news.done.append((asked.seq, outcome))


def _prepare(world: LiveWorld, asked: CommandAsked, moment: BatchBuilder) -> str:
    """What has to happen here before the controller may carry it out; returns why it may not, or nothing."""
    job = world.live.get(-1 if asked.row is None else asked.row)
    if job is None or job.is_over or asked.kind != "update" or not DEVICES & asked.args.keys():
        return ""
    return resize(world, job, asked, moment)


def _obey(world: LiveWorld, asked: CommandAsked, moment: BatchBuilder) -> str:
    """Carry out what concerns one node or one job; returns why not, or nothing."""
    if asked.kind in _OF_NODES:
        return _OF_NODES[asked.kind](world, asked, moment)
    job = world.live.get(-1 if asked.row is None else asked.row)
    if job is None or job.is_over:
        _kill_if_forced(world, job, asked)
        return "" if asked.kind == "cancel" and job is not None else "it has ended"
    return _obey_for(world, job, asked, moment)


def _obey_for_all(world: LiveWorld, asked: CommandAsked, moment: BatchBuilder) -> dict[str, Any]:
    """Carry it out for each job of an array that is not over; the outcome names those that refuse."""
    refused: dict[str, list[str]] = {}
    members = [job for job in world.live.values() if job.array_first == asked.args["array"]]
    for job in reversed(members):  # who waits for a place in its array is found at the front
        if job.is_over:
            _kill_if_forced(world, job, asked)
        elif error := _obey_for(world, job, asked, moment):
            refused.setdefault(error, []).append(job.id)
    return {"refused": refused} if refused else {}


def _obey_for(world: LiveWorld, job: LiveJob, asked: CommandAsked, moment: BatchBuilder) -> str:
    error = _OF_JOBS[asked.kind](world, job, asked, moment)
    if not error:
        reason = str(asked.args.get("reason") or "")
        world.news.events.append((asked.user, asked.kind, job.id, reason))
    return error


def _cancel(world: LiveWorld, job: LiveJob, asked: CommandAsked, moment: BatchBuilder) -> str:
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


def _kill_if_forced(world: LiveWorld, job: LiveJob | None, asked: CommandAsked) -> None:
    """A job that is over, and whose processes take their time: no more patience."""
    if job is None or asked.kind != "cancel" or not asked.args.get("force"):
        return
    for attempt in job.living:
        world.send_away(job, attempt, attempt.told or How.CANCELLED, "cancelled", job.cause, Wanted.KILL)


def _hold(world: LiveWorld, job: LiveJob, asked: CommandAsked, moment: BatchBuilder) -> str:
    if job.row in world.state.running:
        return "it is running; suspend it to take its devices away and keep it"
    world.hold(job, Hold(USER, asked.user), moment)
    return ""


def _release(world: LiveWorld, job: LiveJob, asked: CommandAsked, moment: BatchBuilder) -> str:
    if USER not in job.holds:
        return "" if not job.holds else "no person holds it; it waits for something else"
    world.unhold(job, USER, moment)
    return ""


def _suspend(world: LiveWorld, job: LiveJob, asked: CommandAsked, moment: BatchBuilder) -> str:
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


def _resume(world: LiveWorld, job: LiveJob, asked: CommandAsked, moment: BatchBuilder) -> str:
    if SUSPENDED not in job.holds:
        return "it is not suspended"
    world.unhold(job, SUSPENDED, moment)
    return ""


def _requeue(world: LiveWorld, job: LiveJob, asked: CommandAsked, moment: BatchBuilder) -> str:
    """Let it leave, by a checkpoint if it can, and start again."""
    attempt = job.attempt
    if job.row in world.state.running and attempt is not None and not attempt.is_over:
        moment.end(job.row, How.PREEMPTED, Phase.PENDING)
        text = f"requeued by {asked.user}"
        world.send_away(job, attempt, How.PREEMPTED, "preempted", text, Wanted.LEAVE)
        return ""
    return "it is not running"


def _node(world: LiveWorld, asked: CommandAsked) -> LiveNode | None:
    """The node a command is about; None if there is none of that name, or no longer."""
    position = world.position.get(asked.node or "")
    node = None if position is None else world.nodes[position]
    return None if node is None or node.is_forgotten else node


def _drain(world: LiveWorld, asked: CommandAsked, moment: BatchBuilder) -> str:
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


def _undrain(world: LiveWorld, asked: CommandAsked, moment: BatchBuilder) -> str:
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


def _forget(world: LiveWorld, asked: CommandAsked, moment: BatchBuilder) -> str:
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


_OF_JOBS: dict[str, Callable[[LiveWorld, LiveJob, CommandAsked, BatchBuilder], str]] = {
    "cancel": _cancel,
    "hold": _hold,
    "release": _release,
    "suspend": _suspend,
    "resume": _resume,
    "requeue": _requeue,
}
_OF_NODES: dict[str, Callable[[LiveWorld, CommandAsked, BatchBuilder], str]] = {
    "drain": _drain,
    "undrain": _undrain,
    "forget": _forget,
}
