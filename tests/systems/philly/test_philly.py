"""Philly: the worked examples of its card, and what naive versions get wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import finishes, play, starts, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.jobs import Truth
from rota.model.record import Record
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.policy import parse_policy
from rota.systems.philly.attempt import Premises
from rota.worlds.simulated.retries import parse_retries
from rota.worlds.simulated.run import Setting, prepare
from tiers import first

SCATTERED = "A 6x9999 B 6x9999 C 6x9999 D 6x9999 "  # leaves 2 free GPUs on each of 4 nodes of 8


def two_vcs(
    jobs: str, owners: str, nodes: int = 4, quotas: tuple[float, float] = (16, 16)
) -> tuple[Trace, Cluster]:
    """Jobs of virtual clusters 1 and 2 (one digit per job) on nodes of 8 GPUs."""
    trace = trace_of(jobs, tenant=[int(c) - 1 for c in owners], tenant_names=("vc1", "vc2"))
    tenants = Tenants.of(Tenant("vc1", quotas[0]), Tenant("vc2", quotas[1]))
    return trace, Cluster.build([NodeShape(4, 8)], tenants)


def reason(record: Record, job: str) -> tuple[str, float, float]:
    """Why the first wait of `job` began."""
    row = next(row for row in record.jobs.iter_rows(named=True) if row["job_id"] == job)
    return row["wait_code"], row["wait_requested"], row["wait_provided"]


@pytest.mark.parametrize(
    ("policy", "jobs", "expected", "why"),
    [
        ("philly", "E 8x100", {"E": 600}, "attempts at 0, 300, 600; levels 0, 0, 1"),
        ("philly:relax_after=1", "E 8x100", {"E": 300}, "relaxed after the first failure"),
        ("philly:relax_after=0", "E 8x100", {"E": 300}, "the level changes when an attempt has failed"),
        ("philly", "E 8x100 F 2x5@10", {"E": 600, "F": 10}, "F passes E, which holds 2 GPUs of one node"),
        ("philly", "E 8x100 F 6x5@10", {"E": 600, "F": 700}, "F tries anew at 610 and takes what E leaves"),
        ("philly:acquire_timeout_s=100,backoff_s=50", "E 8x100", {"E": 300}, "attempts at 0, 150, 300"),
        ("philly:patience_per_h=72", "E 8x100", {"E": 1200}, "guideline 1: 100 s of work, two more attempts"),
    ],
)
def test_locality_is_given_up_with_failed_attempts(
    policy: str, jobs: str, expected: dict[str, float], why: str
) -> None:
    """Example 1: 2 GPUs free on each of 4 nodes."""
    found = starts(play(policy, SCATTERED + jobs, "4x8"))
    assert {job: found[job] for job in expected} == expected, why


def test_delay_is_attributed() -> None:
    """Example 1: 600 s, all fragmentation; the pause carries the label of the attempt before it."""
    trace, cluster = two_vcs(SCATTERED + "E 8x100", "11111", quotas=(32, 0))
    loop, _ = prepare(parse_policy("philly").make(), trace, cluster, Setting())
    loop.run(1000)
    assert loop.memory["delay_s"] == {"5-8": {"fragmentation": 600.0}}
    assert loop.memory["labels"] == {}


@pytest.mark.parametrize(
    ("jobs", "owners", "job", "expected", "why"),
    [
        ("A 8x99 B 4x99 C 8x99 D 8x99 E 8x9@1", "11221", "E", ("Quota", 20, 16), "12 + 8 > 16: fair share"),
        (
            *("A 2x99 B 6x99 C 6x99 D 6x99 E 4x99 F 8x9@1", "112221", "F", ("Locality", 8, 8)),
            "8 used + 8 <= 16, 8 GPUs free, but 2 on each node: fragmentation",
        ),
        (
            "A 8x99 B 8x99 C 8x99 D 4x99 E 8x9@1",
            "12221",
            "E",
            ("Resources", 8, 4),
            "VC 2 borrows 4",
        ),
    ],
)
def test_reasons(jobs: str, owners: str, job: str, expected: tuple[str, float, float], why: str) -> None:
    """Example 2: what a waiting job lacks, its share or a place."""
    trace, cluster = two_vcs(jobs, owners)
    assert reason(play("philly", trace, cluster), job) == expected, why


@pytest.mark.parametrize(
    ("jobs", "owners", "preempted", "why"),
    [
        (
            "A 8x99 B 8x99@10 C 8x99@20 D 8x99@30 E 8x99@40",
            "11122",
            "C",
            "latest start above quota",
        ),
        ("A 8x99 B 8x99@10 C 8x99@20 D 8x99@30", "1112", "", "75 % in use: D takes idle GPUs"),
        (
            "A 8x99 B 8x99@10 C 8x99@20 D 8x99@30 E 8x99@40 F 8x99@41",
            "111222",
            "C",
            "24 > 16: not F",
        ),
        ("A 8x99 B 8x99 C 8x99 D 8x99@30 E 8x99@40", "11122", "C", "equal starts: the larger id"),
        ("A 16x99 B 8x99@1 C 8x99@2 D 16x9@9", "1112", "BC", "one victim is not enough"),
        ("A 8x99 B 24x99@1 C 8x9@9", "112", "A", "without B, VC 1 would be below its quota"),
        ("A 32x99 B 8x9@10", "12", "", "without A, VC 1 would be below its quota: nobody can be preempted"),
    ],
)
def test_quota_is_enforced_by_preemption(jobs: str, owners: str, preempted: str, why: str) -> None:
    """Example 3: 32 GPUs, quotas 16 and 16."""
    jobs_table = play("philly", *two_vcs(jobs, owners)).jobs
    found = "".join(jobs_table.filter(jobs_table["preemptions"] > 0)["job_id"])
    assert found == preempted, why


def test_a_victim_whose_gpus_are_not_needed_is_spared() -> None:
    """D started last, but the 8 GPUs on one node that F needs are those of C: D keeps running."""
    trace, cluster = two_vcs("A 8x99 B 8x99@1 C 8x99@2 D 4x99@3 E 4x99@4 F 8x9@9", "111122")
    found = play("philly", trace, cluster).jobs
    assert found.filter(found["preemptions"] > 0)["job_id"].to_list() == ["C"]
    assert found.filter(found["job_id"] == "F")["start_s"].item() == 9


def test_a_victim_that_fits_elsewhere_moves_there_at_once() -> None:
    """F takes the two free GPUs beside V and V's own; V goes on at once, on the two that S left."""
    jobs = "A 4x99 B 6x99@1 S 2x10@2 C 8x99@3 D 8x99@4 E 8x99@5 V 2x99@6 F 4x9@20"
    owners = [int(c) for c in "00000101"]
    trace = trace_of(jobs, tenant=owners, tenant_names=("vc1", "vc2"))
    cluster = Cluster.build([NodeShape(5, 8)], Tenants.of(Tenant("vc1", 20), Tenant("vc2", 20)))
    record = play("philly", trace, cluster)
    assert (starts(record)["F"], finishes(record)["V"]) == (20, 105)
    of_v = record.intervals.filter(record.intervals["job_id"] == "V").sort("start_s")
    assert [nodes.to_list() for nodes in of_v["nodes"]] == [[0, 0], [1, 1]]
    assert of_v["start_s"].to_list() == [6, 20]


