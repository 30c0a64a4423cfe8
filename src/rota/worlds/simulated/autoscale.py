"""A simulated cluster in a cloud: nodes are ordered and given back while jobs run.

Absent nodes are like lost ones: no policy can use them.  An ordered node is there after a while; one that is
given up takes no new jobs and goes once no job holds anything on it.  What is paid for is noted: each node
from its order until it has gone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.options import parse_options
from rota.model.units import format_duration, parse_duration
from rota.scheduler.decision import Event
from rota.scheduler.policy import Lever, Policy, PolicySpec, levers_of
from rota.scheduler.world import Batch
from rota.table.state import State
from rota.worlds.simulated.world import SimulatedWorld

DELAY_S = 120.0
EXPECTED = "MIN:MAX[,delay=TIME][,start=N], for instance 2:16 or 2:16,delay=5m"


class Autoscale(NamedTuple):
    """How large a cluster may be, and how fast it grows."""

    least: int
    most: int
    delay_s: float = DELAY_S
    """Seconds from the order of a node until it is there."""
    start: int = 0
    """Nodes at the beginning; `least` if it is less."""

    def __str__(self) -> str:
        start = f",start={self.start}" if self.start > self.least else ""
        return f"{self.least}:{self.most},delay={format_duration(self.delay_s)}{start}"


def parse_autoscale(text: str, cluster: Cluster) -> Autoscale:
    """Parse `2:16,delay=5m,start=4`, least and most nodes; `cluster` has at least the most."""
    head, _, rest = text.partition(",")
    options = parse_options(rest, field="--autoscale", known=("delay", "start")) if rest else {}
    try:
        least, most = (int(part) for part in head.split(":"))
        start = int(options.get("start", least))
    except ValueError:
        raise InputError.at(
            f"{text!r} is no range of nodes", field="--autoscale", expected=EXPECTED
        ) from None
    if not 1 <= least <= most <= cluster.nodes or not least <= start <= most:
        problem = f"{text!r} does not fit a cluster of {cluster.nodes} nodes"
        expected = f"1 <= MIN <= start <= MAX <= {cluster.nodes}, such as 1:{cluster.nodes}"
        raise InputError.at(problem, field="--autoscale", expected=expected)
    if len({*zip(cluster.node_type.tolist(), cluster.node_gpus.tolist(), strict=True)}) > 1:
        problem = f"{cluster.describe()} has nodes of several kinds"
        raise InputError.at(problem, field="--autoscale", expected="a cluster of equal nodes, such as 16x4")
    delay_s = parse_duration(options["delay"], field="--autoscale delay") if "delay" in options else DELAY_S
    return Autoscale(least, most, delay_s, start)


def autoscale_of(text: str, cluster: Cluster, policies: Iterable[PolicySpec | Policy]) -> Autoscale:
    """As `parse_autoscale`; also InputError for a policy that never states a number of nodes."""
    for policy in policies:
        made = policy.make() if isinstance(policy, PolicySpec) else policy
        if Lever.SCALE not in levers_of(made):
            raise InputError.at(
                f"policy {str(policy)!r} does not decide how many nodes there are",
                field="--autoscale",
                expected="one that does, such as pollux:utility=0.35/0.65",
            )
    return parse_autoscale(text, cluster)


class ScaledWorld(SimulatedWorld):
    """Replays a trace on a cluster that grows and shrinks by whole nodes."""

    def __init__(self, *args: Any, autoscale: Autoscale, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.semantics.round_s or options.get("faults"):
            other = "--faults" if options.get("faults") else f"--semantics {self.semantics.name}"
            raise InputError.at(
                f"nodes cannot come and go under {other}", field="--autoscale", expected="one of the two"
            )
        self.limits = autoscale
        self._up: set[int] = set(range(max(autoscale.start, autoscale.least)))
        """Nodes that take jobs."""
        self._leaving: set[int] = set()
        """Nodes that take no new jobs, and on which a job still holds something."""
        self._coming: dict[int, float] = {}
        """Nodes that were ordered, and when they are there."""
        self._moves: tuple[list[int], list[int]] = [], []
        """Nodes to be closed and to be opened at once."""
        self.paid: list[tuple[float, int]] = []
        """Moments, and nodes that are paid for from then on."""

    def attach(self, state: State) -> None:
        super().attach(state)
        for node in range(self.cluster.nodes):
            if node not in self._up:
                state.lose(node)
        self._note()

    def next(self, until_s: float) -> Batch | None:
        self._let_go()
        closed, opened = self._moves
        if closed or opened:
            self._moves = [], []
            return Batch(self.state.now, int(Event.CAPACITY), drained=closed, back=opened)
        there_s = min(self._coming.values(), default=math.inf)
        batch = super().next(min(until_s, there_s))
        if batch is not None and batch.now >= there_s:
            batch.back = [
                *batch.back,
                *sorted(node for node, at_s in self._coming.items() if at_s <= batch.now),
            ]
            batch.cause |= int(Event.CAPACITY)
            self._up.update(batch.back)
            for node in batch.back:
                self._coming.pop(node, None)
        return batch

    def scale(self, nodes: int) -> None:
        """Scale to `nodes`, within the limits: nodes that were leaving stay first, then others are ordered.

        If there are too many, the latest orders are cancelled first, then the nodes with the least held go.
        """
        missing = min(max(nodes, self.limits.least), self.limits.most) - len(self._up) - len(self._coming)
        closed, opened = self._moves
        for _ in range(missing):
            if self._leaving:
                node = min(self._leaving, key=lambda node: (-self._held_on(node), node))
                self._leaving.remove(node)
                self._up.add(node)
                closed.remove(node) if node in closed else opened.append(node)
            else:
                node = min(set(range(self.cluster.nodes)) - self._up - self._coming.keys())
                self._coming[node] = self.state.now + self.limits.delay_s
        for _ in range(-missing):
            if self._coming:
                del self._coming[max(self._coming, key=lambda node: (self._coming[node], node))]
            else:
                node = min(self._up, key=lambda node: (self._held_on(node), -node))
                self._up.remove(node)
                self._leaving.add(node)
                opened.remove(node) if node in opened else closed.append(node)
        self._note()

    def _held_on(self, node: int) -> float:
        """GPUs of a node that jobs hold, including those of jobs to be resumed there."""
        occupancy, first = self.state.occupancy, self.state.occupancy.free.first
        kept = sum(node in dict(one.gib) for one in self._suspended.values())
        return sum(occupancy.claimed[first[node] : first[node + 1]]) + kept

    def _let_go(self) -> None:
        """Give back the leaving nodes on which no job holds anything any more."""
        if not self._leaving:
            return
        occupancy = self.state.occupancy
        held = {node for grant in self.state.grants.values() for node, _ in occupancy.parts(grant)}
        held |= {node for one in self._suspended.values() for node, _ in one.gib}
        if self._leaving - held:
            self._leaving &= held
            self._note()

    def _note(self) -> None:
        """Note the number of nodes that are paid for from now on."""
        nodes = len(self._up) + len(self._leaving) + len(self._coming)
        if not self.paid or self.paid[-1][1] != nodes:
            self.paid.append((self.state.now, nodes))
