"""The real run: the starts and ends that a trace recorded, replayed without deciding anything.

A job holds what it asked for from its recorded start, in one stretch, for as long as it ran (traces do not
record the pauses between attempts).  Nor do they record devices; so that a history can be drawn, jobs are
put on devices by best fit in the order of their starts.  Where the history holds more than the cluster has
by then, a job gets none, and the record counts it.
"""

from __future__ import annotations

import numpy as np

from rota.bounds.table import JobOutcomes, record_of
from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.grants import Grant, Role
from rota.model.jobs import JobTable
from rota.model.record import Record
from rota.model.trace import Trace
from rota.stages.place import consolidate
from rota.table.free import mask_of
from rota.table.occupancy import EPSILON, Occupancy

OBSERVED = "observed"
"""Policy name of the record."""

PLACEMENT = "by best fit, as the trace records no devices"


def has_observed(trace: Trace) -> bool:
    """Whether the trace recorded when at least one job started."""
    return trace.observed is not None and bool(np.isfinite(trace.observed.start_s).any())


def observed(trace: Trace, cluster: Cluster) -> Record:
    """The record of the real run, as far as `trace` has it; `observed` is True in it.

    `counts["oversubscribed"]` is the number of jobs that found no devices on `cluster`.  Raises InputError if
    the trace recorded no start.
    """
    if trace.observed is None or not has_observed(trace):
        raise InputError(f"{trace.source} records no starts of jobs, so there is no history to replay")
    start_s, end_s = trace.observed.start_s, trace.observed.end_s
    until_s = _held_until(trace, start_s, end_s)
    devices, oversubscribed = _placed(trace.jobs, cluster, start_s, until_s)
    held_s = np.nan_to_num(until_s - start_s)
    outcomes = JobOutcomes(
        start_s=start_s,
        finish_s=end_s,
        until_s=until_s,
        service_gpu_s=held_s * trace.jobs.gpus * trace.jobs.gpu_share,
        rejected=np.zeros(len(trace), dtype=np.bool_),
        devices=devices,
    )
    return record_of(
        OBSERVED,
        trace,
        cluster,
        outcomes,
        provenance={"placement": PLACEMENT},
        counts={"oversubscribed": oversubscribed},
        observed=True,
    )


def _held_until(trace: Trace, start_s: Floats, end_s: Floats) -> Floats:
    """When each job stopped holding devices: at its end, or before it if it ran less than it was there.

    A job without a recorded end runs on until the last thing that the trace recorded.
    """
    run_s = trace.ran_s()
    ran_until_s = np.where(np.isfinite(run_s) & (run_s > 0), start_s + run_s, np.inf)
    last_s = np.nanmax(np.concatenate((start_s, end_s, trace.jobs.submit_s)))
    until_s = np.minimum(np.where(np.isfinite(end_s), end_s, last_s), ran_until_s)
    return np.where(np.isfinite(start_s), np.maximum(until_s, start_s), np.nan)


def _placed(
    jobs: JobTable, cluster: Cluster, start_s: Floats, until_s: Floats
) -> tuple[dict[int, tuple[int, ...]], int]:
    """Devices of each job that finds some, and the number of jobs that find none."""
    replayed = _RecordedCluster(jobs, cluster)
    rows = np.flatnonzero((start_s < until_s) & (jobs.gpus > 0))
    moments = np.concatenate((until_s[rows], start_s[rows]))
    begins = np.repeat([False, True], len(rows))
    order = np.lexsort((np.tile(rows, 2), begins, moments))  # at one moment ends come first
    devices_of: dict[int, tuple[int, ...]] = {}
    for place in order.tolist():
        row = int(rows[place % len(rows)])
        if begins[place]:
            devices = replayed.begin(row)
            if devices:
                devices_of[row] = devices
        else:
            replayed.end(row)
    return devices_of, len(rows) - len(devices_of)


class _RecordedCluster:
    """The cluster as the recorded starts and ends fill it."""

    def __init__(self, jobs: JobTable, cluster: Cluster) -> None:
        self.jobs = jobs
        self.cluster = cluster
        self.occupancy = Occupancy(cluster, jobs)
        self.grants: dict[int, Grant] = {}
        self._nodes: dict[tuple[int, int], int] = {}

    def begin(self, row: int) -> tuple[int, ...]:
        """The devices for `row`; none if there is no room."""
        share = self.jobs.gpu_share.item(row)
        devices = self._shared(row, share) or self._whole(row)
        if devices:
            self.grants[row] = Grant(row, devices, share, Role.ALONE if share == 1.0 else Role.PACKED)
            self.occupancy.hold(self.grants[row])
        return devices

    def end(self, row: int) -> None:
        if row in self.grants:
            self.occupancy.release(self.grants.pop(row))

    def _whole(self, row: int) -> tuple[int, ...]:
        free = self.occupancy.free
        devices = consolidate(free, self.jobs.gpus.item(row), self._acceptable(row)) or ()
        free.put_all(devices)
        return devices

    def _shared(self, row: int, share: float) -> tuple[int, ...]:
        """The device in use that would have the least room left beside a fraction."""
        if share == 1.0 or self.jobs.gpus.item(row) != 1:
            return ()
        node_of, nodes = self.occupancy.free.node_of, self._acceptable(row)
        room = [
            (left, device)
            for device, left in self.occupancy.spare.items()
            if left >= share - EPSILON and nodes >> node_of[device] & 1
        ]
        return (min(room)[1],) if room else ()

    def _acceptable(self, row: int) -> int:
        """Bit mask of the nodes that the job accepts, by their GPU type and its own conditions on nodes."""
        wanted = self.jobs.gpu_types.item(row)
        kind = wanted, self.jobs.node_set.item(row)
        if kind not in self._nodes:
            names = self.jobs.types_in(wanted)
            types = self.cluster.node_type.tolist()
            accepted = [not wanted or self.cluster.type_names[code] in names for code in types]
            admitted = self.cluster.admitted(self.jobs.name_of("node_set", row))
            self._nodes[kind] = mask_of(
                [node for node in np.flatnonzero(admitted).tolist() if accepted[node]]
            )
        return self._nodes[kind]
