"""How many GPUs each node has, and on how few of its nodes a gang would have had room.

A stated cluster says it, by the name of the node or by its type.  Otherwise a node has at least what jobs
held there at one moment: what follows from that is certain.  It may have as many as the largest of its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.cluster import ANY_TYPE, Cluster
from rota.model.columns import Ints
from rota.reports.findings.history import JobHistory
from rota.traces.recorded_nodes import SeenNode, seen_nodes


@dataclass(frozen=True)
class NodeSizes:
    """GPUs of each node that jobs ran on, by name; a MIG slice counts as one, as gangs ask for them."""

    least: dict[str, int]
    """For certain."""
    most: dict[str, int]
    """As far as one can tell; the same where the size is known."""
    stated: bool
    """Whether a stated cluster says it."""

    @classmethod
    def of(cls, history: JobHistory) -> NodeSizes:
        """The nodes of the history."""
        nodes = seen_nodes(history.trace)
        cluster = history.cluster
        bounds = _seen(nodes) if cluster is None else _stated(cluster, nodes)
        names = [node.name for node in nodes]
        least, most = ({name: pair[i] for name, pair in zip(names, bounds, strict=True)} for i in (0, 1))
        return cls(least, most, cluster is not None)

    @property
    def unsure(self) -> list[str]:
        """Nodes whose size is not known for certain."""
        return [name for name, least in self.least.items() if self.most[name] > least]

    def needed(self, gpus: Ints, nodes: Sequence[tuple[str, ...]]) -> tuple[Ints, Ints]:
        """Fewest of its nodes on which each gang has room: for certain, and if all are as large as can be.

        `gpus` of each gang, shape (n,), and the `nodes` that it ran on.
        """
        certain, possible = (
            np.array(
                [
                    _fewest(size, [of.get(node, 0) for node in own])
                    for size, own in zip(gpus, nodes, strict=True)
                ],
                dtype=np.int64,
            )
            for of in (self.least, self.most)
        )
        return certain, possible


def _fewest(gpus: int, sizes: list[int]) -> int:
    """How many of the largest nodes hold the gang; all if they do not, as far as one knows."""
    enough = np.cumsum(sorted(sizes, reverse=True)) >= gpus
    return int(np.argmax(enough)) + 1 if enough.any() else len(sizes)


def _seen(nodes: Sequence[SeenNode]) -> list[tuple[int, int]]:
    """What was held on each, and the most that was held on one of its type."""
    largest: dict[str, int] = {}
    for node in nodes:
        largest[node.gpu_type] = max(largest.get(node.gpu_type, 0), node.most)
    return [(node.most, largest[node.gpu_type]) for node in nodes]


def _stated(cluster: Cluster, nodes: Sequence[SeenNode]) -> list[tuple[int, int]]:
    """The size of the stated node of that name, else that of those of its type."""
    of_name = dict(zip(cluster.node_names, cluster.node_gpus.tolist(), strict=True))
    by_name = [of_name.get(node.name) for node in nodes]
    pairs = zip(nodes, by_name, strict=True)
    return [_of_type(cluster, node) if size is None else (size, size) for node, size in pairs]


def _of_type(cluster: Cluster, node: SeenNode) -> tuple[int, int]:
    """The least and the largest of the sizes stated for its type that have room for what was held there."""
    types = [name.casefold() for name in cluster.type_names]
    kind = types.index(node.gpu_type.casefold()) if node.gpu_type.casefold() in types else None
    known = kind is not None and node.gpu_type != ANY_TYPE
    sizes = cluster.node_gpus[cluster.node_type == kind] if known else cluster.node_gpus
    fitting = sizes[sizes >= max(node.most, 1)]
    if not len(fitting):
        return node.most, node.most
    return int(fitting.min()), int(fitting.max())
