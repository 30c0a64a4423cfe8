"""Nodes in sets by job size, as later papers' simulators simplify Gandiva (Tiresias, ElasticFlow).

Jobs of g GPUs share sets of ceil(g / GPUs of a node) whole nodes.  The first jobs of a set run, as many
as it can hold; the others wait in it for their turn.  At each step sets are opened and closed so that the
nodes are divided among the sizes in proportion to demand.  Where else a job could run is not considered.

The order of every list matters, since runs of those simulators are repeated exactly: sets of a size are
sorted by the number of jobs they were ever dealt, stably, and free nodes are taken in the order they became
free.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence, Set
from typing import TypedDict


class NodeSet(TypedDict):
    """Some nodes and the jobs that take turns on them."""

    nodes: list[int]
    jobs: list[int]
    """Jobs in order of turns: the first ones run."""
    dealt: int
    """Number of jobs given to it since it was opened or dealt again; ended ones are not subtracted."""


_Pattern = list[tuple[int, list[int], list[int]]]


class _Sum:
    """Totals over the sets of a size."""

    def __init__(self, sets: list[NodeSet], node_gpus: int, size: int) -> None:
        self.jobs, self.nodes = 0, 0
        self.has_empty = False
        """True if a set has no job."""
        self.is_crowded = False
        """True if a job of a set waits for its turn."""
        for one in sets:
            jobs, nodes = len(one["jobs"]), len(one["nodes"])
            self.jobs += jobs
            self.nodes += nodes
            if not jobs:
                self.has_empty = True
            elif jobs > nodes * node_gpus // size:
                self.is_crowded = True


class EqualNodeSets:
    """The sets of a cluster of equal nodes.

    `sets` (by job size) and `free` (nodes) are plain values, changed in place, so that a policy may keep
    them in its memory; `order` names the sizes that are served first when nodes are scarce.

    Most sizes stand still at most steps: what their sets add up to is kept until they change (`_change`).
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
        self.changed: set[int] = set()
        """Sizes whose sets may differ from the first ones."""
        self._shared: set[int] = set()
        """Sizes whose sets belong to another object as well, and are copied before they change."""
        self._sums: dict[int, _Sum] = {}
        self._watched: dict[int, _Pattern] | None = None
        """Patterns of the sizes that have changed since `watch`, as they were then."""
        self._order: list[int] = []
        """The sizes that existed when `watch` was called."""

    def copy(self) -> EqualNodeSets:
        """A copy of the sets, to try steps on; they may not change as long as the copy is in use."""
        others = EqualNodeSets(self.sets.copy(), self.free.copy(), self.node_gpus, self.gpus_of, self.order)
        others._shared, others._sums = set(self.sets), self._sums.copy()
        return others

    def _change(self, size: int) -> list[NodeSet]:
        """The sets of a size, for the caller to change."""
        self._sums.pop(size, None)
        self.changed.add(size)
        if self._watched is not None and size not in self._watched:
            self._watched[size] = self._pattern(size)
        if size in self._shared:
            self._shared.discard(size)
            self.sets[size] = [
                NodeSet(nodes=s["nodes"], jobs=s["jobs"].copy(), dealt=s["dealt"]) for s in self.sets[size]
            ]
        return self.sets.setdefault(size, [])

    # -- reading -----------------------------------------------------------------------------------

    def sizes(self) -> list[int]:
        """The sizes that have sets, in the order in which they are served."""
        listed = [size for size in self.order if size in self.sets]
        return listed if len(listed) == len(self.sets) else listed + sorted(set(self.sets) - set(listed))

    def heads(self, size: int, nodes: NodeSet) -> list[int]:
        """The jobs of a set whose turn it is."""
        return nodes["jobs"][: self._capacity(size, nodes)]

    def seats(self, size: int) -> dict[int, list[int]]:
        """The nodes of each job of a size whose turn it is."""
        return {row: one["nodes"] for one in self.sets.get(size, ()) for row in self.heads(size, one)}

    def watch(self) -> None:
        """Begin to note changes, for `has_only_passed_nodes`."""
        self._watched, self._order = {}, list(self.sets)

    def has_only_passed_nodes(self) -> bool:
        """True if nothing has changed since `watch` but which unused node is where; noting ends."""
        watched, self._watched = self._watched or {}, None
        if list(self.sets) != self._order:
            return False
        return all(self._pattern(size) == pattern for size, pattern in watched.items())

    def _pattern(self, size: int) -> _Pattern:
        """All that later steps depend on, except which unused node is where.

        For each set the number it was dealt, its jobs, and its nodes if it has jobs; else one number for each
        of them.
        """
        return [
            (one["dealt"], one["jobs"].copy(), one["nodes"] if one["jobs"] else [-1] * len(one["nodes"]))
            for one in self.sets.get(size, ())
        ]

    def unused(self) -> list[int]:
        """Nodes on which no job can run: the free ones, then those of sets without jobs."""
        idle = [one for some in self.sets.values() for one in some if not one["jobs"]]
        return self.free + [node for one in idle for node in one["nodes"]]

    def pass_on(self, before: list[int], times: int) -> None:
        """Repeat `times` more a step that only moved unused nodes from where they were `before`."""
        nodes = self.unused()
        place = {node: at for at, node in enumerate(before)}
        comes_from = [place[node] for node in nodes]
        for _ in range(times):
            nodes = [nodes[at] for at in comes_from]
        self.free[:], nodes = nodes[: len(self.free)], nodes[len(self.free) :]
        for size in [size for size in self.sets if self._sum(size).has_empty]:
            for one in self._change(size):
                if not one["jobs"]:
                    count = len(one["nodes"])
                    one["nodes"], nodes = nodes[:count], nodes[count:]

    def is_crowded(self) -> bool:
        """True if some job waits in a set for its turn."""
        return any(self._sum(size).is_crowded for size in self.sets)

    def _sum(self, size: int) -> _Sum:
        total = self._sums.get(size)
        if total is None:
            total = self._sums[size] = _Sum(self.sets[size], self.node_gpus, size)
        return total

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
        sets = self._change(size)
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
        """Add `row` to the first set, which then goes behind sets that were dealt as many."""
        sets.append(sets.pop(0))
        self._deal(sets[-1], row)
        _sort(sets)

    def _deal_all(self, sets: list[NodeSet], rows: Sequence[int]) -> None:
        """Add each row to the first set, which stays ahead of sets that were dealt as many."""
        if rows:
            self._deal(sets[0], rows[0])
            _sort(sets)
        for row in rows[1:]:
            first = sets.pop(0)
            self._deal(first, row)
            sets.insert(bisect_left(sets, first["dealt"], key=_dealt), first)

    # -- one step ----------------------------------------------------------------------------------

    def pass_turns(self, rotate: bool, over: Set[int]) -> None:
        """Take the jobs `over` out; first move those that ran to the tail of crowded sets if `rotate`.

        Sets that fall empty give up their nodes.
        """
        for size in self.sizes():
            total = self._sum(size)
            if over or total.has_empty or (rotate and total.is_crowded):
                self._pass_turns(size, rotate, over)

    def _pass_turns(self, size: int, rotate: bool, over: Set[int]) -> None:
        sets = self._change(size)
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
        sets[:] = [nodes for nodes in sets if nodes["jobs"]]
        if not sets:
            del self.sets[size]

    def resize(self, total_gpus: int) -> bool:
        """Open and close sets so that each size gets its part of the GPUs, or what it can use if less.

        True if that has changed anything.
        """
        demand = {size: size * self._sum(size).jobs for size in self.sets}
        total_demand, has_changed = sum(demand.values()), False
        for size in self.sizes():
            if not demand[size]:
                continue
            part = min(int(demand[size] / total_demand * total_gpus), demand[size])
            held = self.node_gpus * self._sum(size).nodes
            if part != held:
                has_changed |= self._resize(size, part, held)
        return has_changed

    def _resize(self, size: int, part: int, held: int) -> bool:
        """Bring a size from `held` GPUs to `part` of them; True if that has changed anything."""
        sets = self._change(size)
        before = _outline(sets)
        if part > held:
            self._expand(size, sets, -(-(part - held) // size))
        else:
            self._shrink(sets, -(-(held - part) // size))
        return _outline(sets) != before

    def _expand(self, size: int, sets: list[NodeSet], count: int) -> None:
        """Open up to `count` sets.

        The simulators deal all jobs again unless the last of them could be opened on a single node; the
        new sets are otherwise left to newcomers, or given up at the next step.
        """
        opened = [self._open(size, sets) for _ in range(count)]
        if opened[-1] and self._nodes_needed(size) == 1:
            return
        rows = [row for nodes in sets for row in nodes["jobs"]]
        for nodes in sets:
            nodes["jobs"], nodes["dealt"] = [], 0
        self._deal_all(sets, rows)

    def _shrink(self, sets: list[NodeSet], count: int) -> None:
        """Close up to `count` sets, but not the last; their jobs go to the others."""
        closed = sets[: min(count, len(sets) - 1)]
        del sets[: len(closed)]
        for nodes in closed:
            self.free += nodes["nodes"]
        self._deal_all(sets, [row for nodes in closed for row in nodes["jobs"]])


def _outline(sets: list[NodeSet]) -> list[tuple[int, list[int], list[int]]]:
    """What a step may change, as a value to compare: how many each was dealt, its nodes and its jobs."""
    return [(one["dealt"], one["nodes"].copy(), one["jobs"].copy()) for one in sets]


def _sort(sets: list[NodeSet]) -> None:
    sets.sort(key=_dealt)


def _dealt(nodes: NodeSet) -> int:
    return nodes["dealt"]
