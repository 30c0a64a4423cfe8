"""One attempt of one job: its candidate nodes, what it holds there, and GPUs taken back for it.

All of it is tried on the scratch of one decision.
"""

from __future__ import annotations

from functools import cached_property

from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.grants import Grant, Role
from rota.model.jobs import JobTable
from rota.model.whole import whole_grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.systems.philly.delays import Class
from rota.systems.philly.gang import Attempts, LatestAttempt
from rota.systems.philly.locality import Domains, Locality, gather, room_on
from rota.systems.philly.parameters import PhillyParameters
from rota.systems.philly.queues import AttemptQueues, Kinds
from rota.systems.philly.quota import QuotaShares, VirtualClusterQuotas, reclaim
from rota.table.free import Free, mask_of
from rota.table.occupancy import EPSILON, Occupancy


class Premises:
    """Data derived from the cluster, the table of jobs and the nodes that are `down`: lost, or closed."""

    def __init__(self, cluster: Cluster, jobs: JobTable, p: PhillyParameters, down: list[int]) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self.down = down
        self.up = ~mask_of(down)
        """Mask of the nodes where attempts look."""
        self.domains = Domains(cluster, p.domain)
        self.clusters = VirtualClusterQuotas(cluster, jobs)
        hosts = jobs.cpus.any() and cluster.node_cpus.any()
        hosts |= jobs.memory_gib.any() and cluster.node_memory_gib.any()
        caps = any(tenant.hard for tenant in cluster.tenants.by_path.values())
        self.sleeps = not (p.dedicated or hosts or caps)
        """True if the candidate nodes of an attempt depend on nothing but free GPUs."""
        self.kinds = Kinds(cluster, self.domains, self.sleeps and not p.migrate, self.up)
        """Where jobs move, each decision may move one: no job sleeps because too few GPUs are free."""


