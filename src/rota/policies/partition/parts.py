"""Parts: a cluster cut along one of its levels, with a policy of its own for each unit.

Virtual clusters with nodes of their own (Helios, Lucid, cells of a tenant) are this: a part sees its nodes
as the whole cluster and its tenants' jobs as all the jobs there are; rows keep their numbers, devices are
numbered anew.  What the parts decide is put together again.  Memory nests: one entry for each part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from rota.errors import InputError, PolicyError
from rota.model.cluster import Cluster
from rota.model.columns import Bools, Ints
from rota.model.feasible import feasible_rows
from rota.model.grants import Grant, Reservation
from rota.model.jobs import JobTable
from rota.model.tenants import Tenant, Tenants
from rota.model.units import plural
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Cursor, Snapshot, table_of
from rota.table.occupancy import EPSILON, Occupancy
from rota.table.rows import RowSet
from rota.table.state import Phase, State, plain_rows

_PENDING, _RUNNING = int(Phase.PENDING), int(Phase.RUNNING)

_SHARED = (
    "now", "jobs", "submitted", "phase", "held", "refused", "first_start_s", "since_s", "run_s", "service",
    "service_rate", "starts", "preemptions", "failures",
)  # fmt: skip


class PartState(State):
    """The state of the loop as the policy of one part sees it; columns are the loop's own."""

    def __init__(self, whole: State, name: str, nodes: Ints) -> None:
        # Not State.__init__: every column is shared, and only what differs from the whole is made here.
        self.name = name
        self.jobs, self.progress, self.gpus_of = whole.jobs, whole.progress, whole.gpus_of
        self.cluster = whole.cluster.take(nodes, tenants_below(whole.cluster, name, nodes))
        self.occupancy = Occupancy(self.cluster, self.jobs)
        self.grants: dict[int, Grant] = {}
        self.reservations: tuple[Reservation, ...] = ()
        self.waiting, self.running = RowSet(0), RowSet(0)
        self.waiting_gpus = self.special = 0
        self.log: list[int] = []
        self._plain = plain_rows(self.jobs, self.cluster).tolist()
        self.feasible: Bools = feasible_rows(self.jobs, self.cluster)
        first = whole.cluster.first_device
        self.outer = [d for node in nodes for d in range(first[node], first[node + 1])]
        """Device of the whole cluster behind each device of the part."""
        self.inner = {device: i for i, device in enumerate(self.outer)}
        self.outer_node: list[int] = nodes.tolist()

    # -- translation -------------------------------------------------------------------------------

    def contains(self, grant: Grant) -> bool:
        """True if all that `grant` holds is in this part."""
        if not grant.devices:
            return grant.node in self.outer_node
        return all(device in self.inner for device in grant.devices)

    def inward(self, grant: Grant) -> Grant:
        """A grant of the whole cluster in the numbers of the part."""
        node = self.outer_node.index(grant.node) if grant.node >= 0 else -1
        return grant._replace(devices=tuple(self.inner[d] for d in grant.devices), node=node)

    def outward(self, grant: Grant) -> Grant:
        """A grant of the part in the numbers of the whole cluster."""
        node = self.outer_node[grant.node] if grant.node >= 0 else -1
        return grant._replace(devices=tuple(self.outer[d] for d in grant.devices), node=node)

    # -- keeping up with the whole -----------------------------------------------------------------

    def follow(self, whole: State, rows: list[int], strangers: set[int]) -> None:
        """Bring the part up to date: `rows` of it have changed, `strangers` are devices it must not touch."""
        for name in _SHARED:
            setattr(self, name, getattr(whole, name))
        for row in rows:
            self._forget(row)
        self._close(whole, strangers)
        for row in rows:
            self._enter(whole, row)
        if whole.reservations or self.reservations:
            own = [r for r in whole.reservations if all(d in self.inner for d in r.devices)]
            self.reservations = tuple(
                r._replace(devices=tuple(self.inner[d] for d in r.devices)) for r in own
            )

    def _forget(self, row: int) -> None:
        if row in self.waiting:
            self.waiting.remove(row)
            self.waiting_gpus -= self.gpus_of[row]
        elif row in self.running:
            self.running.remove(row)
            self.occupancy.release(self.grants.pop(row))
        else:
            return
        self.special -= not self._plain[row]

    def _enter(self, whole: State, row: int) -> None:
        phase = whole.phase.item(row)
        if phase == _PENDING:
            self.waiting.add(row)
            self.waiting_gpus += self.gpus_of[row]
        elif phase == _RUNNING and self.contains(whole.grants[row]):
            grant = self.inward(whole.grants[row])
            self.running.add(row)
            self.grants[row] = grant
            self.occupancy.hold(grant)
        else:
            self.log.append(row)
            return
        self.special += not self._plain[row]
        self.log.append(row)

    def _close(self, whole: State, strangers: set[int]) -> None:
        """Devices that are lost, or held by jobs of other parts, are not there."""
        occupancy = self.occupancy
        lost, lost_nodes = whole.occupancy.down, whole.occupancy.down_nodes
        occupancy.down_nodes = {i for i, node in enumerate(self.outer_node) if node in lost_nodes}
        if not lost and not strangers and not occupancy.down:
            return
        closed = {self.inner[d] for d in lost | strangers if d in self.inner}
        for device in sorted(closed - occupancy.down):
            if occupancy.claimed[device] <= EPSILON:
                occupancy.free.remove(device)
            occupancy.down.add(device)
        for device in sorted(occupancy.down - closed):
            occupancy.down.remove(device)
            if occupancy.claimed[device] <= EPSILON:
                occupancy.free.put(device)


