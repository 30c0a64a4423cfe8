"""Who holds which devices: the truth of the loop, and the scratch copy of a policy that tries things."""

from __future__ import annotations

from collections.abc import Iterable

from rota.model.cluster import Cluster
from rota.model.grants import Grant, Role
from rota.model.jobs import JobTable
from rota.table.free import Free

EPSILON = 1e-9
_ALONE = int(Role.ALONE)


class Occupancy:
    """Claims on devices, CPU and memory by the grants in force.

    A device is *free* if nobody but opportunistic jobs claims it; `spare` lists what is left of the
    devices that are claimed in part.
    """

    __slots__ = (
        "_counts_hosts",
        "claimed",
        "cluster",
        "cpus_used",
        "down",
        "down_nodes",
        "free",
        "gpu_memory_used",
        "jobs",
        "memory_used",
        "sharers",
        "spare",
        "tenant_gpus",
    )  # fmt: skip

    def __init__(self, cluster: Cluster, jobs: JobTable, origin: Occupancy | None = None) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self._counts_hosts: bool = origin._counts_hosts if origin else _counts_hosts(cluster, jobs)
        self.free: Free = origin.free.copy() if origin else Free.of(cluster)
        self.claimed: list[float] = [0.0] * cluster.gpus
        """Sum of the shares claimed of each device, the opportunistic ones aside."""
        self.spare: dict[int, float] = {}
        """What is left of each device claimed in part."""
        self.sharers: dict[int, list[int]] = {}
        """Jobs on each device that is, or may be, shared; jobs alone on whole devices do not appear."""
        self.gpu_memory_used: dict[int, float] = {}
        """Device memory in use, GiB, where jobs state it."""
        self.cpus_used: list[float] = [0.0] * cluster.nodes
        self.memory_used: list[float] = [0.0] * cluster.nodes
        self.down: set[int] = set()
        """Devices that are not healthy."""
        self.down_nodes: set[int] = set()
        """Nodes that are lost, those without devices included."""
        self.tenant_gpus: dict[tuple[str, int], float] = {}
        """GPUs held by each configured tenant (its children's included), by type code; -1 is all types."""

    def copy(self) -> Occupancy:
        """An independent copy."""
        twin = Occupancy(self.cluster, self.jobs, self)
        twin.claimed, twin.spare = self.claimed.copy(), self.spare.copy()
        twin.sharers = {device: rows.copy() for device, rows in self.sharers.items()}
        twin.gpu_memory_used = self.gpu_memory_used.copy()
        twin.cpus_used, twin.memory_used = self.cpus_used.copy(), self.memory_used.copy()
        twin.down, twin.down_nodes = self.down.copy(), self.down_nodes.copy()
        twin.tenant_gpus = self.tenant_gpus.copy()
        return twin

    def hold(self, grant: Grant) -> None:
        """Enter a grant that is known to fit."""
        if grant.role == _ALONE and grant.share == 1.0:
            devices = grant.devices
            for device in devices:
                self.claimed[device] = 1.0
            if self.down:  # somebody who stays on a closed device was taken off it to try something
                devices = tuple(device for device in devices if device not in self.down)
            self.free.remove_all(devices)
        else:
            for device in grant.devices:
                self._claim(device, grant, 1)
        if self._counts_hosts:
            self._hosts(grant, 1.0)

    def release(self, grant: Grant) -> None:
        """Take a grant in force away."""
        if grant.role == _ALONE and grant.share == 1.0:
            devices = grant.devices
            for device in devices:
                self.claimed[device] = 0.0
            if self.down:
                devices = tuple(device for device in devices if device not in self.down)
            self.free.put_all(devices)
        else:
            for device in grant.devices:
                self._claim(device, grant, -1)
        if self._counts_hosts:
            self._hosts(grant, -1.0)

    def _claim(self, device: int, grant: Grant, sign: int) -> None:
        """Add or remove a claim that may leave the device shared."""
        was_free = self.claimed[device] <= EPSILON
        if grant.role is not Role.OPPORTUNISTIC:
            self.claimed[device] += sign * grant.share
            if abs(self.claimed[device]) <= EPSILON:
                self.claimed[device] = 0.0
        rows = self.sharers.setdefault(device, [])
        if sign > 0:
            rows.append(grant.job)
        else:
            rows.remove(grant.job)
            if not rows:
                del self.sharers[device]
        self._index(device, was_free)

    def _index(self, device: int, was_free: bool) -> None:
        """Keep `free` and `spare` in step with `claimed`."""
        left = 1.0 - self.claimed[device]
        is_free = self.claimed[device] <= EPSILON
        if device in self.down:
            return
        if is_free != was_free:
            (self.free.put if is_free else self.free.remove)(device)
        if is_free or left <= EPSILON:
            self.spare.pop(device, None)
        else:
            self.spare[device] = left

    def _hosts(self, grant: Grant, sign: float) -> None:
        """Tenants, CPU, memory and device memory; nothing to do where nobody states them."""
        jobs, row = self.jobs, grant.job
        if self.cluster.tenants.by_path:
            self._count_tenants(grant, sign)
        need = jobs.gpu_memory_gib[row]
        if need:
            for device in grant.devices:
                self.gpu_memory_used[device] = self.gpu_memory_used.get(device, 0.0) + sign * need
        cpus, memory = jobs.cpus[row], jobs.memory_gib[row]
        if cpus or memory:
            for node, part in self.parts(grant):
                self.cpus_used[node] += sign * part * cpus
                self.memory_used[node] += sign * part * memory

    def _count_tenants(self, grant: Grant, sign: float) -> None:
        if grant.role is Role.OPPORTUNISTIC:
            return
        used = self.tenant_gpus
        for tenant in self.cluster.tenants.lineage(self.jobs.name_of("tenant", grant.job)):
            for device in grant.devices:
                for kind in (-1, int(self.cluster.device_type[device])):
                    used[tenant.path, kind] = used.get((tenant.path, kind), 0.0) + sign * grant.share

    def parts(self, grant: Grant) -> list[tuple[int, float]]:
        """Nodes of a grant and the part of the request that each bears: CPU and memory follow the GPUs.

        The parts of an elastic job on half of its GPUs sum to one half.
        """
        if not grant.devices:
            return [(grant.node, 1.0)] if grant.node >= 0 else []
        node_of, counts = self.free.node_of, dict[int, int]()
        for device in grant.devices:
            counts[node_of[device]] = counts.get(node_of[device], 0) + 1
        asked = self.jobs.gpus.item(grant.job) or len(grant.devices)
        return [(node, count / asked) for node, count in counts.items()]

    def lose(self, node: int) -> None:
        """`node` is down, or closed to new grants; what is still held on it stays until it is released."""
        self.down_nodes.add(node)
        self.close(range(self.free.first[node], self.free.first[node + 1]))

    def regain(self, node: int) -> None:
        """`node` is back."""
        self.down_nodes.discard(node)
        self.open(range(self.free.first[node], self.free.first[node + 1]))

    def close(self, devices: Iterable[int]) -> None:
        """No new grant on `devices`: they are not healthy, or somebody wants them empty."""
        for device in devices:
            if device not in self.down:
                if self.claimed[device] <= EPSILON:
                    self.free.remove(device)
                self.spare.pop(device, None)
                self.down.add(device)

    def open(self, devices: Iterable[int]) -> None:
        """`devices` may be granted again."""
        for device in devices:
            if device in self.down:
                self.down.remove(device)
                left = 1.0 - self.claimed[device]
                if self.claimed[device] <= EPSILON:
                    self.free.put(device)
                elif left > EPSILON:
                    self.spare[device] = left

    def enter(self, row: int) -> None:
        """The request of `row` has been written into the table: from now on hosts may count."""
        jobs = self.jobs
        self._counts_hosts = self._counts_hosts or bool(
            jobs.cpus[row] or jobs.memory_gib[row] or jobs.gpu_memory_gib[row]
        )


def _counts_hosts(cluster: Cluster, jobs: JobTable) -> bool:
    """True if grants touch more than devices: tenants, CPU, memory or device memory."""
    stated = (jobs.cpus, jobs.memory_gib, jobs.gpu_memory_gib)
    return bool(cluster.tenants) or any(bool(column.any()) for column in stated)
