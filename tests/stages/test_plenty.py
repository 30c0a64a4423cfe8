"""Where everybody can have all that it can use, a decision is the one that going through all comes to."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from play import trace_of
from rota.knowledge.needs import Knowledge, Known, Provenance, Table
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import parse_cluster
from rota.model.grants import Can, Grant
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import Truth
from rota.scheduler.decision import Decision
from rota.scheduler.moments.values import copied
from rota.scheduler.policy import levers_of, parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.stages.plenty import Plenty
from rota.table.state import State
from rota.testing.scenes import Scene, make_scene
from rota.testing.sentences import print_of
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.speed_table import ScalingSpeed
from scripted import state_of
from tiers import each_seed

CURVES = ScalingCurves.build(
    {"card": {1: 1.0, 2: 1.5, 4: 2.0}, "flat": {1: 1.0, 2: 1.0, 4: 3.0}, "good": {1: 1.0, 8: 8.0}},
    clean=False,
)
POLICIES = ["afs", "afs:min_resize_s=5", "afs:resize_cost_s=20", "elasticflow", "elasticflow:offer_s=0"]


class AskedTwice:
    """Asks a second instance the same, which always goes through everybody, and compares what is decided."""

    def __init__(self, text: str) -> None:
        self.inner, self.twin = (parse_policy(text).make() for _ in range(2))
        self.needs, self.levers = self.inner.needs, levers_of(self.inner)
        self.quick = 0
        """Decisions that were taken without going through everybody."""
        self.asked = 0
        self.unlike: list[tuple[float, Any, Any]] = []
        """When it decided otherwise than the second instance; what it decided, and what that did."""
        at_most = self.inner._at_most

        def noted(snapshot: Snapshot, memory: dict[str, Any]) -> Decision | None:
            decision = at_most(snapshot, memory)
            self.quick += decision is not None
            return decision

        self.inner._at_most = noted
        self.twin._at_most = lambda snapshot, memory: None

    def decide(self, snapshot: Snapshot, memory: dict[str, Any]) -> Decision:
        expected = self.twin.decide(snapshot, copied(memory))
        snapshot.occupancy.take_back()
        decision = self.inner.decide(snapshot, memory)
        live = [*snapshot.running.tolist(), *snapshot.waiting.tolist()]
        ours, theirs = _whole(decision, live), _whole(expected, live)
        self.asked += 1
        if ours != theirs:
            self.unlike.append((snapshot.now, ours, theirs))
        return decision


def _whole(decision: Decision, live: list[int]) -> tuple[object, dict[int, float], list[object]]:
    """All that a decision says, of targets and plans what is said when somebody asks."""
    plans = [] if decision.plan_of is None else [*map(decision.plan_of, live)]
    return print_of(decision), dict(decision.targets), plans


def _roomy(seed: int) -> Scene:
    """Jobs on a cluster on which mostly, and not always, all of them can have what they can use."""
    rng = np.random.default_rng(seed)
    cluster = parse_cluster(["6x4", "3x4:A,3x4:B", "3x8"][seed % 3])
    count = 24
    gpus = 2 ** rng.integers(0, 4, count)
    elastic = rng.random(count) < rng.choice([0.0, 0.3])
    work = np.round(rng.exponential(200.0, count), 1)
    submit_s = np.sort(np.round(rng.uniform(0.0, 1500.0, count), rng.integers(0, 2)))
    jobs = " ".join(
        f"j{i} {n}x{w}@{at}"
        for i, (n, w, at) in enumerate(zip(gpus.tolist(), work.tolist(), submit_s.tolist(), strict=True))
    )
    columns: dict[str, Any] = {
        "gpus_min": np.where(elastic, 1, gpus),
        "gpus_max": np.where(elastic, 2 * gpus, gpus),
        "counts": rng.choice([int(AllowedCounts.ANY), int(AllowedCounts.POWERS_OF_TWO)], count),
        "workload": rng.integers(0, 3, count),
        "workload_names": CURVES.workloads,
    }
    if rng.random() < 0.3:
        columns["deadline_s"] = np.where(rng.random(count) < 0.2, submit_s + 4000.0, np.nan)
    if rng.random() < 0.3:
        columns["after"] = {row: (int(rng.integers(0, row)),) for row in range(1, count, 5)}
    trace = trace_of(jobs, **columns)
    faults = [Fault(int(rng.integers(3)), 400.0, 900.0)] if rng.random() < 0.4 else []
    setting = Setting(faults=faults)
    if rng.random() < 0.5:
        trace = replace(trace, truth=Truth.build(np.full(count, np.nan), iterations=work))
        setting = replace(setting, speed=ScalingSpeed(trace, cluster, CURVES), costs=parse_costs("start=2s"))
    elif rng.random() < 0.3:
        setting = replace(setting, can={"*": Can.ALL, "flat": Can.CHECKPOINT})
    return Scene(seed, trace, cluster, setting)


def _asked_twice(policy: str, scene: Scene) -> AskedTwice:
    both = AskedTwice(policy)
    loop, _ = prepare(both, scene.trace, scene.cluster, scene.setting)
    loop.run()
    assert both.asked
    return both


@pytest.mark.parametrize("policy", POLICIES)
@each_seed(4, 52, 200, at_once=12)
def test_nobody_is_given_less_where_there_is_plenty(policy: str, seed: int) -> None:
    assert _asked_twice(policy, _roomy(seed)).unlike == []


@pytest.mark.parametrize("policy", ["afs", "elasticflow"])
def test_most_decisions_on_a_cluster_with_room_go_through_nobody(policy: str) -> None:
    scene = _roomy(0)
    both = _asked_twice(policy, scene)
    assert both.quick > len(scene.trace)


@pytest.mark.parametrize("policy", ["afs", "elasticflow"])
@each_seed(8, 48, 300, at_once=8)
def test_nor_in_scenes_of_any_kind(policy: str, seed: int) -> None:
    assert _asked_twice(policy, make_scene(seed)).unlike == []


CASES: list[tuple[str, dict[int, int], bool, str]] = [
    ("A 2x9 B 1x9", {0: 2, 1: 1}, True, "both run, and have what they can use"),
    ("A 2x9 B 2x9", {0: 2}, True, "there are two left for B"),
    ("A 2x9 B 3x9", {0: 2}, False, "B has to wait for A"),
    ("A 4x9", {0: 2}, False, "A could have four"),
    ("A 2x9 B 0x9", {0: 2, 1: 0}, True, "who runs without GPUs takes none from anybody"),
    ("A 2x9 B 0x9", {0: 2}, False, "B waits for a node, not for GPUs"),
]


def _moment(jobs: str, held: dict[int, int]) -> tuple[State, Snapshot]:
    """Rows of `held` run on so many GPUs, or on a node without any."""
    state, free = state_of(jobs, gpus_min=1, gpus_max=4), iter(range(4))
    for row, gpus in held.items():
        state.start(Grant(row, tuple(next(free) for _ in range(gpus)), node=-1 if gpus else 0))
    return state, _seen(state)


SCALING = Known(Table({}, {}), Provenance.ORACLE)


def _seen(state: State, scaling: Known = SCALING) -> Snapshot:
    return Snapshot(state, known={Knowledge.SCALING: scaling}, needs=frozenset({Knowledge.SCALING}))


def _as_asked() -> Plenty:
    return Plenty(lambda snapshot, row: snapshot.gpus_of[row])


@pytest.mark.parametrize(("jobs", "held", "expected", "why"), CASES)
def test_when_there_is_plenty(jobs: str, held: dict[int, int], expected: bool, why: str) -> None:
    state, snapshot = _moment(jobs, held)
    assert _as_asked().holds(snapshot) is expected, why
    state.progress.can[:] = int(Can.CHECKPOINT)
    assert not _as_asked().holds(snapshot), "they would lose their work on another number"
    state.progress.can[:] = int(Can.RESIZE)
    state.refused[0] = "no"
    assert not _as_asked().holds(snapshot), "something was refused"


def test_devices_that_are_closed_are_no_more_to_be_had_nor_may_anybody_be_on_them() -> None:
    state, snapshot = _moment("A 2x9 B 1x9", {0: 2, 1: 1})
    plenty = _as_asked()
    state.close([3])
    assert plenty.holds(snapshot), "three are left, and nobody is on the fourth"
    state.open([3])
    state.close([2])
    assert not plenty.holds(snapshot), "B is to end where it is"


def test_it_follows_who_comes_and_goes() -> None:
    """What it says is what one says that has looked at everybody."""
    rng = np.random.default_rng(5)
    state = state_of(" ".join(f"j{i} {i % 3 + 1}x9" for i in range(6)), "2x4")
    plenty, told = _as_asked(), set()
    for _ in range(400):
        row, state.now = int(rng.integers(6)), state.now + 1.0
        free = np.flatnonzero(np.array(state.occupancy.claimed) == 0.0).tolist()
        if row in state.running:
            state.free(row)
            state.stop(row)
        elif row in state.held:
            state.release(row)
        elif rng.random() < 0.5:
            state.hold(row, "user")
        elif len(free) > row % 3:
            state.start(Grant(row, tuple(free[: row % 3 + 1])))
        fresh = _as_asked()
        expected = fresh.holds(_seen(state))
        assert plenty.holds(_seen(state)) is expected
        assert plenty.most == fresh.most
        told.add(expected)
    assert told == {True, False}


def test_who_was_resized_is_young_for_a_while() -> None:
    """A and B have a choice of sizes: A was started again at 50, B never; C was, and has none."""
    state = state_of("A 1x9 B 1x9 C 1x9", gpus_min=1, gpus_max=[2, 2, 1])
    for row in range(3):
        state.start(Grant(row, (row,)))
    state.first_start_s[:], state.since_s[:] = [0.0, 40.0, 0.0], [50.0, 40.0, 45.0]
    plenty = Plenty(lambda snapshot, row: 1, young_s=60.0)
    assert plenty.holds(_seen(state))
    assert plenty.again_s(109.0) == 110.0
    assert plenty.again_s(110.0) == math.inf


def test_everybody_is_looked_at_again_once_speeds_or_requests_are_others() -> None:
    state, snapshot = _moment("A 2x9 B 1x9", {0: 2, 1: 1})
    most = {0: 2, 1: 1}
    plenty = Plenty(lambda snapshot, row: most[row])
    assert plenty.holds(snapshot)
    most[0] = 4
    assert plenty.holds(_seen(state)), "nothing has happened, and nothing was learnt"
    assert not plenty.holds(_seen(state, Known(Table({}, {}), Provenance.MEASURED)))
    most[0] = 2
    state.enter(1)
    assert plenty.holds(_seen(state))
