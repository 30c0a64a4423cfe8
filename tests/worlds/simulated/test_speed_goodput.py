"""Speed by goodput: batches, epochs, and work that no constant rate counts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from play import finishes, play, trace_of
from rota.api.run_setup import make_setting
from rota.errors import InputError
from rota.knowledge.goodput import (
    BatchLimits,
    GoodputProfile,
    GoodputTable,
    Noise,
    StepFit,
    TrainingPhase,
    profiles_of,
)
from rota.knowledge.needs import Knowledge, Table
from rota.knowledge.scaling import curves_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Wake
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.pace import At
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import PRESETS, Semantics
from rota.worlds.simulated.speed_goodput import GoodputSpeed

# Pollux, worked examples; the second profile has 1,000 examples at high efficiency, then the rest at low
FIT = StepFit(0.05, 0.002, 0.10, 0.01, 0.03, 0.002, 2.0)
LIMITS = BatchLimits(64, 2048, 16, 128, accumulates=True)
ONE = GoodputProfile(LIMITS, {"*": FIT}, (TrainingPhase(math.inf, Noise(1.0, 4.0)),))
TWO = GoodputProfile(
    LIMITS,
    {"v100": FIT},
    (TrainingPhase(1000.0, Noise(1.0, 4.0)), TrainingPhase(math.inf, Noise(1.0, 0.0))),
    3000.0,
)
TABLE = GoodputTable({"one": ONE, "two": TWO})
CLUSTER = parse_cluster("2x4:V100")
ALONE = 359.5506179775281
"""Examples per second on one GPU at batch 64."""


def jobs(text: str, workload: str, truth: dict[str, Any] | None = None, **columns: Any) -> Trace:
    trace = trace_of(text, workload=0, workload_names=(workload,), **columns)
    unknown = {"duration_s": np.full(len(trace), math.nan)}
    return trace if truth is None else replace(trace, truth=Truth.build(**unknown | truth))


@pytest.mark.parametrize(
    ("devices", "batch_size", "rate", "why"),
    [
        ((0,), math.nan, 359.5506, "the best batch on one GPU is the first"),
        ((0, 1), math.nan, 591.537, "61 on each of two"),
        ((0, 1, 2, 3), math.nan, 917.283, "44 on each of four"),
        (tuple(range(8)), math.nan, 894.347, "two nodes: worse than one"),
        (
            (0, 1, 2, 3),
            256.0,
            1412.662 * 0.625,
            "the batch that the grant names: 64 on each, efficiency 0.625",
        ),
    ],
)
def test_rates(devices: tuple[int, ...], batch_size: float, rate: float, why: str) -> None:
    speed = GoodputSpeed(jobs("A 1x1", "one"), CLUSTER, TABLE)
    pace = speed.pace(0, Grant(0, devices, batch_size=batch_size), (), At(0.0, 0.0, 0.0))
    assert pace.rate == pytest.approx(rate, rel=1e-5), why
    assert pace.until_work == math.inf


def test_a_job_that_asks_for_a_batch_keeps_it() -> None:
    speed = GoodputSpeed(jobs("A 4x1", "one", batch_size=256.0), CLUSTER, TABLE)
    pace = speed.pace(0, Grant(0, (0, 1, 2, 3)), (), At(0.0, 0.0, 0.0))
    assert pace.rate == pytest.approx(1412.662 * 0.625, rel=1e-5)


TOTALS = [
    # job               truth                                      work               why
    ("A 1x2", None, 2 * ALONE, "the work of its duration"),
    ("A 1x2", {"iterations": [7.0]}, 7 * 64.0, "iterations at its first batch"),
    ("A 1x2", {}, 3000.0, "what the profile says"),
]


@pytest.mark.parametrize(("text", "truth", "work", "why"), TOTALS, ids=[case[3] for case in TOTALS])
def test_totals(text: str, truth: dict[str, Any] | None, work: float, why: str) -> None:
    trace = jobs(text, "two", truth)
    assert GoodputSpeed(trace, CLUSTER, TABLE).total(trace).tolist() == [pytest.approx(work)], why


@pytest.mark.parametrize(
    ("columns", "least", "most", "why"),
    [
        ({}, 176, 176, "44 on each of four, as the paper's example"),
        (
            {"batch_min": 64.0, "batch_max": 2048.0},
            176,
            176,
            "it is free within its range, and asks for none",
        ),
        ({"batch_size": 64.0, "batch_min": 64.0, "batch_max": 2048.0}, 176, 176, "it began with another"),
        ({"batch_size": 64.0, "batch_min": 64.0, "batch_max": 128.0}, 128, 128, "at most that"),
        ({"batch_size": 512.0, "batch_min": 512.0, "batch_max": 2048.0}, 512, 540, "at least that"),
        ({"batch_size": 512.0}, 512, 512, "without a range it keeps what it asks for"),
    ],
)
def test_a_job_chooses_within_its_range(columns: dict[str, float], least: int, most: int, why: str) -> None:
    speed = GoodputSpeed(jobs("A 4x1", "one", **columns), CLUSTER, TABLE)
    speed.pace(0, Grant(0, (0, 1, 2, 3)), (), At(0.0, 0.0, 0.0))
    assert least <= speed.batch_now[0] <= most, why
    speed.pace(0, Grant(0, (0, 1, 2, 3), batch_size=256.0), (), At(0.0, 0.0, 0.0))
    assert speed.batch_now[0] == 256, "a policy that names a batch is obeyed"


def test_policies_are_told_of_the_range() -> None:
    narrow = jobs("A 4x1", "one", batch_min=64.0, batch_max=512.0)
    table = GoodputSpeed(narrow, CLUSTER, TABLE).knowledge[Knowledge.GOODPUT].known()
    assert isinstance(table, Table)
    assert profiles_of(table, CLUSTER.type_names)[0].limits == replace(LIMITS, most=512)


def test_the_batch_follows_the_noise_under_a_policy_that_knows_of_none() -> None:
    """1,000 examples with noise, then none: only the first batch is worth its while."""
    speed = GoodputSpeed(jobs("A 4x1", "two", {}, batch_min=64.0, batch_max=2048.0), CLUSTER, TABLE)
    grant, batches = Grant(0, (0, 1, 2, 3)), []
    for done in (0.0, 1000.0):
        speed.pace(0, grant, (), At(done, 0.0, 0.0))
        batches.append(speed.batch_now.item(0))
    assert batches == [176, 64]


def test_a_rate_changes_with_the_epoch() -> None:
    """Without noise of the gradient larger batches are worth nothing: on 4 GPUs 64 is the best again."""
    trace = jobs("A 4x1", "two", {})
    speed = GoodputSpeed(trace, CLUSTER, TABLE)
    first = speed.pace(0, Grant(0, (0, 1, 2, 3)), (), At(0.0, 0.0, 0.0))
    then = speed.pace(0, Grant(0, (0, 1, 2, 3)), (), At(1000.0, 0.0, 0.0))
    assert (first.rate, first.until_work) == (pytest.approx(917.283, rel=1e-5), 1000.0)
    assert then.rate == pytest.approx(64 / FIT.step_s(1, 4, LIMITS.split(4, 64)))
    end = 1000 / first.rate + 2000 / then.rate
    assert finishes(play("fifo", trace, CLUSTER, Setting(speed=speed)))["A"] == pytest.approx(end)
    assert speed.knowledge[Knowledge.DURATION].known().tolist() == [pytest.approx(end)]
    whole = Setting(speed=speed, semantics=Semantics(epoch_clock_s=1.0))
    rounded = {"A": round(1 + 2000 / then.rate)}
    assert finishes(play("fifo", trace, CLUSTER, whole)) == rounded
    ticks = play("fifo", trace, CLUSTER, Setting(speed=speed, semantics=PRESETS["pollux"]))
    assert finishes(ticks) == rounded, "in rounds as well"


def test_policies_are_told_the_profiles() -> None:
    trace = trace_of("A 4x1 B 1x1 C 2x1", workload=[1, 0, 1], workload_names=("one", "two"))
    told = GoodputSpeed(trace, CLUSTER, TABLE).knowledge[Knowledge.GOODPUT].known()
    assert isinstance(told, Table)
    profiles = profiles_of(told, CLUSTER.type_names)
    classes = told.by_row["class"].tolist()
    assert classes[0] == classes[2] != classes[1]
    for row, name in enumerate(("two", "one", "two")):
        mine, true = profiles[classes[row]], TABLE.profiles[name]
        assert (mine.limits, mine.phases) == (true.limits, true.phases)
        assert [mine.fit_on(kind) for kind in CLUSTER.type_names] == [
            true.fit_on(kind) for kind in CLUSTER.type_names
        ]


def test_what_is_seen_of_its_steps() -> None:
    """A step of the batch it chose, its noise in samples, with an error of which nothing else hears."""
    trace = jobs("A 4x1", "one")
    speed = GoodputSpeed(trace, CLUSTER, TABLE)
    speed.pace(0, Grant(0, (0, 1, 2, 3)), (), At(0.0, 0.0, 0.0))
    profile = TABLE.profiles["one"]
    noise, best = profile.phases[0].noise, profile.best(FIT, profile.phases[0].noise, 1, 4)
    assert best is not None
    seen = speed.sight(0)
    assert seen.step_s == FIT.step_s(1, 4, best[0])
    assert (seen.batch_size, seen.noise) == (best[0].total(4), noise.var / noise.sqr * LIMITS.initial)
    assert (seen.passes, seen.gradient_s) == (best[0].accumulated, FIT.gradient_s(best[0].local))
    assert seen.local_most == LIMITS.local_most


def test_seconds_count_at_the_present_rate() -> None:
    """`per_s` is NaN with two rates: a lost node costs what the job did since its last checkpoint."""
    trace = jobs("A 1x1", "two", {})
    speed = GoodputSpeed(trace, CLUSTER, TABLE)
    assert np.isnan(speed.per_s).tolist() == [True]
    setting = Setting(speed=speed, costs=Costs(checkpoint_every_s=2.0), faults=[Fault(0, 2.5, 99.0)])
    record = play("fifo", trace, CLUSTER, setting)
    assert record.jobs["lost_s"].to_list() == [pytest.approx(0.5)]
    record = play("srtf", trace, CLUSTER, setting)
    assert record.jobs["state"].to_list() == ["COMPLETED"], "orders by remaining time have a number to go by"


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (
            jobs("A 1x1", "three"),
            "job A runs 'three', which has no goodput profile; expected one of one, two",
        ),
        (jobs("A 1x1", "one", {}), "job A states neither iterations nor a duration"),
        (jobs("A 1x1", "two", {"failures": {0: (3.0,)}}), "attempts that fail after some seconds of work"),
    ],
)
def test_jobs_without_a_speed_are_refused(trace: Trace, message: str) -> None:
    with pytest.raises(InputError, match=message):
        play("fifo", trace, CLUSTER, Setting(speed=GoodputSpeed(trace, CLUSTER, TABLE)))


def test_a_range_below_the_first_batch_is_refused() -> None:
    with pytest.raises(InputError, match="job A \\(one\\) uses at most 32 samples a step"):
        GoodputSpeed(jobs("A 4x1", "one", batch_min=16.0, batch_max=32.0), CLUSTER, TABLE)


def test_a_job_that_no_type_can_run_is_refused() -> None:
    with pytest.raises(InputError, match=r"job A \(two\) has no goodput on 1 GPUs of any type it accepts"):
        GoodputSpeed(jobs("A 1x1", "two"), parse_cluster("1x4:K80"), TABLE)


class SizesInTurn:
    """Runs the first job on 1, 2 and 4 GPUs, and keeps the curve that it is told."""

    needs = frozenset({Knowledge.SCALING})

    def __init__(self) -> None:
        self.curve: list[float] = []

    def decide(self, snapshot, memory):
        self.curve = curves_of(snapshot.know(Knowledge.SCALING), np.arange(1), 4)[0].tolist()
        gpus = (1, 2, 4, 4)[min(int(snapshot.now // 10), 3)]
        live = [*snapshot.running.tolist(), *snapshot.waiting.tolist()]
        return Decision(
            memory, [Grant(row, tuple(range(gpus))) for row in live], wake=Wake(snapshot.now + 10.0)
        )


def test_a_curve_of_goodput_is_learnt_from_jobs_that_choose_their_batch() -> None:
    """What policies of scaling know of them: relative to the one GPU that it asked for."""
    trace = jobs("A 1x60", "one", {"iterations": np.array([400.0])}, batch_size=64.0, batch_min=64.0,
                 batch_max=2048.0, gpus_min=1, gpus_max=4)  # fmt: skip
    policy, speed = SizesInTurn(), GoodputSpeed(trace, CLUSTER, TABLE)
    play(policy, trace, CLUSTER, make_setting(speed=speed, knowledge="scaling=measured"))
    assert [policy.curve[gpus] for gpus in (1, 2, 4)] == pytest.approx(
        [1.0, 591.537 / ALONE, 917.283 / ALONE], rel=1e-4
    )
