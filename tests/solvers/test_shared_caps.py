"""Limits of some jobs together: rules that hand out step by step pass by whom they keep, and go on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from filling_rules import apathetic, fill_slowly
from rota.solvers.configurations import NOTHING, ConfigurationOptions, assign
from rota.solvers.marginal import WORKER, TrainingJob, hand_out
from rota.solvers.one_by_one import Filling, fill_savings
from rota.solvers.shared_caps import SharedCaps
from rota.solvers.tournament import fill_apathetic
from tiers import each_seed

COUNTS: Sequence[Sequence[int]] = [(1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 4, 8), (2, 4), (3,)]


def _drawn(draw: Random) -> tuple[list[list[float]], list[Sequence[int]], list[float], SharedCaps]:
    """Curves, counts and work of some jobs, and limits of which each counts in none to all."""
    jobs, limits = draw.randint(1, 7), draw.randint(1, 3)
    curves = [[0.0, *(draw.uniform(0.5, 4.0) * k**0.7 for k in range(1, 9))] for _ in range(jobs)]
    of = [[limit for limit in range(limits) if draw.random() < 0.5] for _ in range(jobs)]
    each = [draw.choice([1.0, 1.0, 0.5]) for _ in range(jobs)]
    caps = SharedCaps([draw.randint(0, 9) for _ in range(limits)], of, each)
    work = [draw.uniform(1.0, 100.0) for _ in range(jobs)]
    return curves, [draw.choice(COUNTS) for _ in range(jobs)], work, caps


def _anew(caps: SharedCaps) -> SharedCaps:
    return caps.among(range(len(caps.of)))


def _keep_to(caps: SharedCaps, shares: Sequence[int]) -> bool:
    taken = _anew(caps)
    for job, share in enumerate(shares):
        taken.take(job, share)
    return min(taken.left) >= -1e-6


@each_seed(40, 300, 3000, at_once=100)
def test_the_tournament_under_limits(seed: int) -> None:
    """Each step goes where comparing all jobs that can have one with each other gives it."""
    draw = Random(seed)
    curves, counts, work, caps = _drawn(draw)
    lengths, gpus = draw.random() < 0.5, draw.randint(0, 30)
    fast, slow = (Filling(curves, counts, _anew(caps)) for _ in range(2))
    key = [todo / curve[own[0]] for todo, curve, own in zip(work, curves, counts, strict=True)]
    fill_apathetic(fast, gpus, key, work if lengths else None)
    fill_slowly(slow, gpus, apathetic(slow, key, work if lengths else None))
    assert fast.share == slow.share
    assert _keep_to(caps, fast.share)


def test_a_job_at_its_limit_puts_no_other_job_out() -> None:
    """B would win over A, and D over B; but B may have no further GPU, and A wins over D."""
    a, b, c, d = [0.0, 10.0, 15.0], [0.0, 4.0, 8.0], [0.0, 10.0, 18.0], [0.0, 10.0, 18.0]
    work = [20.0, 20.0, 80.0, 20.0]
    filling = Filling([a, b, c, d], [(1, 2)] * 4, SharedCaps([1.0], [[], [0], [], []], [1.0] * 4))
    key = [todo / curve[1] for todo, curve in zip(work, (a, b, c, d), strict=True)]
    assert fill_apathetic(filling, 5, key, work) == [2, 1, 1, 1]


@each_seed(40, 300, 3000, at_once=100)
def test_savings_under_limits(seed: int) -> None:
    """Nobody who was passed by could have had its next step in the end; without limits all is as it was."""
    draw = Random(seed)
    curves, counts, work, caps = _drawn(draw)
    seconds = [[1.0 / rate if rate else np.inf for rate in np.maximum.accumulate(curve)] for curve in curves]
    gpus, left = draw.randint(0, 30), _anew(caps)
    shares = fill_savings(seconds, work, counts, gpus, left)
    assert _keep_to(caps, shares)
    for job, (has, own) in enumerate(zip(shares, counts, strict=True)):
        more = next((count for count in own if count > has), None)
        saves = more is not None and (not has or seconds[job][more] < seconds[job][has])
        assert not saves or more - has > gpus - sum(shares) or not left.admits(job, more - has)
    loose = SharedCaps([100.0] * len(caps.left), caps.of, caps.each)
    assert fill_savings(seconds, work, counts, gpus, loose) == fill_savings(seconds, work, counts, gpus)


def test_workers_and_servers_under_limits() -> None:
    """The first two share a GPU: the second one waits, and the third has all that the first does not want."""
    first, second, third = (
        TrainingJob(
            todo, lambda servers, workers: 1.0 / (0.1 / servers + 1.0 / workers), {"cpu": 1.0}, {"gpu": 1.0}
        )
        for todo in (900.0, 500.0, 100.0)
    )
    room, caps = {"gpu": 6.0, "cpu": 6.0}, SharedCaps([1.0], [[0], [0], []], [1.0] * 3)
    found = hand_out([first, second, third], room, caps=caps)
    without = hand_out([replace(first, most=(math.inf, 1.0)), third], room)
    assert found.of == [without.of[0], [0, 0], without.of[1]]
    assert found.of[2][WORKER] == 5


@each_seed(25, 300, 3000, at_once=100)
def test_configurations_under_limits(seed: int) -> None:
    """As cheap as can be found by trying everything, and within capacities and limits."""
    draw = Random(seed)
    places = sorted(draw.choices(range(4), k=draw.randint(1, 10)))
    job, size = np.array(places), len(places)
    kind = np.array([draw.randrange(2) for _ in places])
    units = np.array([draw.choice([1.0, 2.0, 3.0]) for _ in places])
    cost = np.array([draw.randint(-110, 10) / 100.0 for _ in places])
    counts_in = np.array([[draw.random() < 0.6 for _ in range(2)] for _ in places])
    room = np.array([draw.randint(0, 6) for _ in range(4)], dtype=float)
    found = assign(ConfigurationOptions(job, kind, units, cost, counts_in), 4, room)

    draws = np.hstack((kind[:, None] == np.arange(2), counts_in))
    best = 0.0
    for chosen in range(1 << size):
        taken = [place for place in range(size) if chosen >> place & 1]
        if (
            len({places[place] for place in taken}) == len(taken)
            and (units[taken] @ draws[taken] <= room).all()
        ):
            best = min(best, float(cost[taken].sum()))
    ours = found.option[found.option != NOTHING]
    assert (units[ours] @ draws[ours] <= room).all()
    assert found.cost == pytest.approx(best, abs=1e-6)
    assert found.bound <= found.cost + 1e-9
