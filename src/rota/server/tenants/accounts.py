"""Tenants as people see them: what each is entitled to and has; and moving that while the cluster runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rota.errors import InputError, PolicyError
from rota.model.cells import check_cells, kinds_of, owned_cells
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.tenants import Between, Tenant
from rota.model.units import number, plural
from rota.scheduler.policy import parse_policy
from rota.server.answers.answers import Answers
from rota.server.api.forms import TenantsMove
from rota.server.callers import Caller
from rota.server.commands import Commands
from rota.server.refusals import Busy, Conflict
from rota.server.scheduler import Scheduler
from rota.server.store.rows import AttemptRow, CompletedJob, HeldSpan, JobQuery, JobRow
from rota.server.store.store import Store
from rota.server.tenants.settings import changes, parse_tenants, plain_tenants
from rota.wire.tenants import CellView, TenantsHistory, TenantsMoved, TenantsView, TenantView

DAYS = 7.0
HOUR_S = 3600.0
WAITING = ("PENDING", "OFFERED", "SUSPENDED")
NAMED = 5
"""Most jobs that a refusal names."""


class TenantAccounts:
    """Implements `rota.server.api.services.TenantsService`."""

    def __init__(self, store: Store, scheduler: Scheduler, commands: Commands, answers: Answers) -> None:
        self._store, self._scheduler = store, scheduler
        self._commands, self._answers = commands, answers

    # -- what there is -------------------------------------------------------------------------------

    def tenants(self) -> TenantsView:
        """All that are configured, and all that have jobs or had some lately."""
        shown, clock, notes = self._scheduler.view, self._scheduler.clock, list[str]()
        guaranteed = self._guaranteed(notes)
        running = self._store.jobs(JobQuery(states=("RUNNING",)))
        book = _Book(shown.tenants.tenants.by_path, says=guaranteed is not None)
        for (state, tenant), (jobs, gpus) in self._store.live_requests().items():
            if state in WAITING:
                book.waits(tenant, jobs, gpus)
        holding = shown.holding.copy()
        for row in running:
            if row.row in holding:
                by_type = self._by_type(holding[row.row])
                book.holds(row.asked.tenant, by_type, None if guaranteed is None else row.row in guaranteed)
        now, since_s = clock(), max(clock() - DAYS * 24 * HOUR_S, 0.0)
        for tenant, gpu_s in self._gpu_s(since_s, now, running, holding).items():
            book.worked(tenant, gpu_s / HOUR_S)
        book.fared(self._store.completed(since_s), self._gpus())
        world = self._scheduler.world
        views = book.views(_cells_of(None if world is None else world.cluster))
        in_force = shown.tenants
        policy = "" if shown.policy is None else shown.policy.spec
        has_cells = any(view.cells for view in views)
        if has_cells:
            notes += self.troubles()
            if guaranteed is None and not notes:
                notes.append(f"policy {policy} assigns no cells; `rota policy set hived` would")
        if in_force.tenants:
            notes += dealt(policy, between(policy))
        return TenantsView(
            tenants=views,
            policy=policy,
            between=between(policy),
            since_s=clock.epoch_unix_s + in_force.since_s if in_force.tenants else None,
            by=in_force.by,
            days=DAYS,
            notes=notes,
        )

    def troubles(self) -> list[str]:
        """Why tenants cannot have all their cells at this moment, as sentences."""
        self._scheduler.standing.wait()
        world = self._scheduler.world
        if world is None or not any(t.cells for t in world.cluster.tenants.by_path.values()):
            return []
        nodes = [node for node in world.live.machines.nodes if not node.is_forgotten]
        if not nodes:
            return []
        try:
            check_cells(world.cluster)
        except InputError as error:
            return [f"no job has a guarantee, since the cells of the tenants cannot be had: {error}"]
        away = [node for node in nodes if node.state in ("lost", "away")]
        gone = (*world.cluster.gone, *(node.position for node in away))
        try:
            check_cells(replace(world.cluster, gone=gone))
        except InputError as error:
            names = ", ".join(node.name for node in away)
            verb = "is" if len(away) == 1 else "are"
            return [f"guarantees are at risk while {names} {verb} gone: {error}"]
        return []

    def _guaranteed(self, notes: list[str]) -> frozenset[int] | None:
        """Rows of jobs that run on their tenants' own share, if the policy says so."""
        try:
            return self._scheduler.guaranteed()
        except (Busy, PolicyError) as error:
            notes.append(f"which jobs run on what is their tenant's own is not known just now: {error}")
            return None

    def _by_type(self, attempt: AttemptRow) -> dict[str, float]:
        """GPUs that it holds, by type."""
        nodes, gpus = self._scheduler.view.nodes, dict[str, float]()
        for place in attempt.parts["places"]:
            devices = nodes[place["name"]].info.devices if place["name"] in nodes else []
            kind_of = {device.index: device.type for device in devices}
            for index in place["devices"]:
                kind = kind_of.get(index, "GPU")
                gpus[kind] = gpus.get(kind, 0.0) + float(attempt.grant[2])
        return gpus

    def _gpu_s(
        self, since_s: float, now: float, running: Collection[JobRow], holding: Mapping[int, AttemptRow]
    ) -> dict[str, float]:
        """GPU-seconds since then, with present holdings."""
        spent: dict[str, float] = {}
        for held in self._store.held(since_s):
            gpu_s = held.gpus * max(min(held.end_s, now) - max(held.start_s, since_s), 0.0)
            spent[held.tenant] = spent.get(held.tenant, 0.0) + gpu_s
        for row in running:
            if row.row in holding:
                gpu_s = _gpus_of(holding[row.row]) * max(now - max(row.now.since_s, since_s), 0.0)
                spent[row.asked.tenant] = spent.get(row.asked.tenant, 0.0) + gpu_s
        return spent

    def _gpus(self) -> int:
        """Devices of the machines that are there."""
        nodes = self._scheduler.view.nodes.copy().values()
        return sum(len(node.info.devices) for node in nodes if node.state not in ("lost", "forgotten"))

    def tenants_history(self, days: float, points: int) -> TenantsHistory:
        """Mean GPUs of each tenant, those below it included, over equal stretches of the last days."""
        now, clock = self._scheduler.clock(), self._scheduler.clock
        begin_s = max(now - days * 24 * HOUR_S, 0.0)
        edges = np.linspace(begin_s, max(now, begin_s + 1.0), points + 1)
        parts: dict[str, list[HeldSpan]] = {}
        known = self._scheduler.view.tenants.tenants
        for held in [*self._store.held(begin_s), *self._held_now(now)]:
            for path in (
                held.tenant or "-",
                *(t.path for t in known.lineage(held.tenant.rpartition("/")[0])),
            ):
                parts.setdefault(path, []).append(held)
        means = {path: mean_held(held, edges) for path, held in parts.items()}
        by_use = sorted(means, key=lambda path: (-float(means[path].sum()), path))
        return TenantsHistory(
            times=(edges[1:] + clock.epoch_unix_s).tolist(),
            held={path: means[path].round(3).tolist() for path in by_use},
        )

    def _held_now(self, now: float) -> list[HeldSpan]:
        """What running jobs hold, which no interval on record says yet."""
        holding = self._scheduler.view.holding.copy()
        return [
            HeldSpan(row.asked.tenant, row.now.since_s, now, _gpus_of(holding[row.row]))
            for row in self._store.jobs(JobQuery(states=("RUNNING",)))
            if row.row in holding
        ]

    # -- moving it -----------------------------------------------------------------------------------

    def move_tenants(self, who: Caller, move: TenantsMove) -> TenantsMoved:
        """Check what would come of it, say so, and do it if it is wanted."""
        tenants = parse_tenants(move.tenants)
        said = changes(self._scheduler.view.tenants.tenants, tenants)
        if not said:
            return TenantsMoved(applied=not move.dry_run, changes=[])
        losses = self._answers.losses(tenants)
        if losses and not (move.yes or move.dry_run):
            named = ", ".join(dict.fromkeys(loss.job for loss in losses[:NAMED]))
            more = f" and {len(losses) - NAMED} more" if len(losses) > NAMED else ""
            raise Conflict(
                f"{plural(len(losses), 'job')} would be worse off ({named}{more}); look at them with "
                "--dry-run, and say --yes if that is to be"
            )
        if not move.dry_run:
            self._commands.give(who, "tenants", {"tenants": plain_tenants(tenants)}, "tenants")
        return TenantsMoved(
            applied=not move.dry_run, changes=said, losses=losses, notes=_more(tenants.by_path)
        )


