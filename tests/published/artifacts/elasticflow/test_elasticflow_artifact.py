"""The elastic modes of the ElasticFlow repository: plans climb backwards, surplus to the worst scaling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play, starts, trace_of
from rota import native
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import parse_cluster
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import Truth
from rota.published.artifacts.elasticflow import climb as climbing
from rota.published.artifacts.elasticflow.backward import BackwardPlanner, Planned, Steps, changed
from rota.published.artifacts.elasticflow.events import EventList
from rota.published.artifacts.elasticflow.hand_out import ArtifactSurplus, Climbed, climbed_in_steps
from rota.solvers.future import SpeedLevels
from rota.systems.elasticflow.asks import ShareAsk
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
    surplus._sort(surplus.ordered)
    assert [surplus._keys[row] for row in (0, 1)] == [0.0, 240.0]
    only_one = ArtifactSurplus(BackwardPlanner(3, 0.0, 60.0), list(jobs), [(0.0, 1), (480.0, 3)])
    only_one.hand_out()
    assert {job.ask.row: job.gpus for job in only_one.ordered} == {0: 1, 1: 2}


def asks_among(rng: np.random.Generator, most: int) -> list[ShareAsk]:
    """Up to `most` jobs by deadline, some without one and some late already; many alike, so that keys tie."""
    curves = [POOR, GOOD, {1: 1.0}, {2: 1.5, 8: 5.0}, {1: 2.0, 2: 1.9, 4: 6.0, 8: 6.5, 16: 20.0}]
    shared = [SpeedLevels.of(np.array(list(curve)), np.array(list(curve.values()))) for curve in curves]
    asks = []
    for row in range(int(rng.integers(1, most))):
        due_s = float(rng.choice([rng.integers(-500, 20_000), 600, 1200]))
        dues = () if rng.random() < 0.2 else (due_s,)
        work = float(rng.choice([rng.uniform(0.5, 30_000.0), 600.0, 1e-6]))
        levels = shared[int(rng.integers(len(shared)))]
        asks.append(ShareAsk(row, levels, work, dues, 0.0, 0, is_soft=False))
    return sorted(asks, key=lambda ask: ask.dues[-1] if ask.dues else 1e12)


@pytest.mark.skipif(native.library(climbing.SOURCE) is None, reason="no C compiler when Rota was installed")
@pytest.mark.parametrize("seed", range(40))
def test_c_and_python_end_at_the_same_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asks, gpus = asks_among(rng, 40), int(rng.choice([16, 32, 100]))
    now, slot_s = float(rng.integers(0, 10_000)) / 7.0, float(rng.choice([60.0, 240.0, 7.5]))
    for gives in (False, True):
        expected = climbed_in_steps(asks, gpus, now, slot_s, gives=gives)
        assert climbing.climbed(asks, gpus, now, slot_s, gives=gives) == expected
        assert bool(expected.raised) <= gives


def test_without_a_library_python_takes_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda source: None)
    asks = asks_among(np.random.default_rng(3), 20)
    assert climbing.climbed(asks, 32, 0.0, 60.0, gives=True).raised


NEVER = float("inf")


def planned_for(**what: list[float]) -> Climbed:
    """Plans of jobs that nothing was handed out to."""
    gpus, ends = [int(one) for one in what["gpus"]], what["ends"]
    changes = what.get("changes", [NEVER] * len(gpus))
    begins = what.get("begins", [NEVER] * len(gpus))
    return Climbed(True, gpus, ends, ends, changes, gpus, ends, ends, begins, [*range(len(gpus))], [])


@pytest.mark.parametrize(
    ("before", "after_s", "stood_s", "after", "wakes_s", "why"),
    [
        (
            {"gpus": [1, 1], "ends": [600, 900], "changes": [300, NEVER]}, 60, 5,
            {"gpus": [1, 1], "ends": [660, 900]}, 300, "a change of an earlier plan stays noted",
        ),
        (
            {"gpus": [1, 1], "ends": [600, 900], "changes": [300, NEVER]}, 300, 0,
            {"gpus": [1, 1], "ends": [600, 900]}, NEVER, "until its moment comes",
        ),
        (
            {"gpus": [1, 1], "ends": [600, 900], "changes": [600, NEVER]}, 60, 0,
            {"gpus": [1, 1], "ends": [660, 900]}, NEVER, "or goes with an end that was planned for it",
        ),
        (
            {"gpus": [1, 0], "ends": [600, 900], "changes": [605, NEVER], "begins": [0, 700]}, 60, 5,
            {"gpus": [1, 0], "ends": [660, 900], "begins": [0, 700]}, 700, "5 s of standstill on top",
        ),
        (
            {"gpus": [1, 0], "ends": [600, 900], "changes": [606, NEVER], "begins": [0, 700]}, 60, 5,
            {"gpus": [1, 0], "ends": [660, 900], "begins": [0, 700]}, 606, "which 6 s are not",
        ),
        (
            {"gpus": [1, 0], "ends": [60, 900], "changes": [97, NEVER], "begins": [0, 700]}, 30, 37,
            {"gpus": [1, 0], "ends": [120, 900], "begins": [0, 700]}, 700, "or 37 s, more than the round had",
        ),
    ],
)  # fmt: skip
def test_what_the_list_of_events_forgets(
    before: dict[str, list[float]],
    after_s: float,
    stood_s: float,
    after: dict[str, list[float]],
    wakes_s: float,
    why: str,
) -> None:
    levels = SpeedLevels.of(np.array([1]), np.array([1.0]))
    asks = [ShareAsk(row, levels, 900.0, (2000.0,), 0.0, 0, is_soft=False) for row in (0, 1)]

    def worked_s(row: int) -> float:
        return after_s - stood_s

    memory: dict[str, object] = {}
    EventList(memory, 0.0, asks, planned_for(**before), worked_s).close(memory)
    memory["asked_s"] = 0.0
    events = EventList(memory, after_s, asks, planned_for(**after), worked_s)
    assert events.close(memory) == wakes_s, why


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
    return play(f"elasticflow@authors{policy}", trace, where, setting)


def test_who_comes_together_is_refused_together() -> None:
    """B could be in time, C could not: both are refused, and only those."""
    record = run("A 1x60 B 1x60@300 C 1x900@300 D 1x60@900", [300.0, 900.0, 600.0, 1500.0])
    assert dict(zip(record.jobs["job_id"], record.jobs["state"], strict=True)) == {
        "A": "COMPLETED", "B": "REJECTED", "C": "REJECTED", "D": "COMPLETED",
    }  # fmt: skip


def test_without_admission_nobody_is_refused() -> None:
    record = run("A 1x60 B 1x60@300 C 1x900@300 D 1x60@900", [300.0, 900.0, 600.0, 1500.0], ":refuse=no")
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
