"""Optimus' worked example 2: speeds by servers and workers, and fits that give them back."""

from __future__ import annotations

import numpy as np
import pytest

from rota.knowledge.step_speed import StepSpeed, Training, fit_speed

SYNC = StepSpeed(Training.SYNCHRONOUS, (1 / 64, 0.1, 0.2, 0.01, 0.01), 64.0)
ASYNC = StepSpeed(Training.ASYNCHRONOUS, (1.0, 0.2, 0.02, 0.02))
RING = StepSpeed(Training.ALL_REDUCE, (1 / 64, 0.1, 0.01), 64.0)

SPEEDS = [
    (SYNC, 1, 1, 0.7576),
    (SYNC, 1, 2, 0.9709),
    (SYNC, 2, 1, 0.8130),
    (SYNC, 2, 2, 1.1905),
    (SYNC, 2, 3, 1.2766),
    (SYNC, 3, 3, 1.4423),
    (SYNC, 4, 4, 1.5873),
    (ASYNC, 1, 1, 0.8065),
    (ASYNC, 1, 2, 1.3699),
    (ASYNC, 2, 2, 1.5625),
    (ASYNC, 4, 4, 2.9412),
    (ASYNC, 8, 8, 5.2632),
]


@pytest.mark.parametrize(("model", "servers", "workers", "speed"), SPEEDS)
def test_speeds(model: StepSpeed, servers: int, workers: int, speed: float) -> None:
    assert model.at(workers, servers) == pytest.approx(speed, abs=5e-5)


@pytest.mark.parametrize("model", [SYNC, ASYNC, RING], ids=lambda model: model.training.value)
def test_a_fit_gives_the_model_back(model: StepSpeed) -> None:
    """Probes with other numbers of servers than of workers tell the terms apart."""
    workers, servers = [1, 2, 4, 3, 8, 5, 1, 6], [1, 1, 2, 5, 3, 8, 4, 2]
    speeds = [model.at(w, p) for w, p in zip(workers, servers, strict=True)]
    found = fit_speed(model.training, workers, speeds, servers, model.batch)
    assert found is not None
    assert found.t == pytest.approx(model.t, abs=1e-9)


def test_fewer_measurements_than_unknowns_fit_nothing() -> None:
    assert fit_speed(Training.SYNCHRONOUS, [1, 2, 3, 4], [1.0, 1.8, 2.4, 3.0], [1, 2, 3, 4]) is None
    assert fit_speed(Training.ALL_REDUCE, [1, 2, 2, 2], [1.0, 1.8, 1.7, 1.9]) is None


def test_noise_of_three_per_cent_is_borne() -> None:
    random = np.random.default_rng(3)
    workers = [1, 2, 3, 4, 6, 8, 12, 16]
    speeds = [RING.at(w) * (1 + 0.03 * random.standard_normal()) for w in workers]
    found = fit_speed(Training.ALL_REDUCE, workers, speeds, batch=64.0)
    assert found is not None
    assert [found.at(w) for w in workers] == pytest.approx([RING.at(w) for w in workers], rel=0.05)
    assert min(found.t) >= 0.0
