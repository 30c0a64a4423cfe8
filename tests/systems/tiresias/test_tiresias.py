"""Tiresias: worked examples of its card, a naive twin of the paper's rules, and wrong parameters."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from play import finishes, play, starts, trace_of
from rota.errors import InputError, PolicyError
from rota.knowledge.service import ServiceSamples
from rota.knowledge.skew import ModelSkew
from rota.model.cluster import Cluster, NodeShape
from rota.model.record import Record
from rota.scheduler.decision import Memory
from rota.scheduler.loop import Loop
from rota.scheduler.policy import parse_policy
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.semantics import semantics
from tiers import first


@pytest.mark.parametrize(
    ("policy", "jobs", "expected", "why"),
    [
        # 4 GPUs; a limit of 12 GPU-s is 3 s on all of them.
        ("tiresias:limits=12", "A 4x10 B 4x2@4", {"A": 12, "B": 6}, "example 2: A left the first queue at 3"),
        ("tiresias:limits=12", "A 4x10 B 4x2@2", {"A": 12, "B": 5}, "example 2: A keeps running until 3"),
        ("tiresias", "A 2x10 B 4x10 C 2x10", {"A": 10, "B": 20, "C": 10}, "example 6: C passes B by"),
        (
            "tiresias:limits=12",
            "A 4x10 B 4x10",
            {"A": 20, "B": 13},
            "B falls into A's queue and keeps the GPUs",
        ),
        (
            "tiresias:limits=12,order=first-start",
            "A 4x10 B 4x10",
            {"A": 13, "B": 20},
            "in the last queue the first start is first",
        ),
        ("tiresias:limits=8/16", "A 4x9 B 4x3@1", {"A": 12, "B": 5}, "B joins A in the second queue, ahead"),
        (
            "tiresias:limits=8/16,order=first-start",
            "A 4x9 B 4x3@1",
            {"A": 12, "B": 7},
            "B joins A in the second queue, then passes it",
        ),
        ("tiresias:limits=3,metric=time", "A 4x10 B 4x2@4", {"A": 12, "B": 6}, "seconds, not GPU-seconds"),
        ("tiresias:limits=12,metric=time", "A 4x10 B 4x2@4", {"A": 10, "B": 12}, "12 s are never reached"),
        ("tiresias@authors:limits=12", "A 4x10 B 4x2@4", {"A": 12, "B": 6}, "looked at when B comes"),
    ],
)
def test_worked_examples(policy: str, jobs: str, expected: dict[str, float], why: str) -> None:
    """Finish times computed by hand from the rules."""
    setting = Setting(semantics=semantics("tiresias"))
    found = finishes(play(policy, jobs, "1x4", setting))
    assert found == expected, why


@pytest.mark.parametrize(("gpus", "moment"), [(1, 3250.0), (8, 406.25), (16, 203.125)])
def test_demotion_instants(gpus: int, moment: float) -> None:
    """Example 3: a newcomer takes over at the very moment at which the first job leaves its queue."""
    record = play("tiresias", f"A {gpus}x5000 B {gpus}x10@1", f"1x{gpus}")
    assert starts(record)["B"] == moment


STREAM = "A 1x30 " + " ".join(f"B{i} 1x2@{5 + 2 * i}" for i in range(40))
"""Example 4: a long job, then a short one every 2 s."""


def starts_of(record: Record, job: str) -> list[float]:
    rows = record.intervals.filter(pl.col("job_id") == job)
    return rows.sort("start_s")["start_s"].to_list()


def test_promotion() -> None:
    """Example 4: with knob 2, A returns to the first queue whenever it has waited twice as long as it ran."""
    assert finishes(play("tiresias:limits=4", STREAM, "1x1"))["A"] == 110
    record = play("tiresias:limits=4,promote=2", STREAM, "1x1")
    assert finishes(record)["A"] == 88
    assert starts_of(record, "A") == [0, 15, 27, 39, 51, 63, 75, 87]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [("A 1x20 B 1x20@1", [102, 108]), ("A 1x20 B 1x20@1 C 1x5@2", [102, 110, 118])],
)
def test_turns_that_are_shorter_than_a_restart_grow(jobs: str, expected: list[float]) -> None:
    """Turns of 4 s, restarts of 5 s: all would start and stop for ever.  The third turn is of 8 s."""
    record = play("tiresias:limits=4,promote=1", jobs, "1x1", Setting(costs=parse_costs("restore=5s")))
    assert list(finishes(record).values()) == expected
    assert starts_of(record, "A") == [0, 8, *range(16, 97, 16)]


GITTINS = "tiresias:order=gittins"


@pytest.mark.parametrize(
    ("policy", "samples", "jobs", "expected", "why"),
    [
        (f"{GITTINS},limits=1e9", [4, 8, 12], "J1 2x2 J2 1x8 J3 2x6", [2, 10, 16], "example 1, one queue"),
        (GITTINS, [2, 2, 100], "A 2x30 B 2x1@5", [31, 6], "having outlasted 2 GPU-s, A is likely to be long"),
        (GITTINS, [8, 12], "A 2x6 B 2x1@5", [6, 7], "A is about to end, nobody ends before 8 GPU-s"),
        (GITTINS, [], "A 2x30 B 2x1@5", [30, 31], "without a past the order is that of submission"),
    ],
)
def test_gittins(policy: str, samples: list[float], jobs: str, expected: list[float], why: str) -> None:
    record = play(policy, jobs, "1x2", Setting(providers=[ServiceSamples(samples)]))
    assert list(finishes(record).values()) == expected, why


def test_gittins_learns_from_the_jobs_that_completed() -> None:
    """Without a sample of its own a run uses what it has seen end: once S has ended, A outlives every job."""
    record = play(GITTINS, "S 2x1 A 2x30@1 B 2x1@5", "1x2")
    assert finishes(record) == {"S": 1, "A": 32, "B": 6}


# -- a twin that follows the rules to the letter -----------------------------------------------------


@dataclass
class Twin:
    """A job of the naive twin; times are whole seconds."""

    name: str
    gpus: int
    left: int
    submit: int
    level: int = 0
    ran: int = 0  # t_J, the copy that promotions reset
    waited: int = 0  # delta_J
    first_start: float = math.inf
    runs: bool = False
    returns: bool = False  # promoted, and has not run since

    def is_due(self, knob: int) -> bool:
        return self.level > 0 and self.waited >= knob * self.ran > 0

    def promote(self) -> None:
        self.level = self.ran = self.waited = 0
        self.returns = True

    def rank(self, keeps: bool) -> tuple[float, ...]:
        half = keeps and not self.runs and not self.returns
        return self.level, half, self.first_start, self.submit, int(self.name)


def naive(jobs: list[Twin], gpus: int, limits: tuple[int, ...], knob: int, keeps: bool) -> dict[str, float]:
    """Second by second: completions, demotions, promotions, arrivals, then one rebuild from scratch."""
    now, live, ends = 0, list[Twin](), dict[str, float]()
    hi = (*limits, math.inf)
    while len(ends) < len(jobs):
        ended = [job for job in live if job.runs and not job.left]
        live = [job for job in live if job not in ended]
        ends |= {job.name: now for job in ended}
        fallen = [job for job in live if job.runs and job.gpus * job.ran >= hi[job.level]]
        for job in fallen:
            job.level += 1
        starved = [job for job in live if not job.runs and job.is_due(knob)]
        came = [job for job in jobs if job.submit == now]
        live += came
        if ended or fallen or came or starved:
            for job in starved:
                job.promote()
            admitted = chosen(live, gpus, keeps)
            while due := [job for job in live if job not in admitted and job.is_due(knob)]:
                for job in due:
                    job.promote()
                admitted = chosen(live, gpus, keeps)
            for job in live:
                job.runs = job in admitted
                job.returns = job.returns and not job.runs
                job.first_start = min(job.first_start, now) if job.runs else job.first_start
        for job in live:
            job.left -= job.runs
            job.ran += job.runs
            job.waited += not job.runs and job.ran > 0
        now += 1
    return ends


def chosen(live: list[Twin], free: int, keeps: bool) -> list[Twin]:
    """Queue by queue, running jobs ahead if it `keeps` them, first start first; a misfit is passed by."""
    admitted = []
    for job in sorted(live, key=lambda job: job.rank(keeps)):
        if job.gpus <= free:
            free -= job.gpus
            admitted.append(job)
    return admitted


def random_jobs(seed: int) -> list[Twin]:
    """Jobs of 1, 2 or 4 GPUs that arrive faster than 4 GPUs can serve them."""
    rng, submit, jobs = random.Random(seed), 0, []
    for number in range(25):
        jobs.append(Twin(str(number), rng.choice([1, 1, 2, 4]), rng.randint(1, 20), submit))
        submit += rng.randint(0, 8)
    return jobs


@pytest.mark.parametrize("order", ["las", "first-start"])
@pytest.mark.parametrize("limits", [(8,), (8, 24)])
@pytest.mark.parametrize("knob", [0, 1, 2])
@pytest.mark.parametrize("seeds", first(1, [range(2), range(2, 25)]), ids=str)
def test_the_papers_rules_to_the_letter(order: str, limits: tuple[int, ...], knob: int, seeds: range) -> None:
    """All moments are whole seconds here, so a twin that looks every second sees every one of them."""
    spec = f"tiresias:order={order},limits={'/'.join(map(str, limits))},promote={knob}"
    for seed in seeds:
        jobs = random_jobs(seed)
        text = " ".join(f"{job.name} {job.gpus}x{job.left}@{job.submit}" for job in jobs)
        assert finishes(play(spec, text, "1x4")) == naive(jobs, 4, limits, knob, order == "las"), seed


def test_running_jobs_stay_ahead_of_waiting_ones_of_their_queue() -> None:
    """W left the GPUs to N at 3; N falls into W's queue and keeps them, though W started earlier."""
    jobs = "W 4x20 N 4x20@3"
    assert finishes(play("tiresias:limits=12", jobs)) == {"W": 40, "N": 23}
    assert finishes(play("tiresias:limits=12,order=first-start", jobs)) == {"W": 23, "N": 40}


