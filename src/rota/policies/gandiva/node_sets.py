"""Nodes in sets by job size, as later papers' simulators simplify Gandiva (Tiresias, ElasticFlow).

Jobs of g GPUs share sets of ceil(g / GPUs of a node) whole nodes.  The first jobs of a set run, as many
as it can hold; the others wait in it for their turn.  At each step sets are opened and closed so that the
nodes are divided among the sizes in proportion to demand.  Nothing is known of where else a job could run.

The order of every list matters to whoever wants to repeat those simulators: sets of a size are sorted by
the number of jobs they were ever dealt, stably, and free nodes are taken in the order they became free.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TypedDict


class NodeSet(TypedDict):
    """Some nodes and the jobs that take turns on them."""

    nodes: list[int]
    jobs: list[int]
    """In order of turns: the first ones run."""
    dealt: int
    """Jobs it was given since it was opened or dealt anew; those that ended are not taken off."""


Outline = tuple[int, int, list[int], list[int]]
"""Size of the jobs of a set, how many it was dealt, its nodes and its jobs."""


class NodeSets:
    """The sets of a cluster of equal nodes.

    `sets` (by job size) and `free` (nodes) are plain values, changed in place, so that a policy may keep
    them in its memory; `order` names the sizes that are served first when nodes are scarce.
    """

    def __init__(
        self,
        sets: dict[int, list[NodeSet]],
        free: list[int],
        node_gpus: int,
        gpus_of: Sequence[int],
        order: Sequence[int] = (),
    ) -> None:
        self.sets = sets
        self.free = free
        self.node_gpus = node_gpus
        self.gpus_of = gpus_of
        self.order = order

    def copy(self) -> NodeSets:
        """The same sets, to try steps on."""
        sets = {
            size: [NodeSet(nodes=s["nodes"], jobs=s["jobs"].copy(), dealt=s["dealt"]) for s in some]
            for size, some in self.sets.items()
        }
        return NodeSets(sets, self.free.copy(), self.node_gpus, self.gpus_of, self.order)

    # -- reading -----------------------------------------------------------------------------------

    def sizes(self) -> list[int]:
        """The sizes that have sets, in the order in which they are served."""
        listed = [size for size in self.order if size in self.sets]
        return listed + sorted(set(self.sets) - set(listed))

    def heads(self, size: int, nodes: NodeSet) -> list[int]:
        """The jobs of a set whose turn it is."""
        return nodes["jobs"][: self._capacity(size, nodes)]

    def seats(self) -> dict[int, list[int]]:
        """The nodes of each job whose turn it is."""
        return {
            row: one["nodes"]
            for size, some in self.sets.items()
            for one in some
            for row in self.heads(size, one)
        }

    def is_crowded(self) -> bool:
        """True if some job waits in a set for its turn."""
        return any(
            len(one["jobs"]) > self._capacity(size, one) for size, some in self.sets.items() for one in some
        )

    def _capacity(self, size: int, nodes: NodeSet) -> int:
        return len(nodes["nodes"]) * self.node_gpus // size

    def _nodes_needed(self, size: int) -> int:
        return -(-size // self.node_gpus)

    # -- one job -----------------------------------------------------------------------------------

    def place(self, row: int) -> bool:
        """Put a job into the least used set of its size, a new set, or a crowded one; False if none.

        A set takes one job fewer than it could run before a new one is opened, as in the simulators.
        """
        size = self.gpus_of[row]
        sets = self.sets.setdefault(size, [])
        if sets and sets[0]["dealt"] + 1 < self._capacity(size, sets[0]):
            self._deal_behind(sets, row)
            return True
        if sets:
            sets.append(sets.pop(0))
        if self._open(size, sets):
            self._deal(sets[-1], row)
            _sort(sets)
            return True
        if sets:
            self._deal_behind(sets, row)
            return True
        del self.sets[size]
        return False

    def _open(self, size: int, sets: list[NodeSet]) -> bool:
        """Append an empty set if enough nodes are free."""
        need = self._nodes_needed(size)
        if need > len(self.free):
            return False
        sets.append(NodeSet(nodes=self.free[:need], jobs=[], dealt=0))
        del self.free[:need]
        return True

    def _deal(self, nodes: NodeSet, row: int) -> None:
        nodes["jobs"].append(row)
        nodes["dealt"] += 1

    def _deal_behind(self, sets: list[NodeSet], row: int) -> None:
        """To the first set, which then stands behind those that were dealt as many."""
        sets.append(sets.pop(0))
        self._deal(sets[-1], row)
        _sort(sets)

    def _deal_all(self, sets: list[NodeSet], rows: Sequence[int]) -> None:
        """Each to the first set, which stays ahead of those that were dealt as many."""
        for row in rows:
            self._deal(sets[0], row)
            _sort(sets)

    # -- one step ----------------------------------------------------------------------------------

    def pass_turns(self, rotate: bool, over: Set[int]) -> None:
        """Take the jobs `over` out; first move those that ran to the tail of crowded sets if `rotate`.

        Sets that fall empty give up their nodes.
        """
        for size in self.sizes():
            sets = self.sets[size]
            is_empty = False
            for nodes in sets:
                jobs = nodes["jobs"]
                if rotate:
                    heads = self.heads(size, nodes)
                    if len(jobs) > len(heads):
                        jobs[:] = jobs[len(heads) :] + heads
                if over and not over.isdisjoint(jobs):
                    jobs[:] = [row for row in jobs if row not in over]
                if not jobs:
                    self.free += nodes["nodes"]
                    is_empty = True
            if is_empty:
                self.sets[size] = [nodes for nodes in sets if nodes["jobs"]]
                if not self.sets[size]:
                    del self.sets[size]

    def resize(self, total_gpus: int) -> bool:
        """Open and close sets so that each size gets its part of the GPUs, or what it can use if less.

        True if that has changed anything.
        """
        before: list[Outline] | None = None
        demand = {size: size * sum(len(s["jobs"]) for s in sets) for size, sets in self.sets.items()}
        held = {size: self.node_gpus * sum(len(s["nodes"]) for s in sets) for size, sets in self.sets.items()}
        total_demand = sum(demand.values())
        for size in self.sizes():
            if not demand[size]:
                continue
            part = min(int(demand[size] / total_demand * total_gpus), demand[size])
            if part != held[size] and before is None:
                before = self._outline()
            if part > held[size]:
                self._expand(size, -(-(part - held[size]) // size))
            elif part < held[size]:
                self._shrink(size, -(-(held[size] - part) // size))
        return before is not None and self._outline() != before

    def _outline(self) -> list[Outline]:
        """What a step may change, as a value to compare."""
        return [
            (size, one["dealt"], one["nodes"].copy(), one["jobs"].copy())
            for size, some in self.sets.items()
            for one in some
        ]

    def _expand(self, size: int, count: int) -> None:
        """Open up to `count` sets.

        The simulators deal all jobs anew unless the last of them could be opened on a single node; the
        new sets are otherwise left to newcomers, or given up at the next step.
        """
        sets = self.sets[size]
        opened = [self._open(size, sets) for _ in range(count)]
        if opened[-1] and self._nodes_needed(size) == 1:
            return
        rows = [row for nodes in sets for row in nodes["jobs"]]
        for nodes in sets:
            nodes["jobs"], nodes["dealt"] = [], 0
        self._deal_all(sets, rows)

    def _shrink(self, size: int, count: int) -> None:
        """Close up to `count` sets, but not the last; their jobs go to the others."""
        sets = self.sets[size]
        closed = sets[: min(count, len(sets) - 1)]
        del sets[: len(closed)]
        for nodes in closed:
            self.free += nodes["nodes"]
        self._deal_all(sets, [row for nodes in closed for row in nodes["jobs"]])


def _sort(sets: list[NodeSet]) -> None:
    sets.sort(key=_dealt)


def _dealt(nodes: NodeSet) -> int:
    return nodes["dealt"]
