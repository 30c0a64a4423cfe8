"""What placement and host leave of full speed."""

from __future__ import annotations

import pytest

from play import trace_of
from rota.errors import InputError
from rota.knowledge.hosts import build_hosts
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant
from rota.worlds.simulated.pace import At
from rota.worlds.simulated.slowdowns import Efficiency, Slowdowns

RACKS = Cluster.build(
    [NodeShape(count=2, gpus=4, levels={"row": "a", "rack": rack}) for rack in ("r1", "r2")]
    + [NodeShape(count=2, gpus=4, levels={"row": "b", "rack": "r3"})]
)
# Themis, defaults of the sensitive class: 1.2 on several machines, 1.8 on several racks; here also rows
THEMIS = Slowdowns(
    spread={"vgg": 1 / 1.2, "*": 0.95},
    levels={"rack": {"vgg": 1 / 1.8}, "row": {"vgg": 1 / 2.5}},
)


@pytest.mark.parametrize(
    ("workload", "devices", "factor", "why"),
    [
        ("vgg", (0, 1), 1.0, "one machine"),
        ("vgg", (0, 4), 1 / 1.2, "two machines of a rack"),
        ("vgg", (0, 8), 1 / 1.8, "two racks of a row"),
        ("vgg", (0, 16), 1 / 2.5, "two rows"),
        ("vgg", tuple(range(8)), 1.0, "eight GPUs need two machines"),
        ("vgg", tuple(range(4, 12)), 1 / 1.8, "but not two racks"),
        ("vgg", tuple(range(16)), 1.0, "sixteen need two racks"),
        ("lstm", (0, 16), 0.95, "no factor for rows or racks: that of machines"),
    ],
)
def test_the_widest_level_that_is_left_counts(
    workload: str, devices: tuple[int, ...], factor: float, why: str
) -> None:
    trace = trace_of("A 2x10", workload=0, workload_names=(workload,))
    efficiency = Efficiency(trace.jobs, RACKS, THEMIS)
    assert efficiency.of(0, Grant(0, devices), (), At(0.0, 0.0, 0.0)).rate == pytest.approx(factor), why


def test_a_level_that_does_not_exist_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"--slowdowns: 'aisle' is no level of the cluster; expected row, rack"
    ):
        Efficiency(trace_of("A 1x1").jobs, RACKS, Slowdowns(levels={"aisle": {"*": 0.5}}))


@pytest.mark.parametrize(
    ("cpus", "memory_gib", "factor", "why"),
    [
        (0.0, 0.0, 1.0, "asked for nothing: as much as it wants"),
        (4.0, 9.0, 0.7, "2 cores for each of 2 GPUs"),
    ],
)
def test_hosts(cpus: float, memory_gib: float, factor: float, why: str) -> None:
    hosts = build_hosts({("w", 2.0, 4.0): 0.7, ("w", 3.0, 4.0): 1.0})
    trace = trace_of("A 2x10", workload=0, workload_names=("w",), cpus=cpus, memory_gib=memory_gib)
    efficiency = Efficiency(trace.jobs, RACKS, Slowdowns(hosts=hosts))
    assert efficiency.of(0, Grant(0, (0, 1)), (), At(0.0, 0.0, 0.0)).rate == pytest.approx(factor), why
