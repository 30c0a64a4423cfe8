"""Cells: what is alike in a cluster, and whether what tenants are promised can be had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.errors import InputError
from rota.model.cells import check_cells, kinds_of, spare_cells
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import CellQuota, Tenant, Tenants


def cluster(*cells: CellQuota, shapes: tuple[NodeShape, ...] = ()) -> Cluster:
    """Two racks of two nodes of two pairs; every cell has a tenant of its own."""
    racks = tuple(
        NodeShape(count=2, gpus=4, levels={"rack": rack}, device_levels={"pair": 2}) for rack in ("r0", "r1")
    )
    return Cluster.build(
        shapes or racks, Tenants.of(*(Tenant(f"t{i}", cells=(c,)) for i, c in enumerate(cells)))
    )


def test_kinds():
    """Levels from the GPU up, with how many children a cell has, and which nodes a top cell."""
    ((kind, tops),) = kinds_of(cluster()).items()
    assert (kind.names, kind.fanouts, kind.node_level) == (
        ("device", "pair", "node", "rack"),
        (0, 2, 2, 2),
        3,
    )
    assert [kind.gpus(level) for level in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert tops == [(0, 1), (2, 3)]


def test_a_level_of_unequal_units_is_none():
    """Three nodes in one rack and one in the other: cells end at the node.  Types are kinds of their own."""
    shapes = (
        NodeShape(count=3, gpus=4, levels={"rack": "r0"}),
        NodeShape(count=1, gpus=4, levels={"rack": "r1"}),
        NodeShape(count=2, gpus=8, gpu_type="A100", levels={"rack": "r1"}),
    )
    kinds = kinds_of(cluster(shapes=shapes))
    assert [(kind.name, kind.names) for kind in kinds] == [
        ("GPU nodes of 4 GPUs", ("device", "node")),
        ("A100 nodes of 8 GPUs", ("device", "node", "rack")),
    ]
    assert list(kinds.values()) == [[(0,), (1,), (2,), (3,)], [(4, 5)]]


@pytest.mark.parametrize(
    "cells",
    [
        (CellQuota("rack", 2),),
        (CellQuota("rack", 1), CellQuota("node", 1), CellQuota("pair", 1), CellQuota("device", 2)),
        (CellQuota("rack", 1, at="r1"), CellQuota("node", 1, at="n0"), CellQuota("pair", 2)),
        (CellQuota("device", 1, at="n0/0"), CellQuota("rack", 1)),
    ],
)
def test_what_can_be_had(cells):
    check_cells(cluster(*cells))


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (
            (CellQuota("rack", 3),),
            "promised 3 rack cells of GPU nodes of 4 GPUs; beside .* the cluster has 2",
        ),
        ((CellQuota("rack", 1), CellQuota("node", 3)), "promised 3 node cells .* the cluster has 2"),
        (
            (CellQuota("rack", 1), CellQuota("node", 1), CellQuota("pair", 1), CellQuota("device", 3)),
            "3 device cells .* has 2",
        ),
        (
            (CellQuota("device", 1, at="n0/0"), CellQuota("device", 1, at="n2/0"), CellQuota("rack", 1)),
            "1 rack cell .* has 0",
        ),
        (
            (CellQuota("node", 1, at="n0"), CellQuota("pair", 1, at="n0/1")),
            "at n0 and at n0/1, have GPUs in common",
        ),
        ((CellQuota("pair", 1, at="n0/2"),), "at n0/2, which is no pair; expected n0/0 to n0/1"),
        ((CellQuota("pair", 1, at="n0"),), "at n0, which is no pair; expected n0/0 to n0/1"),
        (
            (CellQuota("rack", 1, at="r7"),),
            "at the rack r7, which the cluster has not; the cluster has r0, r1",
        ),
        ((CellQuota("node", 2, at="n0"),), "at n0 and has the count 2; a fixed cell is one: expected 1"),
        ((CellQuota("node", 1, gpus=8),), "a node of 8 GPUs; the cluster has some of 4"),
    ],
)
def test_what_cannot_names_the_level(cells, sentence):
    with pytest.raises(InputError, match=sentence):
        check_cells(cluster(*cells))


def test_nodes_that_are_gone_have_no_cells():
    whole = cluster(CellQuota("node", 1, at="n0"))
    with pytest.raises(InputError, match="is at n0, which is not part of the cluster now"):
        check_cells(replace(whole, gone=(0,)))
    with pytest.raises(InputError, match="is of GPUs, of which the cluster has no nodes now"):
        check_cells(replace(cluster(CellQuota("device", 1)), gone=tuple(range(whole.nodes))))


def test_a_cell_of_several_kinds_has_to_say_which():
    shapes = (NodeShape(count=1, gpus=4), NodeShape(count=1, gpus=8))
    with pytest.raises(InputError, match=r"several kinds \(GPU nodes of 4 GPUs, "):
        check_cells(cluster(CellQuota("node", 1), shapes=shapes))
    check_cells(cluster(CellQuota("node", 1, gpus=8), shapes=shapes))


def test_spare_cells_are_split_for_lower_levels():
    """One of two nodes is owed, and of the other a pair and one GPU: one GPU is spare."""
    ((kind, _),) = kinds_of(Cluster.build([NodeShape(count=2, gpus=4, device_levels={"pair": 2})])).items()
    assert spare_cells(kind, [0, 0, 0, 2], [0, 1, 1, 1]) == [0, 1, 1, 1]
