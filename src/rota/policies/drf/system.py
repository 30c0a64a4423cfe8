"""DRF: whoever has the least of what it needs most is served next.

Paper     Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011
Decides   order; preemption if asked
Needs     nothing about the future
Idea      1. A tenant's share of a resource is what its running jobs hold, over what the cluster has; its
             dominant share is the largest of them, over GPUs, CPU and memory, divided by its weight.
          2. A job, whole, is a task.  The tenant with the lowest dominant share starts its next job;
             shares are compared exactly.  Ties go to the tenant that has received least over its weight
             since the beginning (GPUs times seconds), then to the one that came first.
          3. A tenant whose job does not fit is skipped, until nothing fits.
Departs   Jobs of a tenant differ: its next job is the first submitted that fits, not merely the first.
          All GPUs are one resource, whatever their type; a resource that some node has without limit is
          none.  Tenants are compared as leaves; hierarchies of them are a later paper.  A weight is for all
          resources alike; equal incomes (CEEI) are a solver, not a policy.
          The paper leaves ties open: among tenants that hold nothing, the first to come would be served to
          its end where jobs exceed half the cluster.
          The paper does not preempt.  `preempt=yes` adds a rule known from Kubernetes schedulers: a job
          gives way if its tenant, without it, still has more than the preemptor's will have.
          `share=assets`, `share=gpus` and `share=slots` are what the paper compares with; a slot is one GPU
          with its part of the CPUs and of the memory, and a job takes as many as cover what it needs.
Checked   systems/drf.md, worked examples a1 to a8; properties of the divisible optimum on 300 random cases;
          service of equal and of weighted tenants on 200 random cases of jobs as large as the cluster
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from heapq import heapify, heappop, heapreplace

import numpy as np

from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.columns import Array, Ints
from rota.model.grants import Grant
from rota.model.jobs import JobTable
from rota.model.reasons import Code, Constraint
from rota.model.tenants import Between
from rota.policies.drf.book import TenantBook, TenantQueue
from rota.policies.drf.placing import Counting, Placing
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.place import COUNT_ONLY, PLACEMENTS, Placement
from rota.scheduler.stages.requests import request_kinds
from rota.solvers.filling import DominantShare
from rota.table.occupancy import Occupancy

_ROUNDING = 1e-9
"""A job that needs a slot's part exactly takes one, whatever the division says."""
_MILLI = 1000
"""Amounts are counted in whole thousandths."""


_NO_SLOTS = Constraint(
    Code.POLICY, detail="too few slots are left: each is a GPU with its part of the CPUs and the memory"
)


class Share(StrEnum):
    """By what tenants are compared."""

    DOMINANT = "dominant"  # the largest of their shares
    ASSETS = "assets"  # the sum of their shares
    GPUS = "gpus"  # their share of the GPUs alone
    SLOTS = "slots"  # their share of equal slots, which are all that is handed out


@dataclass(frozen=True)
class DrfParameters:
    """Parameters of `drf`."""

    share: Share = Share.DOMINANT
    """By what tenants are compared."""
    weighted: bool = True
    """Divide by the weights of the tenants; without, all are equal."""
    preempt: bool = False
    """Stop jobs of tenants that would still have more than the tenant that waits."""
    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""

    def __post_init__(self) -> None:
        if self.preempt and self.share is Share.SLOTS:
            raise InputError("policy 'drf': slots are not taken back; expected preempt=no with share=slots")


