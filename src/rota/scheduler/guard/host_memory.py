"""Suspended jobs keep host memory; it counts against their node, and yields where a grant needs it.

The guard checks the claims of running jobs on host memory.  A grant cannot be refused in the same way because
of suspended jobs: the policy would repeat the same grant for ever, while the suspended job waits for a turn
that does not come.  So the grant is made, and enough suspended jobs leave memory for it, those first that
lose least by it.  A victim of the same decision that finds no room is not suspended but leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from rota.model.grants import Grant, Leave
from rota.scheduler.decision import Decision
from rota.table.occupancy import EPSILON
from rota.table.state import State


class Resident(NamedTuple):
    """What one suspended job keeps."""

    row: int
    gib: tuple[tuple[int, float], ...]
    """Nodes, and the host memory it holds on each."""
    loses_s: float = 0.0
    """Seconds of work it would have to do again if it left memory now."""


class SuspendedJobs(Protocol):
    """The part of a world that knows what is suspended where."""

    def suspended(self) -> Iterable[Resident]:
        """Waiting jobs whose processes, or whose state, are kept in host memory."""
        ...

    def would_keep(self, row: int, leave: Leave) -> Resident | None:
        """What `row`, which runs, would keep if it were preempted by `leave`; None if nothing."""
        ...


def put_out(state: State, decision: Decision, keeper: SuspendedJobs) -> frozenset[int]:
    """Suspended jobs, and victims of `decision`, that must leave host memory for its grants.

    Afterwards running and suspended jobs together hold no more of a node's memory than it has, on every node
    where the decision starts a job that states its memory.
    """
    wanted = _wanted(state, decision.grants)
    if not wanted:
        return frozenset()
    granted = {grant.job for grant in decision.grants}
    kept = [one for one in keeper.suspended() if one.row not in granted]
    kept += filter(None, (keeper.would_keep(row, decision.leave) for row in decision.preempt))
    if not kept:
        return frozenset()
    room = _room(state, decision, wanted)
    for one in kept:
        for node, gib in one.gib:
            if node in room:
                room[node] -= gib
    return frozenset(_too_many(kept, room))


def _too_many(kept: list[Resident], room: dict[int, float]) -> Iterable[int]:
    """Rows to put out until no node of `room` (GiB left, negative if short) is short."""
    for one in sorted(kept, key=lambda one: (one.loses_s, -sum(gib for _, gib in one.gib), one.row)):
        if any(gib > 0.0 and room.get(node, 0.0) < -EPSILON for node, gib in one.gib):
            for node, gib in one.gib:
                if node in room:
                    room[node] += gib
            yield one.row


def _wanted(state: State, grants: Iterable[Grant]) -> set[int]:
    """Nodes of limited memory on which a job that states its memory starts or goes on."""
    limits, needs = state.cluster.node_memory_gib, state.occupancy.needs
    return {node for grant in grants for node, _, gib in needs(grant) if gib and limits.item(node)}


def _room(state: State, decision: Decision, nodes: set[int]) -> dict[int, float]:
    """GiB that running jobs leave on `nodes` once the decision is carried out."""
    occupancy, grants = state.occupancy, state.grants
    room = {node: state.cluster.node_memory_gib.item(node) - occupancy.memory_used[node] for node in nodes}
    gone = [*decision.preempt, *decision.cancel, *(grant.job for grant in decision.grants)]
    for sign, held in (
        (1.0, [grants[row] for row in gone if row in grants]),
        (-1.0, decision.grants),
    ):
        for grant in held:
            for node, _, gib in occupancy.needs(grant):
                if node in room:
                    room[node] += sign * gib
    return room
