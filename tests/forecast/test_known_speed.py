"""Forks work at the speeds that the moment knows: what-if answers what the simulation itself does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import trace_of
from rota.forecast.altered import with_job
from rota.forecast.fork import Origin, fork
from rota.forecast.held import waits_of
from rota.forecast.known_speed import known_speeds, speed_of
from rota.knowledge.goodput import (
    BatchLimits,
    GoodputProfile,
    GoodputTable,
    Noise,
    StepFit,
    TrainingPhase,
    goodput_table,
)
from rota.knowledge.hosts import build_hosts
from rota.knowledge.needs import Knowledge, Known, Provenance
from rota.knowledge.scaling import ScalingCurves
from rota.knowledge.servers import Served
from rota.knowledge.step_speed import StepSpeed, Training
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.grants import Grant, Role
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.scheduler.decision import Decision
from rota.scheduler.loop import Loop
from rota.scheduler.moments.frozen import Frozen, freeze
from rota.scheduler.moments.packing import unpack_jobs
from rota.scheduler.policy import parse_policy
from rota.worlds.simulated.interference import Interference
from rota.worlds.simulated.pace import At
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.sharing import LeftOver
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration, SpeedModel
from rota.worlds.simulated.speed_goodput import GoodputSpeed
from rota.worlds.simulated.speed_table import ScalingSpeed, ThroughputSpeed

MIXED = parse_cluster("1x2:V100,1x2:K80")
FOUR = parse_cluster("1x4")
TYPES = ThroughputTable.build(
    {("fast", "v100", 1): 9.0, ("fast", "k80", 1): 1.0, ("slow", "v100", 1): 3.0, ("slow", "k80", 1): 2.0}
)
CURVES = ScalingCurves.build(
    {"fast": {1: 3.0, 2: 5.9, 4: 11.0}, "slow": {1: 2.0, 2: 2.5, 4: 2.6}}, clean=False
)


def iterations(text: str, **columns: object) -> Trace:
    """Jobs by turns of both workloads, with so many iterations as `text` says seconds."""
    names = ("fast", "slow")
    trace = trace_of(text, workload_names=names, **columns)
    jobs = replace(trace.jobs, workload=np.arange(len(trace)) % 2)
    return replace(
        trace,
        jobs=jobs,
        truth=Truth.build(np.full(len(trace), np.nan), iterations=trace.truth.duration_s),
    )


def paused(
    policy: str, trace: Trace, cluster: Cluster, speed: SpeedModel, at_s: float
) -> tuple[Loop, RunRecorder, Frozen]:
    """A run that has come to `at_s`, and its moment there."""
    loop, recorder = prepare(parse_policy(policy).make(), trace, cluster, Setting(speed=speed))
    assert loop.step()
    while loop.state.now < at_s:
        assert loop.step()
    return loop, recorder, freeze(loop.snapshot(), loop.memory, policy)


SINGLES = "A 1x3000 B 1x3000 C 1x2000 D 1x900 E 1x5000@50 F 1x700@60"
ELASTIC = "A 1x3000 B 2x900 C 1x2000 D 1x900 E 2x5000@50 F 1x700@60"


@pytest.mark.parametrize("name", ["gavel", "gavel:round_s=60", "afs"])
@pytest.mark.parametrize("at_s", [61.0, 200.0, 400.0])
def test_a_fork_ends_as_the_simulation_does(name: str, at_s: float) -> None:
    """The policy in force goes on with its memory; every job ends when it does in the run itself."""
    if name == "afs":
        trace, cluster = iterations(ELASTIC, gpus_min=1, gpus_max=4), FOUR
        speed: SpeedModel = ScalingSpeed(trace, cluster, CURVES)
    else:
        trace, cluster = iterations(SINGLES), MIXED
        speed = ThroughputSpeed(trace, cluster, TYPES)
    loop, recorder, moment = paused(name, trace, cluster, speed, at_s)
    wake = loop.wake
    total_s = speed.total(trace) / speed.per_s
    forked, ends = fork(
        Origin(moment.packed, waits_of(moment.packed, None)),
        parse_policy(name).make(),
        total_s,
        total_s,
        memory=moment.memory,
        wake=wake,
    )
    forked.run()
    loop.run()
    left = {row: at for row, at in recorder.ends if at > moment.packed["state"]["now"]}
    assert left
    assert {row: at for row, (_, at) in ends.ends.items()} == pytest.approx(left, abs=1e-6)


@pytest.mark.parametrize("at_s", [100.0, 300.0, 700.0])
def test_who_has_worked_in_iterations_is_promoted_as_before(at_s: float) -> None:
    """A fork counts seconds, of nine iterations each: so does what had been done by the last promotion."""
    trace, cluster = iterations("A 1x9000 B 1x9000 C 1x9000"), parse_cluster("1x1:V100")
    policy = "tiresias:limits=50,promote=1"
    speed = ThroughputSpeed(trace, cluster, TYPES)
    loop, recorder, moment = paused(policy, trace, cluster, speed, at_s)
    wake, total_s = loop.wake, speed.total(trace) / speed.per_s
    origin = Origin(moment.packed, waits_of(moment.packed, None))
    forked, ends = fork(
        origin, parse_policy(policy).make(), total_s, total_s, memory=moment.memory, wake=wake
    )
    forked.run()
    loop.run()
    assert {row: at for row, (_, at) in ends.ends.items()} == pytest.approx(dict(recorder.ends), abs=1e-6)


def test_another_policy_meets_the_same_speeds() -> None:
    """On the K80s, where FIFO left it, A is nine times slower than it asked to be."""
    trace = iterations("A 1x900 B 1x900 C 1x900")
    speed = ThroughputSpeed(trace, MIXED, TYPES)
    _, _, moment = paused("gavel:round_s=90000", trace, MIXED, speed, 10.0)
    total_s = speed.total(trace) / speed.per_s
    origin = Origin(moment.packed, waits_of(moment.packed, None))
    loop, recorder = fork(origin, parse_policy("fifo").make(), total_s, total_s)
    loop.run()
    by_hand = {}
    for row, grant in (
        (grant[0], Grant(grant[0], tuple(grant[1]))) for grant in moment.packed["state"]["grants"]
    ):
        by_hand[row] = speed.total(trace)[row] / speed.pace(row, grant, (), At(0.0, 0.0, 0.0)).rate
    assert {row: at for row, (_, at) in recorder.ends.items()} == pytest.approx(by_hand)


@pytest.mark.parametrize(("workload", "rates"), [("slow", [1.0, 2 / 3]), ("new", [1.0, 1.0])])
def test_a_job_that_is_new_is_as_fast_as_others_of_its_workload(workload: str, rates: list[float]) -> None:
    """Without any of its workload it is as fast on every type."""
    trace = iterations("A 1x900 B 1x900")
    moment = paused("gavel", trace, MIXED, ThroughputSpeed(trace, MIXED, TYPES), 0.0)[2]
    job = replace(trace.jobs.job(1), id="C", workload=workload)
    packed = with_job(moment, job).packed
    jobs = unpack_jobs(packed["jobs"])
    speed = speed_of(known_speeds(packed["knowledge"], jobs, MIXED), jobs, MIXED)
    found = [speed.pace(2, Grant(2, (device,)), (), At(0.0, 0.0, 0.0)).rate for device in (0, 2)]
    assert found == pytest.approx(rates)


def test_a_new_job_scales_as_others_of_its_workload() -> None:
    trace = iterations("A 1x900 B 1x900", gpus_max=4)
    moment = paused("afs", trace, FOUR, ScalingSpeed(trace, FOUR, CURVES), 0.0)[2]
    for workload, expected in (("slow", [1.0, 1.25, 1.275, 1.3]), ("new", [1.0, 2.0, 3.0, 4.0])):
        packed = with_job(moment, replace(trace.jobs.job(1), id="C", workload=workload)).packed
        jobs = unpack_jobs(packed["jobs"])
        speed = speed_of(known_speeds(packed["knowledge"], jobs, FOUR), jobs, FOUR)
        grants = [Grant(2, tuple(range(count))) for count in (1, 2, 3, 4)]
        assert [speed.pace(2, grant, (), At(0.0, 0.0, 0.0)).rate for grant in grants] == pytest.approx(
            expected
        )


def test_without_knowledge_of_speeds_durations_hold() -> None:
    assert type(speed_of({}, trace_of("A 1x1").jobs, FOUR)) is FixedDuration


EPOCHS = GoodputProfile(
    BatchLimits(64, 1024, 16, 128, accumulates=True),
    {
        "v100": StepFit(0.05, 0.002, 0.1, 0.01, 0.03, 0.002, 2.0),
        "*": StepFit(0.1, 0.004, 0.1, 0.01, 0.03, 0.002, 2.0),
    },
    (
        TrainingPhase(20000.0, Noise(1.0, 4.0)),
        TrainingPhase(60000.0, Noise(1.0, 30.0)),
        TrainingPhase(np.inf, Noise(1.0, 0.5)),
    ),
)
PACKS = ThroughputTable.build(
    {
        (name, kind, 1): rate
        for (name, kind), rate in {
            ("fast", "v100"): 9.0,
            ("fast", "k80"): 1.0,
            ("slow", "v100"): 3.0,
            ("slow", "k80"): 2.0,
        }.items()
    },
    pairs={("v100", ("fast", 1), ("slow", 1)): (6.0, 1.0), ("k80", ("fast", 1), ("slow", 1)): (0.75, 1.9)},
)
HOSTS = build_hosts({("fast", 1.0, 10.0): 0.5, ("fast", 4.0, 10.0): 1.2})
RACKED = Cluster.build(
    [
        NodeShape(count=1, gpus=4, gpu_type="V100", levels={"rack": name}, device_levels={"socket": 2})
        for name in "ab"
    ]
)


class Planner:
    """Plays a script, and needs to know speeds: what a moment under it stores."""

    def __init__(self, needs, *turns):
        self.needs = frozenset(needs)
        self.turns = list(turns)

    def decide(self, snapshot, memory):
        number = memory.get("turn", 0)
        grants = self.turns[number](snapshot) if number < len(self.turns) else ()
        return Decision({"turn": number + 1}, grants)


def goodput_case():
    """A on 1 and later 4 GPUs with batches of its own choice, B with a batch that the policy names."""
    trace = trace_of(
        "A 1x900 B 2x700@20 C 1x50@100", gpus_min=1, gpus_max=4, workload=[0, 0, 0], workload_names=("w",)
    )
    speed = GoodputSpeed(trace, FOUR, GoodputTable({"w": EPOCHS}))
    turns = (
        lambda s: [Grant(0, (0,))],
        lambda s: [Grant(1, (1, 2), batch_size=256.0)],
        lambda s: [Grant(0, (0, 3)), Grant(1, (1, 2), batch_size=512.0)],
        lambda s: [Grant(row, (0,)) for row in s.waiting.tolist()],
        lambda s: [Grant(row, (1,)) for row in s.waiting.tolist()],
    )
    return trace, FOUR, speed, {Knowledge.GOODPUT}, turns


def pair_case():
    """A and B beside each other on a V100, C and D on a K80."""
    trace = iterations("A 1x3000 B 1x900 C 1x1000 D 1x900")
    packed = [Grant(row, (device,), 0.5, Role.PACKED) for row, device in enumerate((0, 0, 2, 2))]
    speed = ThroughputSpeed(trace, MIXED, PACKS)
    return trace, MIXED, speed, {Knowledge.PAIRS, Knowledge.THROUGHPUT}, (lambda s: packed,)


def place_case():
    """Two GPUs of two sockets, of two racks, and of one socket with few cores."""
    trace = iterations("A 2x300 B 2x300 C 2x300")
    slowdowns = Slowdowns({"slow": 0.9}, {"rack": {"*": 0.5}, "socket": {"*": 0.8, "slow": 0.7}}, hosts=HOSTS)
    grants = [Grant(0, (0, 2)), Grant(1, (1, 4)), Grant(2, (5, 6), cpus=4.0)]
    speed = FixedDuration(trace.jobs, RACKED, slowdowns)
    durations = replace(trace, truth=Truth.build(trace.truth.iterations))
    return durations, RACKED, speed, {Knowledge.PLACEMENT, Knowledge.HOSTS}, (lambda s: grants,)


def server_case():
    """Two workers with one server, with three, and a job without any."""
    trace = iterations("A 2x300 B 2x300 C 1x300")
    served = Served(StepSpeed(Training.SYNCHRONOUS, (1 / 64, 0.1, 0.2, 0.01, 0.01), 64.0))
    speed = FixedDuration(trace.jobs, RACKED, Slowdowns(servers={"fast": served}))
    grants = [Grant(0, (0, 1), cpus=3.0), Grant(1, (2, 3), cpus=5.0), Grant(2, (4,))]
    durations = replace(trace, truth=Truth.build(trace.truth.iterations))
    return durations, RACKED, speed, {Knowledge.SERVERS}, (lambda s: grants,)


def use_case():
    """A has first claim and keeps half busy, B takes what is left; C and D share by what they use."""
    trace = iterations("A 1x300 B 1x300 C 1x300 D 1x300")
    company = Interference(utilisation={"fast": 0.5, "slow": 0.8})
    grants = [
        Grant(0, (0,), 1.0, Role.GUARANTEED), Grant(1, (0,), 1.0, Role.OPPORTUNISTIC),
        Grant(2, (1,), 0.5, Role.PACKED), Grant(3, (1,), 0.5, Role.PACKED),
    ]  # fmt: skip
    speed = FixedDuration(trace.jobs, FOUR, Slowdowns(company=company, sharing=LeftOver()))
    durations = replace(trace, truth=Truth.build(trace.truth.iterations))
    return durations, FOUR, speed, {Knowledge.UTILISATION}, (lambda s: grants,)


WHEN = [
    (goodput_case, 100.0), (goodput_case, 140.0), (pair_case, 0.0), (pair_case, 50.0), (place_case, 0.0),
    (use_case, 0.0), (use_case, 350.0), (server_case, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("case", "at_s"), WHEN)
def test_a_fork_works_as_the_policy_knows(case, at_s: float) -> None:
    """Whatever kind of speed the policy is told, its fork ends as the run does."""
    trace, cluster, speed, needs, turns = case()
    loop, recorder = prepare(Planner(needs, *turns), trace, cluster, Setting(speed=speed))
    assert loop.step()
    while loop.state.now < at_s:
        assert loop.step()
    moment = freeze(loop.snapshot(), loop.memory)
    per_s = getattr(speed, "per_s", None)
    total_s = speed.total(trace) if per_s is None else speed.total(trace) / per_s
    if case is goodput_case:
        total_s = speed.knowledge[Knowledge.DURATION].known()
    forked, ends = fork(
        Origin(moment.packed, waits_of(moment.packed, None)),
        Planner(needs, *turns), total_s, total_s, memory=moment.memory, wake=loop.wake,
    )  # fmt: skip
    now = loop.state.now
    forked.run()
    loop.run()
    left = {row: at for row, at in recorder.ends if at > now}
    assert left
    assert {row: at for row, (_, at) in ends.ends.items()} == pytest.approx(left, rel=1e-9)


def test_work_that_no_seconds_count_is_the_seconds_run() -> None:
    """Goodput with two phases: after 2 s the fork has 2 s of work done, and 3 to go of 5."""
    profile = GoodputProfile(
        BatchLimits(64, 64, 16, 64),
        {"*": StepFit(0.05, 0.002, 0.1, 0.01, 0.03, 0.002, 2.0)},
        (TrainingPhase(100.0, Noise(1.0, 4.0)), TrainingPhase(np.inf, Noise(1.0, 0.0))),
    )
    trace = trace_of("A 1x50", workload=0, workload_names=("w",))
    speed = GoodputSpeed(trace, FOUR, GoodputTable({"w": profile}))
    loop, _ = prepare(parse_policy("fifo").make(), trace, FOUR, Setting(speed=speed))
    loop.step()
    loop.state.now = 2.0
    moment = freeze(loop.snapshot(), loop.memory, "fifo")
    origin = Origin(moment.packed, waits_of(moment.packed, None))
    total_s = np.array([5.0])
    forked, recorder = fork(origin, parse_policy("fifo").make(), total_s, total_s)
    assert forked.state.work_s(0) == pytest.approx(2.0)
    forked.run()
    assert recorder.ends[0][1] == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("provenance", "rate"), [(Provenance.ORACLE, 0.0), (Provenance.MEASURED, 1.0)], ids=["given", "measured"]
)
def test_a_job_stands_still_on_a_type_without_a_fit_only_if_the_fits_were_given(
    provenance: Provenance, rate: float
) -> None:
    fit = StepFit(0.05, 0.002, 0.1, 0.01, 0.03, 0.002, 2.0)
    seen = GoodputProfile(
        BatchLimits(64, 64, 16, 64), {"v100": fit}, (TrainingPhase(np.inf, Noise(1.0, 4.0)),)
    )
    table = goodput_table([seen], np.zeros(1, dtype=np.int64), MIXED.type_names)
    known = {Knowledge.GOODPUT: Known(table, provenance)}
    speed = speed_of(known, trace_of("A 1x50").jobs, MIXED)
    there = [MIXED.device_type.tolist().index(MIXED.type_names.index(name)) for name in ("V100", "K80")]
    at = At(0.0, 0.0, 0.0)
    rates = [speed.pace(0, Grant(0, (device,)), (), at).rate for device in there]
    assert rates == pytest.approx([1.0, rate])
