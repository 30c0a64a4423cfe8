"""Jobs without GPUs beside jobs with some: running ones take what they asked for, new ones what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot
from rota.systems.synergy.room import AMOUNTS, capacities
from rota.table.occupancy import EPSILON


class Hosted:
    """The jobs without GPUs that are to run."""

    def __init__(self, snapshot: Snapshot, chosen: Mapping[int, Grant]) -> None:
        jobs = snapshot.jobs.table
        self.grants = [grant for grant in chosen.values() if not grant.devices]
        self.asks = {
            grant.job: np.array([jobs.cpus.item(grant.job), jobs.memory_gib.item(grant.job), 0.0])
            for grant in self.grants
        }
        self.taken = np.zeros((snapshot.cluster.nodes, len(AMOUNTS)))
        """What running jobs hold of each node, [node, amount]."""
        for grant in self.grants:
            if grant.job in snapshot.grants:
                self.taken[snapshot.grants[grant.job].node] += self.asks[grant.job]


def hosts_of_cpu_jobs(snapshot: Snapshot, hosted: Hosted, grants: Sequence[Grant]) -> list[Grant]:
    """A node for each CPU job beside `grants`: its own, that of the inner policy, or one with room.

    A job that finds none waits.
    """
    if not hosted.grants:
        return []
    cluster, held = snapshot.cluster, snapshot.grants
    limits = capacities(cluster)
    left = np.where(limits == 0.0, np.inf, limits - hosted.taken)
    for grant in grants:
        nodes = cluster.device_node[list(grant.devices)]
        each = np.nan_to_num([grant.cpus, grant.memory_gib, 0.0]) / max(len(nodes), 1)
        np.subtract.at(left, nodes, each)
    given = [held[grant.job] for grant in hosted.grants if grant.job in held]
    for grant in hosted.grants:
        if grant.job in held:
            continue
        ask = hosted.asks[grant.job]
        admitted = cluster.admitted(snapshot.jobs.table.name_of("node_set", grant.job))
        open_nodes = [
            n for n in range(cluster.nodes) if admitted[n] and n not in snapshot.occupancy.down_nodes
        ]
        fits = [n for n in open_nodes if (ask <= left[n] + EPSILON).all()]
        if fits:
            node = grant.node if grant.node in fits else fits[0]
            left[node] -= ask
            given.append(grant._replace(node=node))
    return given
