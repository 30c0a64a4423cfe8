"""A policy that says what a test tells it to, and worlds to say it in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from play import trace_of
from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster, parse_cluster
from rota.model.grants import Grant
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.snapshot import Snapshot
from rota.table.state import State
from rota.worlds.simulated.world import SimulatedWorld

Turn = Callable[[Snapshot], dict[str, Any]]
"""What to decide at one call, as keyword arguments of `Decision`."""


class Scripted:
    """Takes one turn a call, then does nothing."""

    needs: frozenset[Knowledge] = frozenset()

    def __init__(self, *turns: Turn | dict[str, Any]) -> None:
        self.turns = list(turns)
        self.seen: list[Snapshot] = []

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        self.seen.append(snapshot)
        turn = self.turns.pop(0) if self.turns else {}
        return Decision(memory, **(turn(snapshot) if callable(turn) else turn))


def state_of(
    jobs: str | Trace,
    cluster: str | Cluster = "1x4",
    running: Sequence[Grant] = (),
    now: float = 0.0,
    **columns: Any,
) -> State:
    """The loop's table with all jobs submitted at their time and `running` in force since 0.

    Nobody is refused: what no node has now, one may have had when the job came.
    """
    trace = trace_of(jobs, **columns) if isinstance(jobs, str) else jobs
    where = parse_cluster(cluster) if isinstance(cluster, str) else cluster
    world = SimulatedWorld(trace, where)
    state = State(world.jobs, where, world.progress)
    state.feasible = [True] * len(trace)
    for row in range(len(trace)):
        state.submit(row)
    for grant in running:
        state.start(grant)
    state.now = now
    return state
