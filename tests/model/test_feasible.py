"""CPU cores and host memory of which even empty nodes have too little for a job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.model.cluster import Cluster, NodeShape
from rota.model.feasible import HostNeed, Shortfall, host_shortfalls

CORES, MEMORY = "CPU cores", "GiB of host memory"
TWO = Cluster.build([NodeShape(2, 4, "A100", cpus=8, memory_gib=64)])
MIXED = Cluster.build([NodeShape(1, 4, "A100", memory_gib=64), NodeShape(1, 4, "V100", memory_gib=256)])
UNEVEN = Cluster.build([NodeShape(1, 4, memory_gib=64), NodeShape(1, 4, memory_gib=16)])
OPEN = Cluster.build([NodeShape(1, 4, memory_gib=64), NodeShape(1, 4)])
FIVE = Cluster.build([NodeShape(1, 5, memory_gib=64)])


@pytest.mark.parametrize(
    ("cluster", "need", "found"),
    [
        (TWO, HostNeed(1, 1, 8, 64), []),
        (TWO, HostNeed(1, 1, 9, 65), [Shortfall(9, 8, CORES), Shortfall(65, 64, MEMORY)]),
        (TWO, HostNeed(0, 0, 0, 65), [Shortfall(65, 64, MEMORY)]),
        (TWO, HostNeed(4, 4, 0, 96), []),  # two on each of the nodes
        (TWO, HostNeed(4, 4, 0, 160), [Shortfall(160, 64, MEMORY)]),
        (TWO, HostNeed(4, 2, 0, 160), []),  # runs on two, one on each of the nodes
        (TWO, HostNeed(16, 16, 16, 0), []),  # devices are what it lacks
        (TWO, HostNeed(16, 16, 160, 0), [Shortfall(40, 8, CORES)]),
        (FIVE, HostNeed(5, 5, 0, 64), []),  # 64 / 12.8 is 5, and a computer's is less
        (MIXED, HostNeed(1, 1, 0, 100), []),
        (MIXED, HostNeed(1, 1, 0, 100, ["A100"]), [Shortfall(100, 64, MEMORY)]),
        (MIXED, HostNeed(0, 0, 0, 100, ["A100"]), []),  # no device, no type
        (UNEVEN, HostNeed(8, 8, 0, 128), [Shortfall(64, 64, MEMORY)]),  # of which there is one
        (OPEN, HostNeed(1, 1, 99, 999), []),  # a capacity of 0 is unlimited
    ],
)
def test_what_no_node_has(cluster: Cluster, need: HostNeed, found: list[Shortfall]) -> None:
    assert host_shortfalls(cluster, need) == found


def test_a_node_that_never_comes_back_has_nothing() -> None:
    assert host_shortfalls(replace(MIXED, gone=(1,)), HostNeed(1, 1, 0, 100)) == [Shortfall(100, 64, MEMORY)]
