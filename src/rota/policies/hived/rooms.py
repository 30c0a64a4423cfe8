"""Node cells by the GPUs that are free on them, so that who needs many looks at no full ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from rota.policies.hived.cells import AnyCell, Cell

MOST_PRIORITIES = 16
"""So many are kept in order; for others all cells are looked at, as for any before the first is asked for."""


class Rooms(Generic[AnyCell]):
    """Which of `nodes` have room, for each priority that has been asked about."""

    def __init__(self, nodes: Sequence[AnyCell]) -> None:
        self._nodes: list[AnyCell] = list(nodes)
        self._place: dict[Cell, int] = {node: place for place, node in enumerate(self._nodes)}
        self._changed: dict[Cell, None] = {}
        self._rooms: dict[int, list[int]] = {}
        """By priority: GPUs free for it on each node."""
        self._places: dict[int, list[set[int]]] = {}
        """By priority and by GPUs free for it: places of nodes."""
        for node in self._nodes:
            assert node.changed is None, "a cell is a node of one packing"
            node.changed = self._changed

    def with_room(self, priority: int, least: int) -> list[AnyCell]:
        """Nodes with at least `least` GPUs that are free for `priority`, in their order."""
        self._bring_up()
        if priority not in self._rooms:
            if len(self._rooms) >= MOST_PRIORITIES:
                return [node for node in self._nodes if node.free_for(priority) >= least]
            self._begin(priority)
        places: set[int] = set().union(*self._places[priority][max(least, 0) :])
        return [self._nodes[place] for place in sorted(places)]

    def _begin(self, priority: int) -> None:
        rooms = [node.free_for(priority) for node in self._nodes]
        places: list[set[int]] = [set() for _ in range(max((n.size for n in self._nodes), default=0) + 1)]
        for place, room in enumerate(rooms):
            places[room].add(place)
        self._rooms[priority], self._places[priority] = rooms, places

    def _bring_up(self) -> None:
        for cell in self._changed:
            place = self._place[cell]
            for priority, rooms in self._rooms.items():
                room = cell.free_for(priority)
                if room != rooms[place]:
                    self._places[priority][rooms[place]].discard(place)
                    self._places[priority][room].add(place)
                    rooms[place] = room
        self._changed.clear()
