"""Gandiva_fair: worked examples of its page run by the loop, and what it promises on larger inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pytest

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.jobs import Truth
from rota.model.record import Record
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import parse_policy
from rota.scheduler.reasons.waiting import explain
from rota.scheduler.snapshot import Snapshot
from rota.systems.gandiva_fair.balance import Movable, to_fewer_tickets
from rota.systems.gandiva_fair.servers import Servers
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.run import run as play_run
from rota.worlds.simulated.speed_table import ThroughputSpeed
from tiers import first

QUANTUM = 60.0
LONG = 1e6


def owned(text: str, owners: str) -> Trace:
    """The jobs of `text`, each of the tenant named by a letter."""
    names = sorted(set(owners))
    return trace_of(text, tenant=[names.index(one) for one in owners], tenant_names=names)


def received(record: Record, until: float, since: float = 0.0, by: str = "job_id") -> dict[str, float]:
    """GPU-quanta between two moments."""
    part = pl.min_horizontal("end_s", pl.lit(until)) - pl.max_horizontal("start_s", pl.lit(since))
    frame = record.intervals.with_columns((part.clip(0.0) * pl.col("gpus") / QUANTUM).alias("quanta"))
    frame = frame.join(record.jobs.select("job_id", "tenant"), on="job_id")
    return dict(frame.group_by(by).agg(pl.col("quanta").sum()).sort(by).iter_rows())


def turns(
    text: str, owners: str, cluster: str | Cluster = "1x4", hours: float = 0.5, **options: str
) -> Record:
    """The first part of a run of jobs that do not end."""
    policy = "gandiva_fair:" + ",".join(f"{key}={value}" for key, value in options.items())
    return play(policy.rstrip(":"), owned(text, owners), cluster, Setting(until_s=3600.0 * hours))


def alike(count: int, name: str, gpus: int = 1) -> str:
    return " ".join(f"{name}{number} {gpus}x{LONG}" for number in range(count))


def test_who_takes_turns_is_told_its_share_and_who_is_before() -> None:
    """Three gangs on one server: after 90 s each has had a turn of a minute, or waits for it."""
    trace, said = trace_of("A 2x600 B 2x600 C 2x600"), dict[str, str]()
    inner = parse_policy("gandiva_fair:quantum=60").make()

    class Telling:
        needs, levers = inner.needs, inner.levers

        def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
            decision = inner.decide(snapshot, memory)
            if snapshot.now == 60.0:
                for row in range(3):
                    turn = decision.ranking.turn(snapshot, row)
                    said[trace.jobs.ids[row]] = turn.sentence()
                    granted = {grant.job for grant in decision.grants}
                    assert row in granted or turn in explain(snapshot, decision, row)
            return decision

    play_run(Telling(), trace, parse_cluster("1x2"), Setting())
    assert said["A"] == (
        "takes turns: is to have 33% of the time on n0, by its tenant's tickets, "
        "and has run 100% of it since it came; its turn ends in 1m"
    )
    assert said["B"] == (
        "takes turns: is to have 33% of the time on n0, by its tenant's tickets, and has run 0% of it since "
        "it came; before it in this turn: A; the next round begins in 1m"
    )


def test_turns_of_two_gangs() -> None:
    """Example 1: two tickets and one; in 9 quanta 24 and 12 GPU-quanta."""
    cluster = Cluster.build([NodeShape(1, 4)], Tenants.of(Tenant("p", weight=2.0)))
    record = turns(f"P 4x{LONG} Q 4x{LONG}", "pq", cluster)
    assert received(record, 9 * QUANTUM) == {"P": 24, "Q": 12}


def test_a_tenant_with_many_jobs_gets_no_more() -> None:
    """Example 2, and what adding jobs brings: nothing."""
    for small in (4, 16):
        record = turns(f"A 4x{LONG} {alike(small, 'B')}", "a" + "b" * small, hours=3)
        assert received(record, 160 * QUANTUM, by="tenant") == pytest.approx({"a": 320, "b": 320}, rel=0.03)


def test_split_stride() -> None:
    """Example 4: a job of two servers beside four small ones on each."""
    record = turns(f"X 8x{LONG} {alike(8, 'Y')}", "x" + "y" * 8, "2x4")
    assert received(record, 6 * QUANTUM, by="tenant") == {"x": 24, "y": 24}


def test_a_newcomer_starts_where_the_others_are() -> None:
    """Example 8: P Q R from its arrival on, instead of R until it has caught up."""
    record = turns(f"P 1x{LONG} Q 1x{LONG} R 1x{LONG}@600", "pqr", "1x1")
    starts = record.intervals.filter(pl.col("start_s") < 780).sort("start_s")
    assert "".join(starts["job_id"]) == "PQPQPQPQPQ" + "PQR"


def test_what_a_big_job_leaves_of_a_server_is_used() -> None:
    """As example 9: beside the gang of six two small jobs run, or four and four without it."""
    record = turns(f"X 6x{LONG} {alike(8, 'Y')}", "x" + "y" * 8, "2x4", theta="9")
    quanta = received(record, 6 * QUANTUM, by="tenant")
    assert quanta["x"] == 18
    assert quanta["y"] >= 24


def test_an_idle_tenant_costs_nothing() -> None:
    """Its share goes to the others from the moment its last job ends, and back when it returns."""
    text = f"A 2x600 B 2x{LONG} C 2x{LONG} D 2x{LONG}@2400"
    record = turns(text, "abca", "1x2", hours=2)
    assert received(record, 2400, 1800, by="tenant") == pytest.approx({"a": 0, "b": 10, "c": 10})
    later = received(record, 2400 + 3600, 2400, by="tenant")
    assert later == pytest.approx({"a": 40, "b": 40, "c": 40}, abs=4)


@pytest.mark.soak
def test_a_big_job_is_not_starved_by_short_small_ones() -> None:
    """Jobs that end within a quantum are counted for their server all the same."""
    short = " ".join(f"S{number} 1x30@{number * 5}" for number in range(720))
    record = turns(f"X 8x{LONG} {short}", "x" + "s" * 720, "2x4", hours=1)
    quanta = received(record, 3600, by="tenant")
    assert quanta["x"] >= 0.45 * sum(quanta.values())


@pytest.mark.parametrize("tickets", ["job", "gpu"])
def test_shares_inside_a_tenant(tickets: str) -> None:
    """A job of three GPUs and three of one: four equal parts, or two to one for each GPU."""
    record = turns(f"A 3x{LONG} {alike(3, 'B')}", "tttt", "1x3", 4.1, tickets=tickets)
    quanta = received(record, 240 * QUANTUM)
    assert quanta["A"] == pytest.approx({"job": 180, "gpu": 360}[tickets], rel=0.05)


# -- migration -----------------------------------------------------------------------------------------


def balanced(rows: Sequence[tuple[int, int, float]], theta: float = 0.2) -> tuple[list[int], list[float]]:
    """Jobs (server, GPUs, tickets) on two servers of 4 GPUs: who moves, and the loads after it."""
    servers = Servers(parse_cluster("2x4"), [4, 4])
    for row, (node, gpus, due) in enumerate(rows):
        servers.enter(row, {node: gpus}, 1.0, due)
    gpus = [size for _, size, _ in rows]
    movable = Movable(
        {row: {0: 0b11} for row in range(len(rows))}, gpus, dict(enumerate(map(float, gpus))), {}, 600.0, 0.0
    )
    moved = []
    for row, node in to_fewer_tickets(servers, 0, movable, theta):
        servers.leave(row)
        servers.enter(row, {node: gpus[row]}, 1.0, rows[row][2])
        moved.append(row)
    return moved, [servers.load(node) for node in (0, 1)]


@pytest.mark.parametrize(
    ("rows", "moved", "loads"),
    [
        pytest.param([(0, 2, 1.0)] * 3 + [(1, 2, 1.0)], [0], [0.5, 0.5], id="example 7"),
        pytest.param([(0, 1, 1.0)] * 3 + [(1, 1, 1.0)], [], [0.75, 0.25], id="nobody takes turns"),
        pytest.param([(0, 4, 1.0)] * 2 + [(1, 4, 1.7)], [], [0.5, 0.425], id="within theta"),
    ],
)
def test_loads_become_equal(rows: list[tuple[int, int, float]], moved: list[int], loads: list[float]) -> None:
    assert balanced(rows) == (moved, pytest.approx(loads))


def test_nobody_moves_twice_within_the_spacing() -> None:
    """Jobs come and go on four servers; whoever moves is left where it is for ten minutes."""
    rng = np.random.default_rng(4)
    jobs = zip(rng.integers(1, 5, 60), rng.integers(100, 4000, 60), rng.integers(0, 9000, 60), strict=True)
    text = " ".join(f"J{number} {gpus}x{run}@{at}" for number, (gpus, run, at) in enumerate(jobs))
    inner, moves = parse_policy("gandiva_fair").make(), dict[int, list[float]]()

    class Watched:
        needs, levers = inner.needs, inner.levers

        def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
            decision = inner.decide(snapshot, memory)
            for row, at_s in decision.memory["moved"].items():
                if moves.setdefault(row, [])[-1:] != [at_s]:
                    moves[row].append(at_s)
            return decision

    play_run(Watched(), owned(text, "ab" * 30), parse_cluster("4x4"), Setting())
    assert any(len(times) > 1 for times in moves.values()), "somebody moved twice"
    assert all(np.diff(times).min(initial=np.inf) >= 600.0 for times in moves.values())


def test_jobs_of_a_lost_server_go_to_another() -> None:
    record = play("gandiva_fair", "A 2x600 B 2x600", "2x2", Setting(faults=[Fault(0, 30.0, 1e6)]))
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 2
    assert max(finishes(record).values()) < 1400


# -- types ---------------------------------------------------------------------------------------------

MIXED = parse_cluster("3x4:v100,6x4:k80")
GAINS = {"a": 1.25, "b": 3.0, "c": 5.0}
TABLE = ThroughputTable.build(
    {(name, kind, 1): rate for name, gain in GAINS.items() for kind, rate in (("v100", gain), ("k80", 1.0))}
)


def market(policy: str, jobs: int = 30, hours: float = 3.0) -> dict[str, float]:
    """K80-hours of progress of three tenants with many one-GPU jobs on 12 V100 and 24 K80, after a while."""
    names = tuple(GAINS)
    codes = [code for _ in range(jobs) for code in range(3)]
    plain = trace_of(
        " ".join(f"J{number} 1x1" for number in range(3 * jobs)),
        workload=codes,
        workload_names=names,
        tenant=codes,
        tenant_names=names,
    )
    trace = Trace(plain.jobs, Truth.build(np.full(3 * jobs, np.nan), iterations=1e7), "test", "test")
    setting = Setting(speed=ThroughputSpeed(trace, MIXED, TABLE), until_s=hours * 3600.0)
    record = play(policy, trace, MIXED, setting)
    fast = pl.col("nodes").list.first() < 3
    frame = record.intervals.join(record.jobs.select("job_id", "tenant"), on="job_id").with_columns(
        held=(pl.col("end_s").fill_null(hours * 3600.0) - pl.col("start_s")) * pl.col("gpus") / 3600.0,
        gain=pl.when(fast).then(pl.col("tenant").replace_strict(GAINS)).otherwise(1.0),
    )
    done = frame.group_by("tenant").agg((pl.col("held") * pl.col("gain")).sum() / hours)
    return dict(done.sort("tenant").iter_rows())


UNTRADED: Mapping[str, float] = {"a": 13.0, "b": 20.0, "c": 28.0}
TRADED: Mapping[str, float] = {"a": 18.8333, "b": 21.1667, "c": 33.3333}


@pytest.mark.soak
@pytest.mark.parametrize(("trade", "expected"), [("no", UNTRADED), ("yes", TRADED)])
def test_tenants_gain_by_trading(trade: str, expected: Mapping[str, float]) -> None:
    """Example 6 carried out: progress comes within 4 % of what each is due."""
    assert market(f"gandiva_fair:trade={trade}") == pytest.approx(dict(expected), rel=0.04)


def test_fast_gpus_that_nobody_is_due_are_used() -> None:
    """A lone job takes the fast type, though its tenant would be due a part of both."""
    plain = trace_of("A 1x1", workload=[0], workload_names=("c",))
    trace = Trace(plain.jobs, Truth.build([np.nan], iterations=500), "test", "test")
    record = play("gandiva_fair", trace, MIXED, Setting(speed=ThroughputSpeed(trace, MIXED, TABLE)))
    assert finishes(record) == {"A": 100.0}


# -- shares over an hour -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "jobs", "within"),
    first(
        2,
        {
            "one GPU": ((1,), 20, 0.05),
            "mixed": ((1, 1, 2, 4), 12, 0.05),
            "small": ((1, 1, 1, 2), 40, 0.05),
            # in steps of a turn of a server, 0.8 % of what a tenant is due in an hour
            "whole servers": ((4,), 12, 0.051),
            "two servers": ((1, 2, 4, 8), 12, 0.05),
        },
    ),
)
@pytest.mark.parametrize("seed", first(1, range(8)))
def test_every_tenant_has_its_share_over_an_hour(
    seed: int, sizes: Sequence[int], jobs: int, within: float
) -> None:
    """Stable tenants with gangs of several sizes on eight servers come within 5 % of what tickets say.

    From the third hour on.
    """
    rng = np.random.default_rng(seed)
    text = " ".join(
        f"{name}{number} {gpus}x{LONG}"
        for name in "ABC"
        for number, gpus in enumerate(rng.choice(sizes, jobs).tolist())
    )
    cluster = Cluster.build([NodeShape(8, 4)], Tenants.of(Tenant("b", weight=2.0)))
    owners = "a" * jobs + "b" * jobs + "c" * jobs
    record = turns(text, owners, cluster, hours=4.1)
    for start in (7200, 10800):
        quanta = np.array(list(received(record, start + 3600, start, by="tenant").values()))
        assert quanta / quanta.sum() == pytest.approx(np.array([0.25, 0.5, 0.25]), rel=within), start


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(InputError, match=r"quantum=0; expected 0\.001 or more"):
        parse_policy("gandiva_fair:quantum=0").make()
