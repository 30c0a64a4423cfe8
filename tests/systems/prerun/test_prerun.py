"""Pre-run: new jobs on one GPU of a pool first, and any policy for those that have passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from play import finishes, play, starts, trace_of
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.retries import parse_retries
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed import FixedDuration


def failing(jobs: str, failures: dict[int, tuple[float, ...]], of: dict[int, tuple[str, ...]]) -> Trace:
    """Jobs whose first attempts fail after so many seconds, of these signatures."""
    trace = trace_of(jobs)
    truth = Truth.build(trace.truth.duration_s, failures=failures, signatures=of)
    return Trace(trace.jobs, truth, "test", "test")


@pytest.mark.parametrize(
    ("policy", "gpu_s", "why"),
    [
        ("philly", 139.2, "4 GPUs for 34.8 s"),
        ("prerun", 34.8, "it fails on one GPU as soon as on four"),
        ("prerun:for_s=30", 30 + 4 * (34.8 - 7.5), "it does not fail within 30 s, and keeps 7.5"),
        ("prerun:least_gpus=8", 139.2, "of 4 GPUs: too small to be tried"),
        ("prerun:nodes=2", 139.2, "no more nodes than the pool takes: there is none"),
    ],
)
def test_a_syntax_error_costs_one_gpu(policy: str, gpu_s: float, why: str) -> None:
    """Card of Philly, example 4: 34.8 s until a syntax error shows, retries that know it is no use."""
    trace = failing("A 4x1000", {0: (34.8,) * 9}, {0: ("syntax error",) * 9})
    record = play(policy, trace, "2x4", Setting(retries=parse_retries("adaptive")))
    assert record.jobs["service_gpu_s"].sum() == pytest.approx(gpu_s), why
    assert record.jobs["state"].to_list() == ["FAILED"]


@pytest.mark.parametrize(
    ("policy", "jobs", "expected", "why"),
    [
        # 180 s on one GPU of four are 45 s of work, and A keeps them.
        ("prerun:policy=fifo", "A 4x1000", {"A": 1135}, "180 + 1000 - 45"),
        ("prerun:policy=fifo", "A 1x50", {"A": 50}, "it ends in the pool"),
        ("prerun:policy=fifo,for_s=10", "A 1x50 B 1x50 C 1x50 D 1x50 E 1x50", {"E": 90}, "five on four GPUs"),
        (
            "prerun:policy=fifo,for_s=10",
            "A 8x50 B 1x50@1",
            {"A": 51.25 - 1.25, "B": 100},
            "A is as large as all",
        ),
        ("prerun:policy=srtf,for_s=10", "A 4x99 B 4x30@5", {"B": 15 + 27.5}, "B preempts A beside the pool"),
        ("prerun:policy=fifo,for_s=10", "A 0x50", {"A": 50}, "no GPU, no trial"),
    ],
)
def test_who_does_not_fail_goes_on(policy: str, jobs: str, expected: dict[str, float], why: str) -> None:
    """Two nodes of four GPUs, the second of them the pool; finishes computed by hand."""
    found = finishes(play(policy, trace_of(jobs), "2x4"))
    assert {job: found[job] for job in expected} == pytest.approx(expected), why


def nodes_of(record: Any, job: str) -> list[set[int]]:
    rows = record.intervals.filter(record.intervals["job_id"] == job).sort("start_s")
    return [set(nodes.to_list()) for nodes in rows["nodes"]]


def test_nobody_else_runs_in_the_pool() -> None:
    record = play("prerun:policy=fifo,for_s=10", "A 4x100 B 4x100 C 2x100 D 2x5@3", "2x4")
    for job in "ABC":
        assert nodes_of(record, job) == [{1}, {0}]
    assert nodes_of(record, "D") == [{1}, {0}] or finishes(record)["D"] <= 13


def test_a_job_that_needs_the_pool_gets_it() -> None:
    """B is larger than what lies beside the pool: who is tried waits with all others, and it is next."""
    record = play("prerun:policy=fifo,for_s=100", "A 2x60 B 8x10@20 C 1x10@21 D 1x20@200", "2x4")
    assert starts(record)["B"] == pytest.approx(20 + 60 - 10), "A was before it, and keeps 10 s of work"
    assert nodes_of(record, "B") == [{0, 1}]
    assert nodes_of(record, "C") == [{0}], "no pool while B is there"
    assert nodes_of(record, "D") == [{1}], "and one again"


def test_a_pool_that_is_lost_stops_nobody() -> None:
    record = play("prerun:policy=fifo", "A 4x50@5 B 4x50@6", "2x4", Setting(faults=[Fault(1, 1.0, 1e6)]))
    assert finishes(record) == {"A": 55, "B": 105}


def test_nodes_beside_the_pool_that_are_lost_stop_nobody() -> None:
    record = play("prerun:policy=fifo", "A 4x50@5 B 4x50@6", "2x4", Setting(faults=[Fault(0, 1.0, 1e6)]))
    assert finishes(record) == {"A": 55, "B": 105}


def test_a_tenant_with_a_hard_quota_is_not_tried() -> None:
    """Its jobs in the pool would count against it where the policy inside does not see them."""
    trace = trace_of("A 2x50 B 2x50", tenant=[0, 0], tenant_names=("t",))
    cluster = Cluster.build([NodeShape(2, 4)], Tenants.of(Tenant("t", 2, hard=True)))
    record = play("prerun:policy=fifo", trace, cluster)
    assert finishes(record) == {"A": 50, "B": 100}


def test_who_runs_in_a_pool_that_is_set_apart_again_is_not_seen_beside_it() -> None:
    """Gandiva took A over as one of its own, and it ran on nodes that it was not shown."""
    cluster = Cluster.build([NodeShape(1, 8), NodeShape(1, 2), NodeShape(1, 2)])
    lost = Setting(faults=[Fault(0, 31.0, 90.0), Fault(1, 72.0, 83.0)])
    record = play("prerun:policy=gandiva", "A 1x7580@29", cluster, lost)
    assert record.jobs["state"].to_list() == ["COMPLETED"]


def test_a_trial_that_a_wrapper_seats_elsewhere_is_in_the_way_of_others() -> None:
    """Synergy chooses the GPUs of all: A's first run is on n0, which the policy inside took for free."""
    cluster = Cluster.build([NodeShape(1, 1), NodeShape(1, 8), NodeShape(1, 2)])
    jobs = "A 1x1680@23 B 4x7760@26 C 6x5980@27 D 1x13320@38"
    record = play("synergy:policy=prerun", jobs, cluster, Setting(faults=[Fault(2, 59.0, 115.0)]))
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 4


