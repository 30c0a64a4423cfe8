"""Levels of locality: which nodes a gang is gathered on."""

from __future__ import annotations

import pytest

from rota.model.cluster import Cluster, NodeShape
from rota.systems.philly.locality import Domains, Locality, fewest_nodes, gather
from rota.table.free import Free, nodes_in

FEWEST, DOMAIN, ANYWHERE = Locality


def free_of(*racks: str) -> tuple[Domains, Free]:
    """Racks written as `2/8 0/8`: free GPUs and GPUs of each node."""
    shapes, counts = [], []
    for rack, nodes in enumerate(racks):
        for node in nodes.split():
            count, size = map(int, node.split("/"))
            shapes.append(NodeShape(1, size, levels={"rack": f"r{rack}"}))
            counts.append(count)
    cluster = Cluster.build(shapes)
    free = Free.of(cluster)
    for node, count in enumerate(counts):
        free.take(node, free.size[node] - count)
    return Domains(cluster), free


@pytest.mark.parametrize(
    ("racks", "gpus", "level", "nodes", "why"),
    [
        (
            ["2/8 2/8 2/8 2/8"],
            8,
            FEWEST,
            [0],
            "one node would do in an empty rack: not met, wait on the first",
        ),
        (["2/8 2/8 2/8 2/8"], 8, DOMAIN, [0, 1, 2, 3], "any nodes of the rack"),
        (["2/8 4/8", "8/8 1/8"], 8, FEWEST, [2], "the rack with most free GPUs, its emptiest node"),
        (["5/8 5/8", "8/8 1/8"], 8, FEWEST, [2], "the emptier rack cannot now, the other can"),
        (["5/8 5/8", "8/8 1/8"], 8, DOMAIN, [0, 1], "10 free GPUs against 9"),
        (["3/8 8/8 2/8"], 2, FEWEST, [2], "less than half a node: fullest node that fits"),
        (["3/8 8/8 2/8"], 4, FEWEST, [1], "half a node: emptiest node"),
        (["8/8 4/8", "8/8 5/8"], 16, FEWEST, [2, 3], "two nodes of the emptier rack"),
        (["8/8 4/8", "8/8 5/8"], 24, FEWEST, [], "no rack has three nodes"),
        (["8/8 4/8", "8/8 5/8"], 24, ANYWHERE, [0, 1, 2, 3], "25 GPUs in all"),
        (["2/2 2/2 1/8"], 8, FEWEST, [2], "two small nodes are emptier, but more than one node"),
        (["2/2 8/8 7/8"], 10, FEWEST, [1, 2], "two nodes: the small one may not come with a large one"),
        (["2/2 2/2 8/8"], 10, FEWEST, [0, 2], "8 + 2 is two nodes: the rest of a large one can be small"),
    ],
)
def test_candidates(racks: list[str], gpus: int, level: Locality, nodes: list[int], why: str) -> None:
    """Most room first; the fewest nodes are those of an empty domain, not those that happen to be free."""
    domains, free = free_of(*racks)
    found = nodes_in(domains.candidates(free, gpus, level))
    assert found == nodes, why


def test_the_remainder_may_go_to_the_emptiest_node() -> None:
    """Ten GPUs on nodes of 8, 8 and 2: two nodes, emptiest first, as long as two suffice."""
    _, free = free_of("2/2 8/8 7/8")
    assert nodes_in(fewest_nodes(free, 10, 0b111)) == [1, 2]


@pytest.mark.parametrize(
    ("racks", "gpus", "level"),
    [
        (["0/8 0/8"], 16, FEWEST),
        (["0/8 0/2 0/8"], 17, FEWEST),
        (["0/4 0/4", "0/4 0/4"], 8, FEWEST),
        (["0/4 0/4", "0/4 0/4"], 9, ANYWHERE),
    ],
)
def test_first_level(racks: list[str], gpus: int, level: Locality) -> None:
    """The strictest level an empty cluster could meet, however full it is now."""
    domains, free = free_of(*racks)
    assert domains.first_level(free, gpus) is level


def test_gather_takes_what_there_is() -> None:
    """Emptiest node first, never more than asked, only from the nodes given."""
    _, free = free_of("2/4 3/4 4/4")
    assert gather(free, 4, 0b011) == (2, 5, 6, 7)
    assert gather(free, 9, 0b011) == (3,)
    assert free.total == 4
