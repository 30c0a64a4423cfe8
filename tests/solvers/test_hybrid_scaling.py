"""Hybrid scaling: worked example 1 of systems/elan.md."""

from __future__ import annotations

import pytest

from rota.solvers.hybrid_scaling import batch_for, most_useful

CANDIDATES = (1, 2, 4, 8, 16, 32, 64)


def throughput(workers: int, batch: float) -> float:
    """Samples per second: a constant, computing, and synchronising among several."""
    sync_s = 0.01 + 0.004 * workers if workers > 1 else 0.0
    return batch / (0.02 + 0.002 * batch / workers + sync_s)


@pytest.mark.parametrize(
    ("batch", "workers", "speed"),
    [(256, 8, 2031.7), (512, 16, 3240.5), (1024, 16, 4612.6), (2048, 32, 7160.8)],
)
def test_most_useful_number(batch, workers, speed):
    """256 is as fast on 16 as on 8, 1024 on 32 as on 16: the smaller number counts."""
    assert most_useful(throughput, batch, CANDIDATES) == workers
    assert throughput(workers, batch) == pytest.approx(speed, abs=0.1)


@pytest.mark.parametrize(
    ("workers", "most", "batch", "why"),
    [
        (4, 2048, 256, "strong scaling"),
        (8, 2048, 256, "strong scaling"),
        (16, 2048, 512, "twice the batch"),
        (32, 2048, 2048, "eight times: 512 and 1024 both stop at 16"),
        (32, 1024, None, "the user allows four times"),
        (64, 2048, None, "that takes a yet larger batch"),
    ],
)
def test_batch_for_more_workers(workers, most, batch, why):
    assert batch_for(throughput, workers, 256, CANDIDATES, most) == batch, why


def test_a_batch_never_shrinks():
    """Who has grown keeps its batch on fewer workers."""
    assert batch_for(throughput, 4, 1024, CANDIDATES, 2048) == 1024
