"""Goodput by size for many jobs: the same as one job at a time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rota.knowledge.goodput import BatchLimits, GoodputProfile, Noise, StepFit, TrainingPhase
from rota.knowledge.goodput_sizes import BestBatches, GoodputSizes

FIT = StepFit(0.05, 0.002, 0.10, 0.01, 0.03, 0.002, 2.0)
LIMITS = BatchLimits(64, 2048, 16, 128, accumulates=True)
NODES, GPUS = np.array([1, 1, 1, 1, 2, 2, 2]), np.array([1, 2, 3, 4, 8, 64, 200])


def limits_row(limits: BatchLimits) -> list[float]:
    row = limits.initial, limits.most, limits.local_least, limits.local_most, limits.accumulates
    return [float(each) for each in row]


def best(limits: BatchLimits, noise: Noise, sizes: GoodputSizes | None = None) -> BestBatches:
    sizes = sizes or GoodputSizes(NODES, GPUS)
    return sizes.best(
        np.array([FIT]), np.array([limits_row(limits)]), np.array([noise.scale(limits.initial)])
    )


@pytest.mark.parametrize("accumulates", [True, False])
@pytest.mark.parametrize("noise", [Noise(1.0, 4.0), Noise(1.0, 400.0), Noise(0.0, 1.0), Noise(1.0, 0.0)])
def test_as_one_at_a_time(noise: Noise, accumulates: bool) -> None:
    limits = replace(LIMITS, accumulates=accumulates)
    profile = GoodputProfile(limits, {"*": FIT}, (TrainingPhase(math.inf, noise),))
    found = best(limits, noise)
    for size, (nodes, gpus) in enumerate(zip(NODES.tolist(), GPUS.tolist(), strict=True)):
        expected = profile.best(FIT, noise, nodes, gpus)
        if expected is None:
            assert found.goodput[0, size] == 0.0, "so many GPUs cannot split the largest batch"
            assert found.local[0, size] == 0
            continue
        batch, goodput = expected
        assert found.goodput[0, size] == pytest.approx(goodput, rel=1e-12)
        assert (found.local[0, size], found.passes[0, size]) == tuple(batch)


def test_worked_example() -> None:
    """Pollux, worked example 3."""
    found = best(LIMITS, Noise(1.0, 4.0))
    assert found.goodput[0, [0, 1, 3, 4]] == pytest.approx([359.5506, 591.537, 917.283, 894.347], rel=1e-6)
    assert found.local[0, [0, 1, 3, 4]].tolist() == [64, 61, 44, 56]


def test_remembered_is_the_same() -> None:
    """Noise changes the efficiency alone, who has no fit cannot run, and nobody sees how many are kept."""
    sizes = GoodputSizes(NODES, GPUS, remembers=1)
    for var in (4.0, 40.0, 4.0):
        fresh, kept = best(LIMITS, Noise(1.0, var)), best(LIMITS, Noise(1.0, var), sizes)
        assert np.array_equal(fresh.goodput, kept.goodput)
        assert np.array_equal(fresh.local, kept.local)
    unknown = sizes.best(np.full((1, 7), np.nan), np.array([limits_row(LIMITS)]), np.array([1.0]))
    assert not unknown.goodput.any()
    assert sizes.best(np.zeros((0, 7)), np.zeros((0, 5)), np.zeros(0)).goodput.shape == (0, 7)


def test_local_batches_that_are_not_clipped() -> None:
    """Pollux's artifact does not consider them: without accumulation the most are 128 examples a GPU."""
    limits = replace(LIMITS, accumulates=False, local_least=60, local_most=70)
    clipped, strict = (
        best(limits, Noise(1.0, 400.0), GoodputSizes(NODES, GPUS, clips=clips)) for clips in (True, False)
    )
    assert (strict.goodput <= clipped.goodput + 1e-9).all()
    assert (strict.local[0, :4] <= 70).all()
