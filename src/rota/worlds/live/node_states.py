"""Nodes are lost when their agent is silent for too long, are stopped, and come back."""

from __future__ import annotations

from collections.abc import Mapping

from rota.scheduler.decision import Event
from rota.worlds.live import departures, lifecycle
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.jobs import NODES, LiveJobs
from rota.worlds.live.machines import LiveNode


def look_at_nodes(live: LiveJobs, heard: Mapping[str, float], batch: BatchBuilder) -> None:
    """A node whose agent is silent for too long is lost; a node that reports again is back."""
    for node in live.machines.nodes:
        silent_s = batch.now - heard.get(node.name, batch.now)
        if node.state not in ("lost", "forgotten") and silent_s > live.settings.lost_after_s:
            lose(live, node.position, batch, f"not heard of for {silent_s:.0f} s")
    live.timers.set(NODES, batch.now + live.settings.lost_after_s / 4)


def lose(live: LiveJobs, position: int, batch: BatchBuilder, why: str) -> None:
    """The node is fenced: its attempts are void."""
    node = live.machines.nodes[position]
    rows = {row for row, grant in live.state.grants.items() if live.machines.touches(grant, position)}
    if rows & batch.touched:
        return  # the next look will find it still silent
    node.state, node.reason = "lost", f"{why}{' (drained)' if node.drained_by else ''}"
    for row in sorted(rows):
        job = live.get(row)
        if job is not None and job.attempt is not None and live.is_running(job):
            departures.lose_attempt(live, job, job.attempt, f"node {node.name} is not heard of", batch)
    batch.lose(position)
    batch.touched |= rows
    batch.cause |= Event.CAPACITY
    live.unsaved.nodes.add(position)
    live.unsaved.event("lost", "", f"node {node.name}: {why}")
    _void_leavers(live, position)


def _void_leavers(live: LiveJobs, position: int) -> None:
    """Attempts on a lost node that are stopping or suspended will never report."""
    for job in list(live.values()):
        for attempt in job.living:
            elsewhere = all(place.node != position for place in attempt.places)
            if elsewhere or (live.is_running(job) and attempt is job.attempt):
                continue
            lifecycle.void(live, job, attempt, f"node {live.machines.nodes[position].name} is not heard of")
        live.drop_if_gone(job)
        following = job.living
        if following and not following[0].is_ordered:
            lifecycle.order(live, job, following[0])


def leave(live: LiveJobs, position: int, batch: BatchBuilder) -> None:
    """The agent of a node was stopped: no new jobs there until it is back; those that run there run on."""
    node = live.machines.nodes[position]
    if node.state not in ("up", "drained"):
        return
    if node.state == "up":
        batch.drain(position)
    node.state = "away"
    batch.cause |= Event.CAPACITY
    live.unsaved.nodes.add(position)
    live.unsaved.event("away", "", f"node {node.name}: its agent was stopped")


def reopen(live: LiveJobs, node: LiveNode, batch: BatchBuilder) -> None:
    """What kept the node from taking jobs is over: it takes them again, unless something else keeps it."""
    if node.takes_jobs:
        batch.regain(node.position, live.machines.sick_devices(node))


def regain(live: LiveJobs, position: int, batch: BatchBuilder) -> None:
    """A node that was lost, or whose agent was stopped, reports again."""
    node = live.machines.nodes[position]
    drained = bool(node.drained_by)
    node.state = "drained" if drained else "up"
    node.reason = node.reason if drained else ""
    reopen(live, node, batch)
    batch.cause |= Event.CAPACITY
    live.unsaved.nodes.add(position)
    live.unsaved.event("back", "", f"node {node.name}")
