"""Seat jobs on the devices of their homes: who stays keeps what it has, newcomers get what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

from rota.model.grants import Grant, Role
from rota.policies.gandiva.turns import Fits
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.place import consolidate
from rota.table.occupancy import EPSILON, Occupancy


class Seat(NamedTuple):
    """A job that is to run now."""

    row: int
    nodes: int
    """Mask of the nodes it may use."""
    gpus: int
    """How many; only an elastic job may get others than it asked for."""
    second: int = -1
    """The job that shares its devices; -1 for none."""


class GroupFitter(Fitter):
    """Fits jobs under every rule of the cluster, on the nodes of one home."""

    within = -1

    def _nodes_by_type(self, row: int) -> list[int]:
        return [nodes & self.within for nodes in super()._nodes_by_type(row)]


class Placement:
    """New seats for `rows`, who give up all they hold; everybody else stays where he is.

    Where counting GPUs decides, nobody shares anything: whoever holds devices of his home may keep them, and
    is not even taken off the scratch.
    """

    def __init__(self, snapshot: Snapshot, rows: Iterable[int]) -> None:
        self.snapshot = snapshot
        self.scratch = snapshot.scratch()
        grants = snapshot.grants
        self.held = {row: grants[row] for row in rows if row in grants}
        self.granted: dict[int, Grant] = {}
        self._counts = snapshot.plain and len(snapshot.cluster.type_names) == 1
        self._probe: Occupancy | None = None
        if not self._counts:
            for grant in self.held.values():
                self.scratch.release(grant)
            self._probe = None if snapshot.plain else self.scratch.copy()

    @cached_property
    def fit(self) -> GroupFitter:
        return GroupFitter(self.snapshot, consolidate)

    def tester(self, nodes: int, gpus: int) -> Fits:
        """Tells who may run together on `nodes`, which have `gpus` GPUs: by counting where that is enough."""
        demand = demand_of(self.snapshot)
        room = float(gpus)
        probe = self._probe

        def fits(row: int) -> bool:
            nonlocal room
            if probe is not None:
                self.fit.within = nodes
                grant = self.fit(probe, row)
                if grant is not None:
                    probe.hold(grant)
                return grant is not None
            if demand(row) > room + EPSILON:
                return False
            room -= demand(row)
            return True

        return fits

    def seat(self, seats: list[Seat]) -> tuple[list[Grant], list[int]]:
        """Grants that change, and rows that have to leave.

        A job that does not find devices after all (rules beyond counting may forbid it) has to leave too.
        """
        if self._counts:
            newcomers = self._newcomers(seats)
        else:
            newcomers = [seat for seat in seats if not self._stays(seat)]
        for seat in newcomers:
            self._arrives(seat)
        for seat in seats:
            self._extends(seat)
        grants = [grant for row, grant in self.granted.items() if self.held.get(row) != grant]
        return grants, [row for row in self.held if row not in self.granted]

    def _stays(self, seat: Seat) -> bool:
        """Keep what one of the pair holds, if that lies in its home and nobody else has kept it."""
        for row in (seat.row, seat.second):
            held = self.held.get(row)
            if held is None or not held.devices or not self._is_inside(held, seat.nodes):
                continue
            claimed = self.scratch.claimed
            if all(claimed[device] + self._share(seat.row) <= 1.0 + EPSILON for device in held.devices):
                self._grant(seat, held.devices[: seat.gpus])
                return True
        return False

    def _newcomers(self, seats: list[Seat]) -> list[Seat]:
        """Take those who do not keep exactly what they hold off the scratch; returns who finds no seat there.

        What is to be shared or made smaller is held anew.
        """
        for seat in seats:
            held = self.held.get(seat.row)
            if (
                held is not None
                and seat.second < 0
                and len(held.devices) <= seat.gpus
                and self._is_inside(held, seat.nodes)
            ):
                self.granted[seat.row] = held
        for row, grant in self.held.items():
            if row not in self.granted:
                self.scratch.release(grant)
        return [seat for seat in seats if seat.row not in self.granted and not self._stays(seat)]

    def _is_inside(self, grant: Grant, nodes: int) -> bool:
        node_of = self.scratch.free.node_of
        return all(nodes >> node_of[device] & 1 for device in grant.devices)

    def _share(self, row: int) -> float:
        share: float = self.snapshot.jobs.table.gpu_share.item(row)
        return share

    def _arrives(self, seat: Seat) -> None:
        if self._counts:
            devices = consolidate(self.scratch.free, self.snapshot.gpus_of[seat.row], seat.nodes)
            if devices is not None:
                self.scratch.free.put_all(devices)
                self._grant(seat, devices)
            return
        self.fit.within = seat.nodes
        grant = self.fit(self.scratch, seat.row)
        if grant is None:
            return
        if grant.devices:
            self._grant(seat, grant.devices)
        else:  # a job without GPUs
            self._enter(grant)

    def _grant(self, seat: Seat, devices: tuple[int, ...]) -> None:
        if seat.second >= 0:
            grants = [Grant(row, devices, 0.5, Role.PACKED) for row in (seat.row, seat.second)]
        else:
            share = self._share(seat.row)
            grants = [Grant(seat.row, devices, share, Role.ALONE if share == 1.0 else Role.PACKED)]
        for grant in grants:
            self._enter(grant)

    def _enter(self, grant: Grant) -> None:
        self.scratch.hold(grant)
        self.granted[grant.job] = grant

    def _extends(self, seat: Seat) -> None:
        """Give an elastic job idle devices of its home, as many as it is to have in all."""
        grant = self.granted.get(seat.row)
        if grant is None or len(grant.devices) >= seat.gpus:
            return
        more = consolidate(self.scratch.free, seat.gpus - len(grant.devices), seat.nodes)
        if more is not None:
            self.scratch.free.put_all(more)
            self.scratch.release(grant)
            self._grant(seat, tuple(sorted(grant.devices + more)))


def demand_of(snapshot: Snapshot) -> Callable[[int], float]:
    """GPUs that jobs ask for, as a function of the row; less than one for a job that asks for a share."""
    gpus_of, share = snapshot.gpus_of, snapshot.jobs.table.gpu_share
    return lambda row: gpus_of[row] * share.item(row)
