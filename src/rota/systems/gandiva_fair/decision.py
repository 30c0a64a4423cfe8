"""One decision of Gandiva_fair, step by step: what is each job due, on which servers, whose turn is it.

Memory    `parts`    per job, GPUs by node: the servers it belongs to
          `gpus`     healthy GPUs of each node
          `passed`   per job, how far it has advanced: service received over service due, in quanta
          `servers`  the same for each server with big jobs: its small jobs count as one
          `due`      per job where jobs take turns, GPUs it is due on its servers
          `ran`      per server with big jobs, GPUs that its small jobs hold and GPUs that they are due
          `moved`    per job, when it last went to another server
          `tenants`  per tenant while jobs take turns, how it stands (`arrears.Standing`)
          `arrears`  per tenant, what it is short of, and the factor on its tickets for it
          `turns`, `longer`   per job, how long its turns are (`stages.turn_lengths`)
          `counted_s`, `ends_s`   when turns were last counted, and end of the turn
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from rota.model.columns import Floats, Ints
from rota.model.grants import Code, Constraint, Grant, Leave
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.solvers.water import fill
from rota.stages.grounds import Grounds
from rota.stages.runners import Runner, RunnerPlacement
from rota.systems.gandiva_fair import arrears
from rota.systems.gandiva_fair.balance import Movable, kind_of, to_fewer_tickets, to_idle, to_other_type
from rota.systems.gandiva_fair.parameters import GandivaFairParameters, Tickets
from rota.systems.gandiva_fair.ranking import ByTurns
from rota.systems.gandiva_fair.servers import Servers
from rota.systems.gandiva_fair.shares import SharedCluster, TenantShares, rates_of
from rota.systems.gandiva_fair.turns import StrideTurns
from rota.table.free import mask_of

LEAST = 0.01
"""Part of its GPUs that a job is due at least: a tenant's job on a type it has sold moves before long."""
TAKES_TURNS = Constraint(
    Code.POLICY,
    detail="waits for its turn on the server it belongs to, in proportion to its tenant's tickets",
)
"""Reason for a waiting job that would fit on what is free."""


def fresh() -> Memory:
    """The memory of a new run."""
    return {
        "parts": {},
        "gpus": [],
        "passed": {},
        "servers": {},
        "due": {},
        "ran": {},
        "moved": {},
        "tenants": {},
        "arrears": {},
        "counted_s": 0.0,
        "ends_s": -math.inf,
    }


