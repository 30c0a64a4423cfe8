"""Migrate: better places for jobs that run already, found when somebody leaves.

Both rules work on homes and carry out what they decide; they return the moves as (job, from, to).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rota.policies.gandiva.server_groups import EPSILON, ServerGroup, ServerGroups, members

Move = tuple[int, int, int]
MayMove = Callable[[int, int], bool]
"""Whether a job may go to a home: it can run there, and was not sent back from there."""


def relieve(homes: ServerGroups, sizes: Sequence[int], may_move: MayMove) -> list[Move]:
    """Send jobs that take turns to homes with room, from the most loaded home, next in turn first."""
    moves: list[Move] = []
    crowded = [key for key, home in homes.homes.items() if homes.room(home) < -EPSILON]
    for source in sorted(crowded, key=lambda key: (-_load(homes.homes[key]), key)):
        for row in members(homes.homes[source]):
            if homes.room(homes.homes[source]) >= -EPSILON:
                break
            target = _fullest(homes, row, may_move, set(homes.homes) - {source})
            if target >= 0:
                moves.append(_move(homes, row, target, sizes))
    return moves


def defragment(homes: ServerGroups, sizes: Sequence[int], may_move: MayMove, threshold: float) -> list[Move]:
    """Empty servers that have at least `threshold` of their GPUs free, the one with most free first.

    A job goes to the server with the fewest free GPUs on which it fits, and never to one with as many free
    as its own: two servers would swap jobs for ever.
    """
    moves: list[Move] = []
    settled: set[int] = set()
    while (source := _emptiest(homes, threshold, settled)) >= 0:
        before = len(moves)
        for row in members(homes.homes[source]):
            room = homes.room(homes.homes[source])
            fuller = {key for key, home in homes.homes.items() if homes.room(home) < room}
            target = _fullest(homes, row, may_move, fuller - {source})
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


def _emptiest(homes: ServerGroups, threshold: float, settled: set[int]) -> int:
    """The server in use with the most free GPUs, if they are enough to act; -1 otherwise."""
    candidates = [
        (-homes.room(home), key)
        for key, home in homes.homes.items()
        if home["circle"]
        and len(home["nodes"]) == 1
        and key not in settled
        and homes.room(home) >= threshold * home["gpus"] - EPSILON
    ]
    return min(candidates, default=(0.0, -1))[1]


def _fullest(homes: ServerGroups, row: int, may_move: MayMove, among: Iterable[int]) -> int:
    """The home with the fewest free GPUs on which `row` fits; -1 if none."""
    demand = homes.demand_of(row)
    candidates = [
        (homes.room(homes.homes[key]), key)
        for key in among
        if homes.fits(homes.homes[key], demand) and may_move(row, key)
    ]
    return min(candidates, default=(0.0, -1))[1]
