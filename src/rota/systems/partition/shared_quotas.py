"""Hard quotas of tenants whose jobs run in several parts, none of which sees all of them.

Parts decide each by itself.  What their decisions would bring together above such a quota is held back: of
parts that start a job, the one goes first whose job came first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.model.cluster import Cluster
from rota.model.grants import Grant, Role
from rota.model.tenants import Tenant
from rota.scheduler.decision import Decision
from rota.scheduler.snapshot import Snapshot

_EPSILON = 1e-6


class SharedQuotas:
    """Quotas of `tenants`, each over several parts of `cluster`; `part_of` is the part of each row."""

    def __init__(self, cluster: Cluster, tenants: Sequence[Tenant], part_of: Sequence[int]) -> None:
        self.cluster, self.part_of = cluster, part_of
        self.tenants = tenants

    def hold_back(self, snapshot: Snapshot, decision: Decision) -> list[int]:
        """Take out of the joined `decision` what these quotas do not allow; returns the rows affected.

        A part whose decision is too much as a whole stops and moves no job; what it starts beside running
        jobs is looked at job by job.
        """
        if not self.tenants or not decision.grants:
            return []
        wanted = {*decision.preempt, *(grant.job for grant in decision.grants)}
        held, grants, preempt = dict(snapshot.grants), list[Grant](), list[int]()
        for part in self._in_turn(snapshot, decision):
            come = [grant for grant in decision.grants if self.part_of[grant.job] == part]
            gone = [row for row in decision.preempt if self.part_of[row] == part]
            after = {row: grant for row, grant in held.items() if row not in gone}
            after |= {grant.job: grant for grant in come}
            if not self._allow(snapshot, held, after):
                come, gone = self._one_by_one(snapshot, held, come, gone), []
                after = held | {grant.job: grant for grant in come}
            held, grants, preempt = after, [*grants, *come], [*preempt, *gone]
        decision.grants, decision.preempt = grants, preempt
        return sorted(wanted.difference(preempt, (grant.job for grant in grants)))

    def _in_turn(self, snapshot: Snapshot, decision: Decision) -> list[int]:
        """Parts with a decision; those that start no job come first."""
        first = dict.fromkeys([self.part_of[row] for row in decision.preempt], -1)
        first |= {self.part_of[grant.job]: -1 for grant in decision.grants}
        for grant in sorted(decision.grants, reverse=True):
            if grant.job not in snapshot.grants:
                first[self.part_of[grant.job]] = grant.job
        return sorted(first, key=lambda part: (first[part], part))

    def _one_by_one(
        self, snapshot: Snapshot, held: Mapping[int, Grant], come: Sequence[Grant], gone: Sequence[int]
    ) -> list[Grant]:
        """The grants of `come` that begin on nodes no job leaves, as many as may, in submission order."""
        left = {row for row in (*gone, *(grant.job for grant in come)) if row in held}
        closed = {node for row in left for node in self._nodes(held[row])}
        started = list[Grant]()
        for grant in sorted(grant for grant in come if grant.job not in held):
            before = {**held, **{other.job: other for other in started}}
            if closed.isdisjoint(self._nodes(grant)) and self._allow(
                snapshot, before, before | {grant.job: grant}
            ):
                started.append(grant)
        return started

    def _allow(self, snapshot: Snapshot, before: Mapping[int, Grant], after: Mapping[int, Grant]) -> bool:
        """True if no tenant has more above a quota of its own than it had before."""
        for tenant in self.tenants:
            has, had = self._used(snapshot, tenant, after), self._used(snapshot, tenant, before)
            for name, gpus in has.items():
                quota = tenant.quota_by_type.get(name, tenant.quota_gpus) if name else tenant.quota_gpus
                if gpus > max(quota, had.get(name, 0.0)) + _EPSILON:
                    return False
        return True

    def _used(self, snapshot: Snapshot, tenant: Tenant, held: Mapping[int, Grant]) -> dict[str, float]:
        """GPUs that count against `tenant`, by type, and all together under no name."""
        table, used = snapshot.jobs.table, dict[str, float]()
        for row, grant in held.items():
            path = table.name_of("tenant", row) + "/"
            if grant.role is Role.OPPORTUNISTIC or not path.startswith(tenant.path + "/"):
                continue
            for device in grant.devices:
                kind = self.cluster.type_names[self.cluster.device_type.item(device)]
                for name in ("", kind):
                    used[name] = used.get(name, 0.0) + grant.share
        return used

    def _nodes(self, grant: Grant) -> set[int]:
        own = {self.cluster.device_node.item(device) for device in grant.devices}
        return own | ({grant.node} if not grant.devices else set())