class FairDecision:
    """What Gandiva_fair does at one moment."""

    def __init__(
        self, snapshot: Snapshot, parameters: GandivaFairParameters, memory: Memory, grounds: Grounds
    ) -> None:
        self.snapshot = snapshot
        self.p = parameters
        self.memory = memory
        self.grounds = grounds
        self.now = snapshot.now
        live = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
        asks = snapshot.jobs.gpus[live] > 0
        self.live: Ints = live[asks]
        self.without_gpus = [row for row in live[~asks].tolist() if snapshot.waits(row)]
        self.gpus = _healthy(snapshot)
        self.turns = StrideTurns(snapshot, memory, parameters.quantum)
        self._unused: dict[int, list[float]] | None = None
        self.is_changed = False
        """True if the live jobs, or the cluster, have changed since the last decision."""
        self.touched: set[int] = set()
        """Servers whose jobs, running or assigned, have changed."""

    def decide(self) -> Decision:
        self._follow_cluster()
        self._count_arrears()
        self.turns.count(self.live)
        self._follow_jobs()
        servers, newcomers = self._servers(), self._newcomers()
        factors = {tenant: factor for tenant, (*_, factor) in self.memory["arrears"].items()}
        due = self._division.shares(self.p, factors)
        for row in newcomers:
            self._settle(servers, row, due)
        self._hand_out(servers, due)
        again_s = self._balance(servers, due)
        runners, places = self._runners(servers)
        grants, leaving = places.place(runners)
        self.turns.note(servers, grants, leaving)
        self._note_tenants(grants, leaving)
        return Decision(
            self.memory,
            grants,
            leaving,
            Leave.IN_MEMORY,
            wake=Wake(at_s=min(again_s, self.turns.ends_s)),
            otherwise=TAKES_TURNS,
            targets=self.memory["due"],
            target="GPUs on average",
            ranking=ByTurns(self.memory, self.p.quantum),
        )

    # -- what has happened -------------------------------------------------------------------------

    def _follow_cluster(self) -> None:
        """Clear the assignments to servers that have changed; jobs that run there are taken over again."""
        before = self.memory["gpus"]
        if before == self.gpus:
            return
        self.is_changed = True
        same = {node for node, gpus in enumerate(self.gpus) if node < len(before) and before[node] == gpus}
        parts = self.memory["parts"]
        for row in [row for row, on in parts.items() if not same.issuperset(on)]:
            del parts[row]
        self.memory["gpus"] = self.gpus

    def _follow_jobs(self) -> None:
        """Forget ended jobs; a job that runs without belonging to a server belongs where it runs."""
        memory, live = self.memory, set(self.live.tolist())
        for row in [row for row in memory["parts"] if row not in live]:
            self.touched.update(memory["parts"].pop(row))
            self.is_changed = True
        for name in ("passed", "moved"):
            for row in [row for row in memory[name] if row not in live]:
                del memory[name][row]
        self.turns.lengths.forget(live)
        node_of = self.snapshot.occupancy.free.node_of
        for row, grant in self.snapshot.grants.items():
            if row in memory["parts"] or not grant.devices:
                continue
            nodes = [node_of[device] for device in grant.devices]
            if all(self.gpus[node] for node in nodes):
                memory["parts"][row] = {node: nodes.count(node) for node in nodes}
                self.is_changed = True

    def _servers(self) -> Servers:
        servers = Servers(self.snapshot.cluster, self.gpus)
        share = self.snapshot.jobs.table.gpu_share
        for row, parts in self.memory["parts"].items():
            servers.enter(row, parts, share.item(row), 0.0)
        self.memory["parts"] = servers.parts_of
        return servers

    def _newcomers(self) -> list[int]:
        """Jobs that wait and belong to no server."""
        parts = self.memory["parts"]
        return [row for row in self.live.tolist() if row not in parts and self.snapshot.waits(row)]

    # -- what each job is due ----------------------------------------------------------------------

    @cached_property
    def accepts(self) -> dict[int, dict[int, int]]:
        """Per live job and type, the mask of the servers it could run on."""
        kinds, type_of = {}, self.snapshot.cluster.node_type
        for row in self.live.tolist():
            kind = self.grounds.kind[row]
            if kind not in kinds:
                masks = self.grounds.accepting(row)
                if in_part := self.grounds.in_part(row):
                    masks = [mask_of(list(in_part))]
                kinds[kind] = {int(type_of[(mask & -mask).bit_length() - 1]): mask for mask in masks}
        return {row: kinds[self.grounds.kind[row]] for row in self.live.tolist()}

    @cached_property
    def rates(self) -> Floats:
        """Work per second of each live job on each type, [row, type], 0 where it finds too few GPUs."""
        able = np.zeros((len(self.live), len(self.snapshot.cluster.type_names)))
        room: dict[int, int] = {}
        for place, row in enumerate(self.live.tolist()):
            for kind, mask in self.accepts[row].items():
                if mask not in room:
                    room[mask] = sum(gpus for node, gpus in enumerate(self.gpus) if mask >> node & 1)
                able[place, kind] = room[mask] >= self.snapshot.gpus_of[row]
        rates: Floats = np.where(able > 0.0, rates_of(self.snapshot, self.live), 0.0)
        return rates

    @cached_property
    def rates_of(self) -> dict[int, Floats]:
        """Rates by job."""
        return dict(zip(self.live.tolist(), self.rates, strict=True))

    @cached_property
    def _division(self) -> SharedCluster:
        kinds = len(self.snapshot.cluster.type_names)
        kind_of_node = self.snapshot.cluster.node_type
        capacity = np.bincount(kind_of_node, self.gpus, minlength=kinds).astype(np.float64)
        return SharedCluster(self.snapshot, self.live, self.rates, capacity)

    def _count_arrears(self) -> None:
        """Raise the tickets of tenants that have received less than their part."""
        stood = {tenant: arrears.Standing(*one) for tenant, one in self.memory["tenants"].items()}
        elapsed_s = self.now - self.memory["counted_s"]
        self.memory["arrears"] = arrears.after(self.memory["arrears"], stood, elapsed_s)

    def _note_tenants(self, grants: Iterable[Grant], leaving: Iterable[int]) -> None:
        """Remember what tenants hold, and what they are due, while any job takes turns."""
        self.memory["tenants"] = {}
        if not self.memory["due"]:
            return
        runs = self.snapshot.grants.keys() - set(leaving) | {grant.job for grant in grants}
        due = self._division.shares(self.p, {}).totals()
        placed, held, turn_s = (dict.fromkeys(due, 0.0) for _ in range(3))
        for row in self.memory["parts"]:
            tenant, demand = self._tenant(row), self.grounds.demand[row]
            now = demand if row in runs else 0.0
            own = self.memory["due"].get(row)
            placed[tenant] += now if own is None else own
            held[tenant] += now
            own_s = self.p.quantum * self.turns.lengths.times(row)
            turn_s[tenant] = max(turn_s[tenant], own_s * demand / max(due[tenant], LEAST))
        self.memory["tenants"] = {
            tenant: [due[tenant], placed[tenant], held[tenant], turn_s[tenant]] for tenant in due
        }

    def _hand_out(self, servers: Servers, due: TenantShares) -> None:
        """Divide what tenants are due of a type among their jobs there."""
        owners: dict[tuple[int, int], list[int]] = {}
        for row in servers.parts_of:
            owners.setdefault((self._tenant(row), kind_of(servers, row)), []).append(row)
        demand = self.grounds.demand
        for (tenant, kind), rows in owners.items():
            most = np.array([demand[row] for row in rows])
            weights = most if self.p.tickets is Tickets.GPU else np.ones(len(rows))
            parts = np.maximum(fill(due.of(tenant)[kind], weights, most), LEAST * most)
            for row, part in zip(rows, parts.tolist(), strict=True):
                servers.set_due(row, part)

    def _tenant(self, row: int) -> int:
        return int(self.snapshot.jobs.table.tenant[row])

    # -- which servers a job belongs to ------------------------------------------------------------

    def _settle(self, servers: Servers, row: int, due: TenantShares) -> None:
        """Assign a newcomer to servers: of the type its tenant has most left of, or the fastest."""
        rates: list[float] = self.rates_of[row].tolist()
        demand = self.grounds.demand[row]
        left = self._left(servers, due)[self._tenant(row)]
        kinds = [kind for kind in self.accepts[row] if rates[kind] > 0.0]
        kinds.sort(key=lambda kind: (-min(left[kind], demand), -rates[kind], kind))
        for kind in kinds:
            nodes = servers.of_type(kind, self.accepts[row][kind])
            parts = servers.choose(nodes, self.snapshot.gpus_of[row], demand, self.grounds.in_part(row))
            if parts:
                self._enter(servers, row, parts)
                left[kind] -= demand
                return

    def _left(self, servers: Servers, due: TenantShares) -> dict[int, list[float]]:
        """Per tenant, what it is due of each type beyond what its jobs there ask for."""
        if self._unused is None:
            self._unused = {tenant: due.of(tenant).tolist() for tenant in due.place}
            for row in servers.parts_of:
                self._unused[self._tenant(row)][kind_of(servers, row)] -= self.grounds.demand[row]
        return self._unused

    def _enter(self, servers: Servers, row: int, parts: dict[int, int]) -> None:
        servers.enter(row, parts, self.snapshot.jobs.table.gpu_share.item(row), 0.0)
        self.turns.join(servers, row)
        self.touched.update(parts)
        self.is_changed = True

    def _balance(self, servers: Servers, due: TenantShares) -> float:
        """Migrate jobs; returns when to look again because some job may not move yet."""
        movable = Movable(
            self.accepts,
            self.snapshot.gpus_of,
            {row: self.grounds.demand[row] for row in self.live.tolist()},
            self.memory["moved"],
            self.p.spacing,
            self.now,
            self.turns.lengths.goes_on,
        )
        if not self.is_changed and not self.turns.is_over:
            return math.inf
        kinds = range(len(self.snapshot.cluster.type_names))
        if len(kinds) > 1:
            self._change_types(servers, due, movable)
        for kind in kinds:
            for row, node in to_idle(servers, kind, movable):
                self._move(servers, row, {node: self.snapshot.gpus_of[row]})
            for row, node in to_fewer_tickets(servers, kind, movable, self.p.theta):
                self._move(servers, row, {node: self.snapshot.gpus_of[row]})
        return movable.again_s

    def _change_types(self, servers: Servers, due: TenantShares, movable: Movable) -> None:
        rows_of: dict[int, list[int]] = {}
        for row in sorted(servers.parts_of):
            rows_of.setdefault(self._tenant(row), []).append(row)
        for tenant, rows in rows_of.items():
            changes = list(to_other_type(servers, rows, due.of(tenant), self.rates_of, movable))
            for row, kind in changes:
                nodes = servers.of_type(kind, self.accepts[row][kind])
                in_part, demand = self.grounds.in_part(row), self.grounds.demand[row]
                parts = servers.choose(nodes, self.snapshot.gpus_of[row], demand, in_part)
                if parts:
                    self._move(servers, row, parts)
            if changes:
                self._hand_out(servers, due)

    def _move(self, servers: Servers, row: int, parts: dict[int, int]) -> None:
        due = servers.due(row)
        self.touched.update(servers.leave(row))
        self._enter(servers, row, parts)
        servers.set_due(row, due)
        self.memory["moved"][row] = self.now

    # -- which jobs run ----------------------------------------------------------------------------

    def _runners(self, servers: Servers) -> tuple[list[Runner], RunnerPlacement]:
        """The jobs that run from now on, on servers where jobs wait, or have come or gone."""
        grants = self.snapshot.grants
        waits = {row for row in servers.parts_of if row not in grants}
        nodes = self.touched & servers.gpus.keys()
        nodes.update(node for row in waits for node in servers.parts_of[row])
        nodes = self.turns.together(servers, nodes)
        rows = {row for node in nodes for row in servers.rows[node]}
        places = RunnerPlacement(self.snapshot, sorted(rows))
        runners = list(self.turns.runners(servers, nodes, places))
        return runners + [Runner(row, -1, 0) for row in self.without_gpus], places


def _healthy(snapshot: Snapshot) -> list[int]:
    """GPUs of each node that may be granted."""
    occupancy = snapshot.occupancy
    gpus = list(occupancy.free.size)
    for device in occupancy.down:
        gpus[occupancy.free.node_of[device]] -= 1
    for node in occupancy.down_nodes:
        gpus[node] = 0
    return gpus
