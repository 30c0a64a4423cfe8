"""Synergy: CPU cores and host memory by need instead of in proportion to GPUs, under any policy.

Paper     Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022
Decides   cores, memory and storage bandwidth of each job, and where it runs; the inner policy decides which
          jobs run
Needs     how fast each workload is by cores and memory for each GPU; what the inner policy needs
Idea      1. The inner policy chooses jobs by GPUs alone, as if nodes had unlimited cores and memory.
          2. A job wants the least with which it is as fast as it can be; it is placed where that fits.
          3. If that fits nowhere it gets its share in proportion to GPUs; if that does not fit either, jobs
             on the node that hold more than their share are cut to it: no job is slower than with its share.
          4. Everything is divided again in rounds of five minutes.
Departs   A job that runs keeps its GPUs if what it wants fits there, and the inner policy sees what runs.
          Speed follows the table at the granted amounts, not only at best and share.  Cores follow a node's
          own GPUs where nodes differ.  A job that was never profiled wants what it asks for, or its share.
          `opt` counts jobs by class and places its answer as `tune` does, not by their second program.
          Policies that let jobs share GPUs are refused.  Storage bandwidth is divided, and not enforced: a
          grant does not carry it.
Checked   systems/synergy.md, worked examples 1 to 4
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.grants import Code, Constraint, Grant, are_idle, with_one_nan
from rota.model.jobs import JobTable
from rota.scheduler.decision import Decision, Event, Memory, Ranking, Wake
from rota.scheduler.policy import Lever, levers_of, register
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.nested import Nested, WhenDue
from rota.stages.shown_ranking import Shown, shown_ranking
from rota.systems.synergy.beside import Hosted, hosts_of_cpu_jobs
from rota.systems.synergy.demand import Asked, Demands
from rota.systems.synergy.kept import KeptAsk, KeptAsks, by_size
from rota.systems.synergy.opt import divide
from rota.systems.synergy.parameters import SynergyMechanism, SynergyParameters
from rota.systems.synergy.places import Places, emptied
from rota.systems.synergy.room import AMOUNTS, Ask, Room, Seat, parts_on
from rota.systems.synergy.tune import settle
from rota.systems.synergy.unmoved import Unmoved, is_movable, stopped, without
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
    own = {
        Lever.MIGRATE: p.migrate or p.leases_end or p.mechanism is SynergyMechanism.GREEDY,
        Lever.PREEMPT: p.leases_end or p.mechanism is SynergyMechanism.GREEDY,
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
    heeds_kind=lambda p: p.inner.heeds_kind,
    heeds_weight=lambda p: p.inner.heeds_weight,
    promises=lambda p: p.inner.promises,
    between=lambda p: p.inner.between,
)
class Synergy:
    """Gives the jobs that an inner policy runs the cores and the memory that they can use."""

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
        self._unmoved = Unmoved()
        self._given: dict[int, GivenSeat] = {}
        """Grants by row as last computed."""
        self._seen: Snapshot | None = None
        self._ranking: Ranking | None = None
        """The ranking reported when resources were last divided."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        round_end_s = self._round_end_s(snapshot, memory.get("own", {}))
        if round_end_s > snapshot.now:
            return Decision(memory, wake=Wake(round_end_s, self._news), ranking=self._ranking)
        return self.inner.decide(snapshot, memory)

    def _round_end_s(self, snapshot: Snapshot, own: Memory) -> float:
        """When to divide next: now, if a round ends, no job runs or nodes have come or gone."""
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
            self._kept, self._unmoved = KeptAsks(snapshot.cluster), Unmoved()
            nothing = np.zeros(snapshot.cluster.nodes)
            bare = replace(snapshot.cluster, node_cpus=nothing, node_memory_gib=nothing, capacities={})
            idle = self.parameters.leases_end
            self._view = snapshot.view(bare, range(bare.nodes), idle=idle)
            rows = [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
        self._unmoved.name(rows)
        self._view.follow(rows)
        self._seen = snapshot.seen_as(self._view)
        return self._seen

    # -- what becomes of its decision --------------------------------------------------------------

    def _fed(self, snapshot: Snapshot, decision: Decision, own: Memory) -> Decision:
        """The jobs that the inner policy runs, with cores and memory, on GPUs where they fit."""
        demands = Demands(snapshot, self.parameters, self._asked)
        self._asked = demands.asked
        own["began_s"] = float(snapshot.now)
        said = self._of_named(snapshot, decision, demands)
        return self._of_all(snapshot, decision, demands) if said is None else said

    def _of_named(self, snapshot: Snapshot, decision: Decision, demands: Demands) -> Decision | None:
        """The grants if only jobs to which something has happened need looking at; None if all need it."""
        assert self._seen is not None
        assert self._kept is not None
        down, named = self._seen.occupancy.down, self._unmoved.named
        may_stay = self._may_stay and demands.asked.is_endless and self._is_static(snapshot, decision)
        if not may_stay or not self._unmoved.knows(decision, down):
            return None
        chosen = self._chosen(snapshot, decision, named)
        asks = self._asks(snapshot, chosen.values(), demands, self._kept, reserved=False)
        if len(asks) < len(chosen) or not all(map(is_movable, asks)):
            return None
        seats: dict[int, Seat] = {}
        if asks:
            nothing = np.zeros((snapshot.cluster.nodes, len(AMOUNTS)))
            room = Room(snapshot.cluster, without(self._seen, named), nothing, demands.asked.stated)
            if self._divide(room, asks, demands) is None:
                return None
            seats = room.seats
        given = {row: self._granted(room, seat) for row, seat in seats.items()}
        for row in named - given.keys():
            self._given.pop(row, None)
            self._kept.asks.pop(row, None)
        self._given |= given
        _tell(snapshot, decision, [seat.grant for seat in given.values()], named - given.keys())
        self._unmoved.settled(asks, decision, down)
        return self._said(snapshot, decision, bool(self._given))

    def _of_all(self, snapshot: Snapshot, decision: Decision, demands: Demands) -> Decision:
        """The grants of all jobs, each seated again."""
        assert self._seen is not None
        assert self._kept is not None
        chosen = self._chosen(snapshot, decision)
        beside = Hosted(snapshot, chosen)
        reserved, is_static = _is_reserved(snapshot, decision), self._is_static(snapshot, decision)
        kept = self._kept if is_static else KeptAsks(snapshot.cluster)
        asks = self._asks(snapshot, chosen.values(), demands, kept, reserved)
        self._kept.asks = {ask.row: kept.asks[ask.row] for ask in asks} if is_static else {}
        room = self._room(snapshot, asks, beside, demands.asked.stated)
        out = self._divide(room, asks, demands)
        is_known = self._may_stay and is_static and out is not None and len(asks) == len(chosen)
        if out is None:
            pinned = [ask._replace(allowed=np.zeros_like(ask.allowed), held=()) for ask in asks]
            room = self._room(snapshot, pinned, beside, demands.asked.stated)
            out = settle(room, pinned, migrate=False) or []
        self._given = {row: self._granted(room, seat) for row, seat in room.seats.items()}
        grants = [given.grant for given in self._given.values()]
        grants += hosts_of_cpu_jobs(snapshot, beside, grants)
        if out:
            decision.reasons = dict(decision.reasons) | dict.fromkeys((ask.row for ask in out), _GREEDY)
        given = {grant.job for grant in grants}
        leave = {row for row in snapshot.grants if row not in given}
        _tell(snapshot, decision, grants, leave)
        self._unmoved.settled(asks if is_known else None, decision, self._seen.occupancy.down)
        return self._said(snapshot, decision, bool(given))

    def _is_static(self, snapshot: Snapshot, decision: Decision) -> bool:
        """True if a job's possible places do not depend on the jobs that run."""
        assert self._seen is not None
        return not _is_reserved(snapshot, decision) and not self._seen.occupancy.counts_hosts

    def _chosen(
        self, snapshot: Snapshot, decision: Decision, rows: Set[int] | None = None
    ) -> dict[int, Grant]:
        """What the jobs to run, or only `rows`, hold if the inner policy alone decides."""
        granted = {grant.job: grant for grant in decision.grants}
        if self.parameters.leases_end:
            return granted
        passed, held = {*decision.preempt, *decision.cancel, *granted}, snapshot.grants
        if rows is None:
            return {row: grant for row, grant in held.items() if row not in passed} | granted
        return {row: held[row] for row in rows if row in held and row not in passed} | granted

    def _asks(
        self, snapshot: Snapshot, chosen: Iterable[Grant], demands: Demands, kept: KeptAsks, reserved: bool
    ) -> list[Ask]:
        """What each job of `chosen` wants, in order of seating; `kept` holds the asks already known."""
        assert self._seen is not None
        places = Places(self._seen, kept, reserved)
        asks = []
        for grant in chosen:
            row, gpus = grant.job, len(grant.devices)
            if not gpus:
                continue
            held, wants, one = snapshot.grants.get(row), demands.of(row, gpus), kept.asks.get(row)
            if one is None or not one.is_of(grant, held, wants):
                nodes = places.of(grant)
                stays = held is not None and len(held.devices) == gpus and self._keeps
                devices = held.devices if held is not None and stays and nodes.any() else ()
                parts = parts_on(self._seen.occupancy.free.node_of, devices)
                ask = Ask(row, gpus, wants, grant, nodes, devices, grant.share, parts)
                one = kept.asks[row] = KeptAsk(grant, held, wants.tobytes(), ask, by_size(ask))
            asks.append(one.ask)
        return self._ordered(asks, kept)

    def _granted(self, room: Room, seat: Seat) -> GivenSeat:
        """`seat` as a grant: the earlier one, unless it has changed."""
        given, each, asked = self._given.get(seat.ask.row), seat.each.tobytes(), seat.ask.grant
        if given and given.asked is asked and given.devices is seat.devices and given.each == each:
            return given
        return GivenSeat(asked, seat.devices, each, _grant(room, seat))

    @property
    def _news(self) -> Event:
        """Events that end a round early."""
        news = Event.ROUND | Event.CAPACITY
        return news | Event.IDLE if self._keeps else news

    @property
    def _may_stay(self) -> bool:
        """True if a job that has what it wants stays where it is, whatever else runs."""
        served = (SynergyMechanism.TUNE, SynergyMechanism.PROPORTIONAL)
        return self._keeps and self.parameters.mechanism in served

    @property
    def _keeps(self) -> bool:
        return not self.parameters.leases_end

    def _ordered(self, asks: list[Ask], kept: KeptAsks) -> list[Ask]:
        """The order of seating: large jobs first, so that they find whole nodes; `greedy` keeps the order."""
        if self.parameters.mechanism is SynergyMechanism.GREEDY:
            return asks
        return sorted(asks, key=lambda ask: kept.asks[ask.row].by_size)

    def _room(self, snapshot: Snapshot, asks: Sequence[Ask], beside: Hosted, stated: Floats) -> Room:
        """The cluster with only jobs that share GPUs on it: their places are the inner policy's."""
        assert self._seen is not None
        assert self._kept is not None
        shared = [ask.grant for ask in asks if ask.share != 1.0]
        if not shared:
            free = self._kept.empty(self._seen.occupancy.down)
        else:
            scratch = emptied(self._seen)
            for grant in shared:
                scratch.hold(grant)
            free = scratch.free
        return Room(snapshot.cluster, free, beside.taken, stated)

    def _divide(self, room: Room, asks: list[Ask], demands: Demands) -> list[Ask] | None:
        p = self.parameters
        room.scatters = p.scatter
        if p.mechanism is SynergyMechanism.OPT:
            asks, _ = divide(room, asks, demands)
        greedy = p.mechanism is SynergyMechanism.GREEDY
        return settle(room, asks, migrate=p.migrate or not self._keeps, greedy=greedy)

    # -- saying so ---------------------------------------------------------------------------------

    def _said(self, snapshot: Snapshot, decision: Decision, runs: bool) -> Decision:
        """`decision` with the ranking and the wake of this policy."""
        if decision.ranking is not None:
            inner = Shown(
                decision.ranking, lambda moment: self._as_gpus(moment, {}), lambda row: True, is_whole=True
            )
            decision.ranking = shown_ranking([inner])
        self._ranking = decision.ranking
        decision.wake = self._wake(snapshot, decision, runs)
        return decision

    def _wake(self, snapshot: Snapshot, decision: Decision, runs: bool) -> Wake:
        """Wake at the end of the round.

        Without rounds, or if nothing has changed in this one, so that nothing will in the next, whenever the
        inner policy wants or a job comes or goes.
        """
        round_s, inner = self.parameters.round_s, decision.wake
        # A policy that asks to be called only while jobs wait may have let its moment pass.
        at_s = inner.at_s if inner.at_s > snapshot.now else math.inf
        rests = self._keeps and not decision.grants and not decision.preempt
        if runs and round_s and not rests:
            return Wake(snapshot.now + round_s, self._news)
        return Wake(at_s, inner.on | _COMINGS)


def _is_reserved(snapshot: Snapshot, decision: Decision) -> bool:
    """True if devices are kept free for a job."""
    return bool(snapshot.reservations if decision.reservations is None else decision.reservations)


def _tell(snapshot: Snapshot, decision: Decision, grants: Sequence[Grant], leave: Set[int]) -> None:
    """`grants` are in force from now on, and jobs of `leave` that hold something end."""
    held, ends = snapshot.grants, {*decision.cancel, *decision.reject}
    decision.grants = [grant for grant in grants if held.get(grant.job) != grant]
    decision.preempt = stopped(held, leave - ends)


def _grant(room: Room, seat: Seat) -> Grant:
    """`seat` as a grant; amounts that no node of it limits stay as the job asked for them."""
    if room.is_endless:
        return with_one_nan(seat.ask.grant._replace(devices=seat.devices, cpus=math.nan, memory_gib=math.nan))
    gpus = len(seat.devices) * seat.ask.share
    nodes = [node for node, _ in seat.parts]
    given: Floats = np.where(room.unlimited[nodes].all(axis=0), np.nan, gpus * seat.each)
    grant = seat.ask.grant._replace(devices=seat.devices, cpus=given.item(0), memory_gib=given.item(1))
    return with_one_nan(grant)
