"""Which jobs hold which devices: the loop's own table, and the scratch copy that a policy tries things in."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable
from typing import Final

from rota.model.cluster import Cluster
from rota.model.grants import Grant, Role, is_unlimited
from rota.model.jobs import JobTable
from rota.model.whole import is_made_whole
from rota.table.device_memory import DeviceMemory, memory_of
from rota.table.free import Free
from rota.table.node_sets import NodeSets

EPSILON: Final = 1e-9
_ALONE: Final = int(Role.ALONE)
_OPPORTUNISTIC: Final = int(Role.OPPORTUNISTIC)


class Occupancy:
    """Claims on devices, CPU and memory by the grants in force.

    A device is *free* if only opportunistic jobs claim it; `spare` lists what is left of the devices
    that are claimed in part.
    """

    __slots__ = (
        "_is_lent",
        "_scratch",
        "claimed",
        "cluster",
        "counts_hosts",
        "cpus_used",
        "device_memory",
        "down",
        "down_nodes",
        "free",
        "jobs",
        "memory_used",
        "node_sets",
        "opportunists",
        "sharers",
        "spare",
        "spares",
        "tenant_gpus",
        "touched",
    )  # fmt: skip

    def __init__(self, cluster: Cluster, jobs: JobTable, origin: Occupancy | None = None) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self.node_sets: NodeSets = origin.node_sets if origin else NodeSets(cluster)
        self.counts_hosts: bool = origin.counts_hosts if origin else self._is_anything_counted()
        """True if grants touch more than devices: tenants, CPU, memory or device memory that can run out."""
        self.free: Free = origin.free.copy() if origin else Free.of(cluster)
        self.claimed: list[float] = [0.0] * cluster.gpus
        """Sum of the shares claimed of each device, the opportunistic ones aside."""
        self.spare: dict[int, float] = {}
        """What is left of each device claimed in part."""
        self.spares: list[tuple[float, int]] = []
        """`spare` as pairs, ascending: a job that asks for part of a device takes the first with room."""
        self.sharers: dict[int, list[int]] = {}
        """Jobs on each device that is, or may be, shared; jobs alone on whole devices do not appear."""
        self.opportunists = 0
        """Claims on single devices by jobs that use what the others leave."""
        self.device_memory = DeviceMemory()
        self.cpus_used: list[float] = [0.0] * cluster.nodes
        self.memory_used: list[float] = [0.0] * cluster.nodes
        self.down: set[int] = set()
        """Devices that are not healthy."""
        self.down_nodes: set[int] = set()
        """Nodes that are lost, including nodes without devices."""
        self.tenant_gpus: dict[tuple[str, int], float] = {}
        """GPUs held by each configured tenant (its children's included), by type code; -1 is all types."""
        self.touched: set[int] | None = None
        """Devices whose claims have changed since the scratch equalled this, except devices held or given
        back as a whole: `free.touched` has their nodes.  None without a scratch."""
        self._scratch: Occupancy | None = None
        self._is_lent = False

    def _is_anything_counted(self) -> bool:
        """True if there are tenants, or a job asks for anything else than devices that can run out."""
        asked = (self.jobs.cpus, self.jobs.memory_gib, self.jobs.gpu_memory_gib)
        return bool(self.cluster.tenants) or (self.node_sets.can_run_out and any(c.any() for c in asked))

    def copy(self) -> Occupancy:
        """An independent copy."""
        twin = Occupancy(self.cluster, self.jobs, self)
        twin.claimed, twin.spare, twin.spares = self.claimed.copy(), self.spare.copy(), self.spares.copy()
        twin.sharers = {device: rows.copy() for device, rows in self.sharers.items()}
        twin.device_memory = self.device_memory.copy()
        twin.cpus_used, twin.memory_used = self.cpus_used.copy(), self.memory_used.copy()
        twin.down, twin.down_nodes = self.down.copy(), self.down_nodes.copy()
        twin.tenant_gpus, twin.opportunists = self.tenant_gpus.copy(), self.opportunists
        return twin

    # -- trying things out -------------------------------------------------------------------------

    def scratch(self) -> Occupancy:
        """A copy to try things on, at the cost of what has changed: one copy is kept and restored.

        It is lent until `take_back`; a caller that asks meanwhile gets a full copy.
        """
        if self._is_lent:
            return self.copy()
        self._is_lent = True
        if self._scratch is None:
            self._scratch = self.copy()
            self._watch()
            self._scratch._watch()
        else:
            self._scratch._restore(self)
        return self._scratch

    def take_back(self) -> None:
        """The scratch copy that was lent is no longer in use."""
        self._is_lent = False

    def _watch(self) -> None:
        self.touched = set()
        self.free.touched = set()

    def _restore(self, truth: Occupancy) -> None:
        """Become equal to `truth`: only what changed since the two were last equal is copied."""
        has_counted = self.counts_hosts or truth.counts_hosts  # else hosts carry nothing, now or before
        self.jobs, self.counts_hosts = truth.jobs, truth.counts_hosts
        self.opportunists = truth.opportunists
        nodes, devices = self._take_touched()
        more_nodes, more_devices = truth._take_touched()
        for node in nodes | more_nodes:
            self._copy_node(truth, node, has_counted)
        for device in devices | more_devices:
            self._copy_device(truth, device, has_counted)
        if truth.counts_hosts:
            self.tenant_gpus = truth.tenant_gpus.copy()

    def _take_touched(self) -> tuple[set[int], set[int]]:
        """Nodes and devices touched since the last call; both are watched."""
        nodes, devices = self.free.touched, self.touched
        assert nodes is not None
        assert devices is not None
        self._watch()
        return nodes, devices

    def _copy_node(self, truth: Occupancy, node: int, hosts: bool) -> None:
        first, last = self.free.first[node], self.free.first[node + 1]
        self.free.copy_node(truth.free, node)
        self.claimed[first:last] = truth.claimed[first:last]
        if hosts:
            self.cpus_used[node], self.memory_used[node] = truth.cpus_used[node], truth.memory_used[node]
        _copy_member(self.down_nodes, truth.down_nodes, node)

    def _copy_device(self, truth: Occupancy, device: int, hosts: bool) -> None:
        self.claimed[device] = truth.claimed[device]
        rows = truth.sharers.get(device)
        if rows is not None:
            self.sharers[device] = rows.copy()
        else:
            self.sharers.pop(device, None)
        self._leave(device, truth.spare.get(device, 0.0))
        _copy_member(self.down, truth.down, device)
        if hosts:
            self.device_memory.copy_device(truth.device_memory, device)

    # -- claims ------------------------------------------------------------------------------------

    def hold(self, grant: Grant) -> None:
        """Enter a grant that is known to fit."""
        is_plain = is_made_whole(grant)
        if is_plain or (grant.role == _ALONE and grant.share == 1.0):
            devices = grant[1]
            for device in devices:
                self.claimed[device] = 1.0
            if self.down:  # a job that stays on a closed device was taken off it to try something
                devices = self._healthy(devices)
            self.free.remove_all(devices)
        else:
            for device in grant.devices:
                self._claim(device, grant, 1)
        if not (is_plain or is_unlimited(grant)) and self.node_sets.can_run_out:
            self.counts_hosts = True
        if self.counts_hosts:
            self._hosts(grant, 1.0)

    def release(self, grant: Grant) -> None:
        """Take a grant in force away."""
        if is_made_whole(grant) or (grant.role == _ALONE and grant.share == 1.0):
            devices = grant[1]
            for device in devices:
                self.claimed[device] = 0.0
            if self.down:
                devices = self._healthy(devices)
            self.free.put_all(devices)
        else:
            for device in grant.devices:
                self._claim(device, grant, -1)
        if self.counts_hosts:
            self._hosts(grant, -1.0)

    def adjust(self, old: Grant, new: Grant) -> None:
        """The job that holds `old` goes on where it is under `new`, with other limits."""
        if not is_unlimited(new) and self.node_sets.can_run_out:
            self.counts_hosts = True
        if self.counts_hosts:
            self._hosts(old, -1.0)
            self._hosts(new, 1.0)

    def _healthy(self, devices: tuple[int, ...]) -> tuple[int, ...]:
        """The `devices` that `free` counts; the others are closed and only touch their nodes."""
        self._touch(devices)
        return tuple(device for device in devices if device not in self.down)

    def _touch(self, devices: Iterable[int]) -> None:
        """Note that `devices` change otherwise than by being held as a whole, which `free` notes."""
        if self.touched is not None:
            self.touched.update(devices)

    def _touch_node(self, node: int) -> None:
        if self.free.touched is not None:
            self.free.touched.add(node)

    def _claim(self, device: int, grant: Grant, sign: int) -> None:
        """Add or remove a claim that may leave the device shared."""
        if self.touched is not None:
            self.touched.add(device)
        before = after = self.claimed[device]
        if grant.role == _OPPORTUNISTIC:
            self.opportunists += sign
        else:
            after = before + sign * grant.share
            if abs(after) <= EPSILON:
                after = 0.0
            self.claimed[device] = after
        rows = self.sharers.get(device)
        if sign < 0:
            assert rows is not None, "who leaves a shared device was there"
            rows.remove(grant.job)
            if not rows:
                del self.sharers[device]
        elif rows is None:
            self.sharers[device] = [grant.job]
        else:
            rows.append(grant.job)
        if device not in self.down:
            self._index(device, before, after)

    def _index(self, device: int, before: float, after: float) -> None:
        """Keep `free` and `spare` in step with `claimed`, which was `before` and is `after`."""
        is_free = after <= EPSILON
        if is_free != (before <= EPSILON):
            (self.free.put if is_free else self.free.remove)(device)
        self._leave(device, 0.0 if is_free else 1.0 - after)

    def _leave(self, device: int, left: float) -> None:
        """Note the part of `device` left beside the jobs that share it; 0 if it is free, full or closed."""
        before = self.spare.get(device, 0.0)
        if left <= EPSILON:
            left = 0.0
        if left == before:
            return
        if before:
            del self.spare[device]
            del self.spares[bisect_left(self.spares, (before, device))]
        if left:
            self.spare[device] = left
            insort(self.spares, (left, device))

    def _hosts(self, grant: Grant, sign: float) -> None:
        """Count tenants, CPU, memory and device memory; nothing to do where none are stated."""
        if self.cluster.tenants.by_path:
            self.count_for_quotas(grant, self.cluster, sign)
        kept, turn = memory_of(self.jobs, grant)
        if kept or turn:
            self._touch(grant.devices)
            self.device_memory.count(grant.devices, kept, turn, sign)
        for node, cpus, memory_gib in self.needs(grant):
            self._touch_node(node)
            self.cpus_used[node] += sign * cpus
            self.memory_used[node] += sign * memory_gib

    def count_for_quotas(self, grant: Grant, cluster: Cluster, sign: float) -> None:
        """Count `grant`, on devices of `cluster`, which comes or goes, against quotas, wherever it is."""
        if grant.role is Role.OPPORTUNISTIC:
            return
        used, types = self.tenant_gpus, cluster.device_type
        for tenant in self.cluster.tenants.lineage(self.jobs.name_of("tenant", grant.job)):
            for kind in [kind for device in grant.devices for kind in (-1, int(types[device]))]:
                used[tenant.path, kind] = used.get((tenant.path, kind), 0.0) + sign * grant.share

    def parts(self, grant: Grant) -> list[tuple[int, float]]:
        """Nodes of a grant and the part of the request on each: CPU and memory follow the GPUs.

        The parts of an elastic job on half of its GPUs sum to one half.
        """
        if not grant.devices:
            return [(grant.node, 1.0)] if grant.node >= 0 else []
        node_of, counts = self.free.node_of, dict[int, int]()
        for device in grant.devices:
            counts[node_of[device]] = counts.get(node_of[device], 0) + 1
        asked = self.jobs.gpus.item(grant.job) or len(grant.devices)
        return [(node, count / asked) for node, count in counts.items()]

    def needs(self, grant: Grant) -> list[tuple[int, float, float]]:
        """Nodes of a grant with the CPUs and the GiB of memory it takes of each; none if it takes neither."""
        jobs, row = self.jobs, grant.job
        cpus, memory_gib, gpus = jobs.cpus.item(row), jobs.memory_gib.item(row), len(grant.devices)
        whole = gpus / (jobs.gpus.item(row) or gpus) if gpus else 1.0
        if grant.cpus == grant.cpus:  # not NaN: it is stated, for all its devices together
            cpus = grant.cpus / whole
        if grant.memory_gib == grant.memory_gib:
            memory_gib = grant.memory_gib / whole
        if not cpus and not memory_gib:
            return []
        return [(node, part * cpus, part * memory_gib) for node, part in self.parts(grant)]

    def lose(self, node: int) -> None:
        """`node` is down, or closed to new grants; what is still held on it stays until it is released."""
        self.down_nodes.add(node)
        self._touch_node(node)
        self.close(range(self.free.first[node], self.free.first[node + 1]))

    def regain(self, node: int) -> None:
        """`node` is back."""
        self.down_nodes.discard(node)
        self._touch_node(node)
        self.open(range(self.free.first[node], self.free.first[node + 1]))

    def close(self, devices: Collection[int]) -> None:
        """Admit no new grant on `devices`: they are unhealthy, or are to be emptied."""
        self._touch(devices)
        for device in devices:
            if device not in self.down:
                if self.claimed[device] <= EPSILON:
                    self.free.remove(device)
                self._leave(device, 0.0)
                self.down.add(device)

    def open(self, devices: Collection[int]) -> None:
        """`devices` may be granted again."""
        self._touch(devices)
        for device in devices:
            if device in self.down:
                self.down.remove(device)
                left = 1.0 - self.claimed[device]
                if self.claimed[device] <= EPSILON:
                    self.free.put(device)
                else:
                    self._leave(device, left)

    def enter(self, row: int) -> None:
        """The request of `row` has been written into the table: from now on hosts may count."""
        jobs = self.jobs
        if self.node_sets.can_run_out and (
            jobs.cpus[row] or jobs.memory_gib[row] or jobs.gpu_memory_gib[row]
        ):
            self.counts_hosts = True


def _copy_member(kept: set[int], truth: set[int], one: int) -> None:
    """`one` is in `kept` if it is in `truth`."""
    if one in truth:
        kept.add(one)
    else:
        kept.discard(one)
