"""Hybrid scaling: how many workers a batch feeds, and how far the batch has to grow to feed more.

With its total batch unchanged a job converges as before, and gains less and less by each further worker
(strong scaling).  Beyond the number of workers at which it is fastest the batch grows with them, by no more
than it takes (weak scaling).

Source: Xie et al., "Elan: Towards Generic and Efficient Elastic Training for Deep Learning", ICDCS 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Throughput = Callable[[int, float], float]
"""Samples per second by number of workers and total batch size."""

_TIE = 1e-9
"""Relative difference of throughputs below which the smaller number of workers is as good."""


def most_useful(throughput: Throughput, batch: float, candidates: Sequence[int]) -> int:
    """N_opt: the number of workers, of the ascending `candidates`, with the highest throughput at `batch`."""
    best, fastest = candidates[0], throughput(candidates[0], batch)
    for workers in candidates[1:]:
        speed = throughput(workers, batch)
        if speed > fastest * (1.0 + _TIE):
            best, fastest = workers, speed
    return best


def batch_for(
    throughput: Throughput, workers: int, batch: float, candidates: Sequence[int], most: float
) -> float | None:
    """The batch for `workers` workers of a job that has `batch`: the same, or doubled as often as needed.

    At most `most`; None if even that keeps fewer workers busy.
    """
    while most_useful(throughput, batch, candidates) < workers:
        batch *= 2.0
        if batch > most * (1.0 + _TIE):
            return None
    return batch
