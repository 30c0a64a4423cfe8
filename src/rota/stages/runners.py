"""Devices for the jobs whose turn it is: jobs that stay keep what they have, others get what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Grant, Role
from rota.model.whole import whole_grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import FitterWithin
from rota.stages.place import Place, consolidate
from rota.table.free import Free
from rota.table.occupancy import EPSILON, Occupancy

Fits = Callable[[int], bool]
"""Whether a job fits what is still free; if it does, that room is taken."""


class Runner(NamedTuple):
    """A job that is to run now."""

    row: int
    nodes: int
    """Mask of the nodes it may use."""
    gpus: int
    """Number of GPUs; only an elastic job may get another number than it asked for."""
    second: int = -1
    """The job that shares its devices; -1 for none."""
    parts: Sequence[tuple[int, int]] = ()
    """Nodes and the number of GPUs on each, where that is settled; else on as few nodes as possible."""


class RunnerPlacement:
    """Devices for some of `rows`, which give up all they hold; every other job stays where it is.

    Where counting GPUs decides, no jobs share GPUs: a job that already holds devices where it is to run keeps
    them, and is not even taken off the scratch.
    """

    def __init__(self, snapshot: Snapshot, rows: Iterable[int], *, counts: bool | None = None) -> None:
        """`counts` says whether counting decides for all that are to run; None if that is unknown."""
        self.snapshot = snapshot
        self.scratch = snapshot.scratch()
        grants = snapshot.grants
        self.held = {row: grants[row] for row in rows if row in grants}
        self.granted: dict[int, Grant] = {}
        self.fit = FitterWithin(snapshot, consolidate)
        self._counts = snapshot.plain and len(snapshot.cluster.kinds) == 1 if counts is None else counts
        self._probe: Occupancy | None = None
        if not self._counts:
            for grant in self.held.values():
                self.scratch.release(grant)
            self._probe = None if snapshot.plain else self.scratch.copy()

    def tester(self, nodes: int, gpus: int) -> Fits:
        """A test of which jobs may run together on `nodes` of `gpus` GPUs: by counting where possible."""
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

    def admits(self, runner: Runner) -> bool:
        """True if `runner`, for which there are GPUs, finds a place on its nodes under every other rule."""
        if self._probe is None:
            return True
        grant = self._fit(self._probe, runner)
        if grant is not None:
            self._probe.hold(grant)
        return grant is not None

    def place(self, runners: list[Runner]) -> tuple[list[Grant], list[int]]:
        """Grants that change, and rows that have to leave.

        A job that does not find devices after all (rules beyond counting may forbid it) has to leave too.
        """
        if self._counts:
            newcomers = self._newcomers(runners)
        else:
            newcomers = [runner for runner in runners if not self._stays(runner)]
        for runner in newcomers:
            self._arrives(runner)
        for runner in runners:
            self._extends(runner)
        grants = [grant for row, grant in self.granted.items() if self.held.get(row) != grant]
        return grants, [row for row in self.held if row not in self.granted]

    def _stays(self, runner: Runner) -> bool:
        """Keep what one of the pair holds, if it is to run there and no other job has kept it."""
        for row in (runner.row, runner.second):
            held = self.held.get(row)
            if held is None or not held.devices or not self._is_inside(held, runner.nodes):
                continue
            claimed = self.scratch.claimed
            if all(claimed[device] + self._share(runner.row) <= 1.0 + EPSILON for device in held.devices):
                self._grant(runner, held.devices[: runner.gpus])
                return True
        return False

    def _newcomers(self, runners: list[Runner]) -> list[Runner]:
        """Take the jobs that do not keep exactly what they hold off the scratch; returns the others.

        What is to be shared or made smaller is entered again.
        """
        for runner in runners:
            held = self.held.get(runner.row)
            if (
                held is not None
                and runner.second < 0
                and len(held.devices) <= runner.gpus
                and self._is_inside(held, runner.nodes)
            ):
                self.granted[runner.row] = held
        for row, grant in self.held.items():
            if row not in self.granted:
                self.scratch.release(grant)
        return [runner for runner in runners if runner.row not in self.granted and not self._stays(runner)]

    def _is_inside(self, grant: Grant, nodes: int) -> bool:
        node_of = self.scratch.free.node_of
        return all(nodes >> node_of[device] & 1 for device in grant.devices)

    def _share(self, row: int) -> float:
        share: float = self.snapshot.jobs.table.gpu_share.item(row)
        return share

    def _arrives(self, runner: Runner) -> None:
        if self._counts:
            place = place_of(runner.parts)
            devices = place(self.scratch.free, self.snapshot.gpus_of[runner.row], runner.nodes)
            if devices is not None:
                self.scratch.free.put_all(devices)
                self._grant(runner, devices)
            return
        grant = self._fit(self.scratch, runner)
        if grant is None:
            return
        if grant.devices:
            self._grant(runner, grant.devices)
        else:  # a job without GPUs
            self._enter(grant)

    def _fit(self, scratch: Occupancy, runner: Runner) -> Grant | None:
        self.fit.within, self.fit.place = runner.nodes, place_of(runner.parts)
        grant = self.fit(scratch, runner.row)
        self.fit.place = consolidate
        return grant

    def _grant(self, runner: Runner, devices: tuple[int, ...]) -> None:
        if runner.second >= 0:
            grants = [Grant(row, devices, 0.5, Role.PACKED) for row in (runner.row, runner.second)]
        else:
            share = self._share(runner.row)
            grants = [
                whole_grant(runner.row, devices)
                if share == 1.0
                else Grant(runner.row, devices, share, Role.PACKED)
            ]
        for grant in grants:
            self._enter(grant)

    def _enter(self, grant: Grant) -> None:
        self.scratch.hold(grant)
        self.granted[grant.job] = grant

    def _extends(self, runner: Runner) -> None:
        """Give an elastic job idle devices of its nodes, up to the number that it is to have in all."""
        grant = self.granted.get(runner.row)
        if grant is None or len(grant.devices) >= runner.gpus:
            return
        counts = feasible_counts(self.snapshot.jobs.table, runner.row, runner.gpus)
        for count in reversed(counts):
            if count <= len(grant.devices):
                return
            more = consolidate(self.scratch.free, count - len(grant.devices), runner.nodes)
            if more is None:
                continue
            self.scratch.free.put_all(more)
            wider = tuple(sorted(grant.devices + more))
            self.scratch.release(grant)
            if self._counts or self.fit.admits(self.scratch, grant._replace(devices=wider)):
                self._grant(runner, wider)
                return
            self.scratch.hold(grant)  # its nodes lack CPU or memory for the full number


def place_of(parts: Sequence[tuple[int, int]]) -> Place:
    """The rule that takes `parts`, node and GPUs; on as few nodes as possible if there are none."""

    def place(free: Free, gpus: int, within: int = -1) -> tuple[int, ...] | None:
        if any(free.count[node] < count or not within >> node & 1 for node, count in parts):
            return None
        devices = [device for node, count in parts for device in free.take(node, count)]
        return tuple(sorted(devices))

    return place if parts else consolidate


def demand_of(snapshot: Snapshot) -> Callable[[int], float]:
    """GPUs that jobs ask for, as a function of the row; less than one for a job that asks for a share."""
    gpus_of, share = snapshot.gpus_of, snapshot.jobs.table.gpu_share
    return lambda row: gpus_of[row] * share.item(row)
