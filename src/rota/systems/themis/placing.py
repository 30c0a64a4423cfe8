"""Placement: as close together as the job gains from, on every level of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.knowledge.needs import Table
from rota.knowledge.placement import NODE, levels_of
from rota.model.cluster import Cluster
from rota.model.columns import Ints
from rota.stages.place import Place, consolidate
from rota.table.free import Free, mask_of


class Closely:
    """Placement rules for classes of jobs, by the levels on which each is slowed down."""

    def __init__(self, cluster: Cluster, placement: Table) -> None:
        self._rates = placement.shared["rates"]
        self._first: list[int] = cluster.first_device.tolist()
        above, inside = _split(cluster)
        self._above = [(column, _nodes_by_unit(cluster, units)) for column, units in above]
        self._inside = [(column, _bits_by_node(cluster, units)) for column, units in inside]
        self._rules: dict[int, Place] = {}

    def looks_inside(self, number: int) -> bool:
        """True if the class is sensitive to where in a node its GPUs lie."""
        return number >= 0 and any(self._rates[number, column] < 1.0 for column, _ in self._inside)

    def rule(self, number: int) -> Place:
        """The rule for the class of that number, -1 for none."""
        if number not in self._rules:
            slowed = self._rates[number] < 1.0 if number >= 0 else np.zeros(len(self._rates[0]), dtype=bool)
            above = [units for column, units in self._above if slowed[column]]
            inside = [units for column, units in self._inside if slowed[column]]
            self._rules[number] = _rule(above, inside, self._first) if above or inside else consolidate
        return self._rules[number]


def _split(cluster: Cluster) -> tuple[list[tuple[int, Ints]], list[tuple[int, Ints]]]:
    """Levels above the node and inside it, the narrowest first, each with its column."""
    levels = list(levels_of(cluster).items())
    place = [name for name, _ in levels].index(NODE)
    columns = [(column, units) for column, (_, units) in enumerate(levels)]
    return columns[:place][::-1], columns[place + 1 :][::-1]


def _nodes_by_unit(cluster: Cluster, units: Ints) -> list[int]:
    """Mask of nodes of each unit of a level above the node."""
    nodes: dict[int, list[int]] = {}
    for device, unit in enumerate(units.tolist()):
        node = int(cluster.device_node[device])
        own = nodes.setdefault(unit, [])
        if not own or own[-1] != node:
            own.append(node)
    return [mask_of(own) for own in nodes.values()]


def _bits_by_node(cluster: Cluster, units: Ints) -> list[list[int]]:
    """Per node, masks of its devices: one for each unit of a level inside it."""
    bits: list[dict[int, int]] = [{} for _ in range(cluster.nodes)]
    first = cluster.first_device.tolist()
    for device, unit in enumerate(units.tolist()):
        node = int(cluster.device_node[device])
        bits[node][unit] = bits[node].get(unit, 0) | 1 << (device - first[node])
    return [list(own.values()) for own in bits]


def _rule(above: Sequence[list[int]], inside: Sequence[list[list[int]]], first: list[int]) -> Place:
    def place(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
        if gpus == 1:
            return consolidate(free, gpus, within)
        if free.best_fit(gpus, within) >= 0:
            return _inside(free, gpus, within, inside, first) or consolidate(free, gpus, within)
        for units in above:
            rooms = [(free.within(unit & within), unit) for unit in units]
            fitting = [(room, unit) for room, unit in rooms if room >= gpus]
            if fitting:
                return consolidate(free, gpus, min(fitting)[1] & within)
        return consolidate(free, gpus, within)

    return place


def _inside(
    free: Free, gpus: int, within: int, levels: Sequence[list[list[int]]], first: list[int]
) -> tuple[int, ...] | None:
    """Devices of one unit of a node, the unit with the fewest free ones; None if no unit has enough."""
    nodes = [n for n, count in enumerate(free.count) if count >= gpus and within >> n & 1] if levels else []
    for units in levels:
        best: tuple[int, int, int, int] | None = None
        for node in nodes:
            for bits in units[node]:
                own = bits & free.devices[node]
                room = own.bit_count()
                if room >= gpus and (best is None or (room, free.count[node], node) < best[:3]):
                    best = (room, free.count[node], node, own)
        if best is not None:
            devices = _lowest(best[3], gpus, first[best[2]])
            free.remove_all(devices)
            return devices
    return None


def _lowest(bits: int, gpus: int, base: int) -> tuple[int, ...]:
    devices = []
    for _ in range(gpus):
        low = bits & -bits
        devices.append(base + low.bit_length() - 1)
        bits ^= low
    return tuple(devices)
