"""When a job will have converged, from its losses so far: l(k) = 1 / (b0 k + b1) + b2, all b >= 0.

Source    Peng et al., "Optimus", EuroSys 2018, section 3.1: stochastic gradient descent converges as 1/k.
          For a given b2 the curve is linear, 1 / (l - b2) = b0 k + b1, which is a least-squares problem with
          two unknowns that must not be negative; b2 is searched for.  Rows count by (l - b2)^2, so that what
          is made small is the error of the loss and not of its inverse.

Many jobs are fitted at once: arrays are [job, point], with NaN where a job has no further point.
"""

from __future__ import annotations

import math
import warnings
from enum import StrEnum

import numpy as np

from rota.model.columns import Bools, Floats

LEAST_POINTS = 3
"""The number of parameters of the curve."""
PATIENCE = 10
"""Epochs over which the loss has to stay the same, as in the authors' code."""
THRESHOLD = 0.05
"""Part of the largest loss by which it may fall meanwhile."""
_GRID, _ROUNDS = 17, 9
_ABOVE, _BELOW, _AROUND = 1.5, 0.5, 2


class ConvergenceRule(StrEnum):
    """When a job has converged."""

    WINDOW = "window"  # the loss falls by no more than the threshold over `patience` epochs
    STEP = "step"  # by no more in each of them


def is_outlier(losses: Floats) -> Bools:
    """True for points far from the median of the five around them, [job, point]; never for the first two."""
    padded = np.pad(losses, ((0, 0), (_AROUND, _AROUND)), constant_values=math.nan)
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * _AROUND + 1, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a window without any point
        median = np.nanmedian(around, axis=2)
    far: Bools = (losses > _ABOVE * median) | (losses < _BELOW * median)
    far[:, :2] = False
    return far


def fit_losses(at: Floats, losses: Floats) -> Floats:
    """b0, b1, b2 for losses divided by the largest of each job, [job, 3]; NaN for one with too few points.

    `at` [job, point] are the epochs at which they were seen.
    """
    fits = np.full((len(losses), 3), math.nan)
    if losses.shape[1] < LEAST_POINTS:
        return fits
    counts = ~np.isnan(losses) & ~is_outlier(losses)
    enough = np.flatnonzero(counts.sum(axis=1) >= LEAST_POINTS)
    if len(enough):
        largest = np.nanmax(losses[enough], axis=1, keepdims=True)
        scaled = losses[enough] / np.where(largest > 0.0, largest, 1.0)
        fits[enough] = _search(at[enough], scaled, counts[enough])
    return fits


def _search(at: Floats, losses: Floats, counts: Bools) -> Floats:
    """The best b2 on a grid from 0 to just below the least loss, on finer ones round the best before."""
    low = np.zeros(len(losses))
    high = np.where(counts, losses, math.inf).min(axis=1) * (1.0 - 1e-9)
    best = np.zeros((len(losses), 3))
    jobs = np.arange(len(losses))
    for _ in range(_ROUNDS):
        grid = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _GRID)
        b0, b1, error = _given_b2(at, losses, counts, grid)
        place = error.argmin(axis=1)
        best = np.stack((b0[jobs, place], b1[jobs, place], grid[jobs, place]), axis=1)
        low, high = grid[jobs, np.maximum(place - 1, 0)], grid[jobs, np.minimum(place + 1, _GRID - 1)]
    return best


def _given_b2(at: Floats, losses: Floats, counts: Bools, b2: Floats) -> tuple[Floats, Floats, Floats]:
    """The best b0 and b1 for each b2, [job, b2], and the squared error of the loss.

    Of the solution without bounds and the two on the bounds the best that is allowed.
    """
    gap = np.where(counts[:, None, :], losses[:, None, :] - b2[:, :, None], 0.0)
    k = np.where(counts, at, 0.0)[:, None, :]
    # Sums with weights gap^4 of 1, k, k^2, y, k y and y^2, where y = 1 / gap.
    weight, wy = gap**4, gap**3
    s1, sk, skk = weight.sum(axis=2), (weight * k).sum(axis=2), (weight * k * k).sum(axis=2)
    sy, sky, syy = wy.sum(axis=2), (wy * k).sum(axis=2), (gap**2).sum(axis=2)

    def error(b0: Floats, b1: Floats) -> Floats:
        squares: Floats = syy - 2 * (b0 * sky + b1 * sy) + b0**2 * skk + 2 * b0 * b1 * sk + b1**2 * s1
        return squares

    determinant = s1 * skk - sk * sk
    inside = determinant > 0.0
    safe = np.where(inside, determinant, 1.0)
    free0, free1 = (s1 * sky - sk * sy) / safe, (skk * sy - sk * sky) / safe
    allowed = inside & (free0 >= 0.0) & (free1 >= 0.0)
    zero = np.zeros_like(s1)
    slope = np.divide(sky, skk, out=np.zeros_like(sky), where=skk > 0.0)
    level = np.divide(sy, s1, out=np.zeros_like(sy), where=s1 > 0.0)
    on_slope, on_level = error(slope, zero), error(zero, level)
    b0 = np.where(on_slope < on_level, slope, zero)
    b1 = np.where(on_slope < on_level, zero, level)
    squares = np.minimum(on_slope, on_level)
    return (
        np.where(allowed, free0, b0),
        np.where(allowed, free1, b1),
        np.where(allowed, np.maximum(error(free0, free1), 0.0), squares),
    )


def converged_at(
    fits: Floats,
    patience: int = PATIENCE,
    threshold: float = THRESHOLD,
    rule: ConvergenceRule = ConvergenceRule.WINDOW,
) -> Floats:
    """The first epoch at which each job has converged on its curve, [job]; NaN without a curve.

    It is at least `patience`, where the first epoch counts: with 10, l(k - 9) - l(k) must not be more than
    `threshold`.
    """
    b0, b1 = fits[:, 0], fits[:, 1]
    apart = 1 if rule is ConvergenceRule.STEP else patience - 1
    # 1 / (x - d) - 1 / x <= threshold, where x = b0 k + b1 and d = b0 apart.
    d = b0 * apart
    x = (d + np.sqrt(d * d + 4.0 * d / threshold)) / 2.0
    k = np.divide(x - b1, b0, out=np.where(np.isnan(b0), math.nan, 0.0), where=b0 > 0.0)
    later = patience - 1 if rule is ConvergenceRule.STEP else 0
    end: Floats = np.where(np.isnan(k), math.nan, np.maximum(np.ceil(k - 1e-9) + later, patience))
    return end


def loss_at(fits: Floats, k: Floats) -> Floats:
    """The curves at epoch `k`."""
    losses: Floats = 1.0 / (fits[..., 0] * k + fits[..., 1]) + fits[..., 2]
    return losses
