"""The cluster grows and shrinks as its policy asks: which nodes leave, which may go, how many are to come.

No code here can order a machine.  The wanted number is kept, stored with each step, and sent to the
operator's hook (`rota.server.hooks.autoscaler`); machines that come are agents that join.  A node too many is
drained; once no job has anything on it, it is released: from then on its machine may go at any moment, and
it takes no jobs any more.  When its agent has gone it is forgotten.
"""

from __future__ import annotations

import math

from rota.model.units import plural
from rota.scheduler.decision import Event
from rota.wire.sync import Wanted
from rota.worlds.live import lifecycle, node_states, preemption
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.jobs import SCALING, LiveJobs
from rota.worlds.live.machines import LiveNode
from rota.worlds.live.wanted_nodes import AUTOSCALE, Scaling, works

SOON_S = 1.0
"""Seconds between two looks at nodes that leave."""


def ask(live: LiveJobs, nodes: int) -> None:
    """The policy wants `nodes` nodes; nothing happens without an operator's limits."""
    scaling = live.scaling
    if scaling is not None and scaling.within(nodes) != (scaling.wanted or None):
        scaling.asked = nodes
        look_at(live, live.now)
    elif scaling is not None:
        scaling.asked = None


def look_at(live: LiveJobs, at_s: float) -> None:
    """Look at the nodes at that moment, or before."""
    scaling = live.scaling
    if scaling is not None and at_s < scaling.look_s:
        scaling.look_s = at_s
        live.timers.set(SCALING, at_s)


def look(live: LiveJobs, batch: BatchBuilder) -> None:
    """Bring the cluster nearer to its wanted size, and set the next look."""
    scaling = live.scaling
    if scaling is None or batch.now < scaling.look_s:
        return
    scaling.look_s = math.inf
    before = scaling.plain()
    _decide(live, scaling, batch)
    _close_or_open(live, scaling, batch)
    _release(live, scaling, batch)
    _forget_gone(live, scaling, batch)
    if scaling.plain() != before:
        live.unsaved.scaling = True
        batch.notable = True
    is_soon = scaling.asked is not None or any(_leaves(node) for node in live.machines.nodes)
    look_at(live, batch.now + (SOON_S if is_soon else live.settings.lost_after_s / 4))


def _decide(live: LiveJobs, scaling: Scaling, batch: BatchBuilder) -> None:
    """The number that is wanted from now on."""
    if not scaling.wanted:
        scaling.wanted = scaling.within(
            sum(works(node.state, node.drained_by) for node in live.machines.nodes)
        )
    if scaling.asked is None or batch.now < scaling.changed_s + scaling.limits.cooldown_s:
        return
    wanted, scaling.asked = scaling.within(scaling.asked), None
    if wanted != scaling.wanted:
        text = f"{plural(wanted, 'node')} wanted, {scaling.wanted} before"
        live.unsaved.event("autoscale", "", text)
        scaling.wanted, scaling.changed_s = wanted, batch.now


def _close_or_open(live: LiveJobs, scaling: Scaling, batch: BatchBuilder) -> None:
    """Nodes too many are drained, least held first; if there are too few, those that leave come back."""
    nodes = live.machines.nodes
    missing = scaling.wanted - sum(works(node.state, node.drained_by) for node in nodes)
    if missing < 0:
        able = [node for node in nodes if node.state == "up" and scaling.may_take(node)]
        able.sort(key=lambda node: (_held_on(live, node), -node.position))
        for node in able[:-missing]:
            node.state, node.drained_by = "drained", AUTOSCALE
            node.reason = f"more than the {plural(scaling.wanted, 'node')} that are wanted"
            batch.drain(node.position)
            _changed(live, node, "drain", batch)
    closing = [node for node in nodes if _leaves(node) and node.name not in scaling.released]
    closing.sort(key=lambda node: (-_held_on(live, node), node.position))
    for node in closing[: max(missing, 0)]:
        node.state, node.drained_by, node.reason = "up", "", ""
        node_states.reopen(live, node, batch)
        _changed(live, node, "undrain", batch)


def _changed(live: LiveJobs, node: LiveNode, kind: str, batch: BatchBuilder) -> None:
    batch.cause |= Event.CAPACITY
    live.unsaved.nodes.add(node.position)
    live.unsaved.event(kind, "", f"node {node.name} {node.reason}".strip(), who=AUTOSCALE)


def _release(live: LiveJobs, scaling: Scaling, batch: BatchBuilder) -> None:
    """Let nodes that leave go once nothing of any job is left on them."""
    by_name = live.machines.position
    mine = {name for name in scaling.released if live.machines.nodes[by_name[name]].drained_by == AUTOSCALE}
    scaling.released &= mine  # the others were undrained or have been forgotten
    closing = [
        node
        for node in live.machines.nodes
        if node.drained_by == AUTOSCALE and node.state != "forgotten" and node.name not in scaling.released
    ]
    if not closing:
        return
    _free_memory(live, {node.position for node in closing})
    busy = _busy(live)
    for node in closing:
        if node.position not in busy:
            scaling.released.add(node.name)
            node.reason = "nothing is on it: its machine may go"
            live.unsaved.nodes.add(node.position)
            live.unsaved.event("autoscale", "", f"node {node.name} is empty: its machine may go")


def _free_memory(live: LiveJobs, positions: set[int]) -> None:
    """Jobs that are suspended in the memory of these nodes leave it by a checkpoint, if they can."""
    for job in live.values():
        for attempt in job.living if preemption.saves(job) else ():
            is_there = any(place.node in positions for place in attempt.places)
            if is_there and attempt.is_suspended and attempt.wanted is Wanted.SUSPEND:
                attempt.wanted = Wanted.LEAVE
                lifecycle.order(live, job, attempt)


def _forget_gone(live: LiveJobs, scaling: Scaling, batch: BatchBuilder) -> None:
    """Once its agent has gone, a released node is no part of the cluster until it joins again."""
    nodes, by_name = live.machines.nodes, live.machines.position
    scaling.gone = {name for name in scaling.gone if nodes[by_name[name]].is_forgotten}
    for name in sorted(scaling.released):
        node = nodes[by_name[name]]
        if node.state in ("away", "lost"):
            lifecycle.forget(live, node, AUTOSCALE)
            scaling.released.discard(name)
            scaling.gone.add(name)


def _leaves(node: LiveNode) -> bool:
    return node.state == "drained" and node.drained_by == AUTOSCALE


def _held_on(live: LiveJobs, node: LiveNode) -> int:
    """Devices of a node that jobs hold."""
    first = int(live.machines.cluster.first_device[node.position])
    claimed = live.state.occupancy.claimed
    return sum(claimed[first + index] > 0 for index in range(len(node.info.devices)))


def _busy(live: LiveJobs) -> set[int]:
    """Positions of the nodes that hold part of a job, or are to hold one."""
    busy = {place.node for job in live.values() for attempt in job.living for place in attempt.places}
    cluster = live.machines.cluster
    for grant in live.state.grants.values():
        busy |= {int(cluster.device_node[device]) for device in grant.devices} or {grant.node}
    return busy
