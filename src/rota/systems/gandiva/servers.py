"""Servers with the jobs that belong to them: each job has a home, and a home may take more jobs than it runs.

Servers specialise in one size of job (`affinity`), so that their GPUs divide evenly among jobs that take
turns.  What counts here is what jobs asked for, whether or not they run at the moment.  A job larger than a
server gets several empty servers; they are one home until the last job has left.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypedDict

from rota.table.free import mask_of

EPSILON = 1e-9


class ServerGroup(TypedDict):
    """A home: a server, or several that act as one."""

    nodes: list[int]
    gpus: int
    affinity: int
    """GPUs of each job it is meant for; 0 while it is empty."""
    demand: float
    """GPUs that the jobs of this home ask for together."""
    circle: list[int]
    """The jobs in order of turns; of a pair that shares its devices only the first."""
    pairs: dict[int, int]
    """First -> second job of each pair that shares its devices."""
    trial: int
    """First job of the pair that is on trial; -1 for none."""
    turn_ends_s: float
    """End of the turn; infinite if all jobs run."""
    idle_since_s: float
    """Moment since which an elastic job could use idle GPUs; infinite if none could."""


def members(home: ServerGroup) -> list[int]:
    """All jobs of a home: in order of turns, then the second jobs of pairs."""
    return [*home["circle"], *home["pairs"].values()]


class ServerGroups:
    """The homes of a cluster, by their lowest node.

    `homes` and `home_of` (by job) are plain values, changed in place, so that a policy can keep them in its
    memory.  `demand_of` gives the GPUs that a job asks for.
    """

    def __init__(
        self, homes: dict[int, ServerGroup], home_of: dict[int, int], demand_of: Callable[[int], float]
    ) -> None:
        self.homes = homes
        self.home_of = home_of
        self.demand_of = demand_of
        self.index = ServerIndex(homes)
        self.has_changed = False
        """True once a node or a job has come or gone: only then can `allocate` give other answers."""
        self.gone: set[int] = set()
        """Homes that have been split or joined since this was emptied: their turns are over."""

    # -- which home (NODE_ALLOC of the paper) ------------------------------------------------------

    def allocate(self, row: int, size: int, accepts: Sequence[int], gpus: Sequence[int]) -> int:
        """A home for `row`; -1 if it has to wait.

        `accepts` are the masks of the nodes it may use, one for each type of GPU; `gpus` has the GPUs of each
        node.
        """
        demand, homes = self.demand_of(row), self.homes

        def able(key: int) -> bool:
            return can_hold(homes[key], size, accepts)

        of_its_size = self.index.least_loaded(size, able, size)
        if of_its_size >= 0 and self.fits(homes[of_its_size], demand):
            return of_its_size
        empty = self.index.least_loaded(size, able, 0)
        if empty < 0:
            empty = self.join_empty(size, accepts, gpus)
        if empty >= 0:
            return empty
        of_any_size = self.index.least_loaded(size, able)
        if of_any_size >= 0 and self.fits(homes[of_any_size], demand):
            return of_any_size
        return of_its_size  # oversubscribed: its jobs take turns

    def allocate_in_part(self, size: int, part: Mapping[int, int], gpus: Sequence[int]) -> int:
        """A home for a gang that can use only `part` of the GPUs of each server, for lack of cores or memory.

        A home in which it need not take turns; else the fewest empty servers, made one; else any home; -1 if
        it has to wait.
        """

        def most(key: int) -> int:
            return sum(part.get(node, 0) for node in self.homes[key]["nodes"])

        able = [key for key in self.homes if most(key) >= size]
        roomy = [key for key in able if self.fits(self.homes[key], size)]
        if roomy:
            return min(roomy)
        chosen, total = list[int](), 0
        for key in sorted(self.index.empty(), key=lambda key: (-most(key), key)):
            if total < size and most(key):
                chosen.append(key)
                total += most(key)
        return self.join(chosen, gpus) if total >= size else min(able, default=-1)

    def join_empty(
        self, size: int, accepts: Sequence[int], gpus: Sequence[int], barred: Collection[int] = ()
    ) -> int:
        """The fewest empty servers of one type that hold a job larger than a server, made one home.

        -1 if there are too few, or if the home would be one of those `barred`.
        """
        if self.index.empty_gpus() < size or self.has_server(size, accepts, gpus):
            return -1
        for mask in accepts:
            chosen, total = list[int](), 0
            for key in self.index.empty():
                if not is_within(self.homes[key], mask):
                    continue
                chosen.append(key)
                total += self.homes[key]["gpus"]
                if total >= size:
                    return -1 if min(chosen) in barred else self.join(chosen, gpus)
        return -1

    def has_server(self, size: int, accepts: Sequence[int], gpus: Sequence[int]) -> bool:
        """True if the job would fit on one server, were it empty."""
        return any(
            gpus[node] >= size and any(mask >> node & 1 for mask in accepts)
            for home in self.homes.values()
            for node in home["nodes"]
        )

    def room(self, home: ServerGroup) -> float:
        """GPUs that no job of the home asks for; negative if jobs must take turns."""
        return home["gpus"] - home["demand"]

    def room_with_pairs(self, home: ServerGroup) -> float:
        """As `room`, where a pair asks for the devices of one job."""
        return self.room(home) + sum(self.demand_of(row) for row in home["pairs"].values())

    def fits(self, home: ServerGroup, demand: float) -> bool:
        """True if a newcomer that asks for `demand` GPUs would make no job take turns."""
        return self.room(home) >= demand - EPSILON

    # -- jobs --------------------------------------------------------------------------------------

    def add(self, row: int, key: int, size: int) -> None:
        """Assign `row`, of `size` GPUs, to the home `key`, last in its circle."""
        home = self.homes[key]
        self.has_changed = True
        home["affinity"] = home["affinity"] or size
        home["demand"] += self.demand_of(row)
        home["circle"].append(row)
        self.home_of[row] = key
        self.index.update(key)

    def remove(self, row: int) -> int:
        """Take `row` out of its home; a partner stays in its place.  Returns the home."""
        key = self.home_of.pop(row)
        home = self.homes[key]
        self.has_changed = True
        self.part(home, row)
        home["circle"].remove(row)
        home["demand"] -= self.demand_of(row)
        if not home["circle"]:
            home["affinity"], home["demand"] = 0, 0.0
        self.index.update(key)
        return key

    def pair(self, home: ServerGroup, pair: tuple[int, int]) -> None:
        """Let two jobs share their devices: one place in the circle, the first."""
        first, second = pair
        home["circle"].remove(second)
        home["circle"].remove(first)
        home["circle"].insert(0, first)
        home["pairs"][first] = second

    def part(self, home: ServerGroup, row: int) -> None:
        """Part the pair of `row`, if it is in one: two jobs again, side by side in the circle."""
        for first, second in home["pairs"].items():
            if row in (first, second):
                del home["pairs"][first]
                home["circle"].insert(home["circle"].index(first) + 1, second)
                if home["trial"] == first:
                    home["trial"] = -1
                return

    # -- servers -----------------------------------------------------------------------------------

    def open(self, nodes: Sequence[int], gpus: Sequence[int]) -> int:
        """Make `nodes` (ascending) one empty home."""
        self.has_changed = True
        total = sum(gpus[node] for node in nodes)
        self.homes[nodes[0]] = ServerGroup(
            nodes=list(nodes),
            gpus=total,
            affinity=0,
            demand=0.0,
            circle=[],
            pairs={},
            trial=-1,
            turn_ends_s=math.inf,
            idle_since_s=math.inf,
        )
        self.index.update(nodes[0])
        return nodes[0]

    def join(self, parts: Iterable[int], gpus: Sequence[int]) -> int:
        """Make several homes one, with all their jobs."""
        parts = sorted(parts)
        if len(parts) == 1:
            return parts[0]
        merged = [self._pop(part) for part in parts]
        key = self.open(sorted(node for home in merged for node in home["nodes"]), gpus)
        for home in merged:
            self.homes[key]["affinity"] = self.homes[key]["affinity"] or home["affinity"]
            self.homes[key]["pairs"] |= home["pairs"]
            self.homes[key]["circle"] += home["circle"]
            self.homes[key]["demand"] += home["demand"]
            for row in members(home):
                self.home_of[row] = key
        self.index.update(key)
        return key

    def close(self, key: int, gpus: Sequence[int], lost: Collection[int] = ()) -> None:
        """Split an empty home into its nodes; nodes in `lost` are homes no more."""
        self.has_changed = True
        for node in self._pop(key)["nodes"]:
            if node not in lost:
                self.open([node], gpus)

    def split_if_empty(self, key: int, gpus: Sequence[int]) -> None:
        """Split homes of several servers that have no job left into single servers."""
        home = self.homes[key]
        if not home["circle"] and len(home["nodes"]) > 1:
            self.close(key, gpus)

    def _pop(self, key: int) -> ServerGroup:
        home = self.homes.pop(key)
        self.gone.add(key)
        self.index.update(key)
        return home


def can_hold(home: ServerGroup, size: int, accepts: Sequence[int]) -> bool:
    """True if a job of `size` GPUs that may use the nodes of one of these masks could run in the home."""
    return home["gpus"] >= size and any(is_within(home, mask) for mask in accepts)


def is_within(home: ServerGroup, mask: int) -> bool:
    """True if `mask` has all nodes of the home."""
    nodes = home["nodes"]
    return mask >> nodes[0] & 1 != 0 if len(nodes) == 1 else not mask_of(nodes) & ~mask


# -- homes in order of load and of room --------------------------------------------------------------

Able = Callable[[int], bool]
"""Whether a home is suitable."""
Place = tuple[float, int]
"""A home behind what it is sorted by: ties go to the lowest."""

_NOWHERE: Place = (math.inf, -1)


class _Entry(NamedTuple):
    """The place of a home in the lists."""

    kind: tuple[int, int]
    by_load: Place
    by_room: Place
    is_used: bool


class ServerIndex:
    """Finds the best home without looking at all: a cache of `homes`.

    A change of the demand, circle or nodes of a home is followed by `update`.
    """

    def __init__(self, homes: Mapping[int, ServerGroup]) -> None:
        self._homes = homes
        self._entries: dict[int, _Entry] = {}
        self._by_load: dict[tuple[int, int], list[Place]] = {}
        """Per affinity and number of GPUs, by load."""
        self._used: list[Place] = []
        """Homes that have jobs, by room."""
        self.crowded: set[int] = set()
        """Homes where jobs must take turns."""
        self.groups: set[int] = set()
        """Homes of several servers."""
        for key in homes:
            self.update(key)

    def update(self, key: int) -> None:
        """Note that the home `key` has changed, is new, or is gone."""
        before, home = self._entries.pop(key, None), self._homes.get(key)
        if before is not None:
            self._drop(key, before)
        if home is None:
            return
        entry = self._entries[key] = _entry(key, home)
        insort(self._by_load.setdefault(entry.kind, []), entry.by_load)
        if entry.is_used:
            insort(self._used, entry.by_room)
        if entry.by_room[0] < -EPSILON:
            self.crowded.add(key)
        if len(home["nodes"]) > 1:
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
        """The able home with fewest free GPUs, less than `below`, on which `demand` fits; -1 if none."""
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
        """The server in use with most free GPUs, at least `threshold` of its own; -1 if none except `but`."""
        least = threshold * min((gpus for _, gpus in self._by_load if gpus), default=0) - EPSILON
        best: Place = (0.0, -1)
        for room, key in reversed(self._used):
            if room < max(least, best[0]):
                break
            home = self._homes[key]
            if key not in but and len(home["nodes"]) == 1 and room >= threshold * home["gpus"] - EPSILON:
                best = room, key  # of several with as much room, the lowest comes last
        return best[1]


def _first(places: list[Place], start: int, able: Able) -> Place:
    """The first place from `start` on whose home passes `able`."""
    for at in range(start, len(places)):
        if able(places[at][1]):
            return places[at]
    return _NOWHERE


def _entry(key: int, home: ServerGroup) -> _Entry:
    gpus, demand = home["gpus"], home["demand"]
    load = demand / gpus if gpus else math.inf
    return _Entry((home["affinity"], gpus), (load, key), (gpus - demand, key), bool(home["circle"]))
