"""Place: which devices.  Every variant takes devices from a `Free` index and returns them, or None.

Placements try nodes from the mask `within` only; equal choices go to the lowest id, so that the same
snapshot gives the same devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from rota.stages.fragmentation import PHILLY_SIZES, LeastFragmentation
from rota.table.free import Free, nodes_in


class Place(Protocol):
    """A placement rule: takes `gpus` whole devices from `free`, or changes nothing and returns None."""

    def __call__(self, free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None: ...


def consolidate(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
    """On the fewest nodes that are possible now; on one node, the one with the least room to spare."""
    node = free.best_fit(gpus, within)
    if node >= 0:
        return free.take(node, gpus)
    return _fewest_nodes(free, gpus, within)


def one_node(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
    """On one node, best fit; None if no node has enough free devices."""
    node = free.best_fit(gpus, within)
    return free.take(node, gpus) if node >= 0 else None


def packed(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
    """On as few nodes as an empty cluster would need: whole nodes and one remainder; else None."""
    sizes = _fewest_sizes(free, gpus, within)
    if not sizes:
        return None
    trial = free.copy()
    taken: tuple[int, ...] = ()
    for size in sizes:
        node = trial.best_fit(size, within)
        if node < 0:
            return None
        taken += trial.take(node, size)
    free.remove_all(taken)
    return tuple(sorted(taken))


def packed_within(units: Sequence[int]) -> Place:
    """Applies `packed` inside one of `units`, masks of nodes: the fitting one with the fewest free GPUs."""

    def place(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
        rooms = sorted((sum(free.count[node] for node in nodes_in(unit & within)), unit) for unit in units)
        for room, unit in rooms:
            devices = packed(free, gpus, unit & within) if room >= gpus else None
            if devices is not None:
                return devices
        return None

    return place


def by_type(place: Place, of_type: Sequence[int]) -> Place:
    """Applies `place` to GPUs of one type: the first of `of_type`, masks of nodes, on which the job fits."""
    if len(of_type) == 1:
        return place

    def first_type(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
        for nodes in of_type:
            devices = place(free, gpus, nodes & within)
            if devices is not None:
                return devices
        return None

    return first_type


def _fewest_sizes(free: Free, gpus: int, within: int) -> list[int]:
    """GPUs to take of each node, largest nodes first; empty if the nodes together have too few."""
    sizes = free.size if within < 0 else [free.size[node] for node in nodes_in(within)]
    largest = max(sizes, default=0)
    if gpus <= largest:
        return [gpus]
    parts: list[int] = []
    for size in sorted(sizes, reverse=True):
        parts.append(min(size, gpus))
        gpus -= parts[-1]
        if not gpus:
            return parts
    return []


def spread(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
    """One device at a time from the emptiest node: the opposite of consolidation."""
    taken: list[int] = []
    for _ in range(gpus):
        node = free.emptiest(within)
        if node < 0:
            for device in taken:
                free.put(device)
            return None
        taken += free.take(node, 1)
    return tuple(sorted(taken))


def lowest(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
    """The lowest free devices, however they lie."""
    taken: tuple[int, ...] = ()
    for node in range(len(free.count)) if within < 0 else nodes_in(within):
        if len(taken) < gpus and free.count[node]:
            taken += free.take(node, min(gpus - len(taken), free.count[node]))
    if len(taken) < gpus:
        free.put_all(taken)
        return None
    return taken


def fill_fragments(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
    """From the fullest nodes first, so that whole nodes stay free, however scattered the job is then."""
    node = free.best_fit(gpus, within)
    if node >= 0 and free.count[node] == gpus:
        return free.take(node, gpus)
    taken: tuple[int, ...] = ()
    while len(taken) < gpus:
        node = free.best_fit(1, within)
        if node < 0:
            free.put_all(taken)
            return None
        taken += free.take(node, min(gpus - len(taken), free.count[node]))
    return tuple(sorted(taken))


def emptiest(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
    """All that is free on the emptiest node, then on the next, until there are enough."""
    taken: tuple[int, ...] = ()
    while len(taken) < gpus:
        node = free.emptiest(within)
        if node < 0:
            free.put_all(taken)
            return None
        taken += free.take(node, min(gpus - len(taken), free.count[node]))
    return tuple(sorted(taken))


def even(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
    """On the fewest of the emptiest nodes that hold it in equal parts (but for one GPU); else anywhere.

    On equal servers, a job whose parts exchange gradients is fastest this way (Optimus, EuroSys 2018, section
    4.2).
    """
    nodes: list[int] = []
    for node in _emptiest_first(free, within):
        nodes.append(node)
        if len(nodes) > gpus:
            break
        part, rest = divmod(gpus, len(nodes))
        if free.count[node] >= part and (not rest or free.count[nodes[rest - 1]] > part):
            taken: tuple[int, ...] = ()
            for place, one in enumerate(nodes):
                taken += free.take(one, part + (place < rest))
            return tuple(sorted(taken))
    return emptiest(free, gpus, within)


def _emptiest_first(free: Free, within: int) -> Iterator[int]:
    """Nodes with free devices, the most first, then the lowest id."""
    for bucket in reversed(free.buckets[1:]):
        yield from nodes_in(bucket & within)


def _fewest_nodes(free: Free, gpus: int, within: int) -> tuple[int, ...] | None:
    """Emptiest nodes first, best fit for what remains: greedy is optimal for the number of nodes."""
    taken: tuple[int, ...] = ()
    while len(taken) < gpus:
        rest = gpus - len(taken)
        node = free.best_fit(rest, within)
        if node < 0:
            node = free.emptiest(within)
            if node < 0:
                free.put_all(taken)
                return None
        taken += free.take(node, min(rest, free.count[node]))
    return tuple(sorted(taken))


class Placement(StrEnum):
    """Placement rules by the names that parameters use."""

    CONSOLIDATE = "consolidate"
    ONE_NODE = "one_node"
    PACKED = "packed"
    SPREAD = "spread"
    EMPTIEST = "emptiest"
    FRAGMENTS = "fragments"
    LEAST_FRAGMENTATION = "least_fragmentation"


PLACEMENTS: dict[Placement, Place] = {
    Placement.CONSOLIDATE: consolidate,
    Placement.ONE_NODE: one_node,
    Placement.PACKED: packed,
    Placement.SPREAD: spread,
    Placement.EMPTIEST: emptiest,
    Placement.FRAGMENTS: fill_fragments,
    Placement.LEAST_FRAGMENTATION: LeastFragmentation(PHILLY_SIZES, _fewest_nodes),
}

COUNT_ONLY = frozenset(
    {
        Placement.CONSOLIDATE,
        Placement.SPREAD,
        Placement.EMPTIEST,
        Placement.FRAGMENTS,
        Placement.LEAST_FRAGMENTATION,
    }
)
"""Rules that succeed whenever enough devices are free, wherever they are."""
