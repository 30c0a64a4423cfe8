"""A moment that goes on in the simulated world does what the rest of its run did, whoever took it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import job, trace_of
from rota.errors import InputError
from rota.forecast.altered import with_gpus, with_job
from rota.forecast.fork import PATIENCE, ForkRecorder, Origin, fork
from rota.forecast.held import Wait, waits_of
from rota.forecast.known_speed import SPEEDS
from rota.knowledge.needs import Knowledge, Provenance
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.job_columns import JobKind
from rota.model.jobs import PlainJob
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.loop import Loop
from rota.scheduler.moments.frozen import Frozen, freeze
from rota.scheduler.moments.values import digest
from rota.scheduler.policy import Policy, parse_policy, systems
from rota.scheduler.snapshot import Snapshot
from rota.table.state import Phase
from rota.testing import make_scene
from rota.testing.scenes import Scene
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.run import Setting, prepare
from tiers import examples, first

POLICIES = [
    *(name for name in systems() if name != "partition"),
    "las:quantum=20",
    "tiresias:limits=30/90",
    "tiresias:limits=30/90,promote=2",
    "tiresias:order=gittins,limits=30/90",
    "srtf:by_count=yes",
    "partition:by=vc,policy=fifo",
]


class Tap:
    """Keeps what `inner` is shown, each time."""

    def __init__(self, inner: Policy, name: str) -> None:
        self.inner, self.name, self.needs = inner, name, inner.needs
        self.moments: list[Frozen] = []

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        self.moments.append(freeze(snapshot, memory, self.name))
        return self.inner.decide(snapshot, memory)


def plain_scene(seed: int) -> Scene:
    """The scene of `seed` in which nothing fails, breaks or costs anything."""
    scene = make_scene(seed)
    truth = replace(scene.trace.truth, failures={})
    return replace(scene, trace=replace(scene.trace, truth=truth), setting=Setting(seed=seed))


def origin_of(moment: Frozen, waits: Mapping[int, Wait] | None = None) -> Origin:
    return Origin(moment.packed, waits_of(moment.packed, waits))


def go_on(moment: Frozen, trace: Trace, wake: Wake | None = None) -> tuple[Loop, ForkRecorder]:
    """The moment played to its end, under its own policy and with the true durations."""
    total_s = trace.truth.duration_s[: moment.packed["state"]["submitted"]]
    loop, recorder = fork(
        origin_of(moment),
        parse_policy(moment.policy).make(),
        total_s,
        total_s,
        memory=moment.memory,
        wake=wake,
        cause=moment.packed["cause"],
        seed=moment.packed["seed"],
    )
    loop.run()
    return loop, recorder


def rest_of(recorder: RunRecorder, moment: Frozen) -> tuple[dict[int, float], dict[int, float]]:
    """Start of the present or the next stretch, and end, of each job that lives at the moment."""
    state = moment.packed["state"]
    live = {row for row, phase in enumerate(state["phase"].tolist()) if phase < Phase.COMPLETED}
    since_s = dict.fromkeys(live, state["now"])
    since_s |= {fields[0]: state["since_s"].item(fields[0]) for fields in state["grants"]}
    starts: dict[int, float] = {}
    for grant, start_s, _, _, _ in recorder.intervals:
        if grant.job in live and start_s >= since_s[grant.job]:
            starts.setdefault(grant.job, start_s)
    return starts, {row: at_s for row, at_s in recorder.ends if row in live}


def stored_speeds(moment: Frozen) -> list[Mapping[str, Any]]:
    stored = moment.packed["knowledge"]
    return [stored[kind.value] for kind in SPEEDS if kind.value in stored]


def differences(moment: Frozen, trace: Trace, recorder: RunRecorder, wake: Wake | None = None) -> list[str]:
    """Jobs that begin or end at other moments in the fork than in the run it was taken from.

    Every job that lives has to end in both; at the same moments unless the policy learns how fast jobs are.
    """
    _, forked = go_on(moment, trace, wake)
    starts, ends = rest_of(recorder, moment)
    found = {row: at_s for row, (_, at_s) in forked.ends.items()}
    assert found.keys() == ends.keys()
    assert forked.starts.keys() == starts.keys()
    if any(entry["provenance"] == Provenance.MEASURED for entry in stored_speeds(moment)):
        return []  # it goes on at the speeds that were learnt, not at the true ones
    said = [f"job {row} ends at {found[row]}, not {ends[row]}" for row in ends if found[row] != ends[row]]
    return said + [
        f"job {row} starts at {forked.starts[row]}, not {starts[row]}"
        for row in starts
        if forked.starts[row] != starts[row]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", first(1, range(4), deep=range(4, 12)))
def test_the_policy_in_force_goes_on_as_it_did(name: str, seed: int) -> None:
    """From moments all over the run once everybody has arrived: every start and end, to the bit.

    Policies that learn how fast jobs are end the same jobs.
    """
    scene = plain_scene(seed)
    if "vc" in name and "vc" not in scene.cluster.levels:
        pytest.skip("the scene has no virtual clusters")
    tap = Tap(parse_policy(name).make(), name)
    loop, recorder = prepare(tap, scene.trace, scene.cluster, scene.setting)
    loop.run()
    loop.close()
    arrived = [m for m in tap.moments if m.packed["state"]["submitted"] == len(scene.trace)]
    for moment in arrived[:: max(len(arrived) // 4, 1)]:
        assert differences(moment, scene.trace, recorder) == [], f"from {moment.packed['state']['now']:g} s"


@examples(40)
@given(
    seed=st.integers(100, 10_000),
    name=st.sampled_from(["fifo", "srtf", "las:quantum=20", "tiresias:limits=30/90"]),
    steps=st.integers(1, 30),
)
def test_a_moment_between_two_decisions_waits_for_the_wake(seed: int, name: str, steps: int) -> None:
    """As a controller takes it: whenever somebody asks, with the wake the policy wanted."""
    scene = plain_scene(seed)
    loop, recorder = prepare(parse_policy(name).make(), scene.trace, scene.cluster, scene.setting)
    taken = 0
    while taken < steps and loop.step():
        taken += loop.state.submitted == len(scene.trace)
    moment = freeze(loop.snapshot(), loop.memory, name)
    wake = loop.wake
    loop.run()
    loop.close()
    assert differences(moment, scene.trace, recorder, wake) == []


def test_the_moments_above_hold_preempted_jobs() -> None:
    """The property would say little if nothing were ever preempted before the moment."""
    tap = Tap(parse_policy("srtf").make(), "srtf")
    scenes = [plain_scene(seed) for seed in range(12)]
    for scene in scenes:
        prepare(tap, scene.trace, scene.cluster, scene.setting)[0].run()
    waiting = [m.packed["state"]["preemptions"][m.packed["state"]["waiting"]] for m in tap.moments]
    assert sum(bool((column > 0).any()) for column in waiting) > 5


def test_a_fork_touches_nothing_of_its_moment() -> None:
    scene = plain_scene(3)
    tap = Tap(parse_policy("las:quantum=20").make(), "las:quantum=20")
    prepare(tap, scene.trace, scene.cluster, scene.setting)[0].run()
    moment = tap.moments[len(tap.moments) // 2]
    before = digest(moment.packed), digest(moment.memory)
    go_on(moment, scene.trace)
    assert (digest(moment.packed), digest(moment.memory)) == before


# -- another policy takes over ---------------------------------------------------------------------


def preemptions(loop: Loop) -> list[int]:
    """Jobs preempted by each of the decisions of a run."""
    found: list[int] = []
    decisions, before = 0, int(loop.state.preemptions.sum())
    while loop.step():
        if loop.counts.decisions > decisions:
            decisions = loop.counts.decisions
            found.append(int(loop.state.preemptions.sum()) - before)
            before = int(loop.state.preemptions.sum())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(
    "scenes", first(1, {"two": [(2, "fifo"), (3, "srtf")], "two more": [(8, "fifo"), (12, "srtf")]})
)
def test_a_takeover_upsets_nobody_at_once(name: str, scenes: list[tuple[int, str]]) -> None:
    """With an empty memory, in the middle of a run of another: the first decision preempts nobody."""
    for seed, before in scenes:
        scene = plain_scene(seed)
        tap = Tap(parse_policy(before).make(), before)
        prepare(tap, scene.trace, scene.cluster, scene.setting)[0].run()
        if "vc" in name and "vc" not in scene.cluster.levels:
            continue
        busy = [m for m in tap.moments if len(m.packed["state"]["waiting"]) and m.packed["state"]["grants"]]
        for moment in busy[:: max(len(busy) // 3, 1)]:
            submitted = moment.packed["state"]["submitted"]
            total_s = scene.trace.truth.duration_s[:submitted]
            loop, recorder = fork(origin_of(moment), parse_policy(name).make(), total_s, total_s)
            live = len(moment.packed["state"]["waiting"]) + len(moment.packed["state"]["grants"])
            by_decision = preemptions(loop)
            assert by_decision[0] == 0
            assert len(recorder.ends) >= live, "every job that lived has ended"


def test_a_takeover_preempts_at_its_second_decision_what_it_would_have_at_its_first() -> None:
    trace = trace_of("LONG 2x1000 SHORT 2x10@5")
    moment = paused("fifo", trace, "1x2", steps=2)
    total_s = trace.truth.duration_s
    loop, recorder = fork(origin_of(moment), parse_policy("srtf").make(), total_s, total_s)
    assert preemptions(loop)[:2] == [0, 1]
    assert recorder.ends[1][1] == 5.0 + loop.retry_s + 10.0


# -- small moments ---------------------------------------------------------------------------------


def paused(name: str, trace: Trace, cluster: str | Cluster, steps: int) -> Frozen:
    where = parse_cluster(cluster) if isinstance(cluster, str) else cluster
    loop, _ = prepare(parse_policy(name).make(), trace, where, Setting())
    for _ in range(steps):
        assert loop.step()
    return freeze(loop.snapshot(), loop.memory, name)


class Fate(NamedTuple):
    start_s: float | None
    end_s: float | None


def fates(
    moment: Frozen, total_s: Any, policy: str = "fifo", waits: Mapping[int, Wait] | None = None
) -> dict[str, Fate]:
    """What becomes of each job that lives at the moment, by id."""
    total = np.asarray(total_s, dtype=np.float64)
    loop, recorder = fork(origin_of(moment, waits), parse_policy(policy).make(), total, total)
    loop.run()
    loop.close()
    ids = moment.packed["jobs"]["ids"]
    ends = {row: at_s for row, (phase, at_s) in recorder.ends.items() if phase is Phase.COMPLETED}
    return {ids[row]: Fate(recorder.starts.get(row), ends.get(row)) for row in range(len(ids))}


class Idle:
    """Starts nothing."""

    needs: frozenset[Knowledge] = frozenset()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return Decision(memory)


def held(trace: Trace, rows: tuple[int, ...], cluster: str = "1x1") -> Frozen:
    """The moment at second 0 with `rows` held by somebody, the others waiting."""
    loop, _ = prepare(Idle(), trace, parse_cluster(cluster), Setting())
    assert loop.step()
    for row in rows:
        loop.state.hold(row, "user")
    return freeze(loop.snapshot(), loop.memory, "fifo")


def test_held_jobs_come_free_when_what_they_wait_for_has_happened() -> None:
    moment = held(trace_of("A 1x10 USER 1x5 LATER 1x5 DEP 1x5 BOTH 1x5 CHAIN 1x5"), (1, 2, 3, 4, 5))
    waits = {
        1: Wait("user"),
        2: Wait("begin", until_s=100.0),
        3: Wait("dependency", after=(0,)),
        4: Wait("both", after=(0,), until_s=50.0),
        5: Wait("dependency", after=(1,)),
    }
    assert fates(moment, [10.0, 5.0, 5.0, 5.0, 5.0, 5.0], waits=waits) == {
        "A": Fate(0.0, 10.0),
        "USER": Fate(None, None),
        "LATER": Fate(100.0, 105.0),
        "DEP": Fate(10.0, 15.0),
        "BOTH": Fate(50.0, 55.0),
        "CHAIN": Fate(None, None),
    }


def test_a_begin_time_that_comes_before_the_dependency_ends_waits_for_it() -> None:
    moment = held(trace_of("A 1x10 BOTH 1x5"), (1,))
    waits = {1: Wait("both", after=(0,), until_s=3.0)}
    assert fates(moment, [10.0, 5.0], waits=waits)["BOTH"] == Fate(10.0, 15.0)


def test_an_array_sends_its_jobs_on_their_way_a_few_at_a_time() -> None:
    moment = held(trace_of("A 1x10 B 1x20 C 1x5 D 1x5"), (2, 3), "1x4")
    array = (0, 1, 2, 3)
    waits = {row: Wait("array", beside=array, most=2) for row in (2, 3)}
    found = fates(moment, [10.0, 20.0, 5.0, 5.0], waits=waits)
    assert (found["C"], found["D"]) == (Fate(10.0, 15.0), Fate(15.0, 20.0))


def test_what_a_person_holds_stays_whatever_else_it_waits_for() -> None:
    moment = held(trace_of("A 1x10 B 1x20 C 1x30"), (1, 2))
    waits = {
        1: Wait("ann", after=(0,), until_s=5.0, is_held=True),
        2: Wait("ann, and it is too large", is_infeasible=True, is_held=True),
    }
    found = fates(moment, [10.0, 20.0, 30.0], waits=waits)
    assert found["B"] == found["C"] == Fate(None, None)


def test_a_larger_cluster_frees_what_did_not_fit() -> None:
    trace = trace_of("A 1x10 B 4x20")
    moment = paused("fifo", trace.take(np.array([0])), "1x2", steps=1)
    moment = with_job(moment, one_more(gpus=4, gpus_min=4, gpus_max=4))
    phase = np.array([Phase.RUNNING, Phase.HELD], dtype=np.int8)
    moment.packed["state"] |= {"submitted": 2, "held": {1: "infeasible"}, "phase": phase}
    waits = {1: Wait("infeasible", is_infeasible=True)}
    for gpus, fate in ((0, Fate(None, None)), (2, Fate(10.0, 30.0))):
        larger = replace(moment, packed=with_gpus(moment.packed, gpus))
        assert fates(larger, [10.0, 20.0], waits=waits)["NEW"] == fate


def test_held_jobs_come_free_between_two_decisions_too() -> None:
    """With a wake the policy is not asked at the moment itself, but for the job that is free."""
    moment = held(trace_of("A 1x10 B 1x20"), (1,), "1x2")
    total_s = np.array([10.0, 20.0])
    origin = origin_of(moment, {1: Wait("back-off", until_s=-1.0)})
    loop, recorder = fork(origin, parse_policy("fifo").make(), total_s, total_s, memory={}, wake=Wake())
    loop.run()
    assert recorder.ends[1] == (Phase.COMPLETED, 20.0)


def test_dependencies_that_have_ended_hold_nobody_back() -> None:
    trace = trace_of("A 1x10 B 1x20 C 1x5")
    trace = replace(trace, jobs=replace(trace.jobs, after={2: (0, 1)}))
    moment = paused("fifo", trace, "1x1", steps=2)
    assert moment.packed["state"]["now"] == 10.0
    assert waits_of(moment.packed)[2].after == (1,)
    assert fates(moment, trace.truth.duration_s)["C"] == Fate(30.0, 35.0)


def test_a_hold_whose_dependencies_have_all_ended_is_over() -> None:
    trace = trace_of("A 1x10 B 1x20 C 1x5")
    moment = paused("fifo", trace, "1x1", steps=2)
    loop_state = moment.packed["state"]
    assert loop_state["now"] == 10.0
    loop, _ = prepare(parse_policy("fifo").make(), trace, parse_cluster("1x1"), Setting())
    for _ in range(2):
        loop.step()
    loop.state.hold(2, "dependency")
    late = freeze(loop.snapshot(), loop.memory, "fifo")
    assert fates(late, trace.truth.duration_s, waits={2: Wait("dependency", after=(0,))})["C"] == Fate(
        30.0, 35.0
    )


def test_a_drained_node_stays_so_and_what_runs_on_it_ends() -> None:
    trace = trace_of("A 1x10 B 1x10 C 1x10")
    loop, _ = prepare(parse_policy("fifo").make(), trace, parse_cluster("2x1"), Setting())
    loop.step()
    loop.state.lose(0)
    moment = freeze(loop.snapshot(), loop.memory, "fifo")
    assert fates(moment, [10.0, 30.0, 10.0]) == {"A": Fate(0, 10), "B": Fate(0, 30), "C": Fate(30, 40)}


def test_a_job_that_did_more_than_it_had_to_do_ends_at_once() -> None:
    trace = trace_of("A 1x100 B 1x10 C 1x10@50")
    moment = paused("fifo", trace, "1x1", steps=2)
    assert moment.packed["state"]["now"] == 50.0
    assert fates(moment, [20.0, 10.0, 10.0]) == {"A": Fate(0, 50), "B": Fate(50, 60), "C": Fate(60, 70)}


def test_endless_jobs_do_not_make_a_fork_endless() -> None:
    """A policy that takes turns would look at the clock for ever beside two services."""
    trace = trace_of("A 2x1000 B 2x1000 C 2x10", kind=[JobKind.SERVICE, JobKind.SERVICE, JobKind.TRAIN])
    moment = paused("fifo", trace, "1x2", steps=1)
    total_s = np.array([math.inf, math.inf, 10.0])
    for name in ("las:quantum=20", "gandiva", "fifo", "tiresias"):
        loop, recorder = fork(origin_of(moment), parse_policy(name).make(), total_s, total_s)
        loop.run()
        assert loop.counts.events < 3 * PATIENCE
        assert set(recorder.ends) <= {2}


def test_work_counted_in_iterations_is_taken_in_seconds() -> None:
    moment = paused("fifo", trace_of("A 1x100 B 1x10@40"), "1x1", steps=2)
    progress = moment.packed["state"]["progress"]
    progress |= {"per_s": np.array([5.0, 5.0]), "rate": progress["rate"] * 5.0}
    assert fates(moment, [100.0, 10.0])["B"] == Fate(100.0, 110.0)


# -- one more job, more nodes ----------------------------------------------------------------------


def one_more(**columns: Any) -> PlainJob:
    return job("NEW", **({"tenant": "new/tenant"} | columns))


@pytest.mark.parametrize("name", [name for name in POLICIES if "partition" not in name])
def test_an_appended_job_arrives_at_the_moment_as_if_it_had_been_in_the_trace(name: str) -> None:
    trace = trace_of("A 2x100 B 4x50 C 1x30@10 NEW 2x20@10", tenant_names=("new/tenant",))
    tap = Tap(parse_policy(name).make(), name)
    loop, _ = prepare(tap, trace.take(np.arange(3)), parse_cluster("1x4"), Setting())
    while not tap.moments or tap.moments[-1].packed["state"]["now"] < 10.0:
        assert loop.step()
    longer = with_job(tap.moments[-1], one_more(gpus=2, gpus_min=2, gpus_max=2))
    loop, expected = prepare(parse_policy(name).make(), trace, parse_cluster("1x4"), Setting())
    loop.run()
    live = {row for row, phase in enumerate(longer.packed["state"]["phase"]) if phase < Phase.COMPLETED}
    total_s = trace.truth.duration_s
    origin = origin_of(longer)
    loop, found = fork(
        origin, parse_policy(name).make(), total_s, total_s,
        memory=longer.memory, cause=longer.packed["cause"], seed=longer.packed["seed"],
    )  # fmt: skip
    loop.run()
    ends = {row: at_s for row, at_s in expected.ends if row in live}
    assert {row: at_s for row, (_, at_s) in found.ends.items()} == ends


def test_an_appended_job_is_an_arrival_for_a_policy_that_waits_for_its_wake() -> None:
    longer = with_job(paused("fifo", trace_of("A 2x100"), "1x4", steps=1), one_more())
    total_s = np.array([100.0, 20.0])
    origin, policy = origin_of(longer), parse_policy("fifo").make()
    loop, found = fork(origin, policy, total_s, total_s, memory={}, wake=Wake())
    loop.run()
    assert found.ends == {0: (Phase.COMPLETED, 100.0), 1: (Phase.COMPLETED, 20.0)}


def test_an_alarm_that_was_missed_rings_at_once() -> None:
    """Time never goes back, however late the moment was taken."""
    trace = trace_of("A 1x100 B 1x100@10")
    moment = paused("las:quantum=20", trace, "1x1", steps=2)
    total_s = trace.truth.duration_s
    late = Wake(at_s=moment.packed["state"]["now"] - 5.0)
    policy = parse_policy("las:quantum=20").make()
    loop, _ = fork(origin_of(moment), policy, total_s, total_s, memory=moment.memory, wake=late)
    assert loop.step()
    assert (loop.state.now, loop.counts.decisions) == (10.0, 1)


def test_an_appended_job_brings_its_names_and_types() -> None:
    moment = paused("fifo", trace_of("A 1x10"), "1x1:V100,1x1:P100", steps=1)
    longer = with_job(moment, one_more(group="g", workload="bert"), types=("P100",))
    jobs = longer.snapshot().jobs.table
    assert [jobs.name_of(column, 1) for column in ("tenant", "group", "workload")] == [
        "new/tenant",
        "g",
        "bert",
    ]
    assert jobs.type_names[int(jobs.gpu_types[1]).bit_length() - 1] == "P100"
    assert len(moment.packed["jobs"]["ids"]) == 1, "the moment itself is as it was"
    assert fates(longer, [10.0, 5.0])["NEW"] == Fate(0.0, 5.0)


def test_an_appended_job_that_can_never_run_is_refused() -> None:
    longer = with_job(
        paused("fifo", trace_of("A 1x10"), "1x1", steps=1), one_more(gpus=8, gpus_min=8, gpus_max=8)
    )
    total_s = np.array([10.0, 5.0])
    loop, recorder = fork(origin_of(longer), parse_policy("fifo").make(), total_s, total_s)
    loop.run()
    assert recorder.ends[1] == (Phase.REJECTED, 0.0)


def test_more_gpus_are_more_nodes_of_the_commonest_shape() -> None:
    shapes = [
        NodeShape(count=1, gpus=8, names=("big",), levels={"rack": "r0"}),
        NodeShape(count=2, gpus=4, cpus=16.0, names=("a", "extra1"), levels={"rack": "r1"}),
        NodeShape(count=5, gpus=0, levels={"rack": "r2"}),
    ]
    moment = paused("fifo", trace_of("A 8x10 B 8x10 C 8x10"), Cluster.build(shapes), steps=1)
    larger = replace(moment, packed=with_gpus(moment.packed, 8))
    cluster = larger.snapshot().cluster
    assert cluster.node_names[-2:] == ("extra2", "extra3")
    assert cluster.node_gpus.tolist() == [8, 4, 4, 0, 0, 0, 0, 0, 4, 4]
    assert cluster.node_cpus.tolist()[-2:] == [16.0, 16.0]
    assert cluster.levels["rack"].tolist()[-2:] == [1, 1]
    assert fates(moment, [10.0, 10.0, 10.0])["C"] == Fate(10.0, 20.0)
    assert fates(larger, [10.0, 10.0, 10.0])["C"] == Fate(0.0, 10.0)


@pytest.mark.parametrize(
    ("gpus", "sentence"),
    [(-4, "-4 would take GPUs away"), (6, r"\+6 is no whole number of nodes of 4 GPUs")],
)
def test_a_change_that_is_no_number_of_nodes_is_refused(gpus: int, sentence: str) -> None:
    moment = paused("fifo", trace_of("A 1x10"), "2x4", steps=1)
    with pytest.raises(InputError, match=sentence):
        with_gpus(moment.packed, gpus)


def test_a_cluster_without_gpus_has_no_shape_to_repeat() -> None:
    cpus = Cluster.build([NodeShape(count=1, gpus=0, cpus=4.0)])
    loop, _ = prepare(parse_policy("fifo").make(), trace_of("A 0x10"), cpus, Setting())
    with pytest.raises(InputError, match="no GPUs"):
        with_gpus(freeze(loop.snapshot(), {}, "fifo").packed, 4)
