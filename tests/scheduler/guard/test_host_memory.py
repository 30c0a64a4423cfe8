"""What suspended jobs keep in host memory counts, and yields to grants that need it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant, Leave
from rota.scheduler.decision import Decision, Wake
from rota.scheduler.guard.host_memory import Resident, put_out
from rota.scheduler.loop import Loop
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.world import SimulatedWorld
from scripted import Scripted, state_of

GIB = 100.0


def cluster(nodes: int = 1, gpus: int = 4) -> Cluster:
    return Cluster.build([NodeShape(nodes, gpus=gpus, memory_gib=GIB)])


class Keeps(NamedTuple):
    """Rows that are suspended, and rows that would be, with what they keep."""

    there: tuple[Resident, ...] = ()
    then: tuple[Resident, ...] = ()

    def suspended(self) -> Iterable[Resident]:
        return self.there

    def would_keep(self, row: int, leave: Leave) -> Resident | None:
        return next((one for one in self.then if one.row == row), None)


def kept(row: int, gib: float, loses_s: float = 0.0, node: int = 0) -> Resident:
    return Resident(row, ((node, gib),), loses_s)


START = Decision({}, [Grant(0, (0,))])
CASES = [
    # memory of the job that starts, who keeps what, who is put out, why
    (60.0, Keeps((kept(1, 40.0),)), set(), "they fit together to the last byte"),
    (60.1, Keeps((kept(1, 40.0),)), {1}, "they do not"),
    (0.0, Keeps((kept(1, 400.0),)), set(), "a job that states nothing needs nothing"),
    (60.0, Keeps((kept(1, 30.0, 5.0), kept(2, 30.0, 2.0))), {2}, "who loses least goes"),
    (60.0, Keeps((kept(1, 20.0), kept(2, 30.0))), {2}, "among equals the largest"),
    (60.0, Keeps((kept(1, 50.0, 5.0), kept(2, 5.0, 0.0))), {1, 2}, "as many as are needed"),
    (60.0, Keeps((kept(1, 50.0, node=1),)), set(), "other nodes are nobody's concern"),
    (60.0, Keeps((kept(0, 70.0),)), set(), "the job itself goes on with what it keeps"),
]


@pytest.mark.parametrize(("memory", "keeps", "out", "why"), CASES, ids=[case[3] for case in CASES])
def test_who_is_put_out(memory: float, keeps: Keeps, out: set[int], why: str) -> None:
    state = state_of("A 1x9 B 1x9 C 1x9", cluster(2), memory_gib=[memory, 40.0, 40.0])
    assert put_out(state, START, keeps) == out, why


def test_a_victim_without_room_leaves_memory_as_well() -> None:
    """B would keep 60 GiB where A brings 50: it is not suspended but leaves."""
    state = state_of("A 1x9 B 1x9", cluster(), [Grant(1, (0,))], memory_gib=[50.0, 60.0])
    decision = Decision({}, [Grant(0, (0,))], [1], Leave.IN_MEMORY)
    assert put_out(state, decision, Keeps(then=(kept(1, 60.0),))) == {1}
    assert put_out(state, decision, Keeps(then=(kept(1, 50.0),))) == frozenset()


def test_running_jobs_count_with_what_they_asked_for() -> None:
    state = state_of("A 1x9 B 1x9 C 1x9", cluster(), [Grant(1, (1,))], memory_gib=[30.0, 50.0, 0.0])
    assert put_out(state, START, Keeps((kept(2, 20.0),))) == frozenset()
    assert put_out(state, START, Keeps((kept(2, 21.0),))) == {2}


def test_a_gang_over_nodes_needs_its_part_on_each() -> None:
    """40 GiB on each node; only the suspended job on the second one stands in the way."""
    state = state_of("A 4x9 B 1x9 C 1x9", cluster(2, 2), memory_gib=[80.0, 0.0, 0.0])
    keeps = Keeps((kept(1, 60.0), kept(2, 61.0, node=1)))
    assert put_out(state, Decision({}, [Grant(0, (0, 1, 2, 3))]), keeps) == {2}


def test_unlimited_nodes_put_nobody_out() -> None:
    state = state_of("A 1x9 B 1x9", "1x4", memory_gib=[1e6, 0.0])
    assert put_out(state, START, Keeps((kept(1, 1e6),))) == frozenset()


@given(
    starts=st.lists(st.floats(1.0, GIB), min_size=1, max_size=3),
    held=st.lists(st.tuples(st.floats(0.0, GIB), st.floats(0.0, 10.0)), max_size=6),
)
def test_afterwards_everybody_has_room_and_nobody_left_in_vain(
    starts: list[float], held: list[tuple[float, float]]
) -> None:
    """Together they fit, unless the new jobs alone do not; whoever was put out last was one too many."""
    n = len(starts)
    state = state_of(
        " ".join(f"J{i} 1x9" for i in range(n + len(held))),
        cluster(),
        memory_gib=[*starts, *(0.0 for _ in held)],
    )
    keeps = Keeps(tuple(kept(n + i, gib, loses) for i, (gib, loses) in enumerate(held)))
    decision = Decision({}, [Grant(row, (row,)) for row in range(n)])
    out = put_out(state, decision, keeps)
    stay = sum(starts) + sum(one.gib[0][1] for one in keeps.there if one.row not in out)
    if sum(starts) <= GIB:
        assert stay <= GIB * (1 + 1e-9)
    if out:
        last = max(
            (keeps.there[row - n] for row in out), key=lambda one: (one.loses_s, -one.gib[0][1], one.row)
        )
        assert stay + last.gib[0][1] > GIB


# -- through the loop, simulated -------------------------------------------------------------------


def replay(*memory_gib: float) -> dict[str, float]:
    """A is suspended for B at 10 s; C starts beside B at 15 s; A goes on when B is done at 30 s: finishes."""
    trace = trace_of("A 1x20 B 1x20 C 1x1", memory_gib=memory_gib)
    world = SimulatedWorld(trace, cluster(gpus=2), costs=Costs(restore=CostModel(7.0)))
    policy = Scripted(
        {"grants": [Grant(0, (0,))], "wake": Wake(10.0)},
        {"preempt": [0], "grants": [Grant(1, (0,))], "leave": Leave.IN_MEMORY, "wake": Wake(15.0)},
        {"grants": [Grant(2, (1,))]},
        {},
        {"grants": [Grant(0, (0,))]},
    )
    recorder = RunRecorder()
    Loop(world, policy, recorder).run()
    return {trace.jobs.ids[row]: at_s for row, at_s in recorder.ends}


@pytest.mark.parametrize(
    ("memory", "finish_s", "why"),
    [
        ((40.0, 60.0, 0.0), 40.0, "with room for all, A goes on from memory"),
        ((41.0, 60.0, 0.0), 47.0, "B's grant leaves A no room: it comes back from its checkpoint"),
        ((40.0, 10.0, 50.0), 40.0, "three of them fit"),
        ((41.0, 10.0, 50.0), 47.0, "C's grant puts A out while it is suspended"),
        ((0.0, 100.0, 0.0), 40.0, "a job that states no memory keeps none"),
    ],
)
def test_a_job_without_room_in_memory_comes_back_from_its_checkpoint(
    memory: tuple[float, ...], finish_s: float, why: str
) -> None:
    assert replay(*memory)["A"] == finish_s, why


def test_who_is_suspended_on_a_lost_node_comes_back_from_its_checkpoint() -> None:
    trace = trace_of("A 1x20 B 1x20")
    world = SimulatedWorld(
        trace, cluster(2, 1), costs=Costs(restore=CostModel(7.0)), faults=[Fault(0, 12.0, 14.0)]
    )
    policy = Scripted(
        {"grants": [Grant(0, (0,))], "wake": Wake(10.0)},
        {"preempt": [0], "leave": Leave.IN_MEMORY},
        {},
        {"grants": [Grant(0, (0,)), Grant(1, (1,))]},
    )
    recorder = RunRecorder()
    Loop(world, policy, recorder).run()
    assert dict(recorder.ends)[0] == 14.0 + 7.0 + 10.0, "the node is back at 14 s, the memory is not"
