"""One home: a server, or several that act as one, and the jobs that belong there."""

from __future__ import annotations

from typing import TypedDict

EPSILON = 1e-9


class ServerGroup(TypedDict):
    """A server, or several that act as one."""

    nodes: list[int]
    gpus: int
    affinity: int
    """GPUs of the jobs it is meant for; 0 while it is empty."""
    demand: float
    """GPUs asked for by the jobs that belong here."""
    circle: list[int]
    """The jobs in order of turns; of a pair that shares its devices only the first."""
    pairs: dict[int, int]
    """First -> second job of each pair that shares its devices."""
    trial: int
    """First job of the pair that is on trial; -1 for none."""
    turn_ends_s: float
    """End of the turn; infinite if everybody runs."""
    idle_since_s: float
    """Since when it has had GPUs to spare; infinite if it has none."""


def members(home: ServerGroup) -> list[int]:
    """Everybody who belongs here: in order of turns, then the second jobs of pairs."""
    return [*home["circle"], *home["pairs"].values()]
