"""Migrate: better places for jobs that run already, found when somebody leaves.

Both rules work on homes and carry out what they decide; they return the moves as (job, from, to).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.policies.gandiva.server_group import EPSILON, ServerGroup, members
from rota.policies.gandiva.server_groups import ServerGroups

Move = tuple[int, int, int]
MayMove = Callable[[int, int], bool]
"""Whether a job may go to a home: it can run there, and was not sent back from there."""
Founds = Callable[[int], int]
"""The home that empty servers become for a job larger than a server; -1 if none does."""


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


def _move(homes: ServerGroups, row: int, target: int, sizes: Sequence[int]) -> Move:
    source = homes.remove(row)
    homes.add(row, target, sizes[row])
    return row, source, target


def _load(home: ServerGroup) -> float:
    return home["demand"] / home["gpus"]
