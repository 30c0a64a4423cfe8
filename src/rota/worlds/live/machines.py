"""The machines that have joined, and their positions in the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rota.model.cluster import Cluster
from rota.model.grants import Grant
from rota.wire.sync import NodeInfo


@dataclass
class LiveNode:
    """A machine that has joined."""

    position: int
    info: NodeInfo
    state: str = "up"
    """up, drained, away (its agent was stopped), lost or forgotten."""
    reason: str = ""
    drained_by: str = ""
    sick: dict[int, str] = field(default_factory=dict)
    """Local indexes of unhealthy devices, with the reason."""
    trouble: str = ""
    """Why nothing new can begin there, as its agent says; empty if it can."""

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def takes_jobs(self) -> bool:
        """Whether new jobs may begin there, on devices that are well or without any."""
        return self.state == "up" and not self.trouble

    @property
    def is_forgotten(self) -> bool:
        """It will not be back: it only keeps its place and the numbers of its devices."""
        return self.state == "forgotten"


class Machines:
    """The cluster with the machines behind its nodes."""

    def __init__(self, cluster: Cluster, nodes: Sequence[LiveNode]) -> None:
        self.cluster = cluster
        self.nodes = list(nodes)
        self.position = {node.name: node.position for node in nodes}

    def named(self, name: str) -> LiveNode | None:
        """The machine of that name, if it is part of the cluster still."""
        position = self.position.get(name)
        node = None if position is None else self.nodes[position]
        return None if node is None or node.is_forgotten else node

    def is_cpu(self, position: int) -> bool:
        """True if the devices of a node are CPU slots, which are interchangeable."""
        return self.nodes[position].info.kind == "cpu"

    def sick_devices(self, node: LiveNode) -> list[int]:
        """Numbers of the unhealthy devices of a node in the cluster."""
        first = int(self.cluster.first_device[node.position])
        return [first + index for index in node.sick]

    def local_devices(self, grant: Grant) -> dict[int, list[int]]:
        """Local indexes of the devices of a grant by node; a job without devices has one node."""
        first, by_node = self.cluster.first_device, dict[int, list[int]]()
        for device in grant.devices:
            node = int(self.cluster.device_node[device])
            by_node.setdefault(node, []).append(device - int(first[node]))
        return by_node or {max(grant.node, 0): []}

    def touches(self, grant: Grant, position: int) -> bool:
        """True if a grant holds something of that node."""
        if grant.node == position:
            return True
        return any(int(self.cluster.device_node[device]) == position for device in grant.devices)

    def type_of(self, grant: Grant) -> str | None:
        """The type of its devices, of several the first; None for a grant without devices."""
        cluster = self.cluster
        if not grant.devices:
            return None
        return cluster.type_names[cluster.device_type.item(grant.devices[0])]
