"""Which GPUs: jobs keep theirs, jobs of whole nodes come first, and jobs in the way are placed again.

The sizes are powers of two up to a node and whole nodes beyond, so that there is a place for all jobs
whose GPUs add up to no more than those of a type (Sia, section 3.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.systems.sia.configurations import TypeShape
from rota.table.free import Free, nodes_in


class WantedConfiguration(NamedTuple):
    """The configuration that a job is to have."""

    row: int
    kind: int
    gpus: int


class Placer:
    """Places jobs on a scratch of one snapshot, without the jobs that leave or change."""

    def __init__(self, snapshot: Snapshot, shapes: Sequence[TypeShape], gone: Iterable[int]) -> None:
        self.shapes = shapes
        self.fit = Fitter(snapshot, self._by_rule)
        self.scratch = self.fit.scratch(snapshot)
        for row in gone:
            self.scratch.release(snapshot.grants[row])
        self.placed: dict[int, Grant] = {}
        """The grants of placed jobs."""
        self.failed: list[WantedConfiguration] = []
        """Jobs without a place."""
        self._nodes_of = snapshot.occupancy.node_sets.of_type
        self._per_node = 0
        self._small: dict[int, dict[int, WantedConfiguration]] = {}
        """By node, the jobs on a part of it that may be placed again."""
        self._queue: list[WantedConfiguration] = []

    def place(self, wanted: Sequence[WantedConfiguration], keeps: Mapping[int, Grant]) -> None:
        """Places all of `wanted` but `keeps`, which stay unless a larger job needs their node."""
        for one in wanted:
            if one.row in keeps:
                self._note(one, keeps[one.row])
        todo = sorted((one for one in wanted if one.row not in keeps), key=_largest_first)
        self._queue = [one for one in todo if not self._is_large(one)]
        for one in todo:
            if self._is_large(one):
                self._put(one)
        while self._queue:
            self._queue.sort(key=_largest_first)
            self._put(self._queue.pop(0))

    def add(self, one: WantedConfiguration, *, scattered: bool = False) -> bool:
        """Places `one` on what is free, without moving any job; False if it finds no place.

        `scattered`: on parts of several nodes, if need be.
        """
        self._per_node = 0 if scattered else self.shapes[one.kind].per_node
        grant = self.fit.on_type(self.scratch, one.row, one.kind, one.gpus)
        if grant is None:
            return False
        self.scratch.hold(grant)
        self.placed[one.row] = grant
        self._note(one, grant)
        return True

    # -- one job -----------------------------------------------------------------------------------

    def _is_large(self, one: WantedConfiguration) -> bool:
        return one.gpus >= self.shapes[one.kind].per_node

    def _put(self, one: WantedConfiguration) -> None:
        clear = self._clear_nodes if self._is_large(one) else self._clear_part
        if not self.add(one):
            clear(one)
            if not self.add(one):
                self.failed.append(one)

    def _note(self, one: WantedConfiguration, grant: Grant) -> None:
        """Remember which jobs may be moved: jobs on a part of a node."""
        nodes = {self.scratch.free.node_of[device] for device in grant.devices}
        if not self._is_large(one) and len(nodes) == 1:
            self.placed[one.row] = grant
            self._small.setdefault(nodes.pop(), {})[one.row] = one

    def _by_rule(self, free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
        """Whole nodes from the last one down; a part of a node on the fullest one with room."""
        if not self._per_node:
            return consolidate(free, gpus, within)
        if gpus < self._per_node:
            node = free.best_fit(gpus, within)
            return free.take(node, gpus) if node >= 0 else None
        count, rest = divmod(gpus, self._per_node)
        whole = free.buckets[self._per_node] & within if self._per_node < len(free.buckets) else 0
        if whole.bit_count() < count or rest:
            return consolidate(free, gpus, within) if rest else None
        taken: tuple[int, ...] = ()
        for _ in range(count):
            node = whole.bit_length() - 1
            whole ^= 1 << node
            taken += free.take(node, self._per_node)
        return tuple(sorted(taken))

    # -- making room -------------------------------------------------------------------------------

    def _clear_nodes(self, one: WantedConfiguration) -> None:
        """Move jobs that hold parts of the emptiest nodes off them, until there are whole nodes enough."""
        free, per_node = self.scratch.free, self.shapes[one.kind].per_node
        whole = free.buckets[per_node] & self._nodes_of[one.kind]
        lacking = one.gpus // per_node - whole.bit_count()
        parts = [node for node in nodes_in(self._nodes_of[one.kind]) if self._could_be_whole(node, per_node)]
        parts.sort(key=lambda node: (-free.count[node], node))
        if lacking <= len(parts):
            for node in parts[:lacking]:
                for other in list(self._small.get(node, {}).values()):
                    self._push_out(node, other)

    def _could_be_whole(self, node: int, per_node: int) -> bool:
        free = self.scratch.free
        movable = sum(other.gpus for other in self._small.get(node, {}).values())
        return free.count[node] < per_node and free.count[node] + movable == per_node

    def _clear_part(self, one: WantedConfiguration) -> None:
        """Move the smallest jobs off the node that lacks least, if that makes room for `one`."""
        free = self.scratch.free
        nodes = sorted(nodes_in(self._nodes_of[one.kind]), key=lambda node: (-free.count[node], node))
        for node in nodes:
            smaller = sorted(
                (other for other in self._small.get(node, {}).values() if other.gpus < one.gpus),
                key=lambda other: (other.gpus, other.row),
            )
            if free.count[node] + sum(other.gpus for other in smaller) >= one.gpus:
                for other in smaller:
                    if free.count[node] >= one.gpus:
                        break
                    self._push_out(node, other)
                return

    def _push_out(self, node: int, other: WantedConfiguration) -> None:
        del self._small[node][other.row]
        self.scratch.release(self.placed.pop(other.row))
        self._queue.append(other)


def _largest_first(one: WantedConfiguration) -> tuple[int, int]:
    return -one.gpus, one.row
