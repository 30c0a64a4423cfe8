"""Placement by the skew of models: jobs that are slowed down by spreading are consolidated."""

from __future__ import annotations

from rota.knowledge.needs import Knowledge
from rota.model.columns import Array
from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import Place, fill_fragments, packed, packed_within
from rota.table.free import nodes_in
from rota.table.occupancy import Occupancy


class SkewFitter(Fitter):
    """Places skewed models on the fewest nodes an empty switch would need, all others in fragments.

    The switch is the lowest level above the nodes; a cluster without such levels is one switch.  A model
    larger than any switch goes to the fewest nodes that an empty cluster would need.
    """

    def __init__(self, snapshot: Snapshot, pack_limit: float) -> None:
        super().__init__(snapshot, packed)
        self.skew: Array = snapshot.know(Knowledge.SKEW)
        self.pack_limit = pack_limit

    def __call__(self, scratch: Occupancy, row: int) -> Grant | None:
        self.place = self._together(scratch, row) if self.skew[row] > self.pack_limit else fill_fragments
        return super().__call__(scratch, row)

    def _together(self, scratch: Occupancy, row: int) -> Place:
        """How a skewed model is placed."""
        gpus, size = self.jobs.gpus.item(row), scratch.free.size
        of_types = [nodes for nodes in self._nodes_by_type(row) if nodes]
        fits = any(
            sum(size[node] for node in nodes_in(unit & nodes)) >= gpus
            for unit in self._node_sets.lowest_units
            for nodes in of_types
        )
        return packed_within(self._node_sets.lowest_units) if fits else packed
