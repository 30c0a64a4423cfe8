"""The cluster while one decision is made, job by job: by counting where that is enough, else by placing."""

from __future__ import annotations

from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.place import Place, by_type


class Counting:
    """Places jobs where counting free GPUs says whether they fit."""

    def __init__(self, snapshot: Snapshot, place: Place) -> None:
        self.free = snapshot.occupancy.free.copy()
        self.gpus_of = snapshot.gpus_of
        self.place = by_type(place, snapshot.occupancy.node_sets.of_type)

    @property
    def room(self) -> int:
        """GPUs that nobody holds."""
        return self.free.total

    def __call__(self, row: int) -> Grant | None:
        """The grant of `row`, entered; None if it does not fit."""
        devices = self.place(self.free, self.gpus_of[row])
        return None if devices is None else Grant(row, devices)


class Placing:
    """Places jobs under every rule of the cluster."""

    def __init__(self, snapshot: Snapshot, place: Place) -> None:
        self.fit = Fitter(snapshot, place)
        self.scratch = self.fit.scratch(snapshot)
        self.room = 1
        """There may be room for something; `__call__` knows."""

    def __call__(self, row: int) -> Grant | None:
        """The grant of `row`, entered; None if it does not fit."""
        grant = self.fit(self.scratch, row)
        if grant is not None:
            self.scratch.hold(grant)
        return grant