@pytest.mark.parametrize("order", ["las", "first-start"])
def test_whoever_is_due_when_it_is_stopped_is_not_left_behind(order: str) -> None:
    """C has waited as long as it ran when it falls at 84: it returns at once instead of after B, at 1e6 s."""
    jobs = "A 1x34 B 1x1000000@9 C 1x1000@9"
    record = play(f"tiresias:limits=10,promote=1,order={order}", jobs, "1x1")
    starts_s = [start for start in starts_of(record, "C") if start > 64]
    assert starts_s[0] <= 84
    assert finishes(record)["C"] < 64 + 2 * 1000 + 10


@pytest.mark.parametrize("order", ["las", "first-start"])
def test_a_wide_job_returns_among_jobs_that_run_in_the_first_queue(order: str) -> None:
    """Narrow jobs come without end, so that the four GPUs W needs are never free together by themselves."""
    stream = " ".join(f"S{i} 1x4@{1 + i}" for i in range(200))
    record = play(f"tiresias:limits=8,promote=1,order={order}", f"W 4x20 {stream}")
    assert finishes(record)["W"] < 100


MOMENTS = st.integers(0, 900).map(lambda tenths: tenths / 10)


@pytest.mark.soak
@given(
    jobs=st.lists(st.tuples(MOMENTS, st.sampled_from([1, 1, 2, 4]), MOMENTS), min_size=2, max_size=12),
    limits=st.sampled_from(["6", "6/18", "0.7/2.1"]),
    knob=st.sampled_from([0.3, 1, 2]),
    order=st.sampled_from(["las", "first-start"]),
)
@example(
    jobs=[(0.0, 1, 9.9), (0.0, 4, 72.9), (14.1, 4, 64.5), (14.1, 1, 8.7), (30.0, 2, 42.6)],
    limits="6",
    knob=2,
    order="first-start",
)
def test_it_never_asks_to_be_woken_at_once(
    jobs: list[tuple[float, int, float]], limits: str, knob: float, order: str
) -> None:
    """In tenths of a second, sums of stretches miss a limit by rounding; a moment must lie ahead."""
    text = " ".join(f"J{i} {gpus}x{run_s}@{at_s}" for i, (at_s, gpus, run_s) in enumerate(sorted(jobs)))
    record = play(f"tiresias:limits={limits},promote={knob},order={order}", text)
    assert record.jobs["finish_s"].is_finite().all()
    shortest_s = (record.intervals["end_s"] - record.intervals["start_s"]).filter(
        record.intervals["end"] == "preempted"
    )
    assert shortest_s.is_empty() or shortest_s.min() > 0.0


