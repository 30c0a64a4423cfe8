"""Cells kept from one decision to the next: only gangs that have come or gone are put on or taken off.

The bindings say all (`VirtualClusters`), so kept cells equal those that would be built again from what is
remembered.  Where that is not certain they are built again: hardware is bad, jobs share devices,
requests or cells have changed, or another policy has decided meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection

from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.systems.hived.cells import Gang
from rota.systems.hived.clusters import VirtualClusters
from rota.systems.hived.runners import Runners

Numbers = dict[str, list[int]]
"""By running row: numbers of its virtual GPUs, as a memory can hold them."""


class KeptCells:
    """Virtual clusters with the gangs that run on them, as the last decision left them."""

    def __init__(self, clusters: VirtualClusters, runners: Runners, jobs: JobTable) -> None:
        self.clusters, self.runners, self.jobs = clusters, runners, jobs
        self.standing: Numbers = {}
        """Each row's virtual GPUs, as remembered: the memory has this very object."""
        self._rows: list[int] = []
        """Rows of `standing`, ascending."""
        self._touched: set[int] = set()
        """Rows that the decision was about: some of it may have been refused."""
        self._moved: set[int] = set()
        """Rows that have come or gone since what is remembered was noted."""
        self._cursor = Cursor()

    def note(self, snapshot: Snapshot, touched: Collection[int]) -> None:
        """Note that the decision has been made."""
        gang_of = self.runners.gang_of
        for row in touched:
            if row in gang_of:
                _as_adopted(gang_of[row])
        self.runners.note(touched)
        for row in sorted(self._moved.union(touched)):
            gang = gang_of.get(row)
            if gang is None:
                if self.standing.pop(str(row), None) is not None:
                    del self._rows[bisect_left(self._rows, row)]
            else:
                self._remember(row, gang.numbers if gang.virtual else [])
        self._moved = set()
        self._touched = set(touched)
        snapshot.changes(self._cursor)

    def _remember(self, row: int, numbers: list[int]) -> None:
        """By row, as it would be written again: a repeated decision remembers the same in the same order."""
        is_new = str(row) not in self.standing
        self.standing[str(row)] = numbers
        if is_new:
            at = bisect_left(self._rows, row)
            for later in self._rows[at:]:
                self.standing[str(later)] = self.standing.pop(str(later))
            self._rows.insert(at, row)

    def is_brought_up(self, snapshot: Snapshot, standing: Numbers) -> bool:
        """Bring the cells up to `snapshot`; False if they have to be built again from what is remembered."""
        changed, gang_of = snapshot.changes(self._cursor), self.runners.gang_of
        if changed is None or snapshot.jobs.table is not self.jobs or not self._is_noted(standing):
            return False
        self._moved = self._touched.union(changed)
        for row in self._moved:
            grant, gang = snapshot.grants.get(row), gang_of.get(row)
            if grant is None or not grant.devices:
                if gang is not None:
                    self.clusters.stop(gang)
                    self.runners.leave(row)
            elif gang is None or tuple(leaf.device for leaf in gang.physical[0]) != grant.devices:
                return False
        return True

    def _is_noted(self, standing: Numbers) -> bool:
        return standing is self.standing or standing == self.standing


def _as_adopted(gang: Gang) -> None:
    """The form in which a gang that runs is put on its cells: one pod, in the order of its devices."""
    gang.pods, gang.kind, gang.most_per_node = (gang.gpus,), "", Gang.most_per_node
    gang.physical = [sorted((leaf for pod in gang.physical for leaf in pod), key=lambda leaf: leaf.device)]
    gang.virtual = gang.in_order()
    gang.numbers = [own.number for pod in gang.virtual for own in pod]
