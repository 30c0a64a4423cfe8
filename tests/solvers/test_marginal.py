"""Optimus' worked example 3, by the paper's shares and by the authors' amounts, and what is struck out."""

from __future__ import annotations

import pytest

from rota.knowledge.step_speed import StepSpeed, Training
from rota.solvers.marginal import SERVER, WORKER, TrainingJob, hand_out

SPEED = StepSpeed(Training.SYNCHRONOUS, (1 / 64, 0.1, 0.2, 0.01, 0.01), 64.0)
CLUSTER = {"cpu": 40.0, "gpu": 6.0}


def job(steps: float, **limits: object) -> TrainingJob:
    return TrainingJob(
        steps,
        lambda servers, workers: SPEED.at(workers, servers),
        server={"cpu": 3.0},
        worker={"cpu": 2.0, "gpu": 1.0},
        **limits,  # type: ignore[arg-type]
    )


WAYS = [
    # by share, stops   servers and workers   units given   why
    (True, False, [[3, 2], [6, 4]], 11, "by share"),
    (False, False, [[3, 3], [6, 3]], 11, "by amount: CPUs and GPUs are mixed up"),
    (False, True, [[2, 3], [4, 3]], 8, "the authors' code: by amount, until one does not fit"),
]


@pytest.mark.parametrize(("by_share", "stops", "units", "given", "why"), WAYS, ids=[row[-1] for row in WAYS])
def test_worked_example(by_share: bool, stops: bool, units: list[list[int]], given: int, why: str) -> None:
    found = hand_out([job(100.0), job(400.0)], CLUSTER, by_share=by_share, stops=stops)
    assert (found.of, len(found.given)) == (units, given), why


def test_first_steps() -> None:
    """J2 gets a worker, two servers, a worker; each saves less than the one before of its kind."""
    found = hand_out([job(100.0), job(400.0)], CLUSTER)
    assert [step[:2] for step in found.given[:4]] == [(1, WORKER), (1, SERVER), (1, SERVER), (1, WORKER)]
    assert [step[2] for step in found.given[:4]] == pytest.approx([696.0, 1013.3, 302.2, 216.0], abs=0.06)


def test_time_left() -> None:
    """78.33 s and 233.33 s with what they were given."""
    found = hand_out([job(100.0), job(400.0)], CLUSTER)
    left = [steps / SPEED.at(w, p) for steps, (p, w) in zip((100.0, 400.0), found.of, strict=True)]
    assert left == pytest.approx([78.33, 233.33], abs=0.01)


def test_everybody_begins_with_one_of_each_in_order() -> None:
    """11 CPUs are enough for two jobs; the third, with most to do, waits."""
    found = hand_out([job(1.0), job(1.0), job(9000.0)], {"cpu": 11.0, "gpu": 6.0})
    assert found.of == [[1, 1], [1, 1], [0, 0]]


def test_a_users_limit_strikes_out_one_kind_only() -> None:
    found = hand_out([job(100.0, most=(2.0, 5.0))], CLUSTER)
    assert found.of[0][SERVER] == 2
    assert found.of[0][WORKER] > 2


def test_a_saving_that_is_none_is_not_counted() -> None:
    """A job that slows down with more of either stays with one of each."""
    slower = TrainingJob(100.0, lambda p, w: 1.0 / (p + w), {"cpu": 1.0}, {"cpu": 1.0})
    assert hand_out([slower], {"cpu": 100.0}).of == [[1, 1]]


def test_a_young_job_gives_way_to_one_that_saves_nearly_as_much() -> None:
    young, old = job(100.0, worth=0.95), job(98.0)
    cluster = {"cpu": 12.0, "gpu": 3.0}
    assert hand_out([young, old], cluster).given[0][0] == 1
    assert hand_out([job(100.0), old], cluster).given[0][0] == 0


@pytest.mark.parametrize(
    ("counts", "gpus", "workers", "why"),
    [
        ((1, 2, 4, 8), 6.0, 4, "from four it would have to jump to eight"),
        ((2, 4), 6.0, 4, "it has no more sizes"),
        ((2, 4), 3.0, 2, "it begins with its least, and two more do not fit"),
        ((4,), 3.0, 0, "not even its least fits"),
    ],
)
def test_workers_come_in_the_numbers_that_a_job_can_use(
    counts: tuple[int, ...], gpus: float, workers: int, why: str
) -> None:
    found = hand_out([job(1000.0, counts=counts)], CLUSTER | {"gpu": gpus})
    assert found.of[0][WORKER] == workers, why


def test_a_jump_is_worth_what_it_saves_for_each_unit() -> None:
    """Speed goes with workers, one server each: B's jump from one to three saves 667 s, 333 for each."""
    ways = ((900.0, ()), (1000.0, (1, 3)))
    a, b = (
        TrainingJob(steps, lambda _, w: float(w), {}, {"gpu": 1.0}, most=(1.0, 9.0), counts=counts)
        for steps, counts in ways
    )
    found = hand_out([a, b], {"gpu": 5.0})
    assert found.given[0][:2] == (0, WORKER), "450 s for one, although B saves more in all"
    assert found.of == [[1, 2], [1, 3]]


def test_what_is_not_limited_costs_nothing() -> None:
    """A cluster that states no CPUs: servers go first, up to what is allowed, and take nothing from GPUs."""
    found = hand_out([job(100.0, most=(4.0, 9.0))], {"gpu": 2.0})
    assert found.of == [[4, 2]]
    assert [kind for _, kind, _ in found.given[:3]] == [SERVER] * 3
