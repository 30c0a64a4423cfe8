"""Strict order where jobs ask for some nodes only: a queue for each partition, as sites have them.

Source: Slurm's main scheduler (`src/slurmctld/job_scheduler.c`): once a job waits for nodes, it passes over
the rest of its partition, and any job that asks for nodes of that partition elsewhere.
"""

from __future__ import annotations

from functools import partial

from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import Place
from rota.stages.priority import ByPriority
from rota.stages.trial import admit_in_order, admit_placed
from rota.table.occupancy import Occupancy


class QueueFitter(Fitter):
    """Gives nothing to jobs that could use nodes for which a job before them waits."""

    def __init__(self, snapshot: Snapshot, place: Place) -> None:
        super().__init__(snapshot, place)
        self.plain = Fitter(snapshot, place)
        self.awaited = 0
        """Mask of the nodes that would do for a job that waits; -1 for all."""

    def _fit(self, scratch: Occupancy, row: int) -> Grant | None:
        return None if self.asked(row) & self.awaited else super()._fit(scratch, row)

    def asked(self, row: int) -> int:
        """Mask of the nodes that would do for `row`; -1 for all if it names none."""
        return self._node_sets.admitted(self.jobs.name_of("node_set", row))


class InQueues(ByPriority):
    """A waiting job holds back only later jobs that could use the same nodes."""

    def _by_place(self, snapshot: Snapshot) -> tuple[list[Grant], list[int]]:
        if not snapshot.jobs.table.node_set_names:
            return super()._by_place(snapshot)
        fit = QueueFitter(snapshot, self.place)
        blocks = partial(self._ends, fit)
        if snapshot.reservations:
            return admit_placed(self.in_turn(snapshot), fit.scratch(snapshot), fit, blocks), []
        self.order_by_kind.sync(snapshot)
        return admit_in_order(self.order_by_kind, snapshot, fit, blocks), []

    def _ends(self, fit: QueueFitter, row: int) -> bool:
        """Whether no job behind `row` can start any more, now that it waits."""
        asked = fit.asked(row)
        if asked & fit.awaited or self._blocks(fit.plain, row):
            fit.awaited |= asked
        return not ~fit.awaited & ((1 << fit.cluster.nodes) - 1)