def _gpus_of(attempt: AttemptRow) -> float:
    """Devices that it holds, times its share of each."""
    return float(attempt.grant[2]) * len(attempt.grant[1])


def mean_held(held: Sequence[HeldSpan], edges: Floats) -> Floats:
    """Mean GPUs between each two of `edges`."""
    starts, ends, gpus = (
        np.array([getattr(one, name) for one in held]) for name in ("start_s", "end_s", "gpus")
    )

    def until(moments: Floats, at: Floats) -> Floats:
        """Sum over those moments that have passed of GPUs times seconds since."""
        order = np.argsort(moments)
        passed = np.searchsorted(moments[order], at, side="right")
        counted = np.concatenate(([0.0], np.cumsum(gpus[order])))
        weighted = np.concatenate(([0.0], np.cumsum(gpus[order] * moments[order])))
        since: Floats = counted[passed] * at - weighted[passed]
        return since

    gpu_s = until(starts, edges) - until(ends, edges)
    means: Floats = np.maximum(np.diff(gpu_s) / np.diff(edges), 0.0)
    return means


def _more(tenants: Mapping[str, Tenant]) -> list[str]:
    """What of these tenants is worth a second look."""
    said = []
    for path, tenant in sorted(tenants.items()):
        below = [t for t in tenants.values() if t.parent == path]
        promised = sum(t.quota_gpus for t in below)
        if below and math.inf > promised > tenant.quota_gpus:
            said.append(
                f"{path}: those below it have quotas of {number(promised)} in all, and it has "
                f"{plural(tenant.quota_gpus, 'GPU')}"
            )
    return said


