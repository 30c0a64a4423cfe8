"""The tournament of AFS in C gives each step to whom it goes where one walks with NumPy."""

from __future__ import annotations

import math
from random import Random

import pytest

from rota import native
from rota.solvers import one_by_one, tournament
from rota.solvers.one_by_one import Filling, fill_apathetic
from tiers import each_seed

pytestmark = pytest.mark.skipif(
    native.library(tournament.SOURCE) is None, reason="`tournament.c` was not built"
)


def _scene(draw: Random) -> tuple[Filling, Filling, int, list[float], list[float] | None]:
    """The same twice, with the GPUs, the keys and what is left."""
    most = draw.choice([4, 9, 33])
    curves = [_curve(draw, most) for _ in range(draw.randint(1, 4))]
    ranges = [_counts(draw, most) for _ in range(3)]
    jobs = draw.randint(1, 25)
    rates, counts = [draw.choice(curves) for _ in range(jobs)], [draw.choice(ranges) for _ in range(jobs)]
    left = [draw.choice([1.0, 10.0, math.inf, draw.uniform(1.0, 1e4)]) for _ in range(jobs)]
    speeds = [curve[own[0]] for curve, own in zip(rates, counts, strict=True)]
    key = [work / speed if speed else math.inf for work, speed in zip(left, speeds, strict=True)]
    return (
        *(Filling(rates, counts) for _ in range(2)),
        draw.randint(0, 3 * most),
        key,
        draw.choice([left, None]),
    )


def _curve(draw: Random, most: int) -> list[float]:
    """Concave, or with dips and stretches that gain nothing."""
    steps = [draw.choice([1.0, 0.5, 0.25, draw.random()]) for _ in range(most)]
    if draw.random() < 0.6:
        steps.sort(reverse=True)
    elif draw.random() < 0.5:
        steps[draw.randrange(most)] = 0.0
    return [sum(steps[:count]) for count in range(most + 1)]


def _counts(draw: Random, most: int) -> range | list[int] | tuple[int, ...]:
    return draw.choice(
        [
            range(draw.randint(1, 2), most + 1),
            range(1, most + 1, 2),
            [1 << power for power in range(most.bit_length())],
            tuple(sorted(draw.sample(range(1, most + 1), draw.randint(1, 3)))),
        ]
    )


@each_seed(150, 600, 3000, at_once=50)
def test_the_same_steps_as_with_numpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, others, gpus, key, work = _scene(Random(seed))
    fill_apathetic(ours, gpus, key, work)
    monkeypatch.setattr(one_by_one, "is_built", lambda: False)
    fill_apathetic(others, gpus, key, work)
    assert ours.grants == others.grants
    assert ours.share == others.share
