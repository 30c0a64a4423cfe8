"""Bursty arrivals: users submit batches, batches come in bursts, nights and weekends are quieter.

One virtual cluster is a renewal process of batches with lognormal gaps. The jobs of a batch follow one
another within seconds. Times are made in three steps: batch heads as fractions of the span, then adapted to
the rhythm of the week, then the seconds within each batch added. The span may therefore have any length
without stretching the gaps within a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.model.columns import Floats, Ints
from rota.traces.philly_figures import HOUR_RATES, WEEKEND_RATE

BATCH_GAP_S = (0.4, 60.0)
"""Gaps inside a batch are log-uniform between these: half of them are under 5 seconds."""

_HOUR_S = 3600.0
_RATES = np.concatenate([np.array(HOUR_RATES) * rate for rate in [1.0] * 5 + [WEEKEND_RATE] * 2])
_WEEK_S = np.arange(len(_RATES) + 1) * _HOUR_S
_WORK = np.concatenate(([0.0], np.cumsum(_RATES))) * _HOUR_S  # expected submissions since Monday 00:00


@dataclass(frozen=True)
class GeneratedArrivals:
    """Submissions of one virtual cluster, one row per job in order of its batches."""

    batch: Ints
    """Number of each job's batch, from 0."""
    head: Floats
    """Moment of the batch's first job, as a fraction of the span in [0, 1)."""
    lag_s: Floats
    """Seconds from the batch's first job to this one."""


def draw_submissions(rng: np.random.Generator, jobs: int, gap_cv: float, batched: float) -> GeneratedArrivals:
    """Submissions whose gaps have about the given CV, a share `batched` of them inside a batch."""
    first = rng.random(jobs) >= batched
    first[0] = True
    batch = np.cumsum(first) - 1
    # Gaps inside a batch are short compared with the others, so 1 + cv² = (1 + cv_of_heads²) (1 - batched).
    heads = int(batch[-1]) + 1
    spread = max((1 + gap_cv**2) * (1 - batched) - 1, 0.25)
    gaps = _lognormal(rng, heads, float(np.sqrt(spread)))
    # The sequence is cut at a random point: a virtual cluster need not be active when the trace begins.
    head = np.sort((np.cumsum(gaps) / gaps.sum() + rng.random()) % 1.0)
    low, high = np.log(BATCH_GAP_S)
    since = np.cumsum(np.where(first, 0.0, np.exp(rng.uniform(low, high, jobs))))
    return GeneratedArrivals(batch, head[batch], since - since[first][batch])


def _lognormal(rng: np.random.Generator, count: int, cv: float) -> Floats:
    """Stratified lognormal values of the given CV *in this sample*.

    Published CVs are of samples; for a large CV they are well below that of the distribution.  Bisection
    finds the sigma that gives the wanted CV in this sample (or the widest, if there are too few values).
    """
    from scipy.special import ndtri

    normal = ndtri((rng.permutation(count) + rng.random(count)) / count)
    low, high = 0.0, 5.0
    for _ in range(24):
        sigma = (low + high) / 2
        values = np.exp(sigma * normal)
        low, high = (sigma, high) if values.std() < cv * values.mean() else (low, sigma)
    return np.asarray(np.exp(low * normal))


def place_in_span(head: Floats, lag_s: Floats, span_s: float) -> Floats:
    """Moments of submission in [0, span_s], the earliest at 0 and the latest at `span_s`.

    Second 0 is midnight on a Monday.
    """
    moment_s = _at_work(head * _work_at(span_s)) + lag_s
    moment_s -= moment_s.min()
    last_s = moment_s.max()
    return moment_s * (span_s / last_s) if last_s > 0 else moment_s


def _work_at(second: float) -> float:
    """Expected submissions before `second`, in submissions per average hour times 3600."""
    weeks, rest = divmod(second, _WEEK_S[-1])
    return float(weeks * _WORK[-1] + np.interp(rest, _WEEK_S, _WORK))


def _at_work(work: Floats) -> Floats:
    """The inverse of `_work_at`."""
    weeks, rest = np.divmod(work, _WORK[-1])
    return np.asarray(weeks * _WEEK_S[-1] + np.interp(rest, _WORK, _WEEK_S))