@pytest.mark.parametrize(("retries", "gpu_s"), [(3, 556.8), (0, 139.2)])
def test_blind_retries_cost_gpu_time(retries: int, gpu_s: float) -> None:
    """Example 4: a syntax error after 34.8 s on 4 GPUs, with three retries and with none."""
    trace = trace_of("A 4x1000")
    failing = Trace(trace.jobs, Truth.build([1000.0], failures={0: (34.8,) * 9}), "test", "test")
    record = play("philly", failing, "1x4", Setting(retries=retries))
    assert record.jobs["service_gpu_s"].sum() == pytest.approx(gpu_s)
    assert record.jobs["state"].to_list() == ["FAILED"]


def test_adaptive_retries_save_what_a_syntax_error_costs() -> None:
    """Example 4 with guideline 3: an error of the program is not tried again."""
    trace = trace_of("A 4x1000")
    truth = Truth.build([1000.0], failures={0: (34.8,) * 9}, signatures={0: ("syntax error",) * 9})
    record = play("philly", replace(trace, truth=truth), "1x4", Setting(retries=parse_retries("adaptive")))
    assert record.jobs["service_gpu_s"].sum() == pytest.approx(139.2)


@pytest.mark.parametrize(
    ("policy", "jobs", "cluster", "expected", "why"),
    [
        (
            "philly",
            "A 8x10 B 16x10@1 C 4x10@2",
            "2x8",
            {"B": 20, "C": 30},
            "B holds the other node",
        ),
        ("philly", "A 3x50 B 1x50@1 C 8x5@2", "2x8", {"C": 7}, "B packs beside A: a whole node stays free"),
        (
            "philly:dedicated=yes",
            "A 3x50 B 1x50@1 C 8x5@2",
            "2x8",
            {"B": 51, "C": 56},
            "B not beside A",
        ),
        ("philly", "A 12x5", "2x8", {"A": 5}, "12 GPUs on two nodes meet the strictest level"),
    ],
)
def test_order_and_place(policy: str, jobs: str, cluster: str, expected: dict[str, float], why: str) -> None:
    """Order of candidates and jobs that are passed by."""
    found = finishes(play(policy, jobs, cluster))
    assert {job: found[job] for job in expected} == expected, why


