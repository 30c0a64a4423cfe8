"""The servers each job belongs to, the load of each server, and servers for newcomers and migrants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.model.cluster import Cluster
from rota.table.occupancy import EPSILON

Parts = dict[int, int]
"""GPUs of a job by node."""


class Servers:
    """The servers that take jobs, with the jobs that belong to them.

    `parts_of` is plain data, so that a policy may keep it in its memory.
    """

    def __init__(self, cluster: Cluster, gpus: Sequence[int]) -> None:
        """`gpus` are the healthy GPUs of each node."""
        self.type_of: list[int] = cluster.node_type.tolist()
        self.gpus = {node: count for node, count in enumerate(gpus) if count}
        """Healthy GPUs of each server."""
        self.parts_of: dict[int, Parts] = {}
        self.rows: dict[int, set[int]] = {node: set() for node in self.gpus}
        self.asked: dict[int, float] = dict.fromkeys(self.gpus, 0.0)
        """GPUs asked for by the jobs that belong to the server."""
        self.tickets: dict[int, float] = dict.fromkeys(self.gpus, 0.0)
        """GPUs that the jobs of each server are due."""
        self._due: dict[int, float] = {}
        self._share: dict[int, float] = {}

    def enter(self, row: int, parts: Parts, share: float, due: float) -> None:
        """Assign `row` to the servers of `parts`; it uses `share` of each of its GPUs and is due `due`."""
        self.parts_of[row] = parts
        self._due[row], self._share[row] = due, share
        self._count(row, 1.0)

    def leave(self, row: int) -> Parts:
        """Remove `row` from its servers; returns these."""
        self._count(row, -1.0)
        del self._due[row], self._share[row]
        return self.parts_of.pop(row)

    def set_due(self, row: int, due: float) -> None:
        """Set the number of GPUs that `row` is due from now on."""
        self._count(row, -1.0)
        self._due[row] = due
        self._count(row, 1.0)

    def due(self, row: int) -> float:
        """GPUs that `row` is due."""
        return self._due[row]

    def _count(self, row: int, sign: float) -> None:
        parts = self.parts_of[row]
        total = sum(parts.values())
        for node, count in parts.items():
            (self.rows[node].add if sign > 0.0 else self.rows[node].discard)(row)
            self.asked[node] += sign * count * self._share[row]
            self.tickets[node] += sign * self._due[row] * count / total

    def has_turns(self, node: int) -> bool:
        """True if not all jobs that belong to the server can run at once."""
        return self.asked[node] > self.gpus[node] + EPSILON

    def load(self, node: int) -> float:
        """Tickets per GPU."""
        return self.tickets[node] / self.gpus[node]

    def room(self, node: int) -> float:
        """GPUs that no job asks for."""
        return self.gpus[node] - self.asked[node]

    def small(self, node: int) -> list[int]:
        """Jobs that belong to this server alone."""
        return sorted(row for row in self.rows[node] if len(self.parts_of[row]) == 1)

    def big(self, node: int) -> list[int]:
        """Big jobs that have a part of this server."""
        return sorted(row for row in self.rows[node] if len(self.parts_of[row]) > 1)

    def of_type(self, kind: int, accepts: int = -1) -> list[int]:
        """Servers of a type, restricted to those in a mask."""
        return [node for node in self.gpus if self.type_of[node] == kind and accepts >> node & 1]

    # -- where to go -------------------------------------------------------------------------------

    def choose(self, nodes: Sequence[int], gpus: int, demand: float, in_part: Mapping[int, int]) -> Parts:
        """The servers among `nodes`, of one type, for a newcomer; empty if they are too few.

        The one with the fewest tickets per GPU where no job has to take turns with it; else of all.
        A job that no single server can feed has the GPUs of each that `in_part` says.
        """
        large = [node for node in nodes if self.gpus[node] >= gpus and not in_part]
        if not large:
            return self._several(nodes, gpus, in_part or self.gpus)
        roomy = [node for node in large if self.room(node) >= demand - EPSILON]
        return {min(roomy or large, key=lambda node: (self.load(node), node)): gpus}

    def _several(self, nodes: Sequence[int], gpus: int, most: Mapping[int, int]) -> Parts:
        """Servers that no big job uses first, then those with most GPUs that none uses; `most` of each."""
        left = {node: self.gpus[node] - self._of_big(node) for node in nodes}
        order = sorted(nodes, key=lambda node: (left[node] < self.gpus[node], -left[node], node))
        for room in (left, self.gpus):  # where big jobs leave too little they take turns
            parts: Parts = {}
            for node in order:
                count = min(gpus - sum(parts.values()), room[node], most[node])
                if count > 0:
                    parts[node] = count
            if sum(parts.values()) == gpus:
                return parts
        return {}

    def _of_big(self, node: int) -> int:
        return sum(self.parts_of[row][node] for row in self.big(node))
