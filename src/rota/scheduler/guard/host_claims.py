"""Rules on what grants take besides devices: device memory, CPU and memory of nodes, quotas of tenants.

Counted from the grants by code of the guard's own, on what they touch: the guard is there for the case that
the code which places jobs is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rota.model.grants import Grant, Role
from rota.model.tenants import Tenant
from rota.model.units import plural
from rota.scheduler.guard.rules import Breach, breach
from rota.table.occupancy import EPSILON
from rota.table.state import State


class HostClaims:
    """What a decision adds to the claims in force, and takes away, on the nodes it touches."""

    def __init__(self, state: State, gone: Sequence[Grant]) -> None:
        self.state = state
        self.left: set[int] = {grant.job for grant in gone}
        """Jobs whose grants end."""
        self.beside: dict[int, list[Grant]] = {}
        """New grants on each device that take memory of it."""
        self.cpus: dict[int, float] = {}
        self.memory_gib: dict[int, float] = {}
        self.gpus: dict[tuple[str, int], float] = {}
        """GPUs of each tenant, by type code; -1 is all types."""
        for grant in gone:
            self._count(grant, -1.0)

    def enter(self, grant: Grant) -> None:
        self._count(grant, 1.0)
        for device in grant.devices if any(self._device_gib(grant)) else ():
            self.beside.setdefault(device, []).append(grant)

    def breaches_of(self, grant: Grant) -> list[Breach]:
        """The rules that `grant` would break beside all that has been entered: each at most once."""
        return [*self._check_memory(grant), *self._check_nodes(grant), *self._check_quota(grant)]

    # -- what a grant takes ------------------------------------------------------------------------

    def _count(self, grant: Grant, sign: float) -> None:
        for node, cpus, memory_gib in self._node_needs(grant):
            self.cpus[node] = self.cpus.get(node, 0.0) + sign * cpus
            self.memory_gib[node] = self.memory_gib.get(node, 0.0) + sign * memory_gib
        for tenant in self._tenants(grant):
            for kind, gpus in self._gpus_by_type(grant).items():
                for key in ((tenant.path, kind), (tenant.path, -1)):
                    self.gpus[key] = self.gpus.get(key, 0.0) + sign * gpus

    def _device_gib(self, grant: Grant) -> tuple[float, float]:
        """Device memory that the grant keeps on each device, and what it needs besides in its turn."""
        jobs, peak = self.state.jobs, grant.gpu_memory_gib
        if math.isnan(peak):
            peak = jobs.gpu_memory_gib.item(grant.job)
        kept = jobs.gpu_persistent_gib.item(grant.job)
        if grant.role != Role.TURNS or kept == 0.0 or kept > peak:
            return peak, 0.0
        return kept, peak - kept

    def _node_needs(self, grant: Grant) -> list[tuple[int, float, float]]:
        """Nodes with the CPUs and the memory it takes of each: in proportion to the GPUs there."""
        jobs, row, count = self.state.jobs, grant.job, len(grant.devices)
        held = count / (jobs.gpus.item(row) or count) if count else 1.0
        cpus = jobs.cpus.item(row) * held if math.isnan(grant.cpus) else grant.cpus
        memory_gib = jobs.memory_gib.item(row) * held if math.isnan(grant.memory_gib) else grant.memory_gib
        if not cpus and not memory_gib:
            return []
        if not count:
            return [(grant.node, cpus, memory_gib)]
        node_of = self.state.cluster.device_node
        nodes = [node_of.item(device) for device in grant.devices]
        parts = {node: nodes.count(node) / count for node in nodes}
        return [(node, part * cpus, part * memory_gib) for node, part in parts.items()]

    def _tenants(self, grant: Grant) -> Sequence[Tenant]:
        tenants = self.state.cluster.tenants
        if not tenants or grant.role == Role.OPPORTUNISTIC:
            return ()
        return tenants.lineage(self.state.jobs.name_of("tenant", grant.job))

    def _gpus_by_type(self, grant: Grant) -> dict[int, float]:
        """GPUs that count against quotas, by type code."""
        kinds = [self.state.cluster.device_type.item(device) for device in grant.devices]
        return {kind: kinds.count(kind) * grant.share for kind in sorted(set(kinds))}

    # -- the rules ---------------------------------------------------------------------------------

    def _check_memory(self, grant: Grant) -> Iterator[Breach]:
        for device in grant.devices if any(self._device_gib(grant)) else ():
            capacity = self.state.cluster.device_memory_gib.item(device)
            used = self._memory_with(grant, device)
            if capacity and used > capacity + EPSILON:
                message = f"would bring device {device} to {used:g} of {capacity:g} GiB"
                yield breach(self.state, "memory", grant.job, message)
                return

    def _memory_with(self, grant: Grant, device: int) -> float:
        """Memory in use on `device` with `grant`: what jobs there keep, and the most one needs in its
        turn."""
        sharers = self.state.occupancy.sharers.get(device, ())
        staying = [self.state.grants[row] for row in sharers if row not in self.left]
        needs = [self._device_gib(one) for one in (*staying, *self.beside.get(device, ()), grant)]
        return sum(kept for kept, _ in needs) + max(turn for _, turn in needs)

    def _check_nodes(self, grant: Grant) -> Iterator[Breach]:
        cluster, occupancy = self.state.cluster, self.state.occupancy
        for node, cpus, memory_gib in self._node_needs(grant):
            cpus += occupancy.cpus_used[node] + self.cpus.get(node, 0.0)
            memory_gib += occupancy.memory_used[node] + self.memory_gib.get(node, 0.0)
            for what, used, capacity in (
                ("CPUs", cpus, cluster.node_cpus.item(node)),
                ("GiB", memory_gib, cluster.node_memory_gib.item(node)),
            ):
                if capacity and used > capacity + EPSILON * max(1.0, capacity):
                    where = f"{_device_word(grant)}node {cluster.node_names[node]}"
                    message = f"would bring {where} to {used:g} of {capacity:g} {what}"
                    yield breach(self.state, "cpu", grant.job, message)
                    return

    def _check_quota(self, grant: Grant) -> Iterator[Breach]:
        for tenant in self._tenants(grant):
            if tenant.hard and (above := self._above_quota(tenant, grant)) > EPSILON:
                message = f"would bring tenant {tenant.path} {plural(above, 'GPU')} above its quota"
                yield breach(self.state, "quota", grant.job, f"on {_device_word(grant)}{message}")
                return

    def _above_quota(self, tenant: Tenant, grant: Grant) -> float:
        """GPUs, of one type or of all, by which `tenant` would exceed what it may have."""
        more, names = self._gpus_by_type(grant), self.state.cluster.type_names
        above = self._used(tenant, -1) + sum(more.values()) - tenant.quota_gpus
        for kind, gpus in more.items():
            quota = tenant.quota_by_type.get(names[kind])
            if quota is not None:
                above = max(above, self._used(tenant, kind) + gpus - quota)
        return above

    def _used(self, tenant: Tenant, kind: int) -> float:
        key = (tenant.path, kind)
        return self.state.occupancy.tenant_gpus.get(key, 0.0) + self.gpus.get(key, 0.0)


def _device_word(grant: Grant) -> str:
    """`device 3, `: the first device of a grant, where it has one."""
    return f"device {grant.devices[0]}, " if grant.devices else ""