# -- placement by skew -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "start", "why"),
    [
        ("VGG-19", 20.0, "skewed: waits until C leaves a whole node rather than be spread"),
        ("ResNet-152", 10.0, "not skewed: takes two GPUs on either node once A has left"),
        ("unheard-of", 10.0, "an unknown model is taken to have no skew"),
    ],
)
def test_only_skewed_models_wait_for_a_whole_node(model: str, start: float, why: str) -> None:
    trace = trace_of(
        "A 2x10 B 1x15 C 3x20 D 4x5@1",
        workload=[0, 0, 0, 1],
        workload_names=("resnet50", model),
    )
    found = starts(play("tiresias:skew=yes", trace, "2x4"))["D"]
    assert found == start, why


def switches(nodes: str, gpus: int = 4) -> Cluster:
    """Nodes of `gpus` GPUs, the switch of each by its letter."""
    return Cluster.build([NodeShape(count=1, gpus=gpus, levels={"switch": unit}) for unit in nodes])


@pytest.mark.parametrize(
    ("nodes", "jobs", "start", "why"),
    [
        ("abab", "A 3x30 B 3x30 D 8x5@1", 30.0, "one node of each switch is begun: it waits, the other two"),
        ("aab", "A 1x9 D 8x5@1", 9.0, "the switch of one node cannot hold it"),
        ("aabb", "A 1x30 D 8x5@1", 1.0, "the other switch is free"),
        ("abc", "D 8x5@1", 1.0, "larger than any switch: the fewest nodes of all"),
        ("aabb", "D 2x5@1", 1.0, "one node is one switch"),
    ],
)
def test_skewed_models_stay_under_one_switch(nodes: str, jobs: str, start: float, why: str) -> None:
    names = ("resnet50", "vgg16")
    model = [int(job.startswith("D")) for job in jobs.split()[::2]]
    trace = trace_of(jobs, workload=model, workload_names=names)
    record = play("tiresias:skew=yes,limits=1e9", trace, switches(nodes))
    assert starts(record)["D"] == start, why


