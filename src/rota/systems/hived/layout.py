"""The cells of a cluster file as trees, and the virtual cluster that each job belongs to."""

from __future__ import annotations

from rota.errors import InputError
from rota.model.cells import Owned, check_cells, kinds_of, owned_cells, place_of
from rota.model.cluster import Cluster
from rota.systems.hived.cells import Physical, below, physical_cell
from rota.systems.hived.clusters import CellPromise, Pin, VirtualClusters

EVERYBODY = "*"
"""The one virtual cluster of a cluster whose tenants have no cells: it owns all."""


class Layout:
    """Data that stays the same as long as the cluster does."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kinds = kinds_of(cluster)
        self.problem = ""
        """Why what tenants are promised cannot be had: until it can, no job has a guarantee."""
        self.owned: list[Owned] = []
        try:
            check_cells(cluster)
            self.owned = owned_cells(cluster, self.kinds)
        except InputError as error:
            self.problem = str(error)
        self.signature = [[c.tenant, c.kind.name, c.level, c.cells, c.at] for c in self.owned]
        """Which tenant owns which cells, as memory holds it: virtual GPU numbers are valid under this one."""
        self.has_cells = {cell.tenant for cell in self.owned}
        self._vc_of: dict[str, str] = {}
        self._nodes_of_pin = {(cell.tenant, cell.at): self._nodes(cell) for cell in self.owned if cell.at}

    def clusters(self) -> VirtualClusters:
        """Fresh, empty virtual clusters."""
        tops = {}
        first = self.cluster.first_device.tolist()
        for kind, parts in self.kinds.items():
            tops[kind] = [
                physical_cell(
                    kind, kind.top, nodes, [d for n in nodes for d in range(first[n], first[n + 1])], number
                )
                for number, nodes in enumerate(parts)
            ]
        if not self.owned and not self.problem:
            everything = [
                CellPromise(EVERYBODY, kind.name, kind.top, len(cells)) for kind, cells in tops.items()
            ]
            return VirtualClusters(tops, everything)
        promises = [CellPromise(c.tenant, c.kind.name, c.level, c.cells) for c in self.owned if not c.at]
        pins = [Pin(c.tenant, c.at, _nth(tops[c.kind], c.level, self._place(c))) for c in self.owned if c.at]
        return VirtualClusters(tops, promises, pins)

    def _place(self, cell: Owned) -> int:
        return place_of(self.cluster, self.kinds, cell)

    def _nodes(self, cell: Owned) -> frozenset[int]:
        nodes = [node for top in self.kinds[cell.kind] for node in top]
        size, in_node = cell.kind.gpus(cell.level), cell.kind.gpus(cell.kind.node_level)
        begin = self._place(cell) * size
        return frozenset(nodes[begin // in_node : (begin + size - 1) // in_node + 1])

    def vc_of(self, tenant: str) -> str:
        """The virtual cluster of a tenant: its own, or that of the nearest parent that has one; or empty."""
        if not self.owned:
            return "" if self.problem else EVERYBODY
        if tenant not in self._vc_of:
            path = tenant
            while path and path not in self.has_cells:
                path = path.rpartition("/")[0]
            self._vc_of[tenant] = path
        return self._vc_of[tenant]

    def pin_for(self, vc: str, node_set: str) -> str:
        """The fixed cell of `vc` whose nodes are all that a job asks for; empty if it asks for others."""
        if not node_set:
            return ""
        asked = {node for node, will_do in enumerate(self.cluster.admitted(node_set).tolist()) if will_do}
        for (tenant, name), nodes in self._nodes_of_pin.items():
            if tenant == vc and asked and asked <= nodes:
                return name
        return ""


def _nth(tops: list[Physical], level: int, place: int) -> Physical:
    cells = [cell for top in tops for cell in below(top) if cell.level == level]
    return cells[place]
