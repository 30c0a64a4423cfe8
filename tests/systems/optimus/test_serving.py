"""Optimus with parameter servers: worked example 3 on a cluster, where servers lie, who has none."""

from __future__ import annotations

from typing import Any

import pytest

from play import finishes, play, trace_of
from rota.knowledge.servers import Served, Unit
from rota.knowledge.step_speed import StepSpeed, Training
from rota.model.cluster import Cluster, NodeShape
from rota.model.record import Record
from rota.model.trace import Trace
from rota.traces.elastic import make_elastic, parse_sizes
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration

SYNC = StepSpeed(Training.SYNCHRONOUS, (1 / 64, 0.1, 0.2, 0.01, 0.01), 64.0)
VGG = Served(SYNC, server=Unit(3.0), worker=Unit(2.0))
STEP_S = 1 / SYNC.at(1, 1)
"""Of one worker and one server, for which the jobs of the example ask: five CPUs."""


def jobs(text: str, workload: str = "vgg", **columns: Any) -> Trace:
    trace = trace_of(text, workload=0, workload_names=(workload,), **({"cpus": 5.0} | columns))
    return make_elastic(trace, parse_sizes("1:8"))


def run(
    trace: Trace, nodes: int = 1, gpus: int = 6, cpus: float = 40, policy: str = "optimus", **setting: Any
) -> Record:
    cluster = Cluster.build([NodeShape(count=nodes, gpus=gpus, cpus=cpus)])
    speed = FixedDuration(trace.jobs, cluster, Slowdowns(servers={"vgg": VGG}))
    return play(policy, trace, cluster, Setting(speed=speed, **setting))


def held(record: Record) -> list[tuple[str, int, float]]:
    """Job, GPUs and CPUs of each interval, in order of their beginning."""
    frame = record.intervals.sort("start_s", "job_id")
    gpus = (len(of) for of in frame["devices"])
    return list(zip(frame["job_id"], gpus, frame["cpus"], strict=True))


def test_worked_example_3_on_a_cluster() -> None:
    """40 CPUs, 6 GPUs: J1 has 3 servers and 2 workers, J2 6 and 4; they end at 78.33 and 233.33 s."""
    record = run(jobs(f"J1 1x{100 * STEP_S} J2 1x{400 * STEP_S}"))
    assert held(record) == [("J1", 2, 3 * 3 + 2 * 2), ("J2", 4, 6 * 3 + 4 * 2)]
    assert finishes(record) == pytest.approx({"J1": 78.33, "J2": 233.33}, abs=0.01)


def test_servers_and_all_reduce_side_by_side() -> None:
    """B's workers need no server: its GPUs come with the two CPUs each that it asks for."""
    trace = trace_of("A 1x1000 B 1x1000", cpus=[5.0, 2.0], workload=[0, 1], workload_names=("vgg", "other"))
    record = run(make_elastic(trace, parse_sizes("1:8")))
    (_, a_gpus, a_cpus), (_, b_gpus, b_cpus) = held(record)[:2]
    assert a_gpus + b_gpus == 6
    assert b_cpus is None, "as it asked, in proportion"
    assert a_cpus > 5 * a_gpus, "a server costs less of the cluster than a GPU"
    assert a_cpus + 2 * b_gpus <= 40


def test_parts_lie_evenly_on_few_nodes() -> None:
    """Six GPUs of two nodes of four: three workers on each, and half the servers."""
    trace = make_elastic(jobs("A 6x1000", cpus=30.0), parse_sizes("6:6"))
    record = run(trace, nodes=3, gpus=4, cpus=60)
    (devices,) = record.intervals["devices"]
    assert tuple(devices) == (0, 1, 2, 4, 5, 6)
    assert held(record)[0][2] == 6 * 2 + 11 * 3, "the eleventh server still saves, the twelfth does not"


SMALLER = [
    # asks for, sizes     GPUs   CPUs   why
    ("A 1x1000", "1:1", 1, 8.0, "one worker: of four servers two fit beside it on a node"),
    ("A 4x1000", "4:4", 4, 20.0, "of seven servers as many as fit on two nodes in equal parts"),
]


@pytest.mark.parametrize(("text", "sizes", "gpus", "cpus", "why"), SMALLER, ids=[row[-1] for row in SMALLER])
def test_servers_that_find_no_place_are_left_out(
    text: str, sizes: str, gpus: int, cpus: float, why: str
) -> None:
    """Nodes of ten CPUs, three of them: all together have more than any one job can use."""
    trace = make_elastic(trace_of(text, cpus=5.0, workload=0, workload_names=("vgg",)), parse_sizes(sizes))
    assert held(run(trace, nodes=3, gpus=2, cpus=10)) == [("A", gpus, cpus)], why


def test_who_was_left_short_of_servers_does_not_move_about() -> None:
    record = run(jobs("A 1x4000"), nodes=2, gpus=2, cpus=11)
    assert len(record.intervals) == 1


def test_more_servers_alone_cost_no_restart() -> None:
    """B comes and goes; A keeps its GPU, and has four servers, three beside B, and four again."""
    trace = trace_of("A 1x2000 B 1x20@10", cpus=[5.0, 5.0], workload=0, workload_names=("vgg",))
    record = run(make_elastic(trace, parse_sizes("1:1")), gpus=2, cpus=16, policy="optimus:event_driven=yes",
                 costs=parse_costs("start=30s,restore=30s"))  # fmt: skip
    of_a = [(gpus, cpus) for job, gpus, cpus in held(record) if job == "A"]
    assert {gpus for gpus, _ in of_a} == {1}
    assert [cpus for _, cpus in of_a] == [14, 11, 14]
    assert record.jobs.filter(record.jobs["job_id"] == "A")["preemptions"].item() == 0


def test_without_cpus_stated_servers_are_free_but_no_more_than_workers_could_be() -> None:
    record = run(jobs("A 1x1000"), cpus=0)
    ((_, gpus, cpus),) = held(record)[:1]
    assert cpus == 2 * gpus + 3 * 8


@pytest.mark.parametrize("policy", ["optimus", "optimus@pollux"])
def test_who_has_no_servers_is_as_before(policy: str) -> None:
    trace = jobs("A 2x100 B 2x400", "other", cpus=0.0)
    plain = play(policy, trace, Cluster.build([NodeShape(count=1, gpus=6, cpus=40)]))
    assert finishes(run(trace, policy=policy)) == finishes(plain)
