"""What each job wants for each of its GPUs: the least with which it is as fast as it can be."""

from __future__ import annotations

import math
from operator import is_not

import numpy as np

from rota.knowledge.hosts import HostSpeeds, speeds_of
from rota.knowledge.needs import Knowledge, Table
from rota.model.cluster import Cluster
from rota.model.columns import Array, Floats
from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Snapshot
from rota.systems.synergy.parameters import SynergyMechanism, SynergyParameters
from rota.systems.synergy.room import AMOUNTS, capacities

_SHARE = np.full(len(AMOUNTS), math.nan)


class Asked:
    """What jobs without a profile want by their requests, computed once for each; and where it was."""

    def __init__(self, jobs: JobTable, cluster: Cluster) -> None:
        self.jobs, self.cluster = jobs, cluster
        self.wants: dict[int, Floats] = {}
        self.stated = capacities(cluster)
        """What each node has, [node, amount]; 0 is no limit."""
        self.is_endless = bool((self.stated == 0.0).all())
        """True if no node states a limit to anything."""
        self.most: Floats = np.where(self.stated == 0.0, math.inf, self.stated).max(axis=0)
        """What the largest node has, [amount]."""
        self.share = _mean_share(cluster, self.stated)
        """For each GPU of the cluster in proportion, [amount]; infinite without a limit."""
        self._classes: list[HostSpeeds] = []
        self._made_of: list[Array] = []

    def classes(self, table: Table) -> list[HostSpeeds]:
        """The speeds of each class of `table`, made again only where an array of it is new."""
        arrays = list(table.shared.values())
        if len(arrays) != len(self._made_of) or any(map(is_not, arrays, self._made_of)):
            self._made_of, self._classes = arrays, speeds_of(table)
        return self._classes


class Demands:
    """Demands at one moment, from what is known of the jobs' sensitivity."""

    def __init__(self, snapshot: Snapshot, parameters: SynergyParameters, asked: Asked | None = None) -> None:
        self.parameters = parameters
        self.jobs: JobTable = snapshot.jobs.table
        if asked is None or asked.jobs is not self.jobs or asked.cluster is not snapshot.cluster:
            asked = Asked(self.jobs, snapshot.cluster)
        self.asked = asked
        self.most, self.share = asked.most, asked.share
        self.classes: list[HostSpeeds] = []
        self._class: Array | None = None
        self._best: dict[int, Floats] = {}
        if snapshot.knows(Knowledge.HOSTS):
            table: Table = snapshot.know(Knowledge.HOSTS)
            self.classes, self._class = asked.classes(table), table.by_row["class"]

    def class_of(self, row: int) -> int:
        """Number of what is known of the job in `classes`; -1 if it has no profile."""
        return -1 if self._class is None or row >= len(self._class) else int(self._class.item(row))

    def of(self, row: int, gpus: int) -> Floats:
        """What the job wants for each of `gpus` GPUs, [amount]; NaN is its share in proportion."""
        if self.parameters.mechanism is SynergyMechanism.PROPORTIONAL:
            return _SHARE
        number = self.class_of(row)
        wants = self._asked(row) if number < 0 else self.best(number)
        return self._on_one_node(wants, gpus) if self.parameters.leases_end else wants

    def best(self, number: int) -> Floats:
        """Demand of jobs of a class for each GPU, within what a node can have, [amount]."""
        if number not in self._best:
            speeds, tolerance = self.classes[number], self.parameters.saturation_tolerance
            cpus, gib = speeds.wants or speeds.best(self.most.item(0), self.most.item(1), tolerance)
            self._best[number] = np.array([cpus, gib, self.disk(number, cpus, gib)])
        return self._best[number]

    def disk(self, number: int, cpus: float, gib: float) -> float:
        """Storage bandwidth for each GPU; NaN, its share, where it was not measured."""
        speeds = self.classes[number]
        return math.nan if speeds.disk is None else min(speeds.disk_at(cpus, gib), self.most.item(2))

    def _asked(self, row: int) -> Floats:
        """What a job without a profile asked for, but no more than a node has; its share of the rest."""
        wants = self.asked.wants.get(row)
        if wants is None:
            jobs, gpus = self.jobs, max(self.jobs.gpus.item(row), 1)
            each = [jobs.cpus.item(row) / gpus, jobs.memory_gib.item(row) / gpus, 0.0]
            most = zip(each, self.most, strict=True)
            wants = self.asked.wants[row] = np.array(
                [min(one, top) if one else math.nan for one, top in most]
            )
        return wants

    def _on_one_node(self, wants: Floats, gpus: int) -> Floats:
        """The authors' bound: a job wants no more than one node has, in all."""
        over = gpus * wants > self.most
        most = np.where(over & np.isfinite(self.most), self.most / gpus, wants)
        return np.where(over & (most < self.share), math.nan, most)


def _mean_share(cluster: Cluster, stated: Floats) -> Floats:
    """Capacity for each GPU of the cluster; infinite if some node states no limit."""
    gpus = max(int(cluster.node_gpus.sum()), 1)
    share: Floats = np.where((stated == 0.0).any(axis=0), math.inf, stated.sum(axis=0) / gpus)
    return share
