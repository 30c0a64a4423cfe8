"""What placement and host leave of full speed."""

from __future__ import annotations

import pytest

from play import trace_of
from rota.errors import InputError
from rota.knowledge.hosts import build_hosts, speeds_of
from rota.knowledge.needs import Knowledge, Table
from rota.knowledge.placement import Closeness
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
        InputError, match=r"--slowdowns: 'aisle' is no level of the cluster; expected row, rack, node"
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


SOCKETS = Cluster.build([NodeShape(count=2, gpus=8, device_levels={"socket": 4, "pair": 2})])
INSIDE = Slowdowns(spread={"*": 0.5}, levels={"socket": {"*": 0.8}, "pair": {"*": 0.9, "vgg": 0.7}})


@pytest.mark.parametrize(
    ("workload", "devices", "factor", "why"),
    [
        ("vgg", (0, 1), 1.0, "a pair"),
        ("vgg", (1, 2), 0.7, "two pairs of a socket"),
        ("lstm", (1, 2), 0.9, "of which this one minds less"),
        ("vgg", (3, 4), 0.8, "two sockets: the widest level counts"),
        ("vgg", (0, 1, 2, 4), 0.8, "four need one socket"),
        ("vgg", (0, 1, 2, 3), 1.0, "and two pairs"),
        ("vgg", (0, 8), 0.5, "two nodes"),
    ],
)
def test_levels_inside_the_node(workload: str, devices: tuple[int, ...], factor: float, why: str) -> None:
    trace = trace_of("A 2x10", workload=0, workload_names=(workload,))
    efficiency = Efficiency(trace.jobs, SOCKETS, INSIDE)
    assert efficiency.of(0, Grant(0, devices), (), At(0.0, 0.0, 0.0)).rate == pytest.approx(factor), why


NAN = float("nan")


@pytest.mark.parametrize(
    ("asked", "granted", "factor", "why"),
    [
        ((4.0, 9.0), (NAN, NAN), 0.7, "as asked for: 2 cores for each"),
        ((4.0, 9.0), (6.0, NAN), 1.0, "3 cores granted for each"),
        ((6.0, 9.0), (4.0, NAN), 0.7, "less than was asked for"),
        ((0.0, 0.0), (2.0, NAN), 0.35, "who asks for nothing gets what is granted"),
        ((6.0, 9.0), (NAN, 4.0), 0.5, "half the memory"),
    ],
)
def test_the_host_gives_what_is_granted(
    asked: tuple[float, float], granted: tuple[float, float], factor: float, why: str
) -> None:
    hosts = build_hosts({("w", c, m): s * m / 4 for c, s in ((2.0, 0.7), (3.0, 1.0)) for m in (2.0, 4.0)})
    trace = trace_of("A 2x10", cpus=asked[0], memory_gib=asked[1], workload=0, workload_names=("w",))
    efficiency = Efficiency(trace.jobs, RACKS, Slowdowns(hosts=hosts))
    grant = Grant(0, (0, 1), cpus=granted[0], memory_gib=granted[1])
    assert efficiency.of(0, grant, (), At(0.0, 0.0, 0.0)).rate == pytest.approx(factor), why


def test_policies_are_told_what_slows_jobs_down() -> None:
    """What they read back is what the world does; of what nobody has said they are told nothing."""
    names = ("vgg", "lstm", "new")
    trace = trace_of("A 2x1 B 2x1 C 2x1", workload=[0, 1, -1], workload_names=names)
    hosts = build_hosts({("lstm", 2.0, 4.0): 0.7, ("lstm", 3.0, 4.0): 1.0, ("new", 1.0, 1.0): 0.5})
    told = Efficiency(trace.jobs, RACKS, Slowdowns(THEMIS.spread, THEMIS.levels, hosts=hosts)).knowledge
    assert set(told) == {Knowledge.PLACEMENT, Knowledge.HOSTS}
    placement, speeds = told[Knowledge.PLACEMENT].known(), told[Knowledge.HOSTS].known()
    assert isinstance(placement, Table)
    assert isinstance(speeds, Table)
    closeness = Closeness(RACKS, placement.shared["rates"])
    apart = [closeness.factor(number, (0, 16)) for number in placement.by_row["class"].tolist()]
    assert apart == pytest.approx([1 / 2.5, 0.95, 0.95])
    grids = speeds_of(speeds)
    assert speeds.by_row["class"].tolist() == [-1, 0, -1]
    assert [grids[0].speed(2.5, 4.0), grids[1].speed(1.0, 1.0)] == pytest.approx([0.85, 0.5])
    assert Efficiency(trace.jobs, RACKS, Slowdowns()).knowledge == {}
