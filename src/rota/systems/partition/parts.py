"""Parts: a cluster cut along one of its levels, with a policy of its own for each unit.

Virtual clusters with nodes of their own (Helios, Lucid, cells of a tenant) are this: a part sees its nodes
as the whole cluster and its tenants' jobs as all the jobs there are; rows keep their numbers, devices are
numbered again.  What the parts decide is put together again.  Memory nests: one entry for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.columns import Ints
from rota.model.grants import Code, Constraint, Grant
from rota.model.jobs import JobTable
from rota.model.tenants import Tenant, Tenants
from rota.model.units import plural
from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.joining import LastSaid, together
from rota.stages.nested import entry_of, is_due, joined, wake_of
from rota.systems.partition.shared_quotas import SharedQuotas
from rota.table.view import View


def tenants_of(cluster: Cluster, name: str, nodes: Ints, counted: Mapping[str, list[str]]) -> Tenants:
    """Tenants whose quotas still matter inside a part, unless its nodes say as much.

    The tenants of the part, and one above it that counts the jobs of no other: `counted` says of each in
    which parts its jobs are.
    """
    gpus = int(cluster.node_gpus[nodes].sum())

    def matters(tenant: Tenant) -> bool:
        is_below = tenant.path.startswith(name + "/")
        is_all = counted[tenant.path] == [name]
        return is_below or (is_all and (tenant.quota_gpus < gpus or bool(tenant.quota_by_type)))

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
        self._parts: dict[str, View] = {}
        self._policies: dict[str, Policy] = {}
        self._part_of: list[int] = []
        self._refused: dict[int, str] = {}
        self._strangers: dict[int, Grant] = {}
        self._said = LastSaid()
        self._shared: SharedQuotas

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        """The decisions of all parts that are due, as one."""
        self._follow(snapshot)
        entries: dict[str, Memory] = memory.setdefault("parts", {})
        held_back = self._say_what_was_held_back(memory.pop("held_back", ()))
        decisions: list[tuple[View, Decision]] = []
        for name, part in self._parts.items():
            entry = entries.get(name)
            view = snapshot.seen_as(part)
            if entry is None or name in held_back or is_due(wake_of(entry), view):
                decision = asked(self._policies[name], view, entry["memory"] if entry else {})
                entries[name] = entry_of(decision)
                decisions.append((part, decision))
                self._said.note(name, part, decision)
        wake = joined(wake_of(entry) for entry in entries.values())
        decision = together(memory, decisions, self._rejects(snapshot), wake, snapshot.reservations)
        if rows := self._shared.hold_back(snapshot, decision):
            memory["held_back"] = rows
            decision.wake = Wake(wake.at_s, Event.ANY)
        decision.otherwise = Constraint(
            Code.POLICY, detail=f"waits for GPUs of its own {self.by}; free ones of another are not lent"
        )
        self._said.tell(decision)
        return decision

    def part(self, name: str) -> View:
        """The part of the unit `name`, as of the last decision."""
        return self._parts[name]

    def _say_what_was_held_back(self, rows: Sequence[int]) -> set[str]:
        """Let the parts of `rows` see that their last decision about these was not carried out; which parts.

        They are asked again whatever happens, since it may happen in another part.
        """
        names, parts = list(self._parts), set[str]()
        for row in rows:
            if (place := self._part_of[row]) >= 0:
                part = self._parts[names[place]]
                part.refused = {**part.refused, row: "a quota over several parts did not allow it"}
                parts.add(names[place])
        return parts

    def _rejects(self, snapshot: Snapshot) -> dict[int, str]:
        if not self._refused:
            return {}
        return {row: self._refused[row] for row in snapshot.waiting.tolist() if row in self._refused}

    # -- keeping up ----------------------------------------------------------------------------------

    def _follow(self, snapshot: Snapshot) -> None:
        rows, held = snapshot.changes(self._cursor), snapshot.grants
        if rows is None or snapshot.jobs.table is not self._jobs:
            self._build(snapshot)
            rows = [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
        parts = list(self._parts.values())
        changed: list[list[int]] = [[] for _ in parts]
        for row in rows:
            part = self._part_of[row]
            self._strangers.pop(row, None)
            if row in held and (part < 0 or not parts[part].contains(held[row])):
                self._strangers[row] = held[row]
            if part >= 0:
                changed[part].append(row)
        strangers = {device for grant in self._strangers.values() for device in grant.devices}
        for view, own in zip(parts, changed, strict=True):
            view.follow(own, strangers)

    def _build(self, snapshot: Snapshot) -> None:
        """Cut the cluster; deal the jobs out."""
        cluster = snapshot.cluster
        if self.by not in cluster.levels:
            known = ", ".join(cluster.levels)
            expected = (
                f"by={known.replace(', ', ' or by=')}" if known else "nodes with levels (docs/cluster.md)"
            )
            what = f"the cluster has no level {self.by!r} for `partition` to cut along"
            raise InputError(f"{what}; expected {expected}")
        self._jobs, self._strangers = snapshot.jobs.table, {}
        codes, names = cluster.levels[self.by], cluster.level_names[self.by]
        nodes_of = {name: np.flatnonzero(codes == code) for code, name in enumerate(names)}
        nodes_of = {name: nodes for name, nodes in nodes_of.items() if len(nodes)}
        counted = {path: _units_of(path, nodes_of) for path in cluster.tenants.by_path}
        self._parts = {
            name: snapshot.view(
                cluster.take(nodes, tenants_of(cluster, name, nodes, counted)), nodes.tolist()
            )
            for name, nodes in nodes_of.items()
        }
        if self._policies.keys() != self._parts.keys():
            self._policies = {name: self.make(name) for name in self._parts}
        self._said = LastSaid()
        self._deal(self._jobs)
        divided = [t for t in cluster.tenants.by_path.values() if t.hard and len(counted[t.path]) > 1]
        self._shared = SharedQuotas(cluster, divided, self._part_of)

    def _deal(self, jobs: JobTable) -> None:
        """The part of each job, and why some have none."""
        place = {name: i for i, name in enumerate(self._parts)}
        by_tenant = [_unit(path, place) for path in jobs.tenant_names] + [-1]  # code -1 is no tenant
        part_of = np.array(by_tenant, dtype=np.int64)[jobs.tenant]
        self._refused = {
            row: f"tenant {jobs.name_of('tenant', row)!r} has no {self.by} of its own"
            for row in np.flatnonzero(part_of < 0).tolist()
        }
        for i, (name, part) in enumerate(self._parts.items()):
            for row in np.flatnonzero((part_of == i) & ~np.array(part.feasible, dtype=bool)).tolist():
                asked, gpus = plural(jobs.gpus.item(row), "GPU"), part.cluster.gpus
                self._refused[row] = f"asks for {asked}; {self.by} {name} has {gpus}"
                part_of[row] = -1
        self._part_of = part_of.tolist()


def _units_of(path: str, nodes_of: Mapping[str, Ints]) -> list[str]:
    """The parts in which jobs of a tenant, or of those below it, may be; ascending."""
    place = {name: i for i, name in enumerate(nodes_of)}
    own = _unit(path, place)
    below = {name for name in nodes_of if name.startswith(path + "/")}
    return sorted(below | ({list(nodes_of)[own]} if own >= 0 else set()))


def _unit(path: str, place: Mapping[str, int]) -> int:
    """The part a tenant belongs to, by its own name or that of a parent; -1 if none."""
    while path:
        if path in place:
            return place[path]
        path = path.rpartition("/")[0]
    return -1
