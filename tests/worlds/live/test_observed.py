"""What is seen of live jobs: smoothed, told when it is news, and turned into what policies know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  (registers the profile)
from rota.knowledge.measured import FittedScaling, MeasuredScaling, MeasuredUtilisation, speed_on
from rota.knowledge.needs import Observation
from rota.knowledge.scaling import curves_of
from rota.knowledge.seen import LOOKED_ENOUGH_S, JobObservations, Shape
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Role
from rota.model.jobs import JobTable
from rota.wire.job import JobSpec
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.observations import rate_of

LOOKS = [
    # looks (busy, seconds)                          told   why
    ([(0.2, 59.0)],                                  1.0,   "not watched for long enough"),
    ([(0.2, 30.0), (0.2, 31.0)],                     0.2,   "watched for a minute"),
    ([(0.97, 600.0)],                                1.0,   "nearly fully busy is fully busy"),
    ([(7.5, 600.0)],                                 1.0,   "more threads than slots"),
    ([(0.0, 600.0)],                                 0.0,   "asleep"),
    ([(0.5, 600.0), (0.52, 600.0)],                  0.5,   "a small change is not told"),
    ([(0.5, 600.0), (0.9, 1e6)],                     0.9,   "what was long ago is forgotten"),
]  # fmt: skip


@pytest.mark.parametrize(("looks", "told", "why"), LOOKS, ids=[look[-1] for look in LOOKS])
def test_utilisation(looks: list[tuple[float, float]], told: float, why: str) -> None:
    observed = JobObservations()
    for busy, seconds in looks:
        observed.look(busy, seconds)
        observed.take_news()
    assert observed.told == pytest.approx(told, abs=1e-6), why


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0.1, 100)), min_size=1))
def test_utilisation_stays_within_what_was_seen(looks: list[tuple[float, float]]) -> None:
    observed = JobObservations()
    for busy, seconds in looks:
        observed.look(busy, seconds)
    seen = [min(busy, 1.0) for busy, _ in looks]
    assert min(seen) - 1e-9 <= observed.utilisation <= max(seen) + 1e-9
    assert observed.looked_s == pytest.approx(sum(seconds for _, seconds in looks))


def test_it_survives_as_json() -> None:
    observed = JobObservations()
    observed.look(0.25, 2 * LOOKED_ENOUGH_S)
    observed.time(Shape("V100", 1, 2, 64.0), 30.0)
    again = JobObservations.of(observed.plain())
    assert again.take_news()
    assert (again.told, again.told_speeds) == (0.25, {Shape("V100", 1, 2, 64.0): 30.0})
    assert not again.take_news()
    assert not JobObservations.of(None).take_news()


def test_speeds_stored_by_number_of_devices_still_load() -> None:
    """They stand apart from what is measured now: nobody noted their type, nodes and batch."""
    stored = {"utilisation": 1.0, "looked_s": 0.0, "speeds": {"2": 30.0, "4": 50.0}}
    old = JobObservations.of(stored)
    assert old.speeds == {Shape("", 0, 2): 30.0, Shape("", 0, 4): 50.0}
    assert JobObservations.of(old.plain()).speeds == old.speeds
    old.time(Shape("V100", 1, 2, 64.0), 10.0)
    assert old.speeds[Shape("", 0, 2)] == 30.0


CURVES = [
    # measured              on     speed  why
    ({2: 20.0, 4: 30.0},    0,     0.0,   "nothing"),
    ({2: 20.0, 4: 30.0},    1,    10.0,   "below the least: in proportion"),
    ({2: 20.0, 4: 30.0},    3,    25.0,   "between: on a line"),
    ({2: 20.0, 4: 30.0},    6,    40.0,   "beyond: the line goes on"),
    ({1: 10.0, 2: 50.0},    4,   100.0,   "not more than in proportion"),
    ({2: 20.0, 4: 15.0},    4,    20.0,   "more devices do not slow it down"),
    ({2: 20.0, 4: 15.0},    8,    20.0,   "nor do they beyond"),
]  # fmt: skip


@pytest.mark.parametrize(("measured", "on", "speed", "why"), CURVES, ids=[curve[-1] for curve in CURVES])
def test_speed_on(measured: dict[int, float], on: int, speed: float, why: str) -> None:
    assert speed_on(np.array([on]), measured)[0] == pytest.approx(speed), why


def elastic() -> JobTable:
    return JobTable.build(
        ["1", "2"], submit_s=[0.0, 0.0], gpus=[2, 2], gpus_min=[1, 2], gpus_max=[6, 2], limit_s=[1.0, 1.0]
    )


LINEAR = [0, 0.5, 1, 1.5, 2, 2.5, 3]
CLUSTER = parse_cluster("2x4:V100,1x4:K80")


def seen(row: int, devices: tuple[int, ...], samples_per_s: float, batch: float = 8.0) -> Observation:
    return Observation(row, Grant(row, devices), 0.0, 5.0, step_s=batch / samples_per_s, batch_size=batch)


BENT = [0, 0.5, 1, 1.25, 1.5, 1.75, 2]
TWO, FOUR = seen(0, (0, 1), 20.0), seen(0, (0, 1, 2, 3), 30.0)
LEARNT = [
    # what was seen                             curve   why
    ([TWO],                                     LINEAR, "one size is no curve"),
    ([TWO, FOUR],                               BENT,   "measured on two"),
    ([TWO, seen(0, (0, 1, 2, 3), 30.0, 16.0)],  LINEAR, "another batch is another curve"),
    ([TWO, seen(0, (8, 9, 10, 11), 5.0)],       LINEAR, "so is another type"),
    ([TWO, seen(0, (2, 3, 4, 5), 9.0), FOUR],   BENT,   "fewest nodes"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "curve", "why"), LEARNT, ids=[case[-1] for case in LEARNT])
def test_scaling_is_measured_from_two_sizes_on(told: list[Observation], curve: list[float], why: str) -> None:
    scaling = MeasuredScaling(elastic(), CLUSTER)
    for row in (0, 1):
        scaling.submitted(row)
    scaling.observed(told)
    assert curves_of(scaling.known(), np.arange(2), 6).tolist() == [curve, LINEAR], why


def test_jobs_of_a_workload_learn_from_each_other() -> None:
    jobs = replace(elastic(), workload=np.array([0, 0]), workload_names=("bert",))
    scaling = MeasuredScaling(jobs, CLUSTER)
    scaling.submitted(0)
    scaling.observed([seen(0, (0, 1), 20.0), seen(0, (0, 1, 2, 3), 30.0)])
    scaling.submitted(1)
    assert curves_of(scaling.known(), np.array([1]), 4).tolist() == [[0, 0.5, 1, 1.25, 1.5]]


def test_scaling_is_fitted_from_three_sizes_on() -> None:
    """Seconds of a step of 12 / w + 0.1 w: 12.1, 6.2, 3.4; on five GPUs 2.9."""
    scaling = FittedScaling(elastic(), CLUSTER)
    scaling.submitted(0)
    scaling.observed([seen(0, tuple(range(w)), 32.0 / (12.0 / w + 0.1 * w)) for w in (1, 2)])
    assert scaling.known().shared["rates"][-1, 3] > 32.0 / 4.2, "two sizes: along a line"
    scaling.observed([seen(0, (0, 1, 2, 3), 32.0 / 3.4)])
    table = scaling.known()
    assert 32.0 / table.shared["rates"][table.by_row["curve"][0], 1:6] == pytest.approx(
        [12.1, 6.2, 4.3, 3.4, 2.9]
    )


def test_utilisation_column() -> None:
    column = MeasuredUtilisation(elastic())
    assert column.known().tolist() == [1.0, 1.0]
    alone, packed = Grant(1, (0,)), Grant(0, (0,), 0.5, Role.PACKED)
    column.observed([Observation(1, alone, 0.0, LOOKED_ENOUGH_S, busy=0.3)])
    column.observed([Observation(0, packed, 0.0, LOOKED_ENOUGH_S, busy=0.3)])
    assert column.known().tolist() == [1.0, pytest.approx(0.3)]


@pytest.mark.parametrize(
    ("speeds", "grant", "rate"),
    [
        ({}, Grant(0, (0, 1)), 1.0),
        ({}, Grant(0, (0, 1, 2, 3)), 2.0),
        ({2: 20.0, 4: 30.0}, Grant(0, (0, 1, 2, 3)), 1.5),
        ({4: 30.0}, Grant(0, (0, 1, 2, 3)), 2.0),
        ({2: 20.0, 4: 30.0}, Grant(0, (0, 1)), 1.0),
        ({2: 20.0}, Grant(0, (0, 1), 0.5, Role.PACKED), 0.5),
    ],
    ids=["as asked", "assumed", "measured", "no measure to hold it against", "its own measure", "packed"],
)
def test_rates(speeds: dict[int, float], grant: Grant, rate: float) -> None:
    on = {Shape("", 1, gpus): speed for gpus, speed in speeds.items()}
    job = LiveJob(0, "1", "u", JobSpec(command=["x"], gpus=2), observed=JobObservations(speeds=on))
    assert rate_of(job, grant) == rate
