"""What time brings: holds end, limits are reached, trials are passed, nodes are silent for too long."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from rota.scheduler.decision import Event
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.worlds.live import dependencies
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.holds import BACK_OFF, Hold

if TYPE_CHECKING:
    from rota.worlds.live.world import LiveWorld

AFTERWARDS_S = 1e-3
"""So long after a moment the loop has taken it in."""
_WATCH = -1
"""Stands for a row in the entry that looks at all nodes."""


class Timers:
    """Moments at which a job is to be looked at; looking once too often does no harm."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []

    @property
    def next_s(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def soon(self, row: int, now: float) -> None:
        """Look at `row` at the next moment."""
        heapq.heappush(self._heap, (now, row))

    def watch(self, at_s: float) -> None:
        """Look at the nodes at `at_s`."""
        heapq.heappush(self._heap, (at_s, _WATCH))

    def set_for(self, world: LiveWorld, job: LiveJob) -> None:
        """Everything that time will bring to `job` as it stands."""
        for hold in job.holds.values():
            if hold.until_s is not None:
                heapq.heappush(self._heap, (hold.until_s, job.row))
        end = limit_s(world, job)
        if end < math.inf:
            heapq.heappush(self._heap, (end, job.row))

    def due(self, now: float) -> list[int]:
        """Rows to look at now, each once."""
        rows: dict[int, None] = {}
        while self._heap and self._heap[0][0] <= now:
            rows[heapq.heappop(self._heap)[1]] = None
        return list(rows)


def limit_s(world: LiveWorld, job: LiveJob) -> float:
    """Moment at which the run time limit or the trial of a running job ends."""
    state, row = world.state, job.row
    if job.is_over or row not in state.running:
        return math.inf
    attempt, ends = job.attempt, math.inf
    if job.spec.time_s is not None:
        ends = state.now + job.spec.time_s - state.ran_s(row)
    if attempt is not None and attempt.is_trial:
        began = state.now if attempt.ready_s is None else attempt.ready_s
        ends = min(ends, began + world.settings.trial_s)
    return ends


def ring(world: LiveWorld, moment: BatchBuilder) -> None:
    """Whatever is due at this moment."""
    for row in world.timers.due(moment.now):
        if row == _WATCH:
            _look_at_nodes(world, moment)
            continue
        job = world.live.get(row)
        if job is None or job.is_over:
            continue
        if row in moment.touched:
            world.timers.soon(row, moment.now + AFTERWARDS_S)
            continue
        _look_at(world, job, moment)


def _look_at(world: LiveWorld, job: LiveJob, moment: BatchBuilder) -> None:
    """Ends of holds, dependencies, limits."""
    if job.row in world.state.held:
        dependencies.look(world, job, moment)
        ended = [h.kind for h in job.holds.values() if h.until_s is not None and h.until_s <= moment.now]
        for kind in ended:
            world.unhold(job, kind, moment)
        return
    attempt = job.attempt
    if job.row not in world.state.running or attempt is None or attempt.is_over:
        return
    if any(place.name in (world.desk.unmet or ()) for place in attempt.places):
        return  # it may have ended while no controller was there
    limit = job.spec.time_s
    if limit is not None and world.state.ran_s(job.row) >= limit - 1e-3:
        text = f"reached its time limit of {limit:g} s"
        world.over(job, Phase.FAILED, "TIMEOUT", text)
        world.send_away(job, attempt, How.TIMEOUT, "timeout", text)
        moment.end(job.row, How.FAILED, Phase.FAILED)
    elif attempt.is_trial and attempt.ready_s is not None:
        if moment.now - attempt.ready_s >= world.settings.trial_s - 1e-3:
            _pass_trial(world, job, moment)
    else:
        world.timers.set_for(world, job)


def _pass_trial(world: LiveWorld, job: LiveJob, moment: BatchBuilder) -> None:
    """The program has lived through its trial: now it may have what it asked for."""
    attempt = job.attempt
    assert attempt is not None
    job.passed_trial = True
    world.send_away(job, attempt, How.PREEMPTED, "resized", "the trial on one device is passed")
    moment.end(job.row, How.PREEMPTED, Phase.PENDING)
    world.hold(job, Hold(BACK_OFF, "it has passed its trial", moment.now), moment)  # until it asks for more
    world.news.rebuild = f"job {job.id} has passed its trial"
    world.news.events.append(("rota", "trial", job.id, "passed"))


def _look_at_nodes(world: LiveWorld, moment: BatchBuilder) -> None:
    """Nodes whose agent is silent for too long are lost; those heard of again are back."""
    for node in world.nodes:
        silent_s = moment.now - world.heard.get(node.name, moment.now)
        if node.state not in ("lost", "forgotten") and silent_s > world.settings.lost_after_s:
            lose(world, node.position, moment, f"not heard of for {silent_s:.0f} s")
    world.timers.watch(moment.now + world.settings.lost_after_s / 4)


def lose(world: LiveWorld, position: int, moment: BatchBuilder, why: str) -> None:
    """The node is fenced: its attempts are void."""
    node = world.nodes[position]
    rows = {
        row
        for row, grant in world.state.grants.items()
        if grant.node == position or any(int(world.cluster.device_node[d]) == position for d in grant.devices)
    }
    if rows & moment.touched:
        return  # the next look will find it still silent
    node.state, node.reason = "lost", f"{why}{' (drained)' if node.drained_by else ''}"
    moment.lose(position)
    moment.touched |= rows
    moment.cause |= Event.CAPACITY
    world.news.nodes.add(position)
    world.news.events.append(("rota", "lost", "", f"node {node.name}: {why}"))
    _void_leavers(world, position)


def _void_leavers(world: LiveWorld, position: int) -> None:
    """Attempts on their way out, or suspended, on a lost node will never be heard of."""
    for job in list(world.live.values()):
        for attempt in job.living:
            elsewhere = all(place.node != position for place in attempt.places)
            if elsewhere or (job.row in world.state.running and attempt is job.attempt):
                continue
            world.void(job, attempt, f"node {world.nodes[position].name} is not heard of")
        world.drop_if_gone(job)
        following = job.living
        if following and not following[0].is_ordered:
            world.order(job, following[0])


def leave(world: LiveWorld, position: int, moment: BatchBuilder) -> None:
    """The agent of a node was stopped: no new jobs there until it is back; those that run there run on."""
    node = world.nodes[position]
    if node.state not in ("up", "drained"):
        return
    if node.state == "up":
        moment.drain(position)
    node.state = "away"
    moment.cause |= Event.CAPACITY
    world.news.nodes.add(position)
    world.news.events.append(("rota", "away", "", f"node {node.name}: its agent was stopped"))


def regain(world: LiveWorld, position: int, moment: BatchBuilder) -> None:
    """A node that was lost, or whose agent was stopped, is heard of again."""
    node = world.nodes[position]
    drained = bool(node.drained_by)
    node.state = "drained" if drained else "up"
    node.reason = node.reason if drained else ""
    if not drained:
        moment.regain(position, world.sick_devices(node))
    moment.cause |= Event.CAPACITY
    world.news.nodes.add(position)
    world.news.events.append(("rota", "back", "", f"node {node.name}"))
