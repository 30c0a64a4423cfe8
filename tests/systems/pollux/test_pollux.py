"""Pollux whole: speedups by the worked examples, and runs in which it learns what it is not told."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from play import finishes, play, trace_of
from rota.knowledge.goodput import BatchLimits, GoodputProfile, GoodputTable, Noise, StepFit, TrainingPhase
from rota.model.cluster import parse_cluster
from rota.model.grants import Can, Code
from rota.model.record import Record
from rota.model.tenants import Tenant, Tenants
from rota.systems.pollux.parameters import PolluxParameters
from rota.systems.pollux.policy import PolluxReasons
from rota.systems.pollux.speedups import Models, Speedups
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import PRESETS
from rota.worlds.simulated.speed_goodput import GoodputSpeed

FIT = StepFit(0.05, 0.002, 0.10, 0.01, 0.03, 0.002, 2.0)
LIMITS = BatchLimits(64, 2048, 16, 128, accumulates=True)


def models(*, fit: StepFit | None = FIT, profiled: float = math.inf) -> Models:
    fits = np.full((1, 7), math.nan) if fit is None else np.array([fit])
    limits = np.array([[64.0, 2048.0, 16.0, 128.0, 1.0]])
    return Models(np.array([0]), fits, limits, np.array([256.0]), np.array([profiled]), np.array([1]))


def test_speedups() -> None:
    """Worked example 3: with a fair share of two GPUs, crossing nodes to eight is worse than four on one."""
    table = Speedups(PolluxParameters(), 4, 16).speedups(models(), 8)[0]
    assert [table[0, 1], table[0, 2], table[0, 4], table[1, 8]] == pytest.approx(
        [0.6078, 1.0, 1.5507, 1.5119], abs=1e-4
    )
    assert table[:, 0].tolist() == [0.0, 0.0]


def test_a_job_that_nobody_has_seen() -> None:
    """It is taken to gain as much by every GPU."""
    table = Speedups(PolluxParameters(), 4, 16).speedups(models(fit=None), 8)[0]
    assert table[0, :5] == pytest.approx(np.arange(5) / 2)
    assert table[1, 16] == 8.0


def test_a_fair_share_that_its_batch_cannot_be_split_among() -> None:
    """128 GPUs at most share 2,048 examples: alone on 200, speedups are to the most that it can use."""
    sizes = Speedups(PolluxParameters(most_gpus=200), 4, 200)
    table = sizes.speedups(models(), 1)[0]
    assert table[1, 129] == 0.0
    assert table[1, 128] == pytest.approx(1.0)


def test_batches() -> None:
    """Unseen it takes the smallest; then the best, but not for a gain of less than 5 %."""
    sizes = Speedups(PolluxParameters(), 4, 16)
    assert sizes.batch_size(models(fit=None), 0, 1, 2, math.nan) == 64.0
    assert sizes.batch_size(models(), 0, 1, 4, math.nan) == 4 * 44
    assert sizes.batch_size(models(), 0, 1, 4, 4 * 43) == 4 * 43
    assert sizes.batch_size(models(), 0, 1, 4, 64.0) == 4 * 44
    assert sizes.batch_size(models(), 0, 2, 8, math.nan) == 8 * 56


def test_words_for_who_waits() -> None:
    """Its goodput by size; or that nobody knows it yet."""
    sizes = Speedups(PolluxParameters(), 4, 16)
    said = PolluxReasons(models(), sizes, [0])[0]
    assert said.code is Code.POLICY
    assert "359.6 on 1, 591.5 on 2, 917.3 on 4, 894.3 on 8" in said.detail
    assert "has not run yet" in PolluxReasons(models(fit=None), sizes, [0])[0].detail
    with pytest.raises(KeyError):
        PolluxReasons(models(), sizes, [])[0]


# -- runs ------------------------------------------------------------------------------------------

CLUSTER = parse_cluster("2x4:V100")
PROFILE = GoodputProfile(
    LIMITS, {"*": FIT}, (TrainingPhase(60_000.0, Noise(1.0, 4.0)), TrainingPhase(math.inf, Noise(1.0, 60.0)))
)
JOBS = "A 1x3000 B 1x1500@30 C 1x600@200 D 1x600@300"


def run(policy: str, knowledge: str = "measured", can: Can = Can.ALL, text: str = JOBS) -> Record:
    trace = trace_of(text, gpus_min=1, gpus_max=8, workload=0, workload_names=("w",))
    setting = Setting(
        speed=GoodputSpeed(trace, CLUSTER, GoodputTable({"w": PROFILE})),
        semantics=PRESETS["pollux"],
        costs=parse_costs("start=30s,restore=30s"),
        knowledge={"goodput": knowledge},
        can={"*": can},
    )
    return play(policy, trace, CLUSTER, setting)


def sizes_of(record: Record, job: str) -> list[int]:
    sizes: list[int] = (
        record.intervals.filter(record.intervals["job_id"] == job).sort("start_s")["gpus"].to_list()
    )
    return sizes


def test_it_learns_as_jobs_run() -> None:
    """Who was seen on k GPUs gets at most 2k; with what it learns all end sooner than on one GPU."""
    record = run("pollux")
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 4
    assert max(finishes(record).values()) < max(finishes(run("fifo:skip=yes")).values())
    seen = sizes_of(record, "A")
    assert seen[0] == 1
    assert all(after <= 2 * before for before, after in pairwise(seen))
    assert max(seen) > 2
    batches = record.intervals.filter(record.intervals["job_id"] == "A")["batch_size"]
    assert batches.max() > 64, "and it takes a larger batch"  # type: ignore[operator]


def test_told_everything_it_need_not_explore() -> None:
    told, learnt = (run("pollux", source) for source in ("oracle", "measured"))
    assert sizes_of(told, "A")[:2] == [1, 4], (
        "on its least size until the first search, then on one whole node"
    )
    assert told.jobs["finish_s"].mean() <= learnt.jobs["finish_s"].mean()  # type: ignore[operator]


def test_the_same_seed_decides_the_same() -> None:
    first, again = (run("pollux").intervals for _ in range(2))
    assert first.equals(again)


def test_who_bears_no_change_keeps_what_it_has() -> None:
    """Not asked for again and again: nobody is resized, moved or stopped."""
    record = run("pollux", can=Can.NOTHING)
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 4
    assert len(record.intervals) == 4


def test_one_job_on_several_nodes_to_a_node() -> None:
    """With four jobs for eight GPUs no two of them span the same nodes."""
    record = run("pollux", "oracle")
    rows = [
        (row["start_s"], row["end_s"], set(row["nodes"]))
        for row in record.intervals.select("start_s", "end_s", "nodes").iter_rows(named=True)
        if len(set(row["nodes"])) > 1
    ]
    for i, (start, end, nodes) in enumerate(rows):
        for other_start, other_end, other_nodes in rows[:i]:
            assert max(start, other_start) >= min(end, other_end) or not nodes & other_nodes


def test_large_clusters_are_searched_in_cells() -> None:
    record = run("pollux:cell_nodes=1")
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 4
    assert max(sizes_of(record, "A")) <= 4, "a job stays within its cell"


# -- hard quotas -----------------------------------------------------------------------------------

HALF = Tenant("a", 1.0, hard=True)
HALF_OF_TYPE = Tenant("a", hard=True, quota_by_type={"V100": 1.0})


@pytest.mark.parametrize("tenant", [HALF, HALF_OF_TYPE], ids=["of all types", "of one type"])
@pytest.mark.parametrize("cell_nodes", [64, 1])
def test_parts_of_gpus_and_the_rest_of_their_tenant_stay_within_its_quota(
    tenant: Tenant, cell_nodes: int
) -> None:
    """A runs when B comes, which asks for half a GPU, as C does: a search starts B, and A waits for it."""
    cluster = replace(CLUSTER, tenants=Tenants.of(tenant))
    trace = trace_of(
        "A 1x300 C 1x900 B 1x100@70", gpu_share=[1.0, 0.5, 0.5], tenant=[0, 1, 0], tenant_names=("a", "c")
    )
    record = play(f"pollux:cell_nodes={cell_nodes}", trace, cluster)
    assert record.intervals.select("job_id", "start_s", "end_s").sort("start_s", "job_id").rows() == [
        ("A", 0.0, 120.0),
        ("C", 0.0, 900.0),
        ("B", 120.0, 220.0),
        ("A", 220.0, 400.0),
    ]


def test_all_cells_together_keep_a_quota() -> None:
    """Three GPUs for two jobs that could use four each, in a cell of their own."""
    cluster = replace(CLUSTER, tenants=Tenants.of(Tenant("a", 3.0, hard=True)))
    trace = trace_of("A 1x600 B 1x600", gpus_min=1, gpus_max=4, tenant=[0, 0], tenant_names=("a",))
    record = play("pollux:cell_nodes=1", trace, cluster)
    assert max(sizes_of(record, "A")) + max(sizes_of(record, "B")) > 2
    assert record.jobs["preemptions"].to_list() == [0, 0], "nobody is promised more than the tenant has"


@pytest.mark.parametrize("policy", ["pollux", "pollux@authors"])
def test_a_job_may_have_less_than_it_asks_for_within_a_quota(policy: str) -> None:
    """It asks for three GPUs of a tenant that may have two, and can do with one: it gets two."""
    cluster = replace(CLUSTER, tenants=Tenants.of(Tenant("a", 2.0, hard=True)))
    trace = trace_of("A 3x600", gpus_min=1, gpus_max=4, tenant=[0], tenant_names=("a",))
    record = play(policy, trace, cluster, Setting(until_s=3000.0))
    assert record.jobs["state"].to_list() == ["COMPLETED"]
    assert max(sizes_of(record, "A")) == 2


@pytest.mark.parametrize("policy", ["pollux", "pollux@authors"])
def test_a_job_starts_on_a_type_of_which_its_tenant_may_have_as_many(policy: str) -> None:
    """More GPUs are free of the other type, of which the tenant may have one, and the job needs two."""
    tenant = Tenant("a", hard=True, quota_by_type={"V100": 1.0})
    cluster = replace(parse_cluster("2x4:V100,1x2:T4"), tenants=Tenants.of(tenant))
    trace = trace_of("A 2x100", tenant=[0], tenant_names=("a",))
    record = play(policy, trace, cluster, Setting(until_s=3000.0))
    assert record.intervals["devices"].to_list() == [[8, 9]]