def tenants_below(cluster: Cluster, name: str, nodes: Ints) -> Tenants:
    """Tenants whose quotas still matter inside a part: those of the part, unless its nodes say as much."""
    gpus = int(cluster.node_gpus[nodes].sum())

    def matters(tenant: Tenant) -> bool:
        own = tenant.path == name or tenant.path.startswith(name + "/")
        return own and (tenant.path != name or tenant.quota_gpus < gpus or bool(tenant.quota_by_type))

    return Tenants.of(*(t for t in cluster.tenants.by_path.values() if matters(t)))


class Partition:
    """Decides by a policy for each unit of the level `by`; `make` builds the one of a unit, by its name.

    A job belongs to the unit that its tenant, or a parent of its tenant, is named after.  Jobs of no unit,
    and jobs that their unit could never hold, are rejected.  Raises InputError if the cluster has no such
    level, PolicyError if parts preempt in different ways at one moment.
    """

    def __init__(self, by: str, make: Callable[[str], Policy]) -> None:
        self.by = by
        self.make = make
        self._cursor = Cursor()
        self._jobs: JobTable | None = None  # the table that the caches below were built from
        self._parts: list[PartState] = []
        self._policies: list[Policy] = []
        self._part_of: list[int] = []
        self._refused: dict[int, str] = {}
        self._strangers: dict[int, Grant] = {}

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        """The decisions of all parts that are due, as one."""
        self._follow(snapshot)
        entries: dict[str, Memory] = memory.setdefault("parts", {})
        found: list[tuple[PartState, Decision]] = []
        for part, policy in zip(self._parts, self._policies, strict=True):
            entry = entries.get(part.name)
            view = snapshot.seen_as(part)
            if entry is None or _is_due(_wake(entry), view):
                decision = policy.decide(view, entry["memory"] if entry else {})
                entries[part.name] = _entry(decision)
                found.append((part, decision))
        wake = _joined([_wake(entry) for entry in entries.values()])
        return _together(memory, found, self._rejects(snapshot), wake, snapshot.reservations)

    def part(self, name: str) -> PartState:
        """The part of the unit `name`, as of the last decision."""
        return next(part for part in self._parts if part.name == name)

    def _rejects(self, snapshot: Snapshot) -> dict[int, str]:
        if not self._refused:
            return {}
        return {row: self._refused[row] for row in snapshot.waiting.tolist() if row in self._refused}

    # -- keeping up ----------------------------------------------------------------------------------

    def _follow(self, snapshot: Snapshot) -> None:
        state, rows = table_of(snapshot), snapshot.changes(self._cursor)
        if rows is None or state.jobs is not self._jobs:
            self._build(state)
            rows = [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
        changed: list[list[int]] = [[] for _ in self._parts]
        for row in rows:
            part = self._part_of[row]
            self._strangers.pop(row, None)
            if row in state.grants and (part < 0 or not self._parts[part].contains(state.grants[row])):
                self._strangers[row] = state.grants[row]
            if part >= 0:
                changed[part].append(row)
        strangers = {device for grant in self._strangers.values() for device in grant.devices}
        for part_state, own in zip(self._parts, changed, strict=True):
            part_state.follow(state, own, strangers)

    def _build(self, state: State) -> None:
        """Cut the cluster; deal the jobs out."""
        cluster = state.cluster
        if self.by not in cluster.levels:
            known = ", ".join(cluster.levels) or "none"
            raise InputError(f"the cluster has no level {self.by!r} to be cut along; it has {known}")
        self._jobs, self._strangers = state.jobs, {}
        codes, names = cluster.levels[self.by], cluster.level_names[self.by]
        units = [code for code in range(len(names)) if (codes == code).any()]
        self._parts = [PartState(state, names[code], np.flatnonzero(codes == code)) for code in units]
        if len(self._policies) != len(units):
            self._policies = [self.make(part.name) for part in self._parts]
        self._deal(state)

    def _deal(self, state: State) -> None:
        """The part of each job, and why some have none."""
        place = {part.name: i for i, part in enumerate(self._parts)}
        by_tenant = [_unit(path, place) for path in state.jobs.tenant_names] + [-1]  # code -1 is no tenant
        part_of = np.array(by_tenant, dtype=np.int64)[state.jobs.tenant]
        self._refused = {
            row: f"tenant {state.jobs.name_of('tenant', row)!r} has no {self.by} of its own"
            for row in np.flatnonzero(part_of < 0).tolist()
        }
        for i, part in enumerate(self._parts):
            for row in np.flatnonzero((part_of == i) & ~part.feasible).tolist():
                asked, gpus = plural(state.gpus_of[row], "GPU"), part.cluster.gpus
                self._refused[row] = f"asks for {asked}; {self.by} {part.name} has {gpus}"
                part_of[row] = -1
        self._part_of = part_of.tolist()


def _unit(path: str, place: Mapping[str, int]) -> int:
    """The part a tenant belongs to, by its own name or that of a parent; -1 if none."""
    while path:
        if path in place:
            return place[path]
        path = path.rpartition("/")[0]
    return -1


# -- memory and wake of one part ---------------------------------------------------------------------


def _entry(decision: Decision) -> Memory:
    wake = decision.wake
    return {
        "memory": decision.memory,
        "wake": {"at_s": float(wake.at_s), "on": int(wake.on), "if_waiting": bool(wake.if_waiting)},
    }


def _wake(entry: Memory) -> Wake:
    wake = entry["wake"]
    return Wake(wake["at_s"], Event(wake["on"]), wake["if_waiting"])


def _is_due(wake: Wake, view: Snapshot) -> bool:
    if wake.if_waiting and not view.waiting_count:
        return False
    return bool(int(view.cause) & int(wake.on)) or view.now >= wake.at_s


def _joined(wakes: list[Wake]) -> Wake:
    """When some part wants to be asked again."""
    on = Event.NONE
    for wake in wakes:
        on |= wake.on
    at_s = min((wake.at_s for wake in wakes), default=math.inf)
    return Wake(at_s, on, all(wake.if_waiting for wake in wakes))


# -- decisions of several parts ----------------------------------------------------------------------


def _together(
    memory: Memory,
    found: list[tuple[PartState, Decision]],
    reject: dict[int, str],
    wake: Wake,
    standing: tuple[Reservation, ...],
) -> Decision:
    """One decision that says what all of them say, in the numbers of the whole cluster."""
    joined = Decision(memory, reject=reject, wake=wake)
    leaves = {decision.leave for _, decision in found if decision.preempt}
    if len(leaves) > 1:
        raise PolicyError("the parts of a cluster preempt in different ways; expected one way at a time")
    joined.leave = leaves.pop() if leaves else joined.leave
    joined.grants = [part.outward(grant) for part, decision in found for grant in decision.grants]
    joined.preempt = [row for _, decision in found for row in decision.preempt]
    joined.is_cut = any(decision.is_cut for _, decision in found)
    for name in ("reject", "cancel", "offers", "reasons"):
        said = [getattr(decision, name) for _, decision in found]
        if any(said):
            setattr(joined, name, {k: v for d in (getattr(joined, name), *said) for k, v in d.items()})
    joined.reservations = _reserved(found, standing)
    return joined


def _reserved(
    found: list[tuple[PartState, Decision]], standing: tuple[Reservation, ...]
) -> list[Reservation] | None:
    """Reservations of the parts that changed theirs, and what stands in the others."""
    changed = [(part, d.reservations) for part, d in found if d.reservations is not None]
    if not changed:
        return None
    touched = {device for part, _ in changed for device in part.outer}
    kept = [r for r in standing if touched.isdisjoint(r.devices)]
    new = [
        r._replace(devices=tuple(part.outer[d] for d in r.devices))
        for part, reservations in changed
        for r in reservations
    ]
    return kept + new