def test_skew_is_the_largest_tensor_over_all() -> None:
    """The figures of the card by model, and the limit of 0.3 between the two groups."""
    names = ("vgg19", "vgg16", "vgg11", "alexnet", "inception3", "resnet50", "resnet101", "resnet152")
    trace = trace_of(" ".join(f"{n} 1x1" for n in names), workload=range(8), workload_names=names)
    assert (ModelSkew(trace.jobs).known() > 0.3).tolist() == [True] * 4 + [False] * 4


def test_skew_is_needed_only_where_it_is_used() -> None:
    """The registry lists what any variant may need; an instance lists what it reads."""
    assert not parse_policy("tiresias").make().needs
    assert {kind.value for kind in parse_policy("tiresias:skew=yes").make().needs} == {"skew"}
    assert {kind.value for kind in parse_policy(GITTINS).make().needs} == {"service history"}


# -- the simulator's rules ---------------------------------------------------------------------------


POLLUX = [
    # jobs on 2x2, with a limit of 8 GPU-seconds   ends   why
    ("A 2x10 B 4x2@1", {"A": 12, "B": 6}, "A falls at 4, and B, which needs all, goes first"),
    ("A 4x10 B 4x1@1 C 4x1@1", {"A": 12, "B": 3, "C": 4}, "A falls at 2, behind both"),
    ("A 4x3 B 2x9@1", {"A": 7, "B": 12}, "A falls at 2, and B behind it at 6"),
]


