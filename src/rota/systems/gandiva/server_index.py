"""Homes in order of load and of room, so that the best one is found without looking at all of them."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from rota.systems.gandiva.server_group import EPSILON, ServerGroup

Able = Callable[[int], bool]
"""Whether a home will do."""
Place = tuple[float, int]
"""A home with what it is sorted by, the home last: ties go to the lowest."""


_NOWHERE: Place = (math.inf, -1)


class _Entry(NamedTuple):
    """Where a home stands in the lists."""

    kind: tuple[int, int]
    by_load: Place
    by_room: Place
    is_used: bool


class ServerIndex:
    """A cache of `homes`: whoever changes demand, circle or nodes of a home says so by `update`."""

    def __init__(self, homes: Mapping[int, ServerGroup]) -> None:
        self._homes = homes
        self._entries: dict[int, _Entry] = {}
        self._by_load: dict[tuple[int, int], list[Place]] = {}
        """Per affinity and number of GPUs, by load."""
        self._used: list[Place] = []
        """Homes of somebody, by room."""
        self.crowded: set[int] = set()
        """Homes where jobs must take turns."""
        self.groups: set[int] = set()
        """Homes of several servers."""
        for key in homes:
            self.update(key)

    def update(self, key: int) -> None:
        """The home `key` has changed, is new, or is none any more."""
        before, home = self._entries.pop(key, None), self._homes.get(key)
        entry = None if home is None else _entry(key, home)
        if before is not None:
            self._drop(key, before)
        if entry is None:
            return
        self._entries[key] = entry
        insort(self._by_load.setdefault(entry.kind, []), entry.by_load)
        if entry.is_used:
            insort(self._used, entry.by_room)
        if entry.by_room[0] < -EPSILON:
            self.crowded.add(key)
        if home is not None and len(home["nodes"]) > 1:
            self.groups.add(key)

    def _drop(self, key: int, entry: _Entry) -> None:
        by_load = self._by_load[entry.kind]
        del by_load[bisect_left(by_load, entry.by_load)]
        if not by_load:
            del self._by_load[entry.kind]
        if entry.is_used:
            del self._used[bisect_left(self._used, entry.by_room)]
        self.crowded.discard(key)
        self.groups.discard(key)

    # -- which home --------------------------------------------------------------------------------

    def least_loaded(self, size: int, able: Able, affinity: int = -1) -> int:
        """The least loaded able home of at least `size` GPUs, of an affinity or of any; -1 if none."""
        best = _NOWHERE
        for (own, gpus), places in self._by_load.items():
            if gpus >= size and affinity in (-1, own):
                best = min(best, _first(places, 0, able))
        return best[1]

    def empty(self) -> Iterator[int]:
        """Empty homes, those with most GPUs first, ties by number."""
        for gpus in sorted({gpus for affinity, gpus in self._by_load if not affinity}, reverse=True):
            yield from [key for _, key in self._by_load[0, gpus]]

    def empty_gpus(self) -> int:
        """GPUs of all empty homes together."""
        return sum([gpus * len(places) for (affinity, gpus), places in self._by_load.items() if not affinity])

    def fullest(self, demand: float, able: Able, below: float = math.inf) -> int:
        """The able home with the fewest free GPUs, less than `below`, on which `demand` fits; -1 if none."""
        first = bisect_left(self._used, (demand - EPSILON, -1))
        best = _first(self._used, first, able)
        for (affinity, gpus), places in self._by_load.items():
            if not affinity and gpus >= demand - EPSILON:
                key = _first(places, 0, able)[1]
                if key >= 0:
                    best = min(best, (float(gpus), key))
        room, key = best
        return key if room < below else -1

    def most_room(self) -> float:
        """Free GPUs of the home that has most."""
        empty = max((gpus for affinity, gpus in self._by_load if not affinity), default=0)
        return max(float(empty), self._used[-1][0] if self._used else 0.0)

    def emptiest(self, threshold: float, but: Collection[int]) -> int:
        """The server in use with most free GPUs, at least `threshold` of its own; -1 if none but those."""
        least = threshold * min((gpus for _, gpus in self._by_load if gpus), default=0) - EPSILON
        best: Place = (0.0, -1)
        for room, key in reversed(self._used):
            if room < max(least, best[0]):
                break
            home = self._homes[key]
            if key not in but and len(home["nodes"]) == 1 and room >= threshold * home["gpus"] - EPSILON:
                best = (room, key)  # of several with as much room, the lowest comes last
        return best[1]


def _first(places: list[Place], start: int, able: Able) -> Place:
    """The first place from `start` on of which the home is able."""
    for at in range(start, len(places)):
        if able(places[at][1]):
            return places[at]
    return _NOWHERE


def _entry(key: int, home: ServerGroup) -> _Entry:
    gpus, demand = home["gpus"], home["demand"]
    load = demand / gpus if gpus else math.inf
    return _Entry((home["affinity"], gpus), (load, key), (gpus - demand, key), bool(home["circle"]))