def test_racks() -> None:
    """Racks of 2 x 4: 8 GPUs stay within one; 12 are beyond any rack and start anywhere at once."""
    racks = [NodeShape(2, 4, levels={"rack": name}) for name in "rs"]
    cluster = Cluster.build(racks)
    record = play("philly", "A 1x400 B 8x10@1 C 12x10@500 D 4x9@600 E 4x9@600 F 8x10@601", cluster)
    nodes = {row["job_id"]: set(row["nodes"]) for row in record.intervals.iter_rows(named=True)}
    assert nodes["B"] == {2, 3}
    assert starts(record)["C"] == 500
    assert len(nodes["C"]) == 3
    assert nodes["D"] | nodes["E"] == {0, 1} or nodes["D"] | nodes["E"] == {0, 2}


def test_holdings_are_reservations() -> None:
    """While E holds the 2 GPUs it found, a job that could use just those does not get them."""
    record = play("philly", "A 6x50 B 6x500@1 E 8x9@2 F 2x9@3 G 2x9@4", "2x8")
    assert starts(record)["F"] == 3
    assert starts(record)["G"] > 4
    assert starts(record)["E"] == 50


def test_what_a_reclaim_leaves_goes_by_the_order_of_attempts() -> None:
    """A takes Q's GPUs back and leaves 2: W, whose attempt is open, is before X, who comes at that moment."""
    jobs = "P 10x999 Q 6x999@1 W 2x50@5 A 4x50@10 X 2x50@10"
    trace = trace_of(jobs, tenant=[1, 1, 2, 0, 2], tenant_names=("vc1", "vc2", "vc3"))
    tenants = Tenants.of(Tenant("vc1", 4), Tenant("vc2", 8), Tenant("vc3", 1))
    cluster = Cluster.build([NodeShape(1, 16)], tenants)
    record = play("philly", trace, cluster)
    assert {job: starts(record)[job] for job in "AW"} == {"A": 10, "W": 10}
    assert starts(record)["X"] > 10


def test_dedicated_nodes_can_be_taken_back() -> None:
    """E may not stand beside anybody, but C, whose node it takes, is gone."""
    trace, cluster = two_vcs("A 8x99 B 8x99@1 C 8x99@2 D 8x99@3 E 8x99@4", "11122")
    found = play("philly:dedicated=yes", trace, cluster).jobs
    assert found.filter(found["preemptions"] > 0)["job_id"].to_list() == ["C"]
    assert found.filter(found["job_id"] == "E")["start_s"].item() == 4


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["philly", "philly:relax_after=1,backoff_s=45", "philly:reclaim_util=0.5"])
@pytest.mark.parametrize("seed", first(1, range(4)))
@pytest.mark.parametrize("types", [1, 2])
def test_sleeping_through_attempts_changes_nothing(
    policy: str, seed: int, types: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Woken at every opening, it starts and preempts the same jobs at the same moments."""
    random = np.random.default_rng(seed)
    n = 60
    gpus, seconds = random.choice([1, 1, 1, 2, 4, 8, 12], n), random.integers(20, 4000, n)
    jobs = " ".join(f"J{i} {g}x{s}@{20 * i}" for i, (g, s) in enumerate(zip(gpus, seconds, strict=True)))
    trace, cluster = two_vcs(jobs, "".join(random.choice(["1", "2"], n)), quotas=(20, 12))
    if types == 2:
        cluster = Cluster.build([NodeShape(2, 8, "A"), NodeShape(2, 8, "B")], cluster.tenants)
        wanted = np.where(gpus > 8, 0, random.choice([0, 1, 2, 2], n))
        trace = replace(trace, jobs=replace(trace.jobs, gpu_types=wanted, type_names=("A", "B")))
    asleep = play(policy, trace, cluster)
    monkeypatch.setattr(
        Premises, "sleeps", property(lambda self: False, lambda self, value: None), raising=False
    )
    awake = play(policy, trace, cluster)
    columns = ["job_id", "start_s", "finish_s", "preemptions"]
    assert asleep.jobs.select(columns).equals(awake.jobs.select(columns))
    assert asleep.counts["decisions"] < awake.counts["decisions"]


def test_a_full_cluster_lets_the_policy_sleep() -> None:
    """Two jobs wait a day for A: none of 576 attempts is looked at before A ends."""
    assert play("philly", "A 4x86400 B 4x10@1 C 2x10@2", "1x4").counts["decisions"] == 6


def test_a_job_whose_type_is_full_lets_the_policy_sleep() -> None:
    """As above, beside GPUs that B does not take."""
    cluster = Cluster.build([NodeShape(1, 4, "A"), NodeShape(1, 4, "B")])
    trace = trace_of("A 4x86400 B 4x10@1", gpu_types=[1, 1], type_names=("A", "B"))
    assert play("philly", trace, cluster).counts["decisions"] == 4
