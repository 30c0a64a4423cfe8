"""Ticks: a twin that goes through every one of them, and what lies on the edge of one."""

from __future__ import annotations

from random import Random

import pytest

from play import finishes, play
from pollux_twin import some_jobs, tables, tiresias, twin
from rota.model.cluster import parse_cluster
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import semantics
from rota.worlds.simulated.speed_steps import StepTableSpeed

COSTS = parse_costs("start=30s,restore=30s")


@pytest.mark.parametrize("seed", range(12))
def test_every_job_ends_in_the_same_second(seed: int) -> None:
    """Ticks that pass unseen change nothing, and epochs that end just beyond one come after it."""
    random = Random(seed)
    trace, found, cluster = some_jobs(random), tables(random), parse_cluster("2x4")
    setting = Setting(semantics=semantics("pollux"), costs=COSTS, speed=StepTableSpeed(trace, cluster, found))
    record = play("tiresias@pollux:limits=1500", trace, cluster, setting)
    assert finishes(record) == twin(trace, found.workloads["a"], tiresias(1500.0))


EDGES = [
    # jobs                                 ends                              why
    ("A 1x29.6@1", {"A": 120.0}, "a little before the tick: at it"),
    ("A 1x30.3@1", {"A": 120.0}, "a little after it: at the same second"),
    ("A 1x30.3@1 B 1x10@2", {"A": 120.0, "B": 220.0}, "but what it held is free a tick later"),
    ("A 1x29.6@1 B 1x10@2", {"A": 120.0, "B": 160.0}, "the GPU is free at once"),
    ("A 1x10@1 B 1x10@500", {"A": 100.0, "B": 580.0}, "nobody looks in between"),
]


@pytest.mark.parametrize(("jobs", "ends", "why"), EDGES, ids=[row[-1] for row in EDGES])
def test_edges_of_a_tick(jobs: str, ends: dict[str, float], why: str) -> None:
    record = play("fifo", jobs, "1x1", Setting(semantics=semantics("pollux"), costs=COSTS))
    assert finishes(record) == ends, why


def test_silent_ticks_pass_unseen() -> None:
    """A job of an hour is decided on twice, not sixty times."""
    record = play("fifo", "A 1x3600@1 B 1x10@2", "1x1", Setting(semantics=semantics("pollux")))
    assert record.decisions <= 4
    assert finishes(record) == {"A": 3660.0, "B": 3670.0}


def test_a_lost_node_is_seen_at_the_next_tick() -> None:
    """At 130 the node goes, at 180 its job waits; it is back at 300 and the job goes on from where it was."""
    setting = Setting(semantics=semantics("pollux"), costs=COSTS, faults=[Fault(0, 130.0, 300.0)])
    assert finishes(play("fifo", "A 1x200@1", "1x1", setting)) == {"A": 300.0 + 30.0 + 200.0 - 90.0}
