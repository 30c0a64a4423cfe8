"""The elastic modes of the ElasticFlow repository: plans climb backwards, surplus to the worst scaling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play, starts, trace_of
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import parse_cluster
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import Truth
from rota.policies.elasticflow.artifact import ArtifactSurplus
from rota.policies.elasticflow.asks import ShareAsk
from rota.policies.elasticflow.backward import BackwardPlanner, Planned, Steps, changed
from rota.solvers.future import SpeedLevels
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import semantics
from rota.worlds.simulated.speed_table import ScalingSpeed

POOR, GOOD = {1: 1.0, 2: 1.5, 4: 2.0}, {1: 1.0, 2: 2.0, 4: 3.6}
"""Work per second by number of GPUs."""


def wants(work: float, due_s: float, curve: dict[int, float] = POOR, row: int = 0) -> Planned:
    levels = SpeedLevels.of(np.array(list(curve)), np.array(list(curve.values())))
    return Planned.of(ShareAsk(row, levels, work, (due_s,), 0.0, 0, is_soft=False))


@pytest.mark.parametrize(
    ("free", "work", "due_s", "steps", "done_s", "why"),
    [
        ([(0, 4)], 180.0, 120.0, [(0, 2)], 120.0, "one piece: the lowest level that is in time"),
        ([(0, 4)], 144.0, 150.0, [(0, 1)], 144.0, "the last slot counts up to the deadline"),
        ([(0, 4)], 168.0, 150.0, [(0, 2)], 112.0, "and no further: 2.5 slots, not 3"),
        ([(0, 1), (60, 4)], 60.0, 120.0, [(60, 1)], 120.0, "from the end: it need not begin yet"),
        ([(0, 1), (120, 4)], 210.0, 180.0, [(0, 1), (120, 2)], 180.0, "below the turn one level less"),
        ([(0, 0), (60, 4)], 300.0, 120.0, None, None, "nothing is in time"),
    ],
)
def test_plans_climb_backwards(
    free: Steps, work: float, due_s: float, steps: Steps | None, done_s: float | None, why: str
) -> None:
    job = wants(work, due_s)
    plan = BackwardPlanner(4, 0.0, 60.0).plan(job, free)
    if steps is None:
        assert plan.done_s > due_s, why
        return
    assert [step for step in plan.steps if step[1]] == steps, why
    assert plan.done_s == done_s, why


@given(
    free=st.lists(st.integers(0, 8), min_size=1, max_size=6),
    work=st.floats(1.0, 5000.0),
    due_s=st.floats(1.0, 1000.0),
    first=st.sampled_from([None, 1, 2, 4]),
)
def test_no_plan_takes_more_than_is_free(
    free: list[int], work: float, due_s: float, first: int | None
) -> None:
    """And every plan does its work by the moment it says; at last all GPUs come free."""
    curve: Steps = [*((60.0 * place, gpus) for place, gpus in enumerate(free)), (60.0 * len(free), 8)]
    job, planner = wants(work, due_s), BackwardPlanner(8, 0.0, 60.0)
    if first is not None and first > free[0]:
        first = None
    if first is not None and 60.0 * POOR[first] >= work > due_s * POOR[first]:
        return  # late and done in one piece: the authors' stops there
    plan = planner.plan(job, curve, first)
    left = changed(curve, plan, -1)
    assert min(gpus for _, gpus in left) >= 0
    assert plan.end_s >= plan.done_s
    ends = [at_s for at_s, _ in plan.steps[1:]] + [np.inf]
    worked = sum(
        {0: 0.0, **POOR}[gpus] * max(min(end, plan.done_s) - at_s, 0.0)
        for (at_s, gpus), end in zip(plan.steps, ends, strict=True)
    )
    assert worked >= work * (1.0 - 1e-6) - 1e-6


def test_card_3_the_published_rule_prefers_whose_gpu_time_grows() -> None:
    """A' scales well (2 GPUs halve its time), B' badly (480 s become 360, in slots): B' goes first."""
    planner = BackwardPlanner(4, 0.0, 60.0)
    jobs = [wants(480.0, 480.0, GOOD, 0), wants(480.0, 480.0, POOR, 1)]
    free: Steps = [(0.0, 4)]
    for job in jobs:
        job.plan = planner.plan(job, free)
        job.gpus = job.plan.steps[0][1]
        free = changed(free, job.plan, -1)
    assert [job.gpus for job in jobs] == [1, 1]
    surplus = ArtifactSurplus(planner, list(jobs), free)
    surplus._sort(surplus._jobs)
    assert [surplus._keys[row] for row in (0, 1)] == [0.0, 240.0]
    only_one = ArtifactSurplus(BackwardPlanner(3, 0.0, 60.0), list(jobs), [(0.0, 1), (480.0, 3)])
    assert {job.ask.row: job.gpus for job in only_one.hand_out()} == {0: 1, 1: 2}


CURVES = ScalingCurves.build({"poor": POOR, "linear": {1: 1.0, 8: 8.0}}, clean=False)


def run(jobs: str, due_s: list[float], policy: str = "", cluster: str = "1x4"):
    trace = trace_of(
        jobs,
        deadline_s=due_s,
        gpus_min=1,
        gpus_max=4,
        counts=int(AllowedCounts.POWERS_OF_TWO),
        workload=0,
        workload_names=("poor", "linear"),
    )
    trace = replace(trace, truth=Truth.build(np.full(len(trace), np.nan), iterations=trace.truth.duration_s))
    where = parse_cluster(cluster)
    setting = Setting(speed=ScalingSpeed(trace, where, CURVES), semantics=semantics("elasticflow-ef"))
    return play(f"elasticflow:mode=artifact{policy}", trace, where, setting)


def test_who_comes_together_is_refused_together() -> None:
    """B could be in time, C could not: both are refused, and only those."""
    record = run("A 1x60 B 1x60@300 C 1x900@300 D 1x60@900", [300.0, 900.0, 600.0, 1500.0])
    assert dict(zip(record.jobs["job_id"], record.jobs["state"], strict=True)) == {
        "A": "COMPLETED", "B": "REJECTED", "C": "REJECTED", "D": "COMPLETED",
    }  # fmt: skip


def test_without_admission_nobody_is_refused() -> None:
    record = run("A 1x60 B 1x60@300 C 1x900@300 D 1x60@900", [300.0, 900.0, 600.0, 1500.0], ",refuse=no")
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 4


def test_ends_are_whole_slots_and_the_standstill_later() -> None:
    """A has all four GPUs: 100 s of work are 50 s, a slot of 60 s, and 8 s for a group of four that is new.

    B finds the group as it was, and stands still for 2 s only.
    """
    record = run("A 1x100 B 1x100@600", [900.0, 1500.0])
    assert starts(record) == {"A": 0.0, "B": 600.0}
    assert finishes(record) == {"A": 68.0, "B": 662.0}


def test_an_arrival_within_the_slot_is_seen_at_its_end() -> None:
    """At 60 s A has worked 52 of its 100 s of four GPUs' work, B comes in, and both are planned anew."""
    record = run("A 1x200 B 1x30@10 C 1x9@5000", [900.0, 900.0, 9000.0])
    assert starts(record)["B"] == 60.0
