"""Node cells by what is free and in use on them, so that a job with many GPUs looks at no full ones."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Generic

from rota.systems.hived.cells import OPPORTUNISTIC, AnyCell, Cell

MOST_PRIORITIES = 16
"""Number kept in order; for others all cells are looked at, as for any before the first is asked for."""

_Use = tuple[int, int, int]
"""For a node: GPUs free for some priority, GPUs in use, and GPUs that opportunists use."""


class Rooms(Generic[AnyCell]):
    """Which of `nodes` have room, for each priority that has been asked about."""

    def __init__(self, nodes: Sequence[AnyCell]) -> None:
        self._nodes: list[AnyCell] = list(nodes)
        self._place: dict[Cell, int] = {node: place for place, node in enumerate(self._nodes)}
        self._changed: dict[Cell, None] = {}
        self._uses: dict[int, list[_Use]] = {}
        """By priority: the use of each node."""
        self._places: dict[int, dict[_Use, list[int]]] = {}
        """By priority and use: places of nodes, ascending."""
        self._more: dict[int, int] = {}
        """By priority: on how many nodes more GPUs are free for it than are unused."""
        for node in self._nodes:
            assert node.changed is None, "a cell is a node of one packing"
            node.changed = self._changed

    def in_order(self, priority: int, least: int, *, is_low: bool) -> Iterator[AnyCell]:
        """Nodes with at least `least` GPUs that are free for `priority`: those with most in use first.

        With `is_low`, for opportunists, nodes come first where most is in use by opportunists, then where
        least is in use by others.  Equal ones come in their order.
        """
        by_rank: dict[tuple[int, int], list[list[int]]] = {}
        for use, places in self._places_for(priority).items():
            room, busy, low = use
            if room >= least:
                by_rank.setdefault((-low, busy - low) if is_low else (-busy, 0), []).append(places)
        for _, alike in sorted(by_rank.items()):
            for place in alike[0] if len(alike) == 1 else sorted(chain(*alike)):
                yield self._nodes[place]

    def has_more(self, priority: int) -> bool:
        """False if no more is free for `priority` than for opportunists, which stop no gang."""
        self._places_for(priority)
        return self._more.get(priority, 1) > 0

    def _places_for(self, priority: int) -> dict[_Use, list[int]]:
        self._bring_up()
        places = self._places.get(priority)
        if places is None:
            places, uses = {}, [_use(node, priority) for node in self._nodes]
            for place, use in enumerate(uses):
                places.setdefault(use, []).append(place)
            if len(self._uses) < MOST_PRIORITIES:
                self._uses[priority], self._places[priority] = uses, places
                self._more[priority] = sum(map(_has_more, self._nodes, uses))
        return places

    def _bring_up(self) -> None:
        for cell in self._changed:
            place = self._place[cell]
            for priority, uses in self._uses.items():
                before, use = uses[place], _use(cell, priority)
                if use != before:
                    by_use = self._places[priority]
                    places = by_use[before]
                    del places[bisect_left(places, place)]
                    if not places:
                        del by_use[before]
                    insort(by_use.setdefault(use, []), place)
                    uses[place] = use
                    self._more[priority] += _has_more(cell, use) - (before[0] > cell.size - before[1])
        self._changed.clear()


def _use(node: Cell, priority: int) -> _Use:
    return node.free_for(priority), node.busy, node.used.get(OPPORTUNISTIC, 0)


def _has_more(node: Cell, use: _Use) -> bool:
    return use[0] > node.size - use[1]
