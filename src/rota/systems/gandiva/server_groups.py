"""Homes: which server each job belongs to, when servers may take more jobs than they can run at once.

Servers specialise in one size of job (`affinity`), so that their GPUs divide evenly among those that take
turns.  What counts here is what jobs asked for, whether or not they run at the moment.

A job larger than a server gets several empty ones; they are one home until it is empty again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from rota.systems.gandiva.server_group import EPSILON, ServerGroup, members
from rota.systems.gandiva.server_index import ServerIndex
from rota.table.free import mask_of


class ServerGroups:
    """The homes of a cluster, by their lowest node.

    `homes` and `home_of` (by job) are plain values, changed in place, so that a policy may keep them in
    its memory.  `demand_of` gives the GPUs a job asks for.
    """

    def __init__(
        self, homes: dict[int, ServerGroup], home_of: dict[int, int], demand_of: Callable[[int], float]
    ) -> None:
        self.homes = homes
        self.home_of = home_of
        self.demand_of = demand_of
        self.index = ServerIndex(homes)
        self.has_changed = False
        """True once a node or a job has come or gone: only then may `allocate` find other answers."""
        self.gone: set[int] = set()
        """Homes that have fallen apart or been joined since it was emptied: what went on there is over."""

    # -- nodes -------------------------------------------------------------------------------------

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
            turn_ends_s=float("inf"),
            idle_since_s=float("inf"),
        )
        self.index.update(nodes[0])
        return nodes[0]

    def join(self, parts: Iterable[int], gpus: Sequence[int]) -> int:
        """Make several homes one, with everybody who belongs to them."""
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
        """An empty home falls apart into its nodes, of which those `lost` are none any more."""
        self.has_changed = True
        for node in self._pop(key)["nodes"]:
            if node not in lost:
                self.open([node], gpus)

    def _pop(self, key: int) -> ServerGroup:
        home = self.homes.pop(key)
        self.gone.add(key)
        self.index.update(key)
        return home

    # -- jobs --------------------------------------------------------------------------------------

    def add(self, row: int, key: int, size: int) -> None:
        """`row`, of `size` GPUs, belongs to the home `key` from now on, last in its circle."""
        home = self.homes[key]
        self.has_changed = True
        home["affinity"] = home["affinity"] or size
        home["demand"] += self.demand_of(row)
        home["circle"].append(row)
        self.home_of[row] = key
        self.index.update(key)

    def remove(self, row: int) -> int:
        """`row` leaves its home; a partner stays in its place.  Returns the home."""
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
        """Two jobs share their devices: one place in the circle, the first."""
        first, second = pair
        home["circle"].remove(second)
        home["circle"].remove(first)
        home["circle"].insert(0, first)
        home["pairs"][first] = second

    def part(self, home: ServerGroup, row: int) -> None:
        """The pair that `row` belongs to, if any, is two jobs again, side by side."""
        for first, second in home["pairs"].items():
            if row in (first, second):
                del home["pairs"][first]
                home["circle"].insert(home["circle"].index(first) + 1, second)
                if home["trial"] == first:
                    home["trial"] = -1
                return

    def room(self, home: ServerGroup) -> float:
        """GPUs nobody who belongs here asks for; negative if jobs must take turns."""
        return home["gpus"] - home["demand"]

    def room_with_pairs(self, home: ServerGroup) -> float:
        """The same when pairs ask for the devices of one job."""
        return self.room(home) + sum(self.demand_of(row) for row in home["pairs"].values())

    def fits(self, home: ServerGroup, demand: float) -> bool:
        """True if nobody would have to take turns with a newcomer."""
        return self.room(home) >= demand - EPSILON

    # -- which home --------------------------------------------------------------------------------

    def allocate(self, row: int, size: int, accepts: Sequence[int], gpus: Sequence[int]) -> int:
        """A home for `row`; -1 if it has to wait.

        `accepts` are the masks of the nodes it may use, one for each type of GPU.  First the least loaded
        home of its size, if it fits; then an empty one; then the least loaded of any size, if it fits; only
        then the one of its size where it will have to take turns.
        """
        demand, homes = self.demand_of(row), self.homes

        def able(key: int) -> bool:
            return can_hold(homes[key], size, accepts)

        alike = self.index.least_loaded(size, able, size)
        if alike >= 0 and self.fits(homes[alike], demand):
            return alike
        empty = self.index.least_loaded(size, able, 0)
        if empty < 0:
            empty = self.found(size, accepts, gpus)
        if empty >= 0:
            return empty
        anyone = self.index.least_loaded(size, able)
        if anyone >= 0 and self.fits(homes[anyone], demand):
            return anyone
        return alike

    def allocate_in_part(self, size: int, part: Mapping[int, int], gpus: Sequence[int]) -> int:
        """The same for a gang that may use so many GPUs of each server: their cores and memory feed no more.

        A home in which it need not take turns; else the fewest empty servers, made one; else any home.
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

    def has_server(self, size: int, accepts: Sequence[int], gpus: Sequence[int]) -> bool:
        """True if the job would fit on one server, were it empty."""
        return any(
            gpus[node] >= size and any(mask >> node & 1 for mask in accepts)
            for home in self.homes.values()
            for node in home["nodes"]
        )

    def found(
        self, size: int, accepts: Sequence[int], gpus: Sequence[int], barred: Collection[int] = ()
    ) -> int:
        """The fewest empty servers of one type that hold a job larger than a server, made one home.

        -1 if there are too few, or if that were one of the homes `barred`.
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


def can_hold(home: ServerGroup, size: int, accepts: Sequence[int]) -> bool:
    """True if a job of `size` GPUs that may use the nodes of one of these masks could run in the home."""
    return home["gpus"] >= size and any(is_within(home, mask) for mask in accepts)


def is_within(home: ServerGroup, mask: int) -> bool:
    """True if `mask` has all nodes of the home."""
    nodes = home["nodes"]
    return mask >> nodes[0] & 1 != 0 if len(nodes) == 1 else not mask_of(nodes) & ~mask
