"""Speeds by size: as measured, and as a fit through them has them."""

from __future__ import annotations

import math

import pytest

from rota.knowledge.goodput import BatchLimits, BatchSplit, GoodputProfile, Noise, StepFit, TrainingPhase
from rota.knowledge.needs import Provenance
from rota.knowledge.seen import JobObservations, Shape, at_any_batch, by_size
from rota.knowledge.speed_sizes import BatchesAsked, speeds_by_size

FIT = StepFit(0.05, 0.002, 0.1, 0.01, 0.03, 0.002, 1.0)
NODES = {"V100": 4}


def speed(nodes: int, gpus: int, batch: int) -> float:
    return FIT.throughput(nodes, gpus, BatchSplit(batch // gpus))


def shape(nodes: int, gpus: int, batch: float) -> Shape:
    return Shape("V100", nodes, gpus, batch)


SEEN = {shape(1, gpus, batch): speed(1, gpus, batch) for gpus, batch in ((1, 64), (1, 128), (2, 64), (4, 64))}


def test_measured_and_predicted() -> None:
    """A job that says nothing of its noise keeps its batch: goodput is what nobody knows."""
    found = speeds_by_size(SEEN, [1, 2, 3, 4], NODES, BatchesAsked(64.0, 512.0))
    assert [(one.shape.gpus, one.shape.batch_size, one.provenance) for one in found] == [
        (1, 64, Provenance.MEASURED),
        (1, 128, Provenance.MEASURED),
        (2, 64, Provenance.MEASURED),
        (3, 64, Provenance.PREDICTED),
        (4, 64, Provenance.MEASURED),
    ]
    truth = 64 / (FIT.gradient_s(64 / 3) + FIT.sync_s(1, 3))
    assert found[3].speed == pytest.approx(truth, rel=0.05)
    assert all(math.isnan(one.goodput) for one in found)


def test_goodput_by_the_noise() -> None:
    """Predictions take the best batch on that size; what was measured is judged at its own."""
    asked = BatchesAsked(64.0, 2048.0, 256.0)
    found = speeds_by_size(SEEN, [3], NODES, asked)
    best = found[-2]
    assert (best.shape.gpus, best.provenance) == (3, Provenance.PREDICTED)
    profile = GoodputProfile(BatchLimits(64, 2048, 1, 2048), {}, (TrainingPhase(math.inf, Noise(1.0, 4.0)),))
    true = profile.best(FIT, Noise(1.0, 4.0), 1, 3)
    assert true is not None
    assert best.goodput == pytest.approx(true[1], rel=0.05)
    assert found[1].goodput == pytest.approx(speed(1, 1, 128) * 320 / 384)


@pytest.mark.parametrize(
    ("speeds", "expected", "why"),
    [
        ({}, [], "nothing was seen"),
        (
            {Shape("V100", 1, 1): 10.0},
            [(1, 1, 10.0), (1, 2, 13.333), (2, 8, 17.778)],
            "half of a step is the batch",
        ),
        ({Shape("", 0, 2): 10.0}, [(0, 2, 10.0)], "of an earlier version: no fit without nodes"),
    ],
)
def test_little_is_known(speeds: dict[Shape, float], expected: list[object], why: str) -> None:
    found = speeds_by_size(speeds, [1, 2, 8], NODES, BatchesAsked())
    told = [(one.shape.nodes, one.shape.gpus, pytest.approx(one.speed, rel=0.02)) for one in found]
    assert told == expected, why


def test_whoever_chooses_a_batch_is_as_fast_as_it_learns() -> None:
    """A larger batch on more GPUs is on one curve with a smaller one, each sample at its worth."""
    seen = {shape(1, 1, 64): 100.0, shape(1, 1, 128): 130.0, shape(1, 2, 256): 300.0}
    worth = {size.gpus: speed for size, speed in at_any_batch(seen, 64.0, 256.0).items()}
    assert worth == {1: pytest.approx(130 * 320 / 384), 2: pytest.approx(300 * 320 / 512)}
    assert by_size(at_any_batch(seen, 64.0, math.nan)) == [{1: 130.0, 2: 300.0}], "unknown: as many samples"


def test_the_noise_is_news_and_on_record() -> None:
    seen = JobObservations(noise=100.0)
    assert seen.take_news()
    assert not seen.take_news()
    seen.noise = 102.0
    assert not seen.take_news()
    assert JobObservations.of(seen.plain()).noise == 102.0
    old = {name: value for name, value in seen.plain().items() if name != "noise"}
    assert math.isnan(JobObservations.of(old).noise), "an earlier version did not keep it"