@pytest.mark.parametrize("inner", ["fifo", "philly", "drf", "gavel", "gandiva"])
def test_who_runs_in_a_pool_that_is_set_apart_again_counts_against_its_quota(inner: str) -> None:
    """A runs on the last node while the other is lost; when that is back, B could not be seen beside it."""
    cluster = Cluster.build([NodeShape(2, 4)], Tenants.of(Tenant("capped", quota_gpus=2, hard=True)))
    trace = trace_of("A 2x100 B 2x10@1", tenant=[0, 0], tenant_names=("capped",))
    record = play(f"prerun:policy={inner}", trace, cluster, Setting(faults=[Fault(0, 0.0, 50.0)]))
    assert starts(record)["A"] == 0.0
    assert starts(record)["B"] >= 100.0


def test_a_retry_after_the_trial_needs_no_other() -> None:
    """The MPI error comes after 300 s: in the gang, which is tried again 60 s later, and not in the pool."""
    trace = failing("A 4x1000", {0: (300.0,)}, {0: ("MPI runtime failure",)})
    record = play("prerun:policy=fifo", trace, "2x4", Setting(retries=parse_retries("adaptive")))
    assert nodes_of(record, "A") == [{1}, {0}, {0}]
    assert finishes(record)["A"] == pytest.approx(180 + 255 + 60 + 1000)


def test_what_was_reserved_on_the_whole_cluster_is_not_when_there_is_a_pool_again() -> None:
    """While A needs three GPUs there is no pool, and B holds some of the node that is one once A ends."""
    record = play("prerun:policy=philly,for_s=10", "A 3x20@1 B 2x5@2 C 2x300@5", "2x2")
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 3


class Warming(FixedDuration):
    """Jobs work at half their speed until the moment 30."""

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        pace = super().pace(row, grant, beside, at)
        return Pace(pace.rate / 2, until_s=30.0) if at.now < 30.0 else pace


@pytest.mark.parametrize(
    ("costs", "others", "end_s", "why"),
    [
        ("", "", 50.0, "its first 30 s at half the speed are part of its stay"),
        ("", " B 1x500@10", 50.0, "whoever comes meanwhile"),
        ("start=20s", "", 70.0, "it begins at 20"),
    ],
)
def test_a_stay_is_no_longer_for_a_change_of_speed(costs: str, others: str, end_s: float, why: str) -> None:
    trace, cluster = trace_of(f"A 1x500{others}"), parse_cluster("2x4")
    setting = Setting(speed=Warming(trace.jobs, cluster), costs=parse_costs(costs))
    record = play("prerun:policy=fifo,for_s=50", trace, cluster, setting)
    ends_s = record.intervals.filter(record.intervals["job_id"] == "A").sort("start_s")["end_s"]
    assert ends_s[0] == pytest.approx(end_s), why