@register(
    "drf",
    "Equalise the tenants' shares of what each needs most",
    paper="Ghodsi et al., NSDI 2011",
    levers={Lever.PREEMPT: lambda p: p.preempt},
    parameters=DrfParameters,
    between=lambda p: Between.WEIGHTS if p.weighted else Between.EQUALLY,
)
class Drf:
    """Dominant resource fairness among tenants."""

    def __init__(self, parameters: DrfParameters | None = None) -> None:
        self.parameters = parameters or DrfParameters()
        self.place = PLACEMENTS[self.parameters.placement]
        self._facts: _Facts | None = None  # of the job table, which a run never changes
        self._book: TenantBook | None = None  # of the same

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        p = self.parameters
        wake = Wake(if_waiting=True)
        counts = snapshot.plain and p.placement in COUNT_ONLY and not p.preempt
        if not snapshot.waiting_count:
            return Decision(memory, wake=wake)
        if counts and not snapshot.occupancy.free.total:
            return Decision(memory, wake=wake, ranking=_ByShare(self))
        site = Counting(snapshot, self.place) if counts else Placing(snapshot, self.place)
        filling = _Filling(snapshot, self.facts(snapshot), self.book(snapshot), site)
        filling.fill()
        if p.preempt and isinstance(site, Placing):
            filling.redistribute(site)
        return Decision(
            memory,
            filling.grants,
            sorted(filling.stopped),
            wake=wake,
            ranking=_ByShare(self),
            otherwise=_NO_SLOTS if p.share is Share.SLOTS else None,
        )

    def facts(self, snapshot: Snapshot) -> _Facts:
        """What is fixed for the jobs in the table."""
        jobs = snapshot.jobs.table
        if self._facts is None or self._facts.jobs is not jobs:
            self._facts, self._book = _Facts.of(jobs, snapshot.cluster, self.parameters), None
        return self._facts

    def book(self, snapshot: Snapshot) -> TenantBook:
        """What is known of each tenant at this moment."""
        facts = self.facts(snapshot)
        if self._book is None:
            self._book = TenantBook(facts.jobs.tenant, facts.kinds, facts.amounts, len(facts.arrival))
        self._book.sync(snapshot)
        return self._book


class _ByShare:
    """Who is before whom, for those who ask why a job waits."""

    def __init__(self, policy: Drf) -> None:
        self.policy = policy
        self.spreads = policy.parameters.placement in COUNT_ONLY

    def ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        """Jobs of tenants with less, and earlier ones of the same tenant."""
        site = Counting(snapshot, self.policy.place)
        filling = _Filling(snapshot, self.policy.facts(snapshot), self.policy.book(snapshot), site)
        own = self._key(filling, row)
        return [other for other in snapshot.waiting.tolist() if self._key(filling, other) < own]

    def _key(self, filling: _Filling, row: int) -> tuple[tuple[int, int, int], int]:
        return filling.key(int(filling.tenant_of[row])), row

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        """True if `row` could be placed on `scratch`."""
        return Fitter(snapshot, self.policy.place)(scratch, row) is not None

    def share(self, snapshot: Snapshot, row: int) -> tuple[str, float, float]:
        """Tenant, GPUs it holds, and its part of all GPUs by weight among the tenants with live jobs."""
        jobs, tenants = snapshot.jobs.table, snapshot.cluster.tenants
        own = jobs.name_of("tenant", row)
        live = {jobs.name_of("tenant", other) for other in (*snapshot.waiting.tolist(), *snapshot.grants)}
        weights = {
            name: tenants.get(name).weight if self.policy.parameters.weighted else 1.0 for name in live
        }
        holds = sum(
            len(grant.devices) * grant.share
            for other, grant in snapshot.grants.items()
            if jobs.name_of("tenant", other) == own
        )
        return own, holds, snapshot.cluster.gpus * weights[own] / sum(weights.values())


