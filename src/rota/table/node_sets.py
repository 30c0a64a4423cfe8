"""Nodes of a cluster by what they have, as bit masks."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.cluster import Cluster
from rota.table.free import mask_of


class NodeSets:
    """Sets of nodes that change only if the cluster does."""

    def __init__(self, cluster: Cluster) -> None:
        kinds = cluster.node_type.tolist()
        self.of_type = [
            mask_of([node for node, kind in enumerate(kinds) if kind == code])
            for code in range(len(cluster.type_names))
        ]
        """Per type of device, its nodes."""
        self.lowest_units = _lowest_units(cluster)
        """Nodes of each unit of the lowest level above them; all nodes together where there is no level."""
        first, memory = cluster.first_device.tolist(), cluster.device_memory_gib.tolist()
        self._memory_gib = {node: memory[d] for node, d in enumerate(first[:-1]) if d < first[node + 1]}
        self.limits_cpus = bool(cluster.node_cpus.any())
        self.limits_memory = bool(cluster.node_memory_gib.any())
        self.can_run_out = self.limits_cpus or self.limits_memory or any(self._memory_gib.values())
        """True if CPU, memory or device memory has a limit on any node: else use of them is not counted."""
        self._with_memory: dict[float, int] = {}
        self._cluster = cluster
        self._admitted: dict[str, int] = {}
        self._accepted: dict[tuple[int, tuple[str, ...]], list[int]] = {}

    def accepted(self, wanted: int, names: Sequence[str]) -> list[int]:
        """Per type of device, its nodes if `wanted` has the bit of its name in `names`, else 0.

        All of them if no bit is set.
        """
        if not wanted:
            return self.of_type
        key = wanted, tuple(names)
        by_type = self._accepted.get(key)
        if by_type is None:
            named = {name for bit, name in enumerate(names) if wanted >> bit & 1}
            of_type = zip(self._cluster.type_names, self.of_type, strict=True)
            by_type = self._accepted[key] = [nodes if name in named else 0 for name, nodes in of_type]
        return by_type

    def with_memory(self, need_gib: float) -> int:
        """Nodes whose devices have at least `need_gib` of memory, or do not state it."""
        nodes = self._with_memory.get(need_gib)
        if nodes is None:
            has = [node for node, gib in self._memory_gib.items() if not gib or gib >= need_gib]
            nodes = self._with_memory[need_gib] = mask_of(has)
        return nodes

    def admitted(self, node_set: str) -> int:
        """Nodes that suit a job that asks for `node_set` (`Cluster.admitted`); -1 for all."""
        if not node_set:
            return -1
        nodes = self._admitted.get(node_set)
        if nodes is None:
            nodes = mask_of(self._cluster.admitted(node_set).nonzero()[0].tolist())
            self._admitted[node_set] = nodes
        return nodes


def _lowest_units(cluster: Cluster) -> list[int]:
    """Units of a level nest in the wider levels' units, so that the codes of the last level are enough."""
    if not cluster.levels:
        return [mask_of(list(range(cluster.nodes)))]
    codes = list(cluster.levels.values())[-1].tolist()
    return [mask_of([node for node, code in enumerate(codes) if code == unit]) for unit in sorted(set(codes))]