class GangAttempts:
    """The attempts of one decision's waiting jobs."""

    def __init__(
        self,
        p: PhillyParameters,
        snapshot: Snapshot,
        fit: Fitter,
        queues: AttemptQueues,
        premises: Premises,
        shares: QuotaShares,
    ) -> None:
        self.p = p
        self.snapshot = snapshot
        self.now = snapshot.now
        self.queues = queues
        self.cycle = queues.cycle
        self.attempts = queues.attempts
        self.gpus_of = snapshot.gpus_of
        self.domains = premises.domains
        self.kinds = premises.kinds
        self.up = premises.up
        self.sleeps = premises.sleeps
        self.shares = shares
        self.much = p.reclaim_util * shares.there
        self.fit = fit
        self.scratch = snapshot.scratch()
        self.held: dict[int, tuple[int, ...]] = {}
        self.fresh: set[int] = set()
        self.grants: dict[int, Grant] = {}
        self.victims: list[int] = []
        self.ended: list[tuple[Class, Attempts]] = []

    def _enter(self, row: int) -> None:
        """Add `row`, which begins to wait."""
        level = self._first_level(row)
        relax_after = float(self.p.relax_after)
        if self.p.patience_per_h:
            expected_s = self.snapshot.know(Knowledge.DURATION).item(row)
            relax_after += self.p.patience_per_h * expected_s / 3600.0
        self.attempts[row] = self.cycle.first(level, relax_after, self.now)
        kind = self.kinds.of(self.fit.accepted(row), self.gpus_of[row], int(level))
        self.queues.add(row, (self.shares.of(row), self.gpus_of[row]), kind)

    def _first_level(self, row: int) -> Locality:
        """The strictest level at which `row` would find its nodes in an empty cluster."""
        fit, domains, gpus = self.fit, self.domains, self.gpus_of[row]
        if self.sleeps or not fit.asks_of_hosts(row):
            within = fit.nodes_for(self.scratch, row)
            return min(domains.first_level(self.scratch.free, gpus, nodes) for nodes in within)
        empty = self._empty
        level = min(domains.first_level(empty.free, gpus, nodes) for nodes in fit.nodes_for(empty, row))
        if level is not Locality.ANYWHERE:
            return level
        in_part = fit.nodes_in_part(empty, row)
        return min(domains.level_in_part(fit.fed(empty, row, nodes), gpus, nodes) for nodes in in_part)

    @cached_property
    def _empty(self) -> Occupancy:
        """The empty cluster: no quota is used, nor a core."""
        return Occupancy(self.snapshot.cluster, self.snapshot.jobs.table)

    def _latest(self, row: int) -> LatestAttempt:
        """The latest attempt of `row`."""
        return self.queues.latest.of(row, self.now)

    def _is_seen(self, row: int) -> bool:
        return self.attempts[row]["opened_s"] == self._latest(row).opened_s

    def _open(self, row: int, nodes: int, latest: LatestAttempt) -> None:
        attempts = self.attempts[row]
        attempts["opened_s"], attempts["nodes"] = latest.opened_s, nodes
        latest.wants = nodes
        self.queues.note_attempt(row, nodes)

    # -- one attempt -------------------------------------------------------------------------------

    def _try(self, row: int) -> None:
        latest, of = self._latest(row), self.queues.class_of[row]
        if row not in self.fresh:
            if self.attempts[row]["opened_s"] != latest.opened_s:
                self._open(row, self._offered_when_full(row, latest), latest)
            self._collect(row)
            return
        if of[1] and self.sleeps and not self.scratch.free.total and not self._may_reclaim(of):
            self._open(row, self._offered_when_full(row, latest), latest)
            return
        self._open(row, self._candidates(row), latest)
        if not (self._collect(row) or self._makes_room(row)) and self._may_reclaim(of):
            self._reclaim(row)

    def _makes_room(self, row: int) -> bool:
        """Start `row`, whose attempt could not complete at once, in another way; a subclass may know one."""
        return False

    def _offered_when_full(self, row: int, latest: LatestAttempt) -> int:
        """Candidate nodes of the `latest` attempt of `row` if no GPU was free when it opened."""
        level, offered = latest.level, self.queues.offered_to.get(row)
        if offered is None:
            jobs = self.snapshot.jobs.table
            asked = jobs.gpu_types.item(row), jobs.node_set.item(row), jobs.gpu_memory_gib.item(row)
            offered = self.queues.offered.setdefault((self.gpus_of[row], *asked), {})
            self.queues.offered_to[row] = offered
        nodes = offered.get(level)
        if nodes is None:
            nodes = offered[level] = self._candidates_among(self.domains.full, row, level)
        return nodes

    def _candidates(self, row: int) -> int:
        """Nodes of one type for the attempt: where the gang fits now, if anywhere.

        Where its hard quota is used up, or the cores and memory of too many nodes are, the nodes of an empty
        cluster: the jobs that use them may end while the attempt is open.
        """
        free, level = self.scratch.free, self._latest(row).level
        nodes = self._candidates_among(free, row, level)
        return nodes if nodes or self.sleeps else self._candidates_among(free, row, level, self._empty)

    def _candidates_among(self, free: Free, row: int, level: Locality, used: Occupancy | None = None) -> int:
        """As `_candidates`, where quotas, cores and memory are used as in `used`; as now if not given."""
        gpus, best, open_to = self.gpus_of[row], 0, self._open_to(row)
        used = self.scratch if used is None else used
        for accepted in self.fit.nodes_for(used, row):
            within = accepted & self.up
            nodes = self.domains.candidates(free, gpus, level, within & open_to)
            if nodes and room_on(free, nodes) >= gpus:
                return nodes
            best = best or nodes or self.domains.candidates(free, gpus, level, within)
        if best or level is Locality.FEWEST_NODES or not self._is_fed_in_part(row):
            return best
        for within in self.fit.nodes_in_part(used, row):
            nodes = self.domains.candidates(free, gpus, level, within & self.up & open_to)
            fed = self.fit.fed(used, row, nodes).items()
            if sum(min(most, free.size[node]) for node, most in fed) >= gpus:
                best = best or nodes
        return best

    def _is_fed_in_part(self, row: int) -> bool:
        """True if cores or memory may keep a gang from some of the GPUs of a node."""
        return not self.sleeps and self.gpus_of[row] > 1 and self.fit.asks_of_hosts(row)

    def _open_to(self, row: int) -> int:
        """Nodes on which `row` disturbs no other job, if nodes are dedicated; else all."""
        if not self.p.dedicated:
            return -1
        node_of = self.scratch.free.node_of
        begun, victims = self.grants, self.victims
        others = ((r, one) for r, one in self.snapshot.grants.items() if r != row)
        grants = [one for r, one in others if r not in victims and r not in begun]
        grants += begun.values()
        if self.gpus_of[row] == 1:
            grants = [grant for grant in grants if len(grant.devices) > 1]
        return ~mask_of(list({node_of[device] for grant in grants for device in grant.devices}))

    def _collect(self, row: int) -> bool:
        """Hold what is free on the candidate nodes; True if the gang is complete and starts."""
        if not self.gpus_of[row]:
            return self._start(row, self.fit(self.scratch, row))
        grant, devices = self._gathered(row, self.attempts[row]["nodes"], self.held.pop(row, ()))
        if grant is not None:
            return self._start(row, grant)
        if devices:
            self.scratch.free.remove_all(devices)
            self.held[row] = devices
        return False

    def _gathered(self, row: int, nodes: int, held: tuple[int, ...]) -> tuple[Grant | None, tuple[int, ...]]:
        """What `row` could hold on `nodes` besides `held`, left free; a grant if it needs no more."""
        free, gpus, most = self.scratch.free, self.gpus_of[row], None
        if self._is_fed_in_part(row):
            most = self.fit.fed(self.scratch, row, nodes)
            for device in held:
                most[free.node_of[device]] = most.get(free.node_of[device], 0) - 1
        nodes &= self._open_to(row) & self._left_to(row)
        devices = tuple(sorted(held + gather(free, gpus - len(held), nodes, most)))
        free.put_all(devices)
        share: float = self.snapshot.jobs.table.gpu_share.item(row)
        grant = whole_grant(row, devices) if share == 1.0 else Grant(row, devices, share, Role.PACKED)
        return (grant if len(devices) == gpus and self.fit.admits(self.scratch, grant) else None), devices

    def _left_to(self, row: int) -> int:
        """Nodes that hard quotas, cores and memory leave to `row` now: it takes nothing on others."""
        if self.sleeps:
            return -1
        within = self.fit.nodes_in_part if self._is_fed_in_part(row) else self.fit.nodes_for
        nodes = 0
        for of_type in within(self.scratch, row):
            nodes |= of_type
        return nodes

    def _start(self, row: int, grant: Grant | None) -> bool:
        if grant is None:
            return False
        self.scratch.hold(grant)
        self.shares.grant(row, len(grant.devices) * grant.share)
        self.grants[row] = grant
        self.ended.append(self.queues.drop(row))
        return True

    # -- taking back ---------------------------------------------------------------------------------

    def _may_reclaim(self, of: Class) -> bool:
        """True if a job of virtual cluster and size `of` has the right to GPUs that others borrowed."""
        return of[1] > 0 and self.shares.is_due(of[0], of[1]) and self._is_tight()

    def _may_anybody_reclaim(self) -> bool:
        return self._is_tight() and any(self._may_reclaim(of) for of in self.queues.classes)

    def _is_tight(self) -> bool:
        """True if enough GPUs are in use that those a virtual cluster has borrowed may be taken back."""
        shares = self.shares
        return shares.granted >= self.much - EPSILON and shares.somebody_borrows()

    def _has_just_begun(self, row: int) -> bool:
        """True at the moment of its start or move, at which several decisions may be made."""
        return self.snapshot.by_row.placed_s.item(row) >= self.now

    def _reclaim(self, row: int) -> None:
        """Take GPUs back for `row`, whose attempt could not complete at once."""
        shares, grants = self.shares, self.snapshot.grants
        self.scratch.free.put_all(self.held.pop(row, ()))
        since, before = self.snapshot.by_row.since_s, len(self.victims)
        running = [
            (since.item(r), r, len(g.devices) * g.share)
            for r, g in grants.items()
            if r not in self.victims and r not in self.grants and not self._has_just_begun(r)
        ]

        def fits(victim: int) -> bool:
            self.scratch.release(grants[victim])
            self.victims.append(victim)
            return self._gathered(row, self._candidates(row), ())[0] is not None

        enough = reclaim(shares, running, fits) is not None
        if enough:
            self._open(row, self._candidates(row), self._latest(row))
            self._collect(row)
        gone, self.victims = self.victims[before:], self.victims[:before]
        if enough:
            self._part(gone, set(self.grants[row].devices))
            return
        for victim in gone:
            self.scratch.hold(grants[victim])
        self._collect(row)

    def _part(self, gone: list[int], used: set[int]) -> None:
        """Of the jobs `gone`, keep whole those with no `used` device; the others wait again."""
        for victim in gone:
            grant = self.snapshot.grants[victim]
            if used.isdisjoint(grant.devices):
                self.scratch.hold(grant)
                self.shares.grant(victim, len(grant.devices) * grant.share)
            else:
                self.victims.append(victim)
                self._enter(victim)

    def _free_nodes(self) -> int:
        """Nodes with free GPUs."""
        return self.domains.nodes ^ self.scratch.free.buckets[0]
