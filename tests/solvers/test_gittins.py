"""The Gittins index: the values of the card, and the definition evaluated by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rota.solvers.gittins import Gittins, SimulatorGittins

SAMPLES = [400, 100, 1000, 200]


@pytest.mark.parametrize(
    ("service", "index", "quantum"),
    [(0, 0.002857, 200), (100, 0.003333, 100), (300, 0.005, 100), (500, 0.002, 500), (1000, 0, 0)],
)
def test_the_best_quantum_gives_the_largest_index(service: float, index: float, quantum: float) -> None:
    """Card, example 5: G(a) is the supremum over all quanta."""
    assert Gittins(SAMPLES).best(service) == (pytest.approx(index, abs=5e-7), quantum)


@pytest.mark.parametrize(
    ("quantum", "expected"),
    [
        (300.0, [0.002222, 0.002857, 0.0025, 0.0]),
        (math.inf, [0.002353, 0.002308, 0.0025, 0.002]),
    ],
)
def test_a_fixed_quantum(quantum: float, expected: list[float]) -> None:
    """Card, example 5, at services 0, 100, 300 and 500."""
    assert Gittins(SAMPLES).index(np.array([0, 100, 300, 500]), quantum) == pytest.approx(expected, abs=5e-7)


def test_the_index_is_its_definition() -> None:
    """P and E counted sample by sample, on random samples, services and quanta."""
    rng = np.random.default_rng(0)
    samples = rng.integers(1, 60, size=25)
    services, quanta = rng.uniform(0, 65, size=200), rng.uniform(0.5, 70, size=200)
    found = Gittins(samples).index(services, quanta)
    for service, quantum, index in zip(services, quanta, found, strict=True):
        left = samples[samples > service] - service
        expected = np.mean(left <= quantum) / np.mean(np.minimum(left, quantum)) if len(left) else 0.0
        assert index == pytest.approx(expected, rel=1e-9)


def test_no_sample_leaves_every_job_alike() -> None:
    """Before anything is known the index says nothing."""
    assert Gittins([]).index(np.array([0.0, 5.0]), 3.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("service", "rank"),
    [(0, 2222.2222), (100, 2222.2333), (300, 1428.5714), (999, 0.0), (1000, 0.0), (5000, 0.0)],
)
def test_the_simulators_index(service: float, rank: float) -> None:
    """Card, pitfalls: the values for a quantum of 300, in millionths, differ from the definition."""
    assert SimulatorGittins(SAMPLES, 300).index(service) == rank


def test_the_simulator_rounds_as_python_2_did() -> None:
    """1 of 64 samples within reach is 0.015625, which rounds up, not to even."""
    samples = [10] + [1000] * 63
    assert SimulatorGittins(samples, 100).ranks[0] == pytest.approx(0.01563e6 / ((10 + 6300) // 64), abs=1e-4)


@pytest.mark.filterwarnings("error")
def test_a_service_that_equals_a_sample_but_for_rounding() -> None:
    """What is left is smaller than the sums can tell apart; the index is large, positive, and no warning."""
    samples = np.sort(np.round(np.random.default_rng(1).uniform(0.0, 1e7, 10_000), 1))
    index = Gittins(samples)
    for sample in samples[::50]:
        for quantum in (1e-9, 3.0, math.inf):
            value = index.index(np.array([np.nextafter(sample, 0.0)]), quantum).item()
            assert 0.0 < value < math.inf, (sample, quantum)
