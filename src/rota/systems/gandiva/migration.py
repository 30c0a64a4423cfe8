"""Migrate: better places for jobs that run already, found when somebody leaves, and given back for newcomers.

All rules work on homes and carry out what they decide; they return the moves as (job, from, to).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from rota.systems.gandiva.server_group import EPSILON, ServerGroup, members
from rota.systems.gandiva.server_groups import ServerGroups

Move = tuple[int, int, int]
MayMove = Callable[[int, int], bool]
"""Whether a job may go to a home: it can run there, and was not sent back from there."""
Founds = Callable[[int], int]
"""The home that empty servers become for a job larger than a server; -1 if none does."""
Usable = Mapping[int, int]
"""How many GPUs of each server a job could use, of the servers of one type."""


def relieve(homes: ServerGroups, sizes: Sequence[int], may_move: MayMove, founds: Founds) -> list[Move]:
    """Send jobs that take turns to homes with room, from the most loaded home, next in turn first."""
    moves: list[Move] = []
    index = homes.index
    most_room = index.most_room()
    if most_room <= EPSILON:
        return moves
    for source in sorted(index.crowded, key=lambda key: (-_load(homes.homes[key]), key)):
        if most_room <= EPSILON:
            break
        for row in members(homes.homes[source]):
            if homes.room(homes.homes[source]) >= -EPSILON:
                break
            demand, target = homes.demand_of(row), -1
            if demand <= most_room + EPSILON:
                target = index.fullest(demand, lambda key, row=row: may_move(row, key))  # type: ignore[misc]
            if target < 0:
                target = founds(row)
            if target >= 0:
                moves.append(_move(homes, row, target, sizes))
                most_room = index.most_room()
    return moves


def defragment(homes: ServerGroups, sizes: Sequence[int], may_move: MayMove, threshold: float) -> list[Move]:
    """Empty servers that have at least `threshold` of their GPUs free, the one with most free first.

    A job goes to the server with the fewest free GPUs on which it fits, and never to one with as many free
    as its own: two servers would swap jobs for ever.
    """
    moves: list[Move] = []
    settled: set[int] = set()
    while (source := homes.index.emptiest(threshold, settled)) >= 0:
        before = len(moves)
        for row in members(homes.homes[source]):
            room, demand = homes.room(homes.homes[source]), homes.demand_of(row)
            target = homes.index.fullest(demand, lambda key, row=row: may_move(row, key), room)  # type: ignore[misc]
            if target >= 0:
                moves.append(_move(homes, row, target, sizes))
        if len(moves) == before:
            settled.add(source)
    return moves


def give_back(
    homes: ServerGroups,
    sizes: Sequence[int],
    size: int,
    usable: Sequence[Usable],
    may_move: MayMove,
    *,
    on_one: bool,
) -> list[Move]:
    """Send gangs to others of their size, where that leaves servers empty for a job of `size` without a home.

    It needs one server, or as many as it takes.  Nobody moves if it could not begin then.
    """
    for gpus in usable:
        given = _enough(homes, sizes, size, gpus, may_move, on_one=on_one)
        if given:
            rows = [row for key in given for row in members(homes.homes[key])]
            return [_move(homes, row, _alike(homes, row, sizes, may_move, given), sizes) for row in rows]
    return []


def _enough(
    homes: ServerGroups, sizes: Sequence[int], size: int, gpus: Usable, may_move: MayMove, *, on_one: bool
) -> list[int]:
    """Groups of servers, the smallest first, that with all empty servers suffice; none if there are too few.

    Everybody who belongs to one of them has a home of his size elsewhere.
    """
    empty = [] if on_one else homes.index.empty()
    total = sum([gpus.get(node, 0) for key in empty for node in homes.homes[key]["nodes"]])
    given: list[int] = []
    for key in sorted(homes.index.groups, key=lambda key: (homes.homes[key]["gpus"], key)):
        offered = [gpus.get(node, 0) for node in homes.homes[key]["nodes"]]
        more = sum(offered) if not on_one else max(offered) if max(offered) >= size else 0
        if more and _can_leave(homes, sizes, [*given, key], may_move):
            given.append(key)
            total += more
            if total >= size:
                return given
    return []


def _can_leave(homes: ServerGroups, sizes: Sequence[int], keys: list[int], may_move: MayMove) -> bool:
    """True if everybody who belongs to one of these homes has a home of his size among the others."""
    return all(
        _alike(homes, row, sizes, may_move, keys) >= 0 for key in keys for row in members(homes.homes[key])
    )


def _alike(
    homes: ServerGroups, row: int, sizes: Sequence[int], may_move: MayMove, but: Collection[int]
) -> int:
    """The least loaded home for jobs of the size of `row`, none of `but`; -1 if there is none."""
    size = sizes[row]
    return homes.index.least_loaded(size, lambda key: key not in but and may_move(row, key), size)


def _move(homes: ServerGroups, row: int, target: int, sizes: Sequence[int]) -> Move:
    source = homes.remove(row)
    homes.add(row, target, sizes[row])
    return row, source, target


def _load(home: ServerGroup) -> float:
    return home["demand"] / home["gpus"]
