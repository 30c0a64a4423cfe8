"""DRF: the tenant with the smallest share of its most needed resource is served next.

Paper     Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011
Decides   order; preemption if asked
Needs     nothing about the future
Idea      1. A tenant's share of a resource is what its running jobs hold, over what the cluster has; its
             dominant share is the largest of them, over GPUs, CPU and memory, divided by its weight.
          2. A whole job is a task.  The tenant with the lowest dominant share starts its next job;
             shares are compared exactly.  Ties go to the tenant with least service over its weight
             since the beginning (GPUs times seconds), then to the one that came first.
          3. A tenant whose job does not fit is skipped, until no job fits.
Departs   Jobs of a tenant differ: its next job is the first submitted that fits, not merely the first.
          All GPUs are one resource, whatever their type; a resource that is unlimited on some node is
          ignored.  Tenants are compared as leaves; hierarchies are a later paper.  A weight applies to all
          resources; equal incomes (CEEI) are a solver, not a policy.
          The paper leaves ties open: among tenants that hold nothing, the first to come would be served to
          its end if jobs exceed half the cluster.
          The paper does not preempt.  `preempt=yes` adds a rule known from Kubernetes schedulers: a job
          gives way if its tenant, without it, still has more than the preemptor's will have.
          `share=assets`, `share=gpus` and `share=slots` are the paper's baselines; a slot is one GPU
          with its part of the CPUs and of the memory, and a job takes as many as cover what it needs.
Checked   systems/drf.md, worked examples a1 to a8; properties of the divisible optimum on 300 random cases;
          service of equal and of weighted tenants on 200 random cases of jobs as large as the cluster
"""

from __future__ import annotations

from rota.model.cluster import Cluster
from rota.model.reasons import Code, Constraint
from rota.model.tenants import Between
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter, Room
from rota.stages.place import COUNT_ONLY, PLACEMENTS
from rota.systems.drf.book import TenantBook
from rota.systems.drf.facts import DrfParameters, Facts, Share
from rota.systems.drf.filling import TaskFilling
from rota.systems.drf.placing import Counting, Placing
from rota.table.occupancy import Occupancy

_NO_SLOTS = Constraint(
    Code.POLICY, detail="too few slots are left: each is a GPU with its part of the CPUs and the memory"
)


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
        self._facts: Facts | None = None  # of the job table, which a run never changes
        self._book: TenantBook | None = None  # of the same
        self._rooms: dict[int, Room] = {}  # of the facts and the cluster below
        self._rooms_of_facts: Facts | None = None
        self._rooms_on: Cluster | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        p = self.parameters
        wake = Wake(if_waiting=True)
        counts = snapshot.plain and p.placement in COUNT_ONLY and not p.preempt
        if not snapshot.waiting_count:
            return Decision(memory, wake=wake)
        if counts and not snapshot.occupancy.free.total:
            return Decision(memory, wake=wake, ranking=_ByShare(self))
        site: Counting | Placing
        if counts:
            site = Counting(snapshot, self.place)
        else:
            site = Placing(snapshot, self.place, self._rooms_of(snapshot))
        filling = TaskFilling(snapshot, self.book(snapshot), site)
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

    def facts(self, snapshot: Snapshot) -> Facts:
        """The fixed facts about jobs in the table."""
        jobs = snapshot.jobs.table
        if self._facts is None or self._facts.jobs is not jobs:
            self._facts, self._book = Facts.of(jobs, snapshot.cluster, self.parameters), None
        return self._facts

    def _rooms_of(self, snapshot: Snapshot) -> dict[int, Room]:
        """The room that each kind of request wants, as far as jobs have asked on this cluster."""
        facts = self.facts(snapshot)
        if self._rooms_of_facts is not facts or self._rooms_on is not snapshot.cluster:
            self._rooms_of_facts, self._rooms_on, self._rooms = facts, snapshot.cluster, {}
        return self._rooms

    def book(self, snapshot: Snapshot) -> TenantBook:
        """The book of tenants at this moment."""
        facts = self.facts(snapshot)
        if self._book is None:
            self._book = TenantBook(facts)
        self._book.sync(snapshot)
        return self._book


class _ByShare:
    """The order of jobs, to explain why a job waits."""

    def __init__(self, policy: Drf) -> None:
        self.policy = policy
        self.spreads = policy.parameters.placement in COUNT_ONLY

    def ahead(self, snapshot: Snapshot, row: int) -> list[int]:
        """Jobs of tenants with less, and earlier ones of the same tenant."""
        site = Counting(snapshot, self.policy.place)
        filling = TaskFilling(snapshot, self.policy.book(snapshot), site)
        own = self._key(filling, row)
        return [other for other in snapshot.waiting.tolist() if self._key(filling, other) < own]

    def _key(self, filling: TaskFilling, row: int) -> tuple[tuple[int, int, int], int]:
        return filling.key(filling.book.tenant_of[row]), row

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
