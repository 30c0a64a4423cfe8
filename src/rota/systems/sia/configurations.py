"""The configurations that jobs may have: GPUs of one type, powers of two in a node, whole nodes beyond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rota.model.columns import Floats, Ints


class Configurations(NamedTuple):
    """One a place, by type and then by size."""

    kind: Ints
    """Code of the GPU type."""
    nodes: Ints
    gpus: Ints


class TypeShape(NamedTuple):
    """The nodes of one GPU type that are up."""

    nodes: int
    per_node: int
    """GPUs of the largest of them; only such nodes count as whole ones."""
    gpus: int
    """GPUs of all of them."""

    def nodes_for(self, gpus: Ints) -> Ints:
        """Nodes that so many GPUs need."""
        return -(-gpus // max(self.per_node, 1))


def shapes_of(node_type: Ints, healthy: Ints, types: int) -> list[TypeShape]:
    """The shape of each type: `healthy` GPUs of each node, 0 on one that is down."""
    shapes = []
    for kind in range(types):
        sizes = healthy[(node_type == kind) & (healthy > 0)]
        largest = int(sizes.max(initial=0))
        shapes.append(TypeShape(int((sizes == largest).sum()) if largest else 0, largest, int(sizes.sum())))
    return shapes


def sizes_of(shape: TypeShape, most: int) -> list[tuple[int, int]]:
    """Nodes and GPUs of each configuration on nodes of one shape, none with more than `most` GPUs.

    Powers of two up to the GPUs of a node, that number, and multiples of it (Sia, section 3.3).
    """
    if not shape.nodes:
        return []
    inside = [1 << power for power in range(shape.per_node.bit_length()) if 1 << power < shape.per_node]
    whole = [(nodes, nodes * shape.per_node) for nodes in range(1, shape.nodes + 1)]
    return [(nodes, gpus) for nodes, gpus in [*((1, gpus) for gpus in inside), *whole] if gpus <= most]


def configurations(shapes: Sequence[TypeShape], most: int) -> Configurations:
    """All configurations of a cluster."""
    rows = [(kind, *size) for kind, shape in enumerate(shapes) for size in sizes_of(shape, most)]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Configurations(*table.T)


def restart_factor(age_s: Floats, restarts: Ints, restart_s: Floats) -> Floats:
    """What a restart leaves of the value of another configuration (section 3.4): 1 for the very young."""
    worked = np.maximum(age_s - restarts * restart_s, 0.0)
    factor: Floats = np.where(age_s < restart_s, 1.0, worked / (age_s + restart_s))
    return factor


def power_cost(value: Floats, power: float, lost: float, *, most: float = 3000.0) -> Floats:
    """Cost of a configuration where nothing costs 0, rounded as the authors round it.

    `value` is in multiples of the least useful configuration, `lost` the cost of nothing.  Below 0 the power
    of the value is a cost, above 0 a gain.
    """
    with np.errstate(divide="ignore"):
        powered = np.minimum(np.round(value**power, 2), most)
    return powered - lost if power < 0.0 else -powered - lost