@pytest.mark.parametrize(("jobs", "ends", "why"), POLLUX, ids=[row[-1] for row in POLLUX])
def test_queues_of_pollux_simulator(jobs: str, ends: dict[str, float], why: str) -> None:
    assert finishes(play("tiresias@pollux:limits=8", jobs, "2x2")) == ends, why


def test_pollux_simulator_takes_the_emptiest_nodes() -> None:
    """B goes to the second node although it would fill the first, where A is; C has to lie on both."""
    record = play("tiresias@pollux", "A 1x10 B 2x10@1 C 4x10@2", "2x4")
    devices = dict(zip(record.intervals["job_id"], record.intervals["devices"], strict=True))
    assert {name: tuple(of) for name, of in devices.items()} == {"A": (0,), "B": (4, 5), "C": (1, 2, 3, 6)}


def artifact(jobs: str, options: str = "", cluster: str = "1x4") -> dict[str, float]:
    policy = f"tiresias@authors{options}"
    return finishes(play(policy, jobs, cluster, Setting(semantics=semantics("tiresias"))))


def test_the_simulator_looks_late_at_jobs_of_several_gpus() -> None:
    """4 GPUs reach 100 GPU-s at 25 s.  Seen at 10 s, the next look is (100 - 10) // 4 = 22 s later, at 32."""
    assert finishes(play("tiresias:limits=100", "A 4x60 B 4x5@10"))["B"] == 30
    assert artifact("A 4x60 B 4x5@10", ":limits=100")["B"] == 37


def test_the_simulator_falls_one_queue_at_a_time() -> None:
    """Both limits are passed at 10 s; A is in the second queue then, as B is in the first."""
    memories = run_with_memory("tiresias@authors:limits=4/8", "A 4x30 B 4x30@10", until_s=10)
    assert {row: seat[0] for row, seat in memories["seats"].items()} == {0: 2, 1: 0}


def run_with_memory(spec: str, jobs: str, until_s: float) -> Memory:
    """What the policy remembers at `until_s`."""
    loop = loop_of(spec, jobs)
    loop.run(until_s)
    return loop.memory


def loop_of(spec: str, jobs: str) -> Loop:
    from rota.model.cluster import parse_cluster

    setting = Setting(semantics=semantics("tiresias"))
    return prepare(parse_policy(spec).make(), trace_of(jobs), parse_cluster("1x4"), setting)[0]


def memories(loop: Loop) -> Iterator[Memory]:
    """The memory after each step."""
    while loop.step():
        yield loop.memory


@pytest.mark.parametrize("spec", ["tiresias:promote=1,limits=8/24", "tiresias@authors:promote=1,limits=8/24"])
def test_memory_holds_live_jobs_only(spec: str) -> None:
    """What ended is forgotten at the next decision, so memory does not grow with the trace."""
    jobs = " ".join(f"J{i} {1 + i % 4}x{5 + i % 7}@{i}" for i in range(40))
    loop = loop_of(spec, jobs)
    for memory in memories(loop):
        live = {*loop.state.waiting.sorted().tolist(), *loop.state.running.sorted().tolist()}
        if loop.state.waiting.n:
            for name, rows in memory.items():
                assert not isinstance(rows, dict) or set(rows) <= live, name


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("tiresias:limits=7200/3250", "limits=7200/3250 do not rise"),
        ("tiresias:limits=0/3250", "do not rise"),
        ("tiresias:promote=-1", "promote=-1; expected 0 or more"),
        ("tiresias@authors:quantum=0", "quantum=0; expected 1 or more"),
        ("tiresias@authors:skew=yes", "has no parameter 'skew'"),
        ("tiresias@pollux:promote=1", "has no parameter 'promote'"),
        ("tiresias@authors:order=first-start", "is not one of las, gittins"),
        ("tiresias:metric=minutes", "is not one of gpu-time, time"),
    ],
)
def test_wrong_parameters_are_refused(spec: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_policy(spec)


def test_gittins_without_a_past_is_refused_where_nobody_provides_it() -> None:
    """A loop without the provider says what is missing."""
    loop = loop_of("tiresias", "A 1x1")
    with pytest.raises(PolicyError, match="needs service history, which nobody provides"):
        Loop(loop.world, parse_policy(GITTINS).make(), loop.recorder)
