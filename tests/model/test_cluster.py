"""Clusters: what a written shape means, and what holds for every one of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InputError
from rota.model.cluster import Cluster, NodeShape, parse_cluster

shapes = st.lists(
    st.builds(
        NodeShape,
        count=st.integers(1, 6),
        gpus=st.integers(0, 9),
        gpu_type=st.sampled_from(["V100", "A100", "GPU"]),
        gpu_memory_gib=st.sampled_from([0.0, 16.0]),
        cpus=st.sampled_from([0.0, 64.0]),
        levels=st.fixed_dictionaries({"rack": st.sampled_from(["r1", "r2"])}),
    ),
    min_size=1,
    max_size=5,
)


@given(shapes)
def test_devices_and_nodes_agree(groups: list[NodeShape]) -> None:
    cluster = Cluster.build(groups)
    assert cluster.nodes == sum(group.count for group in groups)
    assert cluster.gpus == sum(group.count * group.gpus for group in groups) == cluster.first_device[-1]
    for node in range(cluster.nodes):
        mine = slice(cluster.first_device[node], cluster.first_device[node + 1])
        assert (cluster.device_node[mine] == node).all()
        assert (cluster.device_type[mine] == cluster.node_type[node]).all()
        assert cluster.node_gpus[node] == len(cluster.device_node[mine])
    by_type = [cluster.gpus_of_type(code) for code in range(len(cluster.type_names))]
    assert sum(by_type) == cluster.gpus
    assert len(set(cluster.node_names)) == cluster.nodes
    racks = [group.levels["rack"] for group in groups for _ in range(group.count)]
    assert [cluster.level_names["rack"][code] for code in cluster.levels["rack"]] == racks


@given(shapes)
def test_columns_are_read_only(groups: list[NodeShape]) -> None:
    cluster = Cluster.build(groups)
    columns = [value for value in vars(cluster).values() if isinstance(value, np.ndarray)]
    assert len(columns) == 7
    assert not any(column.flags.writeable for column in columns)


@pytest.mark.parametrize(
    ("text", "gpus", "described"),
    [
        ("80x8:V100", 640, "80x8:V100 (640 GPUs in 80 nodes)"),
        ("2x4", 8, "2x4 (8 GPUs in 2 nodes)"),
        ("8x4:v100, 16x4:p100", 96, "8x4:v100,16x4:p100 (96 GPUs in 24 nodes)"),
        ("1x8:2080Ti,2x4:3090,1x7:1g.10gb", 23, "1x8:2080Ti,2x4:3090,1x7:1g.10gb (23 GPUs in 4 nodes)"),
        ("1x8,1x8", 16, "2x8 (16 GPUs in 2 nodes)"),  # equal neighbours are one run
        ("1x1,1x2,1x3,1x4,1x5", 15, "1x1,1x2,1x3,1x4,... (15 GPUs in 5 nodes)"),
    ],
)
def test_written_clusters(text: str, gpus: int, described: str) -> None:
    cluster = parse_cluster(text)
    assert (cluster.gpus, cluster.describe()) == (gpus, described)


@pytest.mark.parametrize("text", ["", "8", "0x8", "80x8:", "80*8", "80x8,,2x8", "-1x8", "x8"])
def test_what_describes_no_nodes_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"does not describe nodes; expected NODESxGPUS"):
        parse_cluster(text)


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ([], "at least one node"),
        ([NodeShape(0, 8)], "group 1 of the cluster has 0 nodes"),
        ([NodeShape(1, 8), NodeShape(1, -1)], "group 2 of the cluster has 1 node of -1 GPUs"),
        ([NodeShape(2, 8, names=("a",))], "names 1 node but has 2"),
        ([NodeShape(2, 8, names=("a", "a"))], "same name"),
        ([NodeShape(1, 8, levels={"rack": "r"}), NodeShape(1, 8)], "node 1 of the cluster is in no rack"),
    ],
)
def test_groups_that_make_no_cluster_are_refused(groups: list[NodeShape], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Cluster.build(groups)


def test_a_part_keeps_its_units_and_amounts() -> None:
    """Units are numbered anew; a node that is there twice has its units twice."""
    pairs = {"socket": 4, "pair": 2}
    cluster = Cluster.build([NodeShape(3, 4, device_levels=pairs, capacities={"disk": 5.0}), NodeShape(1, 0)])
    assert cluster.device_levels["pair"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    part = cluster.take(np.array([2, 2, 3, 0]))
    assert part.device_levels["socket"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert part.device_levels["pair"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert part.capacities["disk"].tolist() == [5.0, 5.0, 0.0, 5.0]


@pytest.mark.parametrize(
    ("spot", "price", "why"),
    [(0, 2.0, "on demand"), (2, 1.0, "spot"), (1, 1.25, "12 GPUs at 1, 4 at 2 for one of the two groups")],
)
def test_a_type_costs_what_its_nodes_do(spot: int, price: float, why: str) -> None:
    """Two groups of one type, of 12 and 4 GPUs; the mean is over GPUs."""
    classes = ["spot" if group < spot else "" for group in range(2)]
    shapes = [NodeShape(3, 4, "T4", price_class=classes[0]), NodeShape(1, 4, "T4", price_class=classes[1])]
    cluster = Cluster.build(shapes, prices={"T4": {"on_demand": 2.0, "spot": 1.0}})
    assert cluster.gpu_price(0) == price, why
    assert cluster.take(np.array([3])).gpu_price(0) == (1.0 if spot == 2 else 2.0)
