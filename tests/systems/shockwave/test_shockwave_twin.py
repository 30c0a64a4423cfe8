"""Shockwave's plan beside a naive twin written from its card: every way to fill a small window is tried."""

from __future__ import annotations

import itertools
import math
import random
from typing import NamedTuple

import numpy as np
import pytest

from rota.systems.shockwave.outlook import Outlook
from rota.systems.shockwave.parameters import ShockwaveParameters
from rota.systems.shockwave.planning import WindowQuestion, make_plan
from tiers import first

ROUND_S, RHO_MAX, EXPONENT = 100.0, 1.0, 12.0
BASES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


class Job(NamedTuple):
    """One job of the window, in the letters of the card."""

    gpus: int
    epochs: float
    done: float
    epoch_s: float
    left_s: float
    submit_s: float
    target_s: float


class Window(NamedTuple):
    jobs: list[Job]
    gpus: int
    rounds: int
    clock_s: float
    makespan_weight: float

    @property
    def share(self) -> float:
        return min(1.0, self.gpus / len(self.jobs))


def log_in_pieces(progress: float) -> float:
    for low, high in itertools.pairwise(BASES):
        if progress <= high:
            a, b = math.log(max(low, 1e-6)), math.log(high)
            return a + (b - a) * (progress - low) / (high - low)
    return 0.0


def trained_s(job: Job, rounds: int) -> float:
    """Seconds of training in so many rounds: no more epochs than there are."""
    return min(ROUND_S * rounds / job.epoch_s, job.epochs - job.done) * job.epoch_s


def is_fair(window: Window, counts: list[int]) -> bool:
    """Every planned finish is in time (section C)."""
    end_s = window.clock_s + ROUND_S * window.rounds
    return all(
        end_s + max(0.0, job.left_s - trained_s(job, n)) / window.share <= RHO_MAX * job.target_s
        for job, n in zip(window.jobs, counts, strict=True)
    )


def weight_of(window: Window, job: Job) -> float:
    """A power of how late it is about to be, by times since its submission (the page)."""
    rho = (window.clock_s - job.submit_s + job.left_s / window.share) / (job.target_s - job.submit_s)
    return rho ** (100.0 if job.left_s < ROUND_S else EXPONENT) if rho > RHO_MAX else 1.0


def objective(window: Window, counts: list[int], weights: list[float]) -> float:
    utility = sum(
        w * log_in_pieces((job.done + trained_s(job, n) / job.epoch_s) / job.epochs)
        for job, n, w in zip(window.jobs, counts, weights, strict=True)
    )
    worst_s = max(
        max(0.0, job.left_s - trained_s(job, n)) for job, n in zip(window.jobs, counts, strict=True)
    )
    return utility / (len(window.jobs) * window.rounds) - window.makespan_weight * worst_s


def twin(window: Window) -> tuple[bool, float]:
    """True if all can be in time, and what the best plan is then worth, or else the best weighted one."""
    sets = [
        who
        for size in range(len(window.jobs) + 1)
        for who in itertools.combinations(range(len(window.jobs)), size)
        if sum(window.jobs[i].gpus for i in who) <= window.gpus
    ]
    plans = {
        tuple(sum(i in who for who in rounds) for i in range(len(window.jobs)))
        for rounds in itertools.combinations_with_replacement(sets, window.rounds)
    }
    fair = [plan for plan in plans if is_fair(window, list(plan))]
    if fair:
        return True, max(objective(window, list(plan), [1.0] * len(window.jobs)) for plan in fair)
    weights = [weight_of(window, job) for job in window.jobs]
    return False, max(objective(window, list(plan), weights) for plan in plans)


def ours(window: Window) -> tuple[bool, float]:
    columns = [np.array(column, dtype=np.float64) for column in zip(*window.jobs, strict=True)]
    gpus, epochs, done, epoch_s, left_s, submit_s, target_s = columns
    rows = np.arange(len(window.jobs))
    ahead = Outlook(rows, done / epochs, epochs * epoch_s, left_s, done * epoch_s, rows * 0)
    question = WindowQuestion(
        ahead, target_s, submit_s, gpus, float(window.gpus), window.share, window.clock_s
    )
    parameters = ShockwaveParameters(
        round_s=ROUND_S, window_rounds=window.rounds, makespan_weight=window.makespan_weight
    )
    plan = make_plan(question, parameters)
    assert (gpus @ plan.runs <= window.gpus).all()
    weights = [1.0 if plan.keeps_fair else weight_of(window, job) for job in window.jobs]
    return plan.keeps_fair, objective(window, plan.runs.sum(axis=1).tolist(), weights)


def made_up(rng: random.Random) -> Window:
    gpus, clock_s = rng.randint(1, 4), rng.uniform(0.0, 3000.0)
    jobs = []
    for _ in range(rng.randint(1, 4)):
        epochs, epoch_s = float(rng.randint(1, 12)), rng.uniform(20.0, 200.0)
        done = float(rng.randrange(int(epochs)))
        left_s = (epochs - done) * epoch_s * rng.choice([1.0, rng.uniform(0.7, 1.4)])
        submit_s = rng.uniform(0.0, clock_s)
        target_s = clock_s + left_s * rng.choice([0.5, 1.0, 2.0, 6.0]) + rng.choice([0.0, 600.0])
        jobs.append(Job(rng.randint(1, gpus), epochs, done, epoch_s, left_s, submit_s, target_s))
    return Window(jobs, gpus, rng.randint(1, 4), clock_s, rng.choice([0.0, 1e-6, 1e-3, 10.0]))


@pytest.mark.parametrize("scenes", first(1, [100, 1000]))
def test_no_plan_of_a_small_window_is_worth_more(scenes: int) -> None:
    fair = 0
    for seed in range(scenes):
        window = made_up(random.Random(seed))
        (is_kept, value), (can_be, best) = ours(window), twin(window)
        assert is_kept == can_be, seed
        assert value == pytest.approx(best, rel=1e-9, abs=1e-12), seed
        fair += is_kept
    assert scenes / 10 < fair < scenes * 9 / 10, "both branches"
