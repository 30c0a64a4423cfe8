"""The waiting jobs by queue, where jobs ask for some nodes only: one for each partition."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Bools, Ints
from rota.scheduler.snapshot import Snapshot


def queues_of(snapshot: Snapshot, order: Ints) -> list[Ints]:
    """Rows in `order` by queue, the queue of the first row first: no node would do for jobs of two queues.

    One queue where a quota is hard: a job may wait for what another holds on nodes that it does not want.
    """
    jobs, cluster = snapshot.jobs.table, snapshot.cluster
    if not jobs.node_set_names or cluster.tenants.has_caps():
        return [order]
    codes = jobs.node_set[order]
    queues: list[tuple[Bools, list[int]]] = []
    for at in sorted(np.unique(codes, return_index=True)[1].tolist()):
        code, nodes = codes.item(at), cluster.admitted(jobs.name_of("node_set", order.item(at)))
        shared = [queue for queue in queues if (queue[0] & nodes).any()]
        queues = [queue for queue in queues if not (queue[0] & nodes).any()]
        merged = np.logical_or.reduce([nodes, *(queue[0] for queue in shared)])
        queues.append((merged, [code, *(one for queue in shared for one in queue[1])]))
    rows = [order[np.isin(codes, of)] for _, of in queues]
    place = {row: at for at, row in enumerate(order.tolist())}
    return sorted(rows, key=lambda queue: place[queue.item(0)])
