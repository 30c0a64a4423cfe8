"""Causes of failures in a generated trace: signatures drawn by how well they fit the time to failure."""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats
from rota.traces.philly_figures import FAILURES

_Z90 = 1.2816
"""Standard deviations from the median to the 90th percentile of a normal distribution."""


def draw_signatures(rng: np.random.Generator, attempt_s: Floats) -> list[str]:
    """A signature for each job, whose failing attempts took about `attempt_s` seconds each.

    The probability of a signature is proportional to its number of jobs in the paper, times the density of
    its time to failure, which is taken to be log-normal with the published median and 90th percentile.
    """
    names = [failure.signature for failure in FAILURES]
    if not len(attempt_s):
        return []
    median, late = np.array([failure.minutes[:2] for failure in FAILURES]).T
    sigma = np.log(late / median) / _Z90
    minutes = np.maximum(attempt_s, 1e-3)[:, None] / 60.0
    log_density = -0.5 * (np.log(minutes / median) / sigma) ** 2 - np.log(sigma)
    weights = np.array([failure.jobs for failure in FAILURES]) * np.exp(
        log_density - log_density.max(axis=1, keepdims=True)
    )
    chances = np.cumsum(weights, axis=1)
    drawn = rng.random((len(attempt_s), 1)) * chances[:, -1:]
    return [names[place] for place in (chances < drawn).sum(axis=1).tolist()]