@dataclass(frozen=True)
class _Facts:
    """What does not change during a run."""

    jobs: JobTable
    amounts: Ints
    """Thousandths of each resource that a job needs: rows x resources."""
    kinds: Ints
    """Of the request of each row."""
    arrival: Ints
    """First row of each tenant."""
    shares: DominantShare
    """Of tenants that hold nothing."""
    service: DominantShare
    """The same of what they have received."""
    preempts: bool
    """True if tenants of which no job waits are looked at as well."""
    most: int
    """Thousandths of slots that there are; what is handed out is not limited otherwise."""

    @classmethod
    def of(cls, jobs: JobTable, cluster: Cluster, p: DrfParameters) -> _Facts:
        resources = _resources(jobs, cluster)
        if p.share is Share.GPUS:
            resources = resources[:1]
        if p.share is Share.SLOTS:
            resources = [_slots(resources)]
        capacity = [round(_MILLI * total) for total, _ in resources]
        amounts = np.stack([np.rint(_MILLI * needed) for _, needed in resources], axis=1).astype(np.int64)
        weights = _weights(jobs, cluster) if p.weighted else {}
        combine = sum if p.share is Share.ASSETS else max
        return cls(
            jobs=jobs,
            amounts=amounts,
            kinds=request_kinds(jobs, cluster),
            arrival=_first_of_each(jobs.tenant, np.arange(len(jobs)), len(jobs.tenant_names)),
            shares=DominantShare(capacity, weights, combine),
            service=DominantShare([1], weights),
            preempts=p.preempt,
            most=capacity[0] if p.share is Share.SLOTS else sys.maxsize,
        )


def _resources(jobs: JobTable, cluster: Cluster) -> list[tuple[float, Array]]:
    """What the cluster has of each resource, and what each job needs of it; GPUs first."""
    resources = [(float(cluster.gpus), jobs.gpus * jobs.gpu_share)] if cluster.gpus else []
    hosts = ((cluster.node_cpus, jobs.cpus), (cluster.node_memory_gib, jobs.memory_gib))
    resources += [(float(has.sum()), needed) for has, needed in hosts if has.all()]
    if not resources:
        raise InputError("policy 'drf': the cluster has no GPU, and states neither CPUs nor memory to share")
    return resources


def _slots(resources: list[tuple[float, Array]]) -> tuple[float, Array]:
    """How many slots there are, one for each unit of the first resource, and how many each job takes."""
    total = resources[0][0]
    parts = [np.ceil(needed * total / capacity - _ROUNDING) for capacity, needed in resources]
    return total, np.maximum(np.max(parts, axis=0), 1.0)


def _weights(jobs: JobTable, cluster: Cluster) -> dict[int, Fraction]:
    """Weight by code of the tenant, as a person wrote it: 0.1 is a tenth."""
    weights = {}
    for code, path in enumerate(jobs.tenant_names):
        weight = cluster.tenants.get(path).weight
        if not 0 < weight < float("inf"):
            raise InputError(f"policy 'drf': tenant {path} has weight {weight:g}; expected one above 0")
        if weight != 1.0:
            weights[code] = Fraction(repr(float(weight)))
    return weights


def _first_of_each(codes: Array, rows: Ints, count: int) -> Ints:
    """The first of `rows`, which ascend, with each code; -1 if there is none."""
    first = np.full(count, -1, dtype=np.int64)
    first[codes[::-1]] = rows[::-1]  # of several values for one place the last one stays
    return first