class _Book:
    """Sums by tenant; the sum of a tenant counts for the tenants above it too."""

    def __init__(self, tenants: Mapping[str, Tenant], *, says: bool) -> None:
        """`says` is true if the policy reports which jobs run on their tenant's own share."""
        self.tenants, self.says = tenants, says
        self.known = {path: TenantView(path=path) for path in tenants}
        self.guaranteed: dict[str, float] = {}

    def _lineage(self, tenant: str) -> list[TenantView]:
        """The view of `tenant` and of those above it that are configured."""
        above, path = [], tenant.rpartition("/")[0]
        while path:
            above += [path] if path in self.tenants else []
            path = path.rpartition("/")[0]
        return [self.known.setdefault(one, TenantView(path=one)) for one in (tenant or "-", *above)]

    def waits(self, tenant: str, jobs: int, gpus: float) -> None:
        for view in self._lineage(tenant):
            view.waiting += jobs
            view.waiting_gpus += gpus

    def holds(self, tenant: str, by_type: Mapping[str, float], is_own: bool | None) -> None:
        gpus = sum(by_type.values())
        for view in self._lineage(tenant):
            view.running += 1
            view.held += gpus
            for kind, part in by_type.items():
                view.held_by_type[kind] = view.held_by_type.get(kind, 0.0) + part
            if is_own:
                self.guaranteed[view.path] = self.guaranteed.get(view.path, 0.0) + gpus

    def worked(self, tenant: str, gpu_hours: float) -> None:
        for view in self._lineage(tenant):
            view.gpu_hours += gpu_hours

    def fared(self, jobs: Sequence[CompletedJob], gpus: int) -> None:
        """Mean over jobs of how long they took, to how long on an equal part of the cluster."""
        tenants, sums = len({job.tenant for job in jobs}), dict[str, list[float]]()
        for job in jobs:
            alone_s = job.run_s * max(job.gpus * tenants / max(gpus, 1), 1.0)
            if alone_s > 0.0 and job.gpus > 0.0:
                for view in self._lineage(job.tenant):
                    sums.setdefault(view.path, []).append((job.finish_s - job.submit_s) / alone_s)
        for path, ratios in sums.items():
            self.known[path].rho = sum(ratios) / len(ratios)

    def views(self, cells: Mapping[str, list[CellView]]) -> list[TenantView]:
        """By path, with what each is entitled to."""
        for path, view in self.known.items():
            tenant = self.tenants.get(path) or Tenant(path)
            view.configured = path in self.tenants
            view.quota = None if tenant.quota_gpus == math.inf else tenant.quota_gpus
            view.hard, view.weight = tenant.hard, tenant.weight
            view.quota_by_type = {k: gpus for k, gpus in tenant.quota_by_type.items() if gpus < math.inf}
            view.cells = cells.get(path) or [
                CellView(level=cell.level, count=cell.count, gpu_type=cell.gpu_type, at=cell.at)
                for cell in tenant.cells
            ]
            sizes = [cell.gpus for cell in view.cells]
            if sizes:
                view.entitled = None if None in sizes else float(sum(size or 0 for size in sizes))
                view.own = self.guaranteed.get(path, 0.0) if self.says else None
            else:
                view.entitled = view.quota
                view.own = None if view.quota is None else min(view.held, view.quota)
        return sorted(self.known.values(), key=lambda view: view.path)


def dealt(policy: str, between: str) -> list[str]:
    """What quotas and weights are worth under `policy`, as a note; none where that is not known."""
    said = {
        Between.NOTHING: "does not ask whose a job is: soft quotas and weights count for nothing, caps do",
        Between.EQUALLY: "gives tenants with jobs equal shares: soft quotas and weights count for nothing",
        Between.WEIGHTS: "divides by weight between tenants with jobs: soft quotas count for nothing",
        Between.QUOTAS: "gives each tenant its quota, and lends what is idle: weights count for nothing",
        Between.CELLS: "gives each tenant its cells, and lends what is idle",
        Between.UNITS: "gives each tenant the unit that is named after it, and lends nothing",
    }
    return [f"policy {policy} {said[Between(between)]}"] if between else []


def between(policy: str) -> str:
    """What `policy` divides the cluster between tenants by; empty if that is not known."""
    try:
        return parse_policy(policy).between.value if policy else ""
    except InputError:  # one that only the policy's process can load
        return ""


def _cells_of(cluster: Cluster | None) -> dict[str, list[CellView]]:
    """The cells of each tenant with their GPUs; none where the machines cannot hold them."""
    if cluster is None:
        return {}
    try:
        owned = owned_cells(cluster, kinds_of(cluster))
    except InputError:
        return {}
    cells: dict[str, list[CellView]] = {}
    for cell in owned:
        view = CellView(
            level=cell.kind.names[cell.level - 1],
            count=cell.cells,
            gpu_type=cell.kind.gpu_type,
            at=cell.at,
            gpus=cell.cells * cell.kind.gpus(cell.level),
        )
        cells.setdefault(cell.tenant, []).append(view)
    return cells
