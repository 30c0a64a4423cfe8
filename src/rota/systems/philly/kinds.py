"""Kinds of waiting jobs: for which the same nodes will do, and which find the same there or nothing.

A gang gets GPUs of one type.  An attempt takes the first type on which it fits at once, and if it fits on
none the first that could hold it at all.  So free GPUs of a later type are nothing to a gang that needs more
of them than there are: it would not even hold them.
"""

from __future__ import annotations

from rota.model.cluster import Cluster
from rota.systems.philly.locality import Domains, Locality
from rota.table.free import Free
from rota.table.node_sets import NodeSets

Key = tuple[int, int]
"""The nodes that will do, and the size of the gang, 0 where that does not matter."""


class Kind:
    """What an attempt may find, by what is free."""

    __slots__ = ("first", "gpus", "key", "nodes", "others")

    def __init__(self, nodes: int, first: int, others: list[int], gpus: int) -> None:
        self.nodes = nodes
        """Mask of the nodes that will do, whoever is there."""
        self.first = first
        """Those on which an attempt that does not fit at once has its candidates."""
        self.others = others
        """By type, the others: candidates only if the gang fits there at once."""
        self.gpus = gpus
        self.key: Key = (nodes, gpus if others else 0)

    def finds_none(self, free: Free, free_nodes: int) -> bool:
        """True if an attempt that opens now, without taking any back, holds no GPU."""
        if not self.others:
            return not self.nodes & free_nodes
        if self.first & free_nodes:
            return False
        return all(free.within(nodes) < self.gpus for nodes in self.others)


class Kinds:
    """The kinds of jobs in a cluster."""

    def __init__(self, cluster: Cluster, domains: Domains, are_told_apart: bool, up: int = -1) -> None:
        """`up` are the nodes that may be granted: gangs turn to others only once those are back.

        Unless kinds `are_told_apart`, where more than free GPUs decides, only nodes count.
        """
        self._domains = domains
        self._up = up
        self._by_type = NodeSets(cluster).of_type
        self._are_told_apart = are_told_apart and len(self._by_type) > 1
        self._kinds: dict[Key, Kind] = {}

    def of(self, nodes: int, gpus: int, level: int) -> Kind:
        """The kind of a job of `gpus` GPUs for which `nodes` will do, from locality `level` on."""
        kind = self._kinds.get((nodes, gpus))
        if kind is None:
            kind = self._kinds[nodes, gpus] = self._new(nodes, gpus, level)
        return kind

    def _new(self, nodes: int, gpus: int, level: int) -> Kind:
        if not gpus or not self._are_told_apart:
            return Kind(nodes, nodes, [], gpus)
        first, by_type = 0, [there for of_type in self._by_type if (there := nodes & of_type & self._up)]
        levels = [each for each in Locality if each >= level]
        for place, within in enumerate(by_type):
            first |= within
            if all(self._domains.candidates(self._domains.full, gpus, each, within) for each in levels):
                return Kind(nodes, first, by_type[place + 1 :], gpus)
        return Kind(nodes, nodes, [], gpus)