class _Filling:
    """One decision: who starts, and who gives way."""

    def __init__(self, snapshot: Snapshot, facts: _Facts, book: TenantBook, site: Counting | Placing) -> None:
        self.snapshot = snapshot
        self.facts = facts
        self.book = book
        self.site = site
        self.tenant_of = facts.jobs.tenant
        self.shares = facts.shares.emptied()
        self.service = facts.service.emptied()
        self.grants: list[Grant] = []
        self.stopped: set[int] = set()
        for tenant in range(len(book.held)) if facts.preempts else book.queued:
            self.shares.charge(tenant, book.held[tenant])
            self.service.charge(tenant, [book.service(tenant, snapshot.now)])
        self.room = facts.most - book.all_held
        """Thousandths of slots that are left."""

    def key(self, tenant: int) -> tuple[int, int, int]:
        """Lowest first: share, service received over weight, arrival."""
        return self.shares.key(tenant), self.service.key(tenant), self.facts.arrival.item(tenant)

    def fill(self) -> None:
        """Start jobs, lowest share first, until none fits."""
        started = {grant.job for grant in self.grants}
        turns = {
            tenant: TenantQueue(self.book.waiting[tenant], started) for tenant in sorted(self.book.queued)
        }
        order = [(self.key(tenant), tenant) for tenant in turns]
        heapify(order)
        hopeless: set[int] = set()
        while order and self.site.room:
            tenant = order[0][1]
            row = turns[tenant].next(hopeless)
            if row < 0:
                heappop(order)
                continue
            grant = self.site(row) if self.facts.amounts.item(row, 0) <= self.room else None
            if grant is None:  # nor will any other that asks for the same
                hopeless.add(self.facts.kinds.item(row))
                continue
            turns[tenant].take()
            self._enter(grant)
            heapreplace(order, (self.key(tenant), tenant))

    def _waiting(self) -> Ints:
        """Rows that wait and have not been dealt with."""
        rows = self.snapshot.waiting
        done = [grant.job for grant in self.grants]
        return rows[~np.isin(rows, done)] if done else rows

    def _next_of(self, rows: Ints) -> int:
        """The first job of the tenant with the lowest share."""
        firsts = _first_of_each(self.tenant_of[rows], rows, len(self.facts.arrival))
        return int(firsts[min(np.flatnonzero(firsts >= 0).tolist(), key=self.key)])

    def _amounts(self, row: int) -> list[int]:
        amounts: list[int] = self.facts.amounts[row].tolist()
        return amounts

    def _enter(self, grant: Grant) -> None:
        amounts = self._amounts(grant.job)
        self.shares.charge(int(self.tenant_of[grant.job]), amounts)
        self.room -= amounts[0]
        self.grants.append(grant)

    # -- preemption -----------------------------------------------------------------------------

    def redistribute(self, site: Placing) -> None:
        """Let jobs of tenants with more give way to the next jobs of tenants with less.

        Each step raises the lower of two shares and leaves the other above it, so that no later step can
        take it back.
        """
        left = self._waiting()
        while len(left):
            row = self._next_of(left)
            grant = self._make_room(row, site)
            if grant is None:
                left = left[self.tenant_of[left] != self.tenant_of[row]]
                continue
            site.scratch.hold(grant)
            self._enter(grant)
            self.fill()
            left = left[np.isin(left, self._waiting())]

    def _make_room(self, row: int, site: Placing) -> Grant | None:
        """The grant of `row` once enough others gave way; None, and nothing changed, if that is too few."""
        level = self.shares.key(int(self.tenant_of[row]), self._amounts(row))
        victims: list[int] = []
        grant = site.fit(site.scratch, row)
        while grant is None:
            victim = self._victim(level, int(self.tenant_of[row]))
            if victim is None:
                for one in victims:
                    self._keep(one, site)
                return None
            self._stop(victim, site)
            victims.append(victim)
            grant = site.fit(site.scratch, row)
        for one in victims[:-1]:  # the last was needed; of the others perhaps not all
            self._keep(one, site)
            again = site.fit(site.scratch, row)
            if again is None:
                self._stop(one, site)
            grant = again or grant
        return grant

    def _victim(self, level: int, tenant: int) -> int | None:
        """The last started job whose tenant has the most, and without it still more than `level`."""
        since_s = self.snapshot.jobs.since_s
        candidates = [
            (self.shares.key(owner), since_s.item(row), row)
            for row in self.snapshot.grants
            if row not in self.stopped
            and (owner := int(self.tenant_of[row])) != tenant
            and self.shares.key(owner, [-amount for amount in self._amounts(row)]) > level
        ]
        return max(candidates)[2] if candidates else None

    def _stop(self, row: int, site: Placing) -> None:
        site.scratch.release(self.snapshot.grants[row])
        self.shares.refund(int(self.tenant_of[row]), self._amounts(row))
        self.stopped.add(row)

    def _keep(self, row: int, site: Placing) -> None:
        """Undo `_stop`."""
        site.scratch.hold(self.snapshot.grants[row])
        self.shares.charge(int(self.tenant_of[row]), self._amounts(row))
        self.stopped.remove(row)
