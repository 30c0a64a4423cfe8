"""The waiting jobs by queue, where jobs ask for some nodes only: one for each partition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rota.model.cluster import Cluster
from rota.model.columns import Bools, Ints
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Snapshot
from rota.table.node_sets import NodeSets


class PartQueue(NamedTuple):
    """Jobs that wait for the same nodes, or for some that they share."""

    rows: Ints
    nodes: int
    """Mask of the nodes that would do for any of them; -1 for all."""


class Queues:
    """Distinguishes the queues: no node suits jobs of two of them.

    There is one queue if a quota is hard: a job may wait for what another holds on nodes it does not want.
    """

    def __init__(self) -> None:
        self._jobs: JobTable | None = None
        self._cluster: Cluster | None = None
        self._known: dict[bytes, tuple[Ints, list[int]]] = {}
        """By the sets of nodes that jobs ask for: the queue of each set, and the nodes of each queue."""

    def of(self, snapshot: Snapshot, order: Ints) -> list[PartQueue]:
        """Rows in `order` by queue, the queue of the first row first."""
        jobs, cluster = snapshot.jobs.table, snapshot.cluster
        if not jobs.node_set_names or cluster.tenants.has_caps():
            return [PartQueue(order, -1)]
        if jobs is not self._jobs or cluster is not self._cluster:
            self._jobs, self._cluster, self._known = jobs, cluster, {}
        codes = jobs.node_set[order] + 1  # 0: any node
        asked = np.bincount(codes, minlength=len(jobs.node_set_names) + 1) > 0
        known = self._known.get(asked.tobytes())
        if known is None:
            known = self._known[asked.tobytes()] = _told_apart(asked, jobs, snapshot.occupancy.node_sets)
        of_set, nodes = known
        if len(nodes) == 1:
            return [PartQueue(order, nodes[0])]
        queue_of = of_set[codes]
        places = [np.flatnonzero(queue_of == queue) for queue in range(len(nodes))]
        first = sorted(range(len(nodes)), key=lambda queue: int(places[queue][0]))
        return [PartQueue(order[places[queue]], nodes[queue]) for queue in first]


def _told_apart(asked: Bools, jobs: JobTable, node_sets: NodeSets) -> tuple[Ints, list[int]]:
    """The queue of each set of nodes that is `asked` for, by code from -1 on, and the nodes of each queue."""
    queues: list[tuple[int, list[int]]] = []
    for place in np.flatnonzero(asked).tolist():
        nodes, places = node_sets.admitted(jobs.node_set_names[place - 1] if place else ""), [place]
        apart = []
        for queue in queues:
            if queue[0] & nodes:
                nodes, places = nodes | queue[0], places + queue[1]
            else:
                apart.append(queue)
        queues = [*apart, (nodes, places)]
    of_set = np.full(len(asked), -1, dtype=np.int64)
    for number, (_, places) in enumerate(queues):
        of_set[places] = number
    return of_set, [nodes for nodes, _ in queues]
