"""Gandiva where nodes are drained: who runs on there has no home, and is not forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from play import trace_of
from recording import RecordingWorld
from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provenance
from rota.model.cluster import parse_cluster
from rota.scheduler.decision import Event
from rota.scheduler.loop import Loop
from rota.scheduler.policy import parse_policy
from rota.scheduler.world import Batch, Ended, How
from rota.table.state import Phase
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.run import Setting, prepare


def loop_over(jobs: str, cluster: str, script: list[Batch]) -> Loop:
    """The script after the arrival of all jobs at 0 s."""
    trace, where = trace_of(jobs), parse_cluster(cluster)
    arrival = Batch(0.0, int(Event.ARRIVAL), arrived=list(range(len(trace))))
    world = RecordingWorld(where, trace.jobs, [arrival, *script])
    unknown = Given(Knowledge.UTILISATION, np.full(len(trace), np.nan), Provenance.ASSUMED)
    policy = parse_policy("gandiva").make()
    return Loop(world, policy, RunRecorder(), providers={Knowledge.UTILISATION: unknown})


def drained(now: float, *nodes: int) -> Batch:
    return Batch(now, int(Event.CAPACITY), drained=list(nodes))


def failed(now: float, row: int) -> Batch:
    """Its attempt ends, and it waits for another."""
    return Batch(now, int(Event.END), ended=[Ended(row, How.FAILED, Phase.PENDING)])


def ended(now: float, row: int) -> Batch:
    return Batch(now, int(Event.END), ended=[Ended(row, How.FINISHED, Phase.COMPLETED)])


@pytest.mark.parametrize(
    ("job", "cluster", "node", "again"),
    [
        ("A 1x600", "2x1", 0, (1,)),
        ("A 2x600", "3x1", 1, (0, 2)),
    ],
    ids=["its only node", "one of two"],
)
def test_who_stops_on_a_drained_node_starts_elsewhere(
    job: str, cluster: str, node: int, again: tuple[int, ...]
) -> None:
    """It ran on without a home, which used to be kept from it, or to be half of what it needs, for ever."""
    loop = loop_over(job, cluster, [drained(10.0, node), failed(20.0, 0)])
    loop.run(15.0)
    assert loop.state.starts.tolist() == [1]
    loop.run(30.0)
    assert loop.state.grants[0].devices == again


def test_a_home_that_is_gone_has_no_turn() -> None:
    """The policy asked to be woken at the end of a turn on a node that takes no more jobs."""
    loop = loop_over("A 1x600 B 1x600", "1x1", [drained(10.0, 0)])
    loop.run(5.0)
    assert loop.wake.at_s == 60.0
    loop.run(11.0)
    assert loop.wake.at_s == float("inf")


def test_a_home_has_room_again_when_a_stranger_leaves_it() -> None:
    """Half of the gang ran on a drained node; on the other node somebody waits for it to end."""
    loop = loop_over("A 2x600 B 1x600", "2x1", [drained(10.0, 1), ended(20.0, 0)])
    loop.run(30.0)
    assert loop.state.grants[1].devices == (0,)


def test_who_ends_as_its_node_is_lost_is_forgotten() -> None:
    """A, which moved there at 130 s, was looked at every minute from then on."""
    trace, where = trace_of("D 2x130 A 1x140 B 1x300 C 1x300"), parse_cluster("2x2")
    setting = Setting(faults=[Fault(0, 150.0, 9999.0)])
    loop, _ = prepare(parse_policy("gandiva").make(), trace, where, setting)
    loop.run(140.0)
    assert 1 in loop.memory["moves"]
    loop.run(200.0)
    assert 1 not in loop.memory["moves"].keys() | loop.memory["alone"].keys()
