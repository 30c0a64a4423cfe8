"""A fitter that remembers which nodes have CPU and memory for which request, given all changes."""

from __future__ import annotations

from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter, host_room
from rota.stages.place import Place
from rota.table.occupancy import Occupancy


class FeedingFitter(Fitter):
    """Places jobs on one scratch; every change to the scratch must be reported to `touch`."""

    def __init__(self, snapshot: Snapshot, place: Place) -> None:
        super().__init__(snapshot, place)
        self._touched: list[int] = []
        """Nodes that changed, in order."""
        self._feeding: dict[tuple[float, float, int, int], list[int]] = {}
        """Mask of nodes, and number of changes it includes, by CPUs, memory and GPUs asked for and wanted."""

    def touch(self, grant: Grant) -> None:
        """`grant` was entered, or taken away."""
        node_of = self.cluster.device_node
        self._touched += {int(node_of[device]) for device in grant.devices}

    def _hosts(self, scratch: Occupancy, row: int, gpus: int, nodes: int = -1) -> int:
        if not self.asks_of_hosts(row):
            return nodes
        jobs = self.jobs
        asked = max(jobs.gpus.item(row), 1)
        key = (jobs.cpus.item(row), jobs.memory_gib.item(row), asked, gpus)
        known = self._feeding.get(key)
        if known is None:
            self._feeding[key] = [super()._hosts(scratch, row, gpus), len(self._touched)]
            return self._feeding[key][0] & nodes
        mask, seen = known
        if seen < len(self._touched):
            count = scratch.free.count
            for node in set(self._touched[seen:]):
                part = min(max(gpus, 1), max(count[node], 1)) / asked
                bit = 1 << node
                mask = mask | bit if host_room(scratch, node, part, row) else mask & ~bit
            known[:] = mask, len(self._touched)
        return mask & nodes
