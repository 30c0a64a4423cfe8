"""The cluster while one decision is made, job by job: by counting where that is enough, else by placing."""

from __future__ import annotations

from rota.model.columns import Row
from rota.model.grants import Grant
from rota.model.whole import whole_grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter, Room, is_room, placed
from rota.stages.place import Place, by_type
from rota.table.free import Free
from rota.table.occupancy import Occupancy


class JobPlacer:
    """Where the jobs of one decision are placed; nothing leaves it while they are."""

    def may_hold(self, kind: int, row: Row) -> bool:
        """False if counting says that neither `row` nor any other job whose request is of `kind` fits."""
        raise NotImplementedError

    def take(self, kind: int, row: Row) -> Grant | None:
        """The grant of `row`, entered; None if it does not fit."""
        raise NotImplementedError


class Counting(JobPlacer):
    """Places jobs where counting free GPUs says whether they fit."""

    def __init__(self, snapshot: Snapshot, place: Place) -> None:
        self._present: Free = snapshot.occupancy.free
        self._free: Free | None = None
        """What is left, once a job has taken some."""
        self._left = self._present.total
        self.gpus_of = snapshot.gpus_of
        self.place = by_type(place, snapshot.occupancy.node_sets.of_type)

    def may_hold(self, kind: int, row: Row) -> bool:
        return self.gpus_of[row] <= self._left

    def take(self, kind: int, row: Row) -> Grant | None:
        if self._free is None:
            self._free = self._present.copy()
        devices = self.place(self._free, self.gpus_of[row])
        self._left = self._free.total
        return None if devices is None else whole_grant(row, devices)


class Placing(JobPlacer):
    """Places jobs under every rule of the cluster."""

    def __init__(self, snapshot: Snapshot, place: Place, rooms: dict[int, Room]) -> None:
        """`rooms` keeps what the fitter says of each kind of request."""
        self.snapshot = snapshot
        self.fit = Fitter(snapshot, place)
        self.rooms = rooms
        self.occupancy: Occupancy = snapshot.occupancy
        """The claims in force until a second job is tried beside the first, then the scratch."""
        self._is_scratch = False
        self._last: Grant | None = None
        """The last grant, not yet held on the scratch."""

    @property
    def scratch(self) -> Occupancy:
        """A scratch with all that was granted."""
        if not self._is_scratch:
            self.occupancy, self._is_scratch = self.fit.scratch(self.snapshot), True
        self._hold_last()
        return self.occupancy

    def may_hold(self, kind: int, row: Row) -> bool:
        last, free = self._last, self.occupancy.free
        if last is not None and last[2] == 1.0 and free.total == len(last[1]):
            return not self._room_of(kind, row)  # all are taken
        self._hold_last()
        return is_room(self.occupancy.free, self._room_of(kind, row))

    def take(self, kind: int, row: Row) -> Grant | None:
        self._hold_last()
        grant = placed(self.fit, self.occupancy, row, self._room_of(kind, row))
        self._last = grant
        return grant

    def _hold_last(self) -> None:
        """Hold the last grant before another job is tried: mostly there is none, and no scratch is needed."""
        last = self._last
        if last is None:
            return
        self._last = None
        if not self._is_scratch:
            self.occupancy, self._is_scratch = self.fit.scratch(self.snapshot), True
        self.occupancy.hold(last)

    def _room_of(self, kind: int, row: Row) -> Room:
        room = self.rooms.get(kind)
        if room is None:
            room = self.rooms[kind] = self.fit.room_wanted(row)
        return room
