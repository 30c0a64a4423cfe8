"""Where each job may be."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Bools
from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.systems.synergy.kept import KeptAsks
from rota.table.free import nodes_in
from rota.table.occupancy import Occupancy


def emptied(seen: Snapshot) -> Occupancy:
    """A scratch on which no job holds anything."""
    scratch = seen.scratch()
    for grant in seen.grants.values():
        scratch.release(grant)
    return scratch


class Places:
    """Nodes of the type that the inner policy chose, where each job may be; none if it stays."""

    def __init__(self, seen: Snapshot, kept: KeptAsks, reserved: bool) -> None:
        """`kept` has the asks already known; no job may move where devices are `reserved`."""
        self.cluster, self.jobs, self.masks, self.reserved = (
            seen.cluster,
            seen.jobs.table,
            kept.nodes,
            reserved,
        )
        # Without cores, memory or quotas to look at, running jobs are not looked at either.
        self._empty = emptied(seen) if seen.occupancy.counts_hosts else seen.occupancy
        self._fit = Fitter(seen, consolidate)
        self._nowhere = np.zeros(seen.cluster.nodes, dtype=bool)
        self._is_one_type = len(seen.cluster.type_names) == 1

    def of(self, grant: Grant) -> Bools:
        """A mask of nodes; jobs that ask for the same share one."""
        row, jobs = grant.job, self.jobs
        devices = grant.devices[:1] if self._is_one_type else grant.devices
        kinds = {self.cluster.device_type.item(device) for device in devices}
        if self.reserved or len(kinds) != 1 or grant.share != 1.0 or grant.role or row in jobs.parts:
            return self._nowhere
        columns = (jobs.gpus, jobs.gpu_types, jobs.node_set, jobs.tenant)
        key = (*kinds, *(column.item(row) for column in columns), jobs.gpu_memory_gib.item(row))
        if key not in self.masks:
            mask = self._nowhere.copy()
            mask[nodes_in(self._fit.nodes_for(self._empty, row)[int(key[0])])] = True
            self.masks[key] = mask
        return self.masks[key]
