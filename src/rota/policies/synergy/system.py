"""Synergy: CPU cores and host memory by need instead of in proportion to GPUs, under any policy.

Paper     Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022
Decides   cores, memory and storage bandwidth of each job, and where it runs; who runs, the inner policy does
Needs     how fast each workload is by cores and memory for each GPU; what the inner policy needs
Idea      1. The inner policy chooses who runs by GPUs alone, as if nodes had cores and memory without end.
          2. A job wants the least with which it is as fast as it can be; it is placed where that fits.
          3. If that fits nowhere it gets its share in proportion to GPUs; if that does not fit either, those
             on the node who hold more than theirs are cut to it: nobody is ever slower than his share.
          4. Everything is divided anew in rounds of five minutes.
Departs   Who runs keeps its GPUs if what it wants fits there, and the inner policy sees who runs; the
          authors' simulator places everybody afresh and lets all leases end: `mode=artifact`.  Speed follows
          the table at what is granted; theirs knows the best and the share only.  Cores follow a node's own
          GPUs where nodes differ.  Who was never profiled wants what it asks for, or its share.  `opt`
          counts jobs by class and places its answer as `tune` does, not by their second program.  Policies
          that let jobs share GPUs are refused.  Storage bandwidth is divided, and not enforced: a grant does
          not carry it.
Checked   systems/synergy.md, worked examples 1 to 4.  Authors' simulator, 300 jobs: in
          proportion every job ends in the same second under FIFO, LAS and SRTF; `tune` and `greedy` are
          within 0.1 % of the mean
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.columns import Bools, Floats
from rota.model.grants import Code, Constraint, Grant, are_idle, with_one_nan
from rota.model.jobs import JobTable
from rota.policies.synergy.beside import Hosted, hosts_of_cpu_jobs
from rota.policies.synergy.demand import Asked, Demands
from rota.policies.synergy.kept import KeptAsk, KeptAsks, by_size
from rota.policies.synergy.opt import divide
from rota.policies.synergy.parameters import SynergyMechanism, SynergyMode, SynergyParameters
from rota.policies.synergy.room import Ask, Room, Seat, parts_on
from rota.policies.synergy.tune import settle
from rota.scheduler.decision import Decision, Event, Memory, Ranking, Wake
from rota.scheduler.nested import Nested, WhenDue
from rota.scheduler.policy import Lever, levers_of, register
from rota.scheduler.shown_ranking import Shown, shown_ranking
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.place import consolidate
from rota.table.free import nodes_in
from rota.table.occupancy import Occupancy
from rota.table.view import View

_COMINGS = Event.ARRIVAL | Event.END | Event.FAILURE | Event.CAPACITY
_NEARLY_S = 1e-6
_GREEDY = Constraint(
    Code.POLICY, detail="waits until nodes have all the cores and memory it wants beside free GPUs"
)


class GivenSeat(NamedTuple):
    """A seat and the grant that it is."""

    asked: Grant
    devices: tuple[int, ...]
    each: bytes
    grant: Grant


def _needs(p: SynergyParameters, kind: Knowledge) -> bool:
    own = kind is Knowledge.HOSTS and p.mechanism is not SynergyMechanism.PROPORTIONAL
    return own or kind in p.inner.make().needs


def _pulls(p: SynergyParameters, lever: Lever) -> bool:
    artifact = p.mode is SynergyMode.ARTIFACT
    own = {
        Lever.MIGRATE: p.migrate or artifact or p.mechanism is SynergyMechanism.GREEDY,
        Lever.PREEMPT: artifact or p.mechanism is SynergyMechanism.GREEDY,
    }
    return own.get(lever, False) or lever in levers_of(p.inner.make())


@register(
    "synergy",
    "Cores and memory by need, under any policy",
    paper="Synergy, OSDI 2022",
    needs={kind: lambda p, kind=kind: _needs(p, kind) for kind in Knowledge},
    levers={lever: lambda p, lever=lever: _pulls(p, lever) for lever in Lever if lever is not Lever.SHARE},
    parameters=SynergyParameters,
    rotates=True,
    heeds_priority=lambda p: p.inner.heeds_priority,
    heeds_deadlines=lambda p: p.inner.heeds_deadlines,
    promises=lambda p: p.inner.promises,
    between=lambda p: p.inner.between,
)
class Synergy:
    """Gives those whom an inner policy lets run the cores and the memory that they can use."""

    def __init__(self, parameters: SynergyParameters | None = None) -> None:
        self.parameters = p = parameters or SynergyParameters()
        inner = p.inner.make()
        self.inner = Nested(inner if p.round_s else WhenDue(inner), self._as_gpus, self._fed)
        self._cursor = Cursor()
        self._jobs: JobTable | None = None
        self._cluster: Cluster | None = None
        self._view: View | None = None
        self._asked: Asked | None = None
        self._kept: KeptAsks | None = None
        self._given: dict[int, GivenSeat] = {}
        """Grants by row as they were made out last."""
        self._seen: Snapshot | None = None
        self._ranking: Ranking | None = None
        """What was told when everything was divided last."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        round_end_s = self._round_end_s(snapshot, memory.get("own", {}))
        if round_end_s > snapshot.now:
            return Decision(memory, wake=Wake(round_end_s, self._news), ranking=self._ranking)
        return self.inner.decide(snapshot, memory)

    def _round_end_s(self, snapshot: Snapshot, own: Memory) -> float:
        """When everything is divided next: now, if a round ends, nobody runs or nodes have come or gone."""
        round_s, began_s = self.parameters.round_s, own.get("began_s")
        if not round_s or began_s is None or are_idle(snapshot.grants) or snapshot.cause & Event.CAPACITY:
            return snapshot.now
        rounds = (snapshot.now - began_s) / round_s
        if abs(rounds - round(rounds)) * round_s < _NEARLY_S:
            return snapshot.now
        return float(began_s + math.ceil(rounds) * round_s)

    # -- what the inner policy sees ----------------------------------------------------------------

    def _as_gpus(self, snapshot: Snapshot, own: Memory) -> Snapshot:
        """The cluster without limits to cores and memory."""
        rows = snapshot.changes(self._cursor)
        fresh = self._view is None or snapshot.cluster is not self._cluster
        if self._view is None or rows is None or fresh or snapshot.jobs.table is not self._jobs:
            self._jobs, self._cluster, self._given = snapshot.jobs.table, snapshot.cluster, {}
            self._kept = KeptAsks(snapshot.cluster)
            nothing = np.zeros(snapshot.cluster.nodes)
            bare = replace(snapshot.cluster, node_cpus=nothing, node_memory_gib=nothing, capacities={})
            idle = self.parameters.mode is SynergyMode.ARTIFACT
            self._view = snapshot.view(bare, range(bare.nodes), idle=idle)
            rows = [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
        self._view.follow(rows)
        self._seen = snapshot.seen_as(self._view)
        return self._seen

    # -- what becomes of its decision --------------------------------------------------------------

    def _fed(self, snapshot: Snapshot, decision: Decision, own: Memory) -> Decision:
        """Those whom it lets run, with cores and memory, on GPUs where they fit."""
        assert self._seen is not None
        chosen = self._chosen(snapshot, decision)
        beside = Hosted(snapshot, chosen)
        demands = Demands(snapshot, self.parameters, self._asked)
        self._asked = demands.asked
        asks = self._asks(snapshot, decision, chosen, demands)
        room = self._room(snapshot, asks, beside, demands.asked.stated)
        out = self._divide(room, asks, demands)
        if out is None:
            pinned = [ask._replace(allowed=np.zeros_like(ask.allowed), held=()) for ask in asks]
            room = self._room(snapshot, pinned, beside, demands.asked.stated)
            out = settle(room, pinned, migrate=False) or []
        self._given = {row: self._granted(room, seat) for row, seat in room.seats.items()}
        grants = [given.grant for given in self._given.values()]
        grants += hosts_of_cpu_jobs(snapshot, beside, grants)
        own["began_s"] = float(snapshot.now)
        return self._said(snapshot, decision, chosen, grants, {ask.row for ask in out})

    def _chosen(self, snapshot: Snapshot, decision: Decision) -> dict[int, Grant]:
        """What everybody who is to run holds if it is the inner policy's say, in the order of its service."""
        granted = {grant.job: grant for grant in decision.grants}
        if self.parameters.mode is SynergyMode.ARTIFACT:
            return granted
        gone = {*decision.preempt, *decision.cancel}
        stays = {row: held for row, held in snapshot.grants.items() if row not in gone and row not in granted}
        return stays | granted

    def _asks(
        self, snapshot: Snapshot, decision: Decision, chosen: dict[int, Grant], demands: Demands
    ) -> list[Ask]:
        """Who wants what, in the order in which they are seated."""
        assert self._seen is not None
        assert self._kept is not None
        reserved = bool(snapshot.reservations if decision.reservations is None else decision.reservations)
        is_static = not reserved and not self._seen.occupancy.counts_hosts
        places = _Places(self._seen, self._kept if is_static else KeptAsks(snapshot.cluster), reserved)
        before, self._kept.asks = self._kept.asks, {}
        asks = []
        for grant in chosen.values():
            row, gpus = grant.job, len(grant.devices)
            if not gpus:
                continue
            held, wants = snapshot.grants.get(row), demands.of(row, gpus)
            kept = before.get(row) if is_static else None
            if kept is None or not kept.is_of(grant, held, wants):
                nodes = places.of(grant)
                stays = held is not None and len(held.devices) == gpus and self._keeps
                devices = held.devices if held is not None and stays and nodes.any() else ()
                parts = parts_on(self._seen.occupancy.free.node_of, devices)
                ask = Ask(row, gpus, wants, grant, nodes, devices, grant.share, parts)
                kept = KeptAsk(grant, held, wants.tobytes(), ask, by_size(ask))
            self._kept.asks[row] = kept
            asks.append(kept.ask)
        return self._ordered(asks)

    def _granted(self, room: Room, seat: Seat) -> GivenSeat:
        """What `seat` is as a grant: as it was, unless it has changed."""
        given, each, asked = self._given.get(seat.ask.row), seat.each.tobytes(), seat.ask.grant
        if given and given.asked is asked and given.devices is seat.devices and given.each == each:
            return given
        return GivenSeat(asked, seat.devices, each, _grant(room, seat))

    @property
    def _news(self) -> Event:
        """What ends a round before its time."""
        news = Event.ROUND | Event.CAPACITY
        return news | Event.IDLE if self._keeps else news

    @property
    def _keeps(self) -> bool:
        return self.parameters.mode is SynergyMode.PAPER

    def _ordered(self, asks: list[Ask]) -> list[Ask]:
        """Large jobs first, so that they find whole nodes; the authors' simulator does so under LAS alone.

        `greedy` serves them as they come.
        """
        if self.parameters.mechanism is SynergyMechanism.GREEDY:
            return asks
        if self.parameters.mode is SynergyMode.PAPER:
            assert self._kept is not None
            kept = self._kept.asks
            return sorted(asks, key=lambda ask: kept[ask.row].by_size)
        if self.parameters.inner.name == "las" and self.parameters.mechanism is SynergyMechanism.TUNE:
            return sorted(asks, key=lambda a: -a.gpus)
        return asks

    def _room(self, snapshot: Snapshot, asks: Sequence[Ask], beside: Hosted, stated: Floats) -> Room:
        """The cluster with nobody on it but those who share GPUs: their places are the inner policy's."""
        assert self._seen is not None
        assert self._kept is not None
        shared = [ask.grant for ask in asks if ask.share != 1.0]
        if not shared:
            free = self._kept.empty(self._seen.occupancy.down)
        else:
            scratch = _emptied(self._seen)
            for grant in shared:
                scratch.hold(grant)
            free = scratch.free
        return Room(snapshot.cluster, free, beside.taken, stated)

    def _divide(self, room: Room, asks: list[Ask], demands: Demands) -> list[Ask] | None:
        p = self.parameters
        if p.mechanism is SynergyMechanism.OPT:
            asks, _ = divide(room, asks, demands)
        greedy = p.mechanism is SynergyMechanism.GREEDY
        return settle(room, asks, migrate=p.migrate or not self._keeps, greedy=greedy)

    # -- saying so ---------------------------------------------------------------------------------

    def _said(
        self,
        snapshot: Snapshot,
        decision: Decision,
        chosen: dict[int, Grant],
        grants: Sequence[Grant],
        out: set[int],
    ) -> Decision:
        """The decision that leaves everybody with `grants`."""
        held = snapshot.grants
        given = {grant.job for grant in grants}
        decision.grants = [grant for grant in grants if held.get(grant.job) != grant]
        ends = {*decision.cancel, *decision.reject}
        decision.preempt = [row for row in held if row not in given and row not in ends]
        if out:
            decision.reasons = dict(decision.reasons) | dict.fromkeys(out, _GREEDY)
        if decision.ranking is not None:
            inner = Shown(
                decision.ranking, lambda moment: self._as_gpus(moment, {}), lambda row: True, is_whole=True
            )
            decision.ranking = shown_ranking([inner])
        self._ranking = decision.ranking
        decision.wake = self._wake(snapshot, decision, bool(given))
        return decision

    def _wake(self, snapshot: Snapshot, decision: Decision, runs: bool) -> Wake:
        """At the end of the round.

        Without rounds, or if nothing has changed in this one, so that nothing will in the next, whenever the
        inner policy wants or somebody comes or goes.
        """
        round_s, inner = self.parameters.round_s, decision.wake
        # Who wants to be asked only while somebody waits may have let its moment pass.
        at_s = inner.at_s if inner.at_s > snapshot.now else math.inf
        rests = self._keeps and not decision.grants and not decision.preempt
        if runs and round_s and not rests:
            return Wake(snapshot.now + round_s, self._news)
        return Wake(at_s, inner.on | _COMINGS)


def _emptied(seen: Snapshot) -> Occupancy:
    """A scratch on which nobody holds anything."""
    scratch = seen.scratch()
    for grant in seen.grants.values():
        scratch.release(grant)
    return scratch


class _Places:
    """Nodes of the type that the inner policy chose, where each job may be; none if it stays."""

    def __init__(self, seen: Snapshot, kept: KeptAsks, reserved: bool) -> None:
        """`kept` has those that are known already; nobody may move where devices are `reserved`."""
        self.cluster, self.jobs, self.masks, self.reserved = (
            seen.cluster,
            seen.jobs.table,
            kept.nodes,
            reserved,
        )
        # Who looks at no cores, memory or quotas does not look at who runs either.
        self._empty = _emptied(seen) if seen.occupancy.counts_hosts else seen.occupancy
        self._fit = Fitter(seen, consolidate)
        self._nowhere = np.zeros(seen.cluster.nodes, dtype=bool)
        self._is_one_type = len(seen.cluster.type_names) == 1

    def of(self, grant: Grant) -> Bools:
        """A mask of nodes; jobs that ask for the same share one."""
        row, jobs = grant.job, self.jobs
        devices = grant.devices[:1] if self._is_one_type else grant.devices
        kinds = {self.cluster.device_type.item(device) for device in devices}
        if self.reserved or len(kinds) != 1 or grant.share != 1.0 or grant.role or row in jobs.parts:
            return self._nowhere
        columns = (jobs.gpus, jobs.gpu_types, jobs.node_set, jobs.tenant)
        key = (*kinds, *(column.item(row) for column in columns), jobs.gpu_memory_gib.item(row))
        if key not in self.masks:
            mask = self._nowhere.copy()
            mask[nodes_in(self._fit.nodes_for(self._empty, row)[int(key[0])])] = True
            self.masks[key] = mask
        return self.masks[key]


def _grant(room: Room, seat: Seat) -> Grant:
    """What `seat` is as a grant; what no node of it limits is left as the job asked for it."""
    gpus = len(seat.devices) * seat.ask.share
    nodes = [node for node, _ in seat.parts]
    given: Floats = np.where(room.unlimited[nodes].all(axis=0), np.nan, gpus * seat.each)
    grant = seat.ask.grant._replace(devices=seat.devices, cpus=given.item(0), memory_gib=given.item(1))
    return with_one_nan(grant)
