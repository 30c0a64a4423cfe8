"""From GPUs by node to devices and back, and the jobs that the search leaves out."""

from __future__ import annotations

import math

import numpy as np

from rota.model.columns import Array, Bools, Ints
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.stages.trial import admit_placed
from rota.table.occupancy import Occupancy


def by_node(snapshot: Snapshot, grant: Grant) -> dict[int, list[int]]:
    """Devices of a grant on each of its nodes."""
    nodes: dict[int, list[int]] = {}
    for device in grant.devices:
        nodes.setdefault(snapshot.cluster.device_node.item(device), []).append(device)
    return nodes


def is_whole(snapshot: Snapshot, row: int) -> bool:
    """True for a job whose GPUs the search may share out: whole ones."""
    jobs = snapshot.jobs.table
    return jobs.gpus.item(row) > 0 and jobs.gpu_share.item(row) == 1.0


def hard_limits(
    snapshot: Snapshot, occupancy: Occupancy, rows: Ints, kinds: Ints
) -> list[tuple[Bools, float]]:
    """Groups of `rows`, and the GPUs that hard quotas leave to each, beside what `occupancy` holds.

    `kinds` has the type of GPU of each row, for quotas of one type.
    """
    cluster, table = snapshot.cluster, snapshot.jobs.table
    tenants, used = cluster.tenants, occupancy.tenant_gpus
    limits = list[tuple[Bools, float]]()
    hard = [tenant for tenant in tenants.by_path.values() if tenant.hard]
    paths = [table.name_of("tenant", row) for row in rows.tolist()] if hard else []
    for tenant in hard:
        own = np.array([tenant in tenants.lineage(path) for path in paths], dtype=bool)
        if math.isfinite(tenant.quota_gpus):
            limits.append((own, tenant.quota_gpus - used.get((tenant.path, -1), 0.0)))
        for kind, name in enumerate(cluster.type_names):
            if name in tenant.quota_by_type:
                left = tenant.quota_by_type[name] - used.get((tenant.path, kind), 0.0)
                limits.append((own & (kinds == kind), left))
    return limits


class Carrier:
    """Turns a search result into grants, one after the other."""

    def __init__(self, snapshot: Snapshot, scratch: Occupancy) -> None:
        """`scratch`: the jobs that are shared out hold nothing there."""
        self.snapshot, self.scratch = snapshot, scratch
        self.fit = Fitter(snapshot, consolidate)
        self.reserved = {device for devices in self.fit.reserved.values() for device in devices}

    def capacity(self) -> Array:
        """GPUs of each node that are to be shared out."""
        free = self.scratch.free
        capacity = np.array(free.count, dtype=np.int16)
        for device in self.reserved:
            capacity[free.node_of[device]] -= int(free.is_free(device))
        return capacity

    def keep(self, grants: list[Grant]) -> None:
        """Keep these grants as they are."""
        for grant in grants:
            self.scratch.hold(grant)

    def kept(self, grants: list[tuple[Grant, bool]]) -> list[Grant]:
        """Grants that stay as they are: no other job has any of their devices, and quotas allow it.

        Beside each stands whether it is pinned, and stays whatever its quota has become.
        """
        stays = list[Grant]()
        for grant, is_pinned in grants:
            is_left = all(self.scratch.free.is_free(device) for device in grant.devices)
            if is_left and (is_pinned or self.fit.admits(self.scratch, grant)):
                self.scratch.hold(grant)
                stays.append(grant)
        return stays

    def carry_out(self, wanted: dict[int, dict[int, int]]) -> dict[int, Grant]:
        """Grants with these GPUs on each node, except where hosts or quotas do not allow them.

        Every job keeps devices on nodes where it stays, before others take what is free.
        """
        kept = {row: self._kept(row, nodes) for row, nodes in wanted.items()}
        free = self.scratch.free
        taken = {device for devices in kept.values() for device in devices}
        hidden = tuple(sorted(d for d in taken | self.reserved if free.is_free(d)))
        free.remove_all(hidden)
        devices = {row: self._with_more(kept[row], nodes) for row, nodes in wanted.items()}
        free.put_all(tuple(sorted(d for own in devices.values() for d in own if d not in taken)))
        free.put_all(hidden)
        grants = {}
        for row, own in devices.items():
            grant = Grant(row, own)
            if len(own) == sum(wanted[row].values()) and self.fit.admits(self.scratch, grant):
                self.scratch.hold(grant)
                grants[row] = grant
        return grants

    def _kept(self, row: int, nodes: dict[int, int]) -> tuple[int, ...]:
        old = self.snapshot.grants.get(row)
        if old is None:
            return ()
        free, held = self.scratch.free, by_node(self.snapshot, old)
        own = {node: [device for device in held.get(node, ()) if free.is_free(device)] for node in nodes}
        return tuple(device for node, count in nodes.items() for device in own[node][:count])

    def _with_more(self, kept: tuple[int, ...], nodes: dict[int, int]) -> tuple[int, ...]:
        free, devices = self.scratch.free, list(kept)
        for node, count in nodes.items():
            have = sum(free.node_of[device] == node for device in kept)
            devices += free.take(node, min(count - have, free.count[node])) if count > have else ()
        return tuple(sorted(devices))

    def first_come(self, rows: list[int]) -> list[Grant]:
        """The smallest size of each on what is left, in this order."""
        grants = []
        jobs = self.snapshot.jobs.table
        for row in rows:
            least = feasible_counts(jobs, row)[0]
            tries = (
                self.fit.on_type(self.scratch, row, kind, least)
                for kind in range(len(self.snapshot.cluster.type_names))
            )
            grant = next((grant for grant in tries if grant is not None), None)
            if grant is not None:
                self.scratch.hold(grant)
                grants.append(grant)
        return grants

    def others(self, rows: list[int]) -> list[Grant]:
        """Jobs with parts of GPUs, or without any."""
        return admit_placed(rows, self.scratch, self.fit)
