"""What a policy sees of programs: when a job works, with which batch, and what it bears."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from play import job, trace_of
from rota.knowledge.goodput import BatchLimits, GoodputProfile, GoodputTable, Noise, StepFit, TrainingPhase
from rota.model.cluster import parse_cluster
from rota.model.grants import Can, Grant
from rota.model.growing import GrowingTable
from rota.scheduler.loop import Loop
from rota.scheduler.moments.frozen import freeze, load, to_bytes
from rota.scheduler.moments.packing import unpack
from rota.scheduler.moments.replica import Replica, take_frame, take_whole, traced_state
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.speed_goodput import GoodputSpeed
from rota.worlds.simulated.world import SimulatedWorld
from scripted import Scripted, state_of

NAN = math.nan
CLUSTER = parse_cluster("1x4")
PROFILE = GoodputProfile(
    BatchLimits(64, 512, 16, 128, accumulates=True),
    {"*": StepFit(0.05, 0.002, 0.1, 0.01, 0.03, 0.002, 2.0)},
    (TrainingPhase(math.inf, Noise(1.0, 4.0)),),
)


def midway(until_s: float, *turns: dict[str, Any], costs: str = "", goodput: bool = False) -> Snapshot:
    """The moment `until_s` of A (2 GPUs, asks for batches of 100) and B (1 GPU, says nothing of batches)."""
    columns = {"workload": [0, 0], "workload_names": ("w",)}
    trace = trace_of("A 2x50 B 1x50", batch_size=[100.0, NAN], **columns)
    speed = GoodputSpeed(trace, CLUSTER, GoodputTable({"w": PROFILE})) if goodput else None
    world = SimulatedWorld(trace, CLUSTER, speed=speed, costs=parse_costs(costs))
    loop = Loop(world, Scripted(*turns), RunRecorder())
    loop.run(until_s)
    return loop.snapshot()


BOTH = {"grants": [Grant(0, (0, 1)), Grant(1, (2,))]}
READY = [
    # until  turns                                      costs       ready          why
    (4.0, (BOTH,), "", [0.0, 0.0], "at once where nothing costs anything"),
    (4.0, (BOTH,), "start=10s", [10.0, 10.0], "a start lies ahead"),
    (14.0, (BOTH,), "start=10s", [10.0, 10.0], "and later behind"),
    (4.0, ({"grants": BOTH["grants"][:1]},), "start=10s", [10.0, NAN], "one that waits does not work"),
]


@pytest.mark.parametrize(("until_s", "turns", "costs", "ready", "why"), READY, ids=[r[-1] for r in READY])
def test_ready(until_s: float, turns: Any, costs: str, ready: list[float], why: str) -> None:
    snapshot = midway(until_s, *turns, costs=costs)
    np.testing.assert_equal(snapshot.jobs.ready_s(np.arange(2)), ready, err_msg=why)
    np.testing.assert_equal(snapshot.jobs.ready_s(1), ready[1])


def test_who_stands_still_is_ready_nobody_knows_when() -> None:
    """As live, between the grant and the first word of the processes."""
    state = state_of("A 1x10", running=[Grant(0, (0,))])
    assert Snapshot(state).jobs.ready_s(0) == math.inf


BATCHES = [
    # first grants                                                     goodput  batches           why
    ([], False, [100.0, NAN], "asked for"),
    ([Grant(0, (0, 1), batch_size=64.0), Grant(1, (2,))], False, [64.0, NAN], "granted"),
    (
        [Grant(0, (0, 1)), Grant(1, (2,), batch_size=80.0)],
        False,
        [100.0, 80.0],
        "granted to who asks for none",
    ),
    ([Grant(0, (0, 1), batch_size=64.0), Grant(1, (2,))], True, [64.0, 128.0], "chosen by the job"),
    ([Grant(0, (0, 1), batch_size=65.0)], True, [66.0, NAN], "split over two GPUs"),
]


@pytest.mark.parametrize(("grants", "goodput", "batches", "why"), BATCHES, ids=[row[-1] for row in BATCHES])
def test_batch(grants: list[Grant], goodput: bool, batches: list[float], why: str) -> None:
    snapshot = midway(1.0, {"grants": grants}, goodput=goodput)
    now = snapshot.jobs.batch_now(np.arange(2))
    if why == "chosen by the job":
        best = PROFILE.best(PROFILE.fits["*"], PROFILE.phases[0].noise, 1, 1)
        assert best is not None
        batches = [64.0, float(best[0].total(1))]
    np.testing.assert_equal(now, batches, err_msg=why)
    np.testing.assert_equal(snapshot.jobs.batch_now(0), batches[0])


def test_a_moment_in_a_file_shows_the_same() -> None:
    snapshot = midway(4.0, BOTH, costs="start=10s", goodput=True)
    again = load(BytesIO(to_bytes(freeze(snapshot, {})))).snapshot()
    rows = np.arange(2)
    for name in ("ready_s", "batch_now", "can"):
        np.testing.assert_equal(getattr(again.jobs, name)(rows), getattr(snapshot.jobs, name)(rows))


def test_a_moment_of_an_earlier_version_bears_everything() -> None:
    packed = freeze(midway(4.0, BOTH), {}).packed
    for name in ("batch", "can"):
        del packed["state"]["progress"][name]
    jobs = unpack(packed, frozenset()).jobs
    assert jobs.can(0) == Can.ALL
    assert jobs.batch_now(0) == 100.0


def test_a_replica_hears_of_it() -> None:
    """By the frames of what was touched, and by the whole that it begins with."""
    table = GrowingTable(4, ("V100",))
    state = traced_state(table, parse_cluster("1x2:V100"))
    asked = job("a", row=table.append(job("a"), ()))
    state.entered(asked, ())
    state.submit(0)
    replica = Replica(take_whole(state, table))
    state.take_trace()
    state.progress.batch[0], state.progress.can[0] = 32.0, int(Can.SUSPEND)
    state.paced.add(0)
    replica.follow(take_frame(state))
    for told in (replica, Replica(take_whole(state, table))):
        assert (told.state.progress.batch.item(0), told.state.progress.can.item(0)) == (32.0, Can.SUSPEND)
