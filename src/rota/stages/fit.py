"""Place one job under every rule of the cluster: types, shares, CPU, memory, quotas, reservations."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence, Set

from mypy_extensions import mypyc_attr

from rota.model.columns import Row
from rota.model.grants import Grant, Role
from rota.model.tenants import Tenant
from rota.model.whole import whole_grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import Place, consolidate
from rota.table.free import Free, mask_of, nodes_in
from rota.table.occupancy import EPSILON, Occupancy

Room = Sequence[tuple[int, int]]
"""Masks of nodes, with the number of devices that have to be wholly free on one of them."""

_NONE: Set[int] = frozenset()


@mypyc_attr(allow_interpreted_subclasses=True)
class Fitter:
    """Tries to place jobs of one snapshot on a scratch occupancy, by one placement rule.

    A gang gets GPUs of one type: the first acceptable one, in the cluster's order, on which it fits.
    CPU and memory follow the GPUs; a node qualifies if it can feed as many GPUs as it may be given.
    """

    def __init__(self, snapshot: Snapshot, place: Place) -> None:
        self.place = place
        self.cluster = snapshot.cluster
        self.jobs = snapshot.jobs.table
        self.reserved: Mapping[int, Collection[int]] = {
            r.job: r.devices for r in snapshot.reservations if r.until_s > snapshot.now
        }
        """Devices that are passed by when placing any job but the one they are reserved for."""
        self._node_sets = snapshot.occupancy.node_sets
        self._admitted: dict[tuple[int, int], list[int]] = {}
        """Masks by type mask and node set, for the jobs that ask for some nodes only."""
        self._asks_for_nodes = bool(self.jobs.node_set_names)
        self.is_simple = type(self) is Fitter and place is consolidate and not self.reserved
        """True if whole devices are consolidated and none is reserved."""

    def scratch(self, snapshot: Snapshot) -> Occupancy:
        """A scratch occupancy to place jobs on; what is reserved for others is passed by when placing."""
        return snapshot.scratch()

    def __call__(self, scratch: Occupancy, row: int) -> Grant | None:
        """The grant `row` would get; the scratch is left as it was."""
        return self._fit(scratch, row)

    def _fit(self, scratch: Occupancy, row: int) -> Grant | None:
        if self.jobs.gpus.item(row) == 0:
            node = self._cpu_node(scratch, row)
            return Grant(row, (), node=node) if node >= 0 else None
        for type_code in range(len(self.cluster.type_names)):
            grant = self.on_type(scratch, row, type_code)
            if grant is not None:
                return grant
        return None

    def ever(self, row: int) -> bool:
        """True if `row` has a place while no other job holds anything and no node is closed."""
        empty = Occupancy(self.cluster, self.jobs)
        for node in self.cluster.gone:
            empty.lose(node)
        return self(empty, row) is not None

    def on_type(self, scratch: Occupancy, row: int, type_code: int, gpus: int | None = None) -> Grant | None:
        """The grant `row` would get on one type, with `gpus` GPUs instead of those it asked for."""
        gpus = self.jobs.gpus.item(row) if gpus is None else gpus
        share = self.jobs.gpu_share.item(row)
        nodes = self._nodes_by_type(row)[type_code]
        if not nodes or not self._within_quota(scratch, row, gpus * share, type_code):
            return None
        if share < 1.0 and gpus > 1:
            devices = self._parts(scratch, row, gpus, share, nodes)
        else:
            devices = self._fed_devices(scratch, row, gpus, share, nodes)
        if devices is None:
            return None
        return whole_grant(row, devices) if share == 1.0 else Grant(row, devices, share, Role.PACKED)

    def room_wanted(self, row: int) -> Room:
        """Free devices without which `row` finds no place; empty if counting devices does not decide."""
        gpus = self.jobs.gpus.item(row)
        if gpus == 0 or self.jobs.gpu_share.item(row) < 1.0:
            return ()
        return [(nodes, gpus) for nodes in self._nodes_by_type(row) if nodes]

    def nodes_for(self, scratch: Occupancy, row: int, gpus: int | None = None) -> list[int]:
        """Per type, the nodes that types, memory, CPU and hard quotas leave to `row`; 0 if none.

        With `gpus` GPUs instead of those it asked for.
        """
        if not scratch.counts_hosts:
            return self._nodes_by_type(row)
        gpus = self.jobs.gpus.item(row) if gpus is None else gpus
        return self._left(scratch, row, self._hosts(scratch, row, gpus), gpus)

    def nodes_in_part(self, scratch: Occupancy, row: int) -> list[int]:
        """Per type, the nodes of `nodes_for` and those that can feed only a part of their GPUs."""
        hosts = mask_of(list(self.fed(scratch, row, (1 << self.cluster.nodes) - 1)))
        return self._left(scratch, row, hosts, self.jobs.gpus.item(row))

    def _left(self, scratch: Occupancy, row: int, hosts: int, gpus: int) -> list[int]:
        need, claim = self.jobs.gpu_memory_gib.item(row), gpus * self.jobs.gpu_share.item(row)
        if need:
            hosts &= self._node_sets.with_memory(need)
        return [
            nodes & hosts if nodes and self._within_quota(scratch, row, claim, type_code) else 0
            for type_code, nodes in enumerate(self._nodes_by_type(row))
        ]

    def fed(self, scratch: Occupancy, row: int, nodes: int) -> dict[int, int]:
        """GPUs of `row` that each of `nodes` has CPU and memory for now; without those that feed none."""
        each = self._each(row, self.jobs.gpus.item(row))
        fed = {node: _fed(scratch, node, *each) for node in nodes_in(nodes)}
        return {node: most for node, most in fed.items() if most}

    def accepted(self, row: int) -> int:
        """Mask of the nodes whose type, name and device memory suit `row`, whatever runs there."""
        nodes = 0
        for of_type in self._nodes_by_type(row):
            nodes |= of_type
        need = self.jobs.gpu_memory_gib.item(row)
        return nodes & self._node_sets.with_memory(need) if need else nodes

    def admits(self, scratch: Occupancy, grant: Grant) -> bool:
        """True if CPU, memory and hard quotas allow `grant`, on devices that the job accepts."""
        if not scratch.counts_hosts:
            return True
        types = {int(self.cluster.device_type[device]) for device in grant.devices}
        claim = len(grant.devices) * grant.share
        return all(self._within_quota(scratch, grant.job, claim, type_code) for type_code in types) and all(
            has_room(scratch, *need) for need in scratch.needs(grant)
        )

    def _nodes_by_type(self, row: int) -> list[int]:
        """Per type, the nodes acceptable to the job; 0 where the type is not."""
        wanted = self.jobs.gpu_types.item(row)
        by_type = self._node_sets.accepted(wanted, self.jobs.type_names)
        code = self.jobs.node_set.item(row) if self._asks_for_nodes else -1
        if code < 0:
            return by_type
        if (wanted, code) not in self._admitted:
            admitted = self._node_sets.admitted(self.jobs.name_of("node_set", row))
            self._admitted[wanted, code] = [nodes & admitted for nodes in by_type]
        return self._admitted[wanted, code]

    def _fed_devices(
        self, scratch: Occupancy, row: int, gpus: int, share: float, nodes: int
    ) -> tuple[int, ...] | None:
        """Devices on nodes that have CPU and memory for them."""
        devices = self._devices(scratch, row, gpus, share, self._hosts(scratch, row, gpus, nodes))
        if devices is None and gpus > 1 and self.asks_of_hosts(row):
            devices = self._devices_as_fed(scratch, row, gpus, nodes)
        return devices

    def _parts(
        self, scratch: Occupancy, row: int, gpus: int, share: float, nodes: int
    ) -> tuple[int, ...] | None:
        """Devices for a gang with a part of each: nodes by the rule of placement, their fullest devices.

        Devices with room for the part count as free ones while nodes are chosen.
        """
        free, open_to = scratch.free, self._with_room(scratch, row, share, nodes)
        free.put_all(open_to)
        chosen = self._fed_devices(scratch, row, gpus, 1.0, nodes)
        devices = None if chosen is None else self._fullest(scratch, row, chosen)
        free.remove_all(open_to)
        return devices

    def _with_room(self, scratch: Occupancy, row: int, share: float, nodes: int) -> tuple[int, ...]:
        """Devices claimed in part that `row` may have `share` of, ascending."""
        spares, node_of = scratch.spares, scratch.free.node_of
        need = self.jobs.gpu_memory_gib.item(row)
        kept = self._kept_from(row) if self.reserved else _NONE
        devices = [device for _, device in spares[bisect_left(spares, (share - EPSILON, -1)) :]]
        return tuple(
            sorted(
                device
                for device in devices
                if nodes >> node_of[device] & 1
                and device not in kept
                and self._has_memory(scratch, device, need)
            )
        )

    def _fullest(self, scratch: Occupancy, row: int, chosen: tuple[int, ...]) -> tuple[int, ...]:
        """The fullest open devices of each node, as many as are `chosen` there."""
        free, kept = scratch.free, self._kept_from(row) if self.reserved else _NONE
        counts: dict[int, int] = {}
        for device in chosen:
            counts[free.node_of[device]] = counts.get(free.node_of[device], 0) + 1
        devices: list[int] = []
        for node, count in counts.items():
            candidates = range(free.first[node], free.first[node + 1])
            is_open = [device for device in candidates if free.is_free(device) and device not in kept]
            is_open.sort(key=lambda device: (-scratch.claimed[device], device))
            devices += is_open[:count]
        return tuple(sorted(devices))

    def _devices(
        self, scratch: Occupancy, row: int, gpus: int, share: float, nodes: int
    ) -> tuple[int, ...] | None:
        need = self.jobs.gpu_memory_gib.item(row)
        kept = self._kept_from(row) if self.reserved else _NONE
        if share < 1.0 and gpus == 1:
            device = self._shared_device(scratch, share, need, nodes, kept)
            if device >= 0:
                return (device,)
        if need:
            nodes &= self._node_sets.with_memory(need)
        free = scratch.free
        if not kept and self.place is consolidate:  # the best fit on one node, where there is one
            node = free.best_fit(gpus, nodes)
            if node >= 0:
                return free.lowest(node, gpus)
        hidden = tuple(sorted(device for device in kept if free.is_free(device)))
        free.remove_all(hidden)
        devices = self.place(free, gpus, nodes)
        if devices is not None:
            free.put_all(devices)
        free.put_all(hidden)
        return devices

    def _kept_from(self, row: int) -> Set[int]:
        """Devices that are reserved for others."""
        return {d for owner, devices in self.reserved.items() if owner != row for d in devices}

    def _shared_device(
        self, scratch: Occupancy, share: float, need: float, nodes: int, kept: Set[int]
    ) -> int:
        """The device claimed in part that leaves the least room: packing fractions keeps whole GPUs free."""
        spares, node_of = scratch.spares, scratch.free.node_of
        for place in range(bisect_left(spares, (share - EPSILON, -1)), len(spares)):
            device = spares[place][1]
            is_open = nodes >> node_of[device] & 1 and device not in kept
            if is_open and self._has_memory(scratch, device, need):
                return device
        return -1

    def _has_memory(self, scratch: Occupancy, device: int, need: float) -> bool:
        capacity = self.cluster.device_memory_gib.item(device)
        return not need or not capacity or scratch.device_memory.with_more(device, need) <= capacity + EPSILON

    def _within_quota(self, scratch: Occupancy, row: int, gpus: float, type_code: int) -> bool:
        if not self.cluster.tenants.by_path:
            return True
        lineage = self.cluster.tenants.lineage(self.jobs.name_of("tenant", row))
        name = self.cluster.type_names[type_code]
        return all(quota_left(scratch, t, type_code, name) >= gpus - EPSILON for t in lineage if t.hard)

    def _devices_as_fed(self, scratch: Occupancy, row: int, gpus: int, nodes: int) -> tuple[int, ...] | None:
        """Devices for a gang, on each node no more than it can feed beside the jobs there."""
        free = scratch.free
        each = self._each(row, gpus)
        fed = {node: min(_fed(scratch, node, *each), free.count[node]) for node in nodes_in(nodes)}
        hidden: tuple[int, ...] = ()
        for node, most in fed.items():
            if 0 < most < free.count[node]:
                hidden += free.take(node, free.count[node] - most)
        if not hidden:
            return None
        within = mask_of([node for node, most in fed.items() if most > 0])
        devices = self._devices(scratch, row, gpus, 1.0, within)
        free.put_all(hidden)
        return devices

    def asks_of_hosts(self, row: int) -> bool:
        """True if CPU or memory may keep the job from a node."""
        sets, jobs = self._node_sets, self.jobs
        return bool(
            (sets.limits_cpus and jobs.cpus.item(row)) or (sets.limits_memory and jobs.memory_gib.item(row))
        )

    def _each(self, row: int, gpus: int) -> tuple[float, float]:
        """CPUs and memory for each of `gpus` GPUs: in proportion to what was asked for."""
        asked = max(self.jobs.gpus.item(row), 1)
        return self.jobs.cpus.item(row) / asked, self.jobs.memory_gib.item(row) / asked

    def _hosts(self, scratch: Occupancy, row: int, gpus: int, nodes: int = -1) -> int:
        """Nodes among `nodes` with CPU and memory enough for the GPUs that the job may be given there."""
        if not self.asks_of_hosts(row):
            return nodes
        count, cluster = scratch.free.count, self.cluster
        most = max(gpus, 1)
        cpus, memory_gib = self._each(row, most)
        feeds = []
        for node in nodes_in(nodes) if nodes >= 0 else range(cluster.nodes):
            part = min(most, max(count[node], 1))
            if has_room(scratch, node, part * cpus, part * memory_gib):
                feeds.append(node)
        return mask_of(feeds)

    def _cpu_node(self, scratch: Occupancy, row: int) -> int:
        """The first node with CPU and memory enough for a job without GPUs that it may use."""
        admitted = self._node_sets.admitted(self.jobs.name_of("node_set", row))
        nodes = (n for n in range(self.cluster.nodes) if n not in scratch.down_nodes and admitted >> n & 1)
        return next((n for n in nodes if host_room(scratch, n, 1.0, row)), -1)


class FitterWithin(Fitter):
    """Places jobs on some nodes only, which may change from job to job."""

    within: int = -1
    """Mask of the nodes."""

    def _nodes_by_type(self, row: int) -> list[int]:
        return [nodes & self.within for nodes in super()._nodes_by_type(row)]


def placed(fit: Fitter, scratch: Occupancy, row: Row, wanted: Room) -> Grant | None:
    """The grant of `fit(scratch, row)`; counts the `room_wanted` first, since that costs less."""
    free = scratch.free
    if wanted and fit.is_simple and not scratch.counts_hosts:
        return _whole_on(free, row, wanted)
    return fit(scratch, row) if is_room(free, wanted) else None


def _whole_on(free: Free, row: Row, wanted: Room) -> Grant | None:
    """Whole devices where only their number and type count; they stay free."""
    for nodes, gpus in wanted:
        node = free.best_fit(gpus, nodes)
        if node >= 0:
            return whole_grant(row, free.lowest(node, gpus))
        if gpus > 1 and free.within(nodes) >= gpus:
            devices = consolidate(free, gpus, nodes)
            assert devices is not None, "counting said that the job fits"
            free.put_all(devices)
            return whole_grant(row, devices)
    return None


def is_room(free: Free, wanted: Room) -> bool:
    """True if enough devices are free on some nodes that are wanted, or counting them does not tell."""
    for nodes, gpus in wanted:
        if free.within(nodes) >= gpus:
            return True
    return not wanted


def _fed(scratch: Occupancy, node: int, cpus: float, memory_gib: float) -> int:
    """The number of GPUs that `node` has CPU and memory for, with `cpus` and `memory_gib` for each."""
    cluster, most = scratch.cluster, math.inf
    for need, capacity, used in (
        (cpus, cluster.node_cpus.item(node), scratch.cpus_used[node]),
        (memory_gib, cluster.node_memory_gib.item(node), scratch.memory_used[node]),
    ):
        if need and capacity:
            most = min(most, (capacity - used + EPSILON) / need)
    return int(min(most, cluster.gpus))


def host_room(scratch: Occupancy, node: int, part: float, row: int) -> bool:
    """True if `node` has CPU and memory for `part` of what the job asks for."""
    jobs = scratch.jobs
    return has_room(scratch, node, part * jobs.cpus.item(row), part * jobs.memory_gib.item(row))


def has_room(scratch: Occupancy, node: int, cpus: float, memory_gib: float) -> bool:
    """True if `node` has `cpus` and `memory_gib` to spare; a capacity of 0 is unlimited."""
    cluster = scratch.cluster
    most_cpus, most_gib = cluster.node_cpus.item(node), cluster.node_memory_gib.item(node)
    return (not most_cpus or scratch.cpus_used[node] + cpus <= most_cpus + EPSILON) and (
        not most_gib or scratch.memory_used[node] + memory_gib <= most_gib + EPSILON
    )


def quota_left(occupancy: Occupancy, tenant: Tenant, type_code: int, type_name: str) -> float:
    """GPUs (of the type) that `tenant` may still be granted."""
    used = occupancy.tenant_gpus
    left = tenant.quota_gpus - used.get((tenant.path, -1), 0.0)
    if type_name in tenant.quota_by_type:
        left = min(left, tenant.quota_by_type[type_name] - used.get((tenant.path, type_code), 0.0))
    return left
