"""Synergy: worked examples of the card, and what it promises whoever runs under it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.knowledge.hosts import HostTable, build_hosts
from rota.model.cluster import Cluster, NodeShape
from rota.model.record import Record
from rota.model.trace import Trace
from rota.scheduler.policy import parse_policy
from rota.scheduler.reasons.waiting import explain
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.run import run as play_run
from rota.worlds.simulated.semantics import PRESETS
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration


def curve(name: str, *speeds: tuple[float, float], gib: float = 8.0) -> dict[tuple[str, float, float], float]:
    return {(name, cpus, gib): speed for cpus, speed in speeds}


NAMES = ("nine", "one", "three", "five")
HOSTS = build_hosts(
    curve("nine", (1, 0.4), (3, 1.0), (9, 2.0))
    | curve("one", (1, 1.0))
    | curve("three", (1, 0.3), (3, 1.0))
    | curve("five", (1, 0.4), (3, 1.0), (5, 1.25))
)
SERVER = Cluster.build([NodeShape(count=1, gpus=4, cpus=12, memory_gib=64)])


def jobs_of(text: str, workloads: str, **columns: Any) -> Trace:
    """Jobs with workloads by their number in `NAMES`, one digit each."""
    return trace_of(text, workload=[int(c) for c in workloads], workload_names=NAMES, **columns)


def run(
    policy: str,
    trace: Trace,
    cluster: Cluster = SERVER,
    hosts: HostTable = HOSTS,
    semantics: str = "exact",
) -> Record:
    speed = FixedDuration(trace.jobs, cluster, Slowdowns(hosts=hosts))
    return play(policy, trace, cluster, Setting(speed=speed, semantics=PRESETS[semantics]))


def cores(record: Record, at_s: float = 1.0) -> dict[str, float]:
    """Cores that each job holds at a moment."""
    now = record.intervals.filter((pl.col("start_s") <= at_s) & (pl.col("end_s") > at_s))
    return dict(zip(now["job_id"], now["cpus"], strict=True))


FOUR = "A 1x600 B 1x600 C 1x600 D 1x600"


@pytest.mark.parametrize(
    ("policy", "workloads", "expected", "why"),
    [
        (
            "synergy",
            "0122",
            {"A": 3, "B": 1, "C": 3, "D": 3},
            "worked example 2: A gives back all it has more",
        ),
        ("synergy@authors", "0122", {"A": 3, "B": 1, "C": 3, "D": 3}, "in the order of the policy"),
        ("synergy@authors:mechanism=greedy", "0122", {"A": 9, "B": 1}, "two GPUs idle"),
        (
            "synergy@authors",
            "0102",
            {"A": 3, "B": 1, "C": 3, "D": 3},
            "the third wants 9 and is cut itself",
        ),
        (
            "synergy",
            "0111",
            {"A": 9, "B": 1, "C": 1, "D": 1},
            "what three leave goes to the one who wants it",
        ),
        ("synergy:mechanism=proportional", "0111", dict.fromkeys("ABCD", 3), "whoever wants what"),
        ("synergy:mechanism=opt", "3111", {"A": 5, "B": 1, "C": 1, "D": 1}, "as much as speeds it up"),
        ("synergy:mechanism=opt", "3322", {"A": 3, "B": 3, "C": 3, "D": 3}, "nobody goes below his share"),
    ],
)
def test_who_gets_which_cores(policy: str, workloads: str, expected: dict[str, float], why: str) -> None:
    assert cores(run(policy, jobs_of(FOUR, workloads))) == expected, why


def test_throughput_follows() -> None:
    """Nine cores are twice as fast as three; at the end of the round what came free is divided anew."""
    record = run("synergy", jobs_of("A 1x1200 B 1x450 C 1x450 D 1x450", "0222"))
    assert cores(record)["A"] == 3
    assert cores(record, 700.0) == {"A": 9}
    assert finishes(record)["A"] == pytest.approx(600.0 + 600.0 / 2.0)
    assert record.jobs.filter(pl.col("job_id") == "A")["migrations"].item() == 0


TWO = Cluster.build([NodeShape(count=2, gpus=4, cpus=12, memory_gib=64)])


def test_it_is_placed_where_what_it_wants_fits() -> None:
    """Two that want nine cores go to different nodes, although one has GPUs for both."""
    record = run("synergy", jobs_of("A 1x600 B 1x600", "00"), TWO)
    assert cores(record) == {"A": 9, "B": 9}
    assert finishes(record) == {"A": 300.0, "B": 300.0}


@pytest.mark.parametrize(("migrate", "expected"), [("yes", (9, 1)), ("no", (3, 0))])
def test_who_runs_moves_only_for_what_it_wants(migrate: str, expected: tuple[float, int]) -> None:
    """When C..F, who held the first node, have gone, B could have nine cores there."""
    text = "C 1x900 D 1x900 E 1x900 F 1x900 A 1x6000@1 B 1x6000@1"
    record = run(f"synergy:migrate={migrate}", jobs_of(text, "222200"), TWO)
    moves = record.jobs.filter(pl.col("job_id") == "B")["migrations"].item()
    assert cores(record, 500.0) == {"C": 3, "D": 3, "E": 3, "F": 3, "A": 9, "B": 3}
    assert (cores(record, 1000.0)["B"], moves) == expected


def test_when_nothing_happens_nothing_moves() -> None:
    record = run("synergy", jobs_of("A 1x5000 B 1x5000 C 2x5000 D 1x5000 E 1x5000", "00212"), TWO)
    until_the_first_end = record.intervals.filter(pl.col("start_s") < 2500.0)
    assert until_the_first_end.height == 5, "one stretch each"


@pytest.mark.parametrize(("cluster", "expected", "nodes"), [(TWO, 20, [0, 0, 1, 1]), (SERVER, 12, [0] * 4)])
def test_a_large_job_is_split_for_the_cores_it_wants(
    cluster: Cluster, expected: int, nodes: list[int]
) -> None:
    """Four GPUs with five cores each are found on no node; on one node it gets its share."""
    record = run("synergy", jobs_of("A 4x600", "3"), cluster)
    assert cores(record) == {"A": expected}
    assert record.intervals["nodes"][0].to_list() == nodes


def test_nodes_may_differ() -> None:
    """A node with six cores a GPU and one with two: the share is that of the node."""
    cluster = Cluster.build([NodeShape(1, 2, cpus=12, memory_gib=64), NodeShape(1, 2, cpus=4, memory_gib=64)])
    record = run("synergy:mechanism=proportional", jobs_of(FOUR, "1111"), cluster)
    assert sorted(cores(record).values()) == [2, 2, 6, 6]


def test_types_stay_the_inner_policys_choice() -> None:
    cluster = Cluster.build(
        [NodeShape(1, 2, "A", cpus=2, memory_gib=64), NodeShape(1, 2, "B", cpus=20, memory_gib=64)]
    )
    trace = jobs_of("A 1x600", "0", type_names=("A", "B"), gpu_types=[1])
    assert cores(run("synergy", trace, cluster)) == {"A": 1}, "B has the cores, and A runs on A"


def test_without_profiles_what_was_asked_for_is_wanted() -> None:
    trace = trace_of("A 1x600 B 1x600 C 2x600", cpus=[1.0, 11.0, 0.0])
    record = play("synergy", trace, SERVER)
    assert cores(record) == {"A": 1, "B": 3, "C": 6}, "and cut like anybody's wish; C said nothing"


def test_the_inner_policy_does_not_see_cores() -> None:
    """Asking for all the cores of the node keeps nobody else from its GPUs."""
    trace = trace_of("A 1x600 B 1x600", cpus=12.0)
    assert finishes(play("synergy:policy=srtf", trace, SERVER)) == {"A": 600.0, "B": 600.0}
    assert finishes(play("srtf", trace, SERVER)) == {"A": 600.0, "B": 1200.0}


def test_jobs_without_gpus_run_on_what_is_left() -> None:
    trace = trace_of("A 4x600 B 0x100 C 0x100", cpus=[8.0, 4.0, 4.0])
    record = play("synergy:policy=fifo[skip=yes]", trace, SERVER)
    ends = finishes(record)
    assert (ends["A"], ends["B"]) == (600.0, 100.0)
    assert ends["C"] >= 200.0, "A wants eight cores and B holds four"


INNER = (
    "fifo[skip=yes]",
    "srtf",
    "las[every=300]",
    "srsf",
    "tiresias",
    "fifo[backfill=easy]",
    "drf",
    "gavel",
)


@pytest.mark.parametrize("inner", INNER)
def test_whose_choice_it_never_changes(inner: str) -> None:
    """Where nobody minds how many cores he has, everybody ends when he would under the inner policy."""
    rng = np.random.default_rng(len(inner))
    sizes, lengths = rng.choice([1, 1, 2, 4], 24), rng.integers(50, 900, 24)
    text = " ".join(f"J{i} {g}x{d}@{40 * i}" for i, (g, d) in enumerate(zip(sizes, lengths, strict=True)))
    trace = trace_of(text, cpus=sizes * 2.0)
    bare = replace(TWO, node_cpus=np.zeros(2), node_memory_gib=np.zeros(2))
    alone = play(inner.replace("[", ":").replace("]", ""), trace, bare)
    assert finishes(play(f"synergy:round_s=0,policy={inner}", trace, TWO)) == finishes(alone)


def test_rounds_are_those_of_the_authors() -> None:
    """Whole iterations a round, and an end at the end of one."""
    trace = replace(trace_of("A 1x1000@10", workload=[0], workload_names=NAMES))
    record = run("synergy@authors", trace, semantics="synergy")
    assert finishes(record) == {"A": 900.0}, "from 300 on at double speed: 500 s are two rounds"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("synergy:policy=nobody", "there is no policy 'nobody'"),
        ("synergy:policy=las[quantum=x]", "quantum=x is not a number"),
        ("synergy:policy=gandiva", "lets jobs share GPUs"),
        ("synergy:round_s=-1", "round_s=-1 is no time"),
        ("synergy:scatter=yes", "has no parameter 'scatter'"),
        ("synergy:saturation_tolerance=1", "saturation_tolerance=1 is no part"),
        ("synergy:max_nodes=0", "max_nodes=0 is no limit"),
        ("synergy:mechanism=best", "mechanism=best is not one of"),
    ],
)
def test_nonsense_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_policy(text).make()


@pytest.mark.parametrize(
    ("policy", "trace", "workloads", "waits", "why"),
    [
        ("synergy:policy=srtf", "A 4x100 B 4x900", "00", "B", "4 GPUs"),
        (
            "synergy:mechanism=greedy,policy=fifo[skip=yes]",
            "A 1x100 B 1x900 C 1x900",
            "001",
            "B",
            "all the cores",
        ),
        ("synergy:policy=gavel", "A 4x900 B 4x900", "00", "B", "takes turns"),
    ],
)
def test_who_waits_is_told_what_for(policy, trace, workloads, waits, why):
    """By its order as if nodes had cores without end, or by the division if that left it out."""
    jobs = jobs_of(trace, workloads)
    said: dict[str, str] = {}
    spec = parse_policy(policy)
    inner = spec.make()

    class Telling:
        needs, levers = inner.needs, inner.levers

        def decide(self, snapshot: Any, memory: Any) -> Any:
            decision = inner.decide(snapshot, memory)
            started = {grant.job for grant in decision.grants}
            for row in snapshot.waiting.tolist():
                if row not in started:
                    said.setdefault(
                        jobs.jobs.ids[row],
                        " ".join(one.sentence() for one in explain(snapshot, decision, row)),
                    )
            return decision

    speed = FixedDuration(jobs.jobs, SERVER, Slowdowns(hosts=HOSTS))
    play_run(Telling(), jobs, SERVER, Setting(speed=speed))
    assert set(said) == {waits}
    assert why in said[waits]
