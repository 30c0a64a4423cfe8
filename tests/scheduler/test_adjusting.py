"""What changes without moving: a job goes on where it is, and nothing of it begins anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Code, Grant, Role, is_adjustment, with_one_nan
from rota.model.trace import Trace
from rota.scheduler.decision import Event
from rota.scheduler.loop import Loop
from rota.scheduler.moments.packing import pack_grant, unpack_grant
from rota.scheduler.world import How, Refusal
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.world import SimulatedWorld
from scripted import Scripted
from tiers import examples

CLUSTER = Cluster.build([NodeShape(count=2, gpus=4, cpus=16, memory_gib=64, gpu_memory_gib=16)])
NAN = float("nan")


def loop_of(*turns: dict[str, Any], jobs: str | Trace = "A 2x30 B 1x40@10 C 1x40@20") -> Loop:
    trace = trace_of(jobs) if isinstance(jobs, str) else jobs
    return Loop(SimulatedWorld(trace, CLUSTER), Scripted(*turns), RunRecorder())


def grants(*granted: Grant) -> dict[str, Any]:
    return {"grants": list(granted)}


ADJUSTED = [
    # limits                     why
    ({"batch_size": 64.0}, "another batch size"),
    ({"power_limit_w": 200.0}, "a power cap"),
    ({"cpus": 8.0, "memory_gib": 32.0}, "another share of the host"),
    ({"gpu_memory_gib": 4.0}, "less memory of the devices"),
]


@pytest.mark.parametrize(("limits", "why"), ADJUSTED, ids=[row[1] for row in ADJUSTED])
def test_an_adjustment_begins_nothing(limits: dict[str, float], why: str) -> None:
    """A runs from 0 and is adjusted at 10: the record is cut there, but one start, no move, done at 30."""
    loop = loop_of(grants(Grant(0, (0, 1))), grants(Grant(0, (0, 1), **limits)))  # type: ignore[arg-type]
    loop.run(29.0)
    state, recorder = loop.state, loop.recorder
    assert isinstance(recorder, RunRecorder)
    assert [one[1:4] for one in recorder.intervals] == [(0.0, 10.0, How.ADJUSTED)]
    row = [state.since_s[0], state.placed_s[0], state.starts[0], state.moves[0], state.ran_s(0)]
    assert row == [0.0, 0.0, 1, 0, state.now], why
    assert state.progress.done(0, state.now) == state.now
    assert {name: getattr(state.grants[0], name) for name in limits} == limits
    loop.run(35.0)
    first, second = recorder.intervals[:2]
    assert second[1:4] == (10.0, 30.0, How.FINISHED)
    told = [{name: getattr(one[0], name) for name in limits} for one in (first, second)]
    np.testing.assert_equal(told, [dict.fromkeys(limits, NAN), limits])


def test_moves_are_counted_and_adjustments_are_not() -> None:
    """A starts on 0,1; is adjusted at 10; moves to 2,3 at 20; B, which starts once, has not moved."""
    loop = loop_of(
        grants(Grant(0, (0, 1))),
        grants(Grant(0, (0, 1), batch_size=8.0), Grant(1, (4,))),
        grants(Grant(0, (2, 3), batch_size=8.0)),
    )
    loop.run(25.0)
    state = loop.state
    assert state.moves.tolist() == [1, 0, 0]
    assert state.placed_s.tolist()[:2] == [20.0, 10.0]
    intervals = [one[1:4] for one in loop.recorder.intervals]  # type: ignore[attr-defined]
    assert intervals == [(0.0, 10.0, How.ADJUSTED), (10.0, 20.0, How.MIGRATED)]


def test_another_claim_on_the_same_devices_is_an_adjustment() -> None:
    """A has two GPUs for 10 s, half of them for 10 s, and all again: 30 + 5 s, of which nothing is a move."""
    half = Grant(0, (0, 1), 0.5, Role.PACKED)
    beside = Grant(1, (0,), 0.5, Role.PACKED)
    loop = loop_of(
        grants(Grant(0, (0, 1))),
        grants(half, beside),
        {"preempt": [1], "grants": [Grant(0, (0, 1))]},
        jobs="A 2x30 B 1x40@10 C 8x1@20",
    )
    loop.run(34.0)
    state, recorder = loop.state, loop.recorder
    assert isinstance(recorder, RunRecorder)
    assert [(one[0].job, *one[1:4]) for one in recorder.intervals] == [
        (0, 0.0, 10.0, How.ADJUSTED), (1, 10.0, 20.0, How.PREEMPTED), (0, 10.0, 20.0, How.ADJUSTED),
    ]  # fmt: skip
    assert (state.since_s[0], state.adjusted_s[0], state.moves[0]) == (0.0, 20.0, 0)
    assert (state.service_gpu_s(0), state.ran_s(0)) == (20.0 + 10.0 + 2.0 * (state.now - 20.0), state.now)
    loop.run(36.0)
    assert (recorder.intervals[3][0].job, *recorder.intervals[3][1:4]) == (0, 20.0, 35.0, How.FINISHED)


COSTS = [
    # at       overhead of each interval
    (4.0, [4.0, 6.0], "in the middle of a start of 10 s"),
    (15.0, [10.0, 0.0], "after it"),
]


@pytest.mark.parametrize(("at_s", "overhead", "why"), COSTS, ids=[row[-1] for row in COSTS])
def test_a_start_is_paid_once(at_s: float, overhead: list[float], why: str) -> None:
    trace = trace_of(f"A 2x30 B 8x1@{at_s}")
    world = SimulatedWorld(trace, CLUSTER, costs=parse_costs("start=10s"))
    turns = grants(Grant(0, (0, 1))), grants(Grant(0, (0, 1), 0.5, Role.PACKED, batch_size=8.0))
    recorder = RunRecorder()
    loop = Loop(world, Scripted(*turns), recorder)
    loop.run()
    mine = [one for one in recorder.intervals if one[0].job == 0]
    assert [one[4].overhead_s for one in mine] == overhead, why
    worked_before = at_s - overhead[0]
    assert mine[1][2] == at_s + overhead[1] + (30.0 - worked_before) * 2.0, why


def test_a_start_after_the_first_counts_as_a_move() -> None:
    loop = loop_of(grants(Grant(0, (0, 1))), {"preempt": [0]}, grants(Grant(0, (0, 1))))
    loop.run(25.0)
    assert (loop.state.starts[0], loop.state.moves[0], loop.state.placed_s[0]) == (2, 1, 20.0)


@pytest.mark.parametrize("nan", [np.array([NAN])[0], np.array([NAN]).item(), float("nan")])
def test_a_fresh_nan_moves_nobody(nan: float) -> None:
    """NaN is equal to nothing but itself: a policy that computes one asks for what the job has already."""
    loop = loop_of(grants(Grant(0, (0, 1))), grants(Grant(0, (0, 1), batch_size=nan, cpus=nan)))
    loop.run(15.0)
    assert loop.recorder.intervals == []  # type: ignore[attr-defined]
    assert loop.state.grants[0] == Grant(0, (0, 1))


def test_what_the_host_gives_is_counted() -> None:
    """4 of 16 CPUs were asked for; 12 are granted, 6 on each node, and then 2."""
    trace = trace_of("A 2x30 B 1x40@10", cpus=[4, 0], memory_gib=[8, 0], gpu_memory_gib=[2, 0])
    loop = loop_of(
        grants(Grant(0, (0, 4), cpus=12.0, gpu_memory_gib=5.0)),
        {},
        grants(Grant(0, (0, 4), cpus=2.0)),
        jobs=trace,
    )
    occupancy = loop.state.occupancy
    loop.run(5.0)
    assert (occupancy.cpus_used, occupancy.memory_used) == ([6.0, 6.0], [4.0, 4.0])
    assert occupancy.device_memory.used == {0: 5.0, 4: 5.0}
    loop.run(15.0)
    assert (occupancy.cpus_used, occupancy.device_memory.used) == ([1.0, 1.0], {0: 2.0, 4: 2.0})
    loop.run(35.0)
    assert (occupancy.cpus_used, occupancy.memory_used) == ([0.0, 0.0], [0.0, 0.0])


class Stubborn(SimulatedWorld):
    """A world that cannot change a job that runs."""

    def apply(self, changes: Any) -> list[Refusal]:
        adjusted = [c for c in changes if c.old and c.new and is_adjustment(c.old, c.new)]
        super().apply([c for c in changes if c not in adjusted])
        return [Refusal(change.row, "cannot be changed while it runs") for change in adjusted]


def test_a_refused_adjustment_leaves_the_job_as_it_was() -> None:
    world = Stubborn(trace_of("A 2x30 B 1x40@10"), CLUSTER)
    turns = grants(Grant(0, (0, 1))), grants(Grant(0, (0, 1), cpus=4.0))
    loop = Loop(world, Scripted(*turns), RunRecorder())
    loop.run(10.0)
    assert loop.state.grants == {0: Grant(0, (0, 1))}
    assert loop.state.occupancy.cpus_used == [0.0, 0.0]
    assert loop.state.refused == {0: "cannot be changed while it runs"}
    assert (loop.state.starts[0], loop.state.ran_s(0)) == (1, 10.0)
    loop.run(30.0)
    assert [one[1:4] for one in loop.recorder.intervals] == [(0.0, 30.0, How.FINISHED)]  # type: ignore[attr-defined]


numbers = st.sampled_from([NAN, float("nan"), 1.0, 2.5])


@given(st.lists(numbers, min_size=5, max_size=5))
@examples(60)
def test_grants_are_the_same_after_packing(limits: list[float]) -> None:
    batch_size, power_w, cpus, memory_gib, gpu_memory_gib = limits
    grant = Grant(
        3, (1, 2), 0.5, Role.PACKED, -1, batch_size, power_w,
        cpus=cpus, memory_gib=memory_gib, gpu_memory_gib=gpu_memory_gib,
    )  # fmt: skip
    assert unpack_grant(pack_grant(grant)) == with_one_nan(grant)


def test_grants_of_earlier_versions_are_read() -> None:
    old = [3, [1, 2], 1.0, 0, -1, NAN, NAN, 0, float("inf"), float("inf")]
    assert unpack_grant(old) == Grant(3, (1, 2))


def test_a_wait_is_explained_by_the_first_decision_that_leaves_the_job_waiting() -> None:
    """B and C come while the policy sleeps; at 25 it leaves C, and starts B, which has waited for that."""

    class Sleeper(Scripted):
        def decide(self, snapshot: Any, memory: Any) -> Any:
            decision = super().decide(snapshot, memory)
            decision.wake.at_s, decision.wake.on = snapshot.now + 25.0, Event.NONE
            return decision

    recorder = RunRecorder()
    world = SimulatedWorld(trace_of("A 2x30 B 1x40@10 C 8x40@20"), CLUSTER)
    loop = Loop(world, Sleeper(grants(Grant(0, (0, 1))), grants(Grant(1, (2,)))), recorder)
    loop.run(26.0)
    codes = {row: reason.code for row, reason in recorder.reasons.items()}
    assert codes == {1: Code.ROUND, 2: Code.RESOURCES}


def test_a_change_of_devices_is_none() -> None:
    held = Grant(0, (0, 1))
    assert not is_adjustment(held, held)
    assert not is_adjustment(held, Grant(0, (0, 2), batch_size=8.0))
    assert is_adjustment(held, Grant(0, (0, 1), 0.5, Role.PACKED))
