"""Fits the seven parameters of step times to what was measured, for many jobs at once.

Source: Pollux (OSDI 2021), section 4.1: the least of

    RMS(log error of T_grad) + RMS(log error of T_step) + 1e-3 (γ - 1)² + 1e-2 ((β_n/α_n)² + (β_r/α_r)²)

within bounds, with the paper's priors: what was never seen stays at its best, so that larger sizes look worth
trying.  The authors minimise it with a quasi-Newton method, job by job; here every job is a row of the same
arrays, derivatives are exact, and the norms, which have no derivative at a perfect fit, are smoothed ever
less (Levenberg-Marquardt on reweighted squares, in the logarithms of the six times).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rota.model.columns import Bools, Floats, Ints

PARAMETERS = 7
"""Their number and order are those of `rota.knowledge.goodput.StepFit`: α_c, β_c, α_n, β_n, α_r, β_r, γ."""
FLOOR = 1e-8
"""Least value of a time: a network that was never measured costs nothing."""
_START = (0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001)
_MOST_S = 1e5
_GAMMA = (1.0, 10.0)
_ACROSS = 1.1
"""Between nodes nothing is faster than this many times what it takes within one."""
_OF_GAMMA, _OF_SLOPE = 1e-3, 1e-2
"""Weights of the two penalties."""
_STEPS = 60
_SMOOTH = (0.03, 1e-4)
"""Below which size of an error a norm is smooth: at first, and at last."""
_GAIN = 3e-6
"""A fit that gains no more than this in three steps is done."""

Sizes = Ints | Floats | int | float


class StepSample(NamedTuple):
    """One configuration that was run, and how long its steps took."""

    nodes: int
    gpus: int
    local: float
    """Examples of one GPU in one pass, m."""
    passes: int
    """Passes accumulated before the one that ends in a step, s."""
    step_s: float
    """Seconds of a whole step."""
    gradient_s: float = math.nan
    """Seconds of one pass without synchronising; NaN if unmeasured."""


class Samples(NamedTuple):
    """Samples of many jobs, each [job, sample]; a `step_s` of NaN is no sample."""

    nodes: Floats
    gpus: Floats
    local: Floats
    passes: Floats
    step_s: Floats
    gradient_s: Floats
    """On one GPU without accumulation the step itself, unless it was measured."""


def pad(samples: Sequence[Sequence[StepSample]]) -> Samples:
    """Arrays over `samples` of each job, as long as the longest."""
    most = max(1, max(map(len, samples), default=1))
    rows = np.ones((len(samples), most, len(StepSample._fields)))
    rows[:, :, 4:] = math.nan
    for number, own in enumerate(samples):
        if own:
            rows[number, : len(own)] = own
    columns = Samples(*np.moveaxis(rows, 2, 0))
    is_gradient = np.isnan(columns.gradient_s) & (columns.gpus == 1) & (columns.passes == 0)
    return columns._replace(gradient_s=np.where(is_gradient, columns.step_s, columns.gradient_s))


def fit_steps(samples: Samples, start: Floats | None = None) -> Floats:
    """The parameters [job, 7] that explain `samples` best.

    `start` [job, 7] are fits found before, NaN for none: they are tried beside the two that the data suggest.
    A job without samples gets the parameters from which the search begins.
    """
    begins, free = _priors(samples)
    starts = [_bounded(begins, free, _Z_START), _bounded(begins, free, _guess(samples))]
    if start is not None:
        known = np.where(np.isnan(start), np.array(_START), start)
        starts.append(_bounded(begins, free, _to_z(known)))
    tries = len(starts)
    problem = _Problem(
        Samples(*(np.tile(column, (tries, 1)) for column in samples)), np.tile(free, (tries, 1))
    )
    z = problem.minimise(np.concatenate(starts))
    values = problem.objective(z, 0.0).reshape(tries, -1)
    best = z.reshape(tries, -1, PARAMETERS)[values.argmin(axis=0), np.arange(values.shape[1])]
    return _settled(_from_z(best), samples)


def objective(fits: Floats, samples: Samples) -> Floats:
    """What `fits` [job, 7] leave unexplained, [job]: the least is best."""
    free = np.ones(fits.shape, dtype=bool)
    return _Problem(samples, free).objective(_to_z(fits), 0.0)


def predict(fits: Floats, nodes: Sizes, gpus: Sizes, local: Sizes) -> Floats:
    """Seconds of a step without accumulation, of `fits` [..., 7] on sizes that broadcast with [...]."""
    gradient, sync = gradient_and_sync(fits, nodes, gpus, local)
    gamma = fits[..., 6]
    seconds: Floats = (gradient**gamma + sync**gamma) ** (1.0 / gamma)
    return seconds


def gradient_and_sync(fits: Floats, nodes: Sizes, gpus: Sizes, local: Sizes) -> tuple[Floats, Floats]:
    """Seconds of a pass, and of synchronising after it; 0 on one GPU."""
    beyond = np.maximum(np.asarray(gpus) - 2, 0)
    within = fits[..., 4] + fits[..., 5] * beyond
    across = fits[..., 2] + fits[..., 3] * beyond
    sync = np.where(np.asarray(gpus) > 1, np.where(np.asarray(nodes) > 1, across, within), 0.0)
    return fits[..., 0] + fits[..., 1] * np.asarray(local), sync


# -- priors ----------------------------------------------------------------------------------------


def _priors(samples: Samples) -> tuple[Floats, Bools]:
    """Values of the parameters that the data do not determine, and which are free."""
    seen = ~np.isnan(samples.step_s)
    jobs = len(seen)
    values = np.full((jobs, PARAMETERS), FLOOR)
    free = np.ones((jobs, PARAMETERS), dtype=bool)
    across = (seen & (samples.nodes > 1)).any(axis=1)
    within = (seen & (samples.nodes == 1) & (samples.gpus > 1)).any(axis=1)
    many = (seen & (samples.gpus > 2)).any(axis=1)
    free[:, 2] = across
    free[:, 4] = within
    free[:, 3] = across & many
    free[:, 5] = within & many
    free[:, 6] = across | within
    values[:, 6] = _START[6]
    local = np.where(seen, samples.local, math.nan)
    is_one = _span(local) == 0.0
    gradient = _mean(
        samples.gradient_s, _mean(samples.step_s / (samples.passes + 1.0), np.full(jobs, _START[0]))
    )
    values[is_one, 0] = np.maximum(gradient[is_one] / 2.0, FLOOR)
    free[is_one, 0] = False
    free[~seen.any(axis=1)] = False
    values[~seen.any(axis=1)] = _START
    return values, free


def _span(values: Floats) -> Floats:
    """Largest less smallest of each row; NaN for a row without values."""
    least = np.fmin.reduce(values, axis=1)
    span: Floats = np.fmax.reduce(values, axis=1) - least
    return span


def _mean(values: Floats, otherwise: Floats) -> Floats:
    """Mean of each row without NaN; `otherwise` for a row without values."""
    there = ~np.isnan(values)
    count = there.sum(axis=1)
    total = np.where(there, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), otherwise)


def _guess(samples: Samples) -> Floats:
    """A start at the scale of the data, in z: half of a pass is constant, the rest of a step the network."""
    jobs = len(samples.step_s)
    gradient = _mean(samples.gradient_s, _mean(samples.step_s / (samples.passes + 1.0), np.full(jobs, 0.1)))
    step = _mean(samples.step_s, gradient)
    local = _mean(np.where(np.isnan(samples.step_s), math.nan, samples.local), np.ones(jobs))
    rest = np.maximum(step - gradient, 0.02 * gradient)
    each = [gradient / 2, gradient / 2 / local, rest, rest / 10, rest, rest / 10, np.full(jobs, 1.5)]
    return _to_z(np.maximum(np.stack(each, axis=1), FLOOR))


def _settled(fits: Floats, samples: Samples) -> Floats:
    """The fits, with nothing unmeasured across nodes faster than within one."""
    unseen = ~((samples.nodes > 1) & ~np.isnan(samples.step_s)).any(axis=1)
    unseen &= ~np.isnan(samples.step_s).all(axis=1)
    for across, within in ((2, 4), (3, 5)):
        least = np.maximum(fits[:, across], _ACROSS * fits[:, within])
        fits[:, across] = np.where(unseen, least, fits[:, across])
    return fits


# -- the search ------------------------------------------------------------------------------------


def _to_z(fits: Floats) -> Floats:
    """Logarithms of the six times; γ as it is."""
    return np.concatenate((np.log(np.maximum(fits[:, :6], FLOOR)), fits[:, 6:]), axis=1)


def _from_z(z: Floats) -> Floats:
    return np.concatenate((np.exp(z[:, :6]), z[:, 6:]), axis=1)


_Z_START = _to_z(np.array([_START]))
_LOWER = np.array([math.log(FLOOR)] * 6 + [_GAMMA[0]])
_UPPER = np.array([math.log(_MOST_S)] * 6 + [_GAMMA[1]])


def _bounded(values: Floats, free: Bools, z: Floats) -> Floats:
    """`z` where parameters are free, within bounds; the prior `values` elsewhere."""
    bounded: Floats = np.where(free, np.clip(z, _LOWER, _UPPER), _to_z(values))
    return bounded


class _Problem:
    """Fits of all jobs, side by side."""

    def __init__(self, samples: Samples, free: Bools) -> None:
        self.free = free
        self.local, self.passes = samples.local, samples.passes
        self.beyond = np.maximum(samples.gpus - 2.0, 0.0)
        self.alone, self.across = samples.gpus <= 1.0, samples.nodes > 1.0
        seen, timed = ~np.isnan(samples.step_s), ~np.isnan(samples.gradient_s)
        self.of_step = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1)
        self.of_pass = timed / np.maximum(timed.sum(axis=1, keepdims=True), 1)
        self.step = np.log(np.where(seen, samples.step_s, 1.0))
        self.gradient = np.log(np.where(timed, samples.gradient_s, 1.0))

    def take(self, rows: Ints) -> _Problem:
        """The problems of some of the jobs."""
        part = object.__new__(_Problem)
        for name, column in vars(self).items():
            setattr(part, name, column[rows])
        return part

    def minimise(self, z: Floats) -> Floats:
        """Levenberg-Marquardt; a job that no longer gains leaves the arrays."""
        least = z.copy()
        rows = np.flatnonzero(self.free.any(axis=1))
        part, z, damping, still = self.take(rows), z[rows], np.full(len(rows), 1e-2), np.zeros(len(rows), int)
        for step in range(_STEPS):
            if not len(rows):
                break
            smooth = max(_SMOOTH[1], _SMOOTH[0] * 0.5**step)
            z, damping, gain = part.improve(z, damping, smooth)
            still = np.where((gain > _GAIN) | (smooth > _SMOOTH[1]), 0, still + 1)
            done = still >= 3
            if done.any():
                least[rows[done]] = z[done]
                keep = np.flatnonzero(~done)
                part, rows, z = part.take(keep), rows[keep], z[keep]
                damping, still = damping[keep], still[keep]
        least[rows] = z
        return least

    def improve(self, z: Floats, damping: Floats, smooth: float) -> tuple[Floats, Floats, Floats]:
        """One step: the new point, the new damping, and what the objective has gained."""
        before, slope, curve = self._model(z, smooth)
        held = (z <= _LOWER) & (slope > 0.0) | (z >= _UPPER) & (slope < 0.0) | ~self.free
        slope = np.where(held, 0.0, slope)
        curve = np.where(held[:, :, None] | held[:, None, :], 0.0, curve)
        diagonal = np.einsum("jii->ji", curve)
        diagonal += np.where(held, 1.0, damping[:, None] * (diagonal + 1e-3) + 1e-9)
        move = np.linalg.solve(curve, -slope[:, :, None])[:, :, 0]
        there = np.clip(z + np.clip(move, -3.0, 3.0), _LOWER, _UPPER)
        there = np.where(held, z, there)
        gain = before - self.objective(there, smooth)
        better = gain > 0.0
        damping = np.clip(np.where(better, damping * 0.3, damping * 5.0), 1e-8, 1e8)
        return np.where(better[:, None], there, z), damping, np.maximum(gain, 0.0)

    def objective(self, z: Floats, smooth: float) -> Floats:
        """The value that is minimised, with norms that are smooth below the size `smooth`."""
        _, of_pass, of_step = self._errors(z)
        norms = [np.sqrt((weights * error**2).sum(axis=1) + smooth**2) for weights, error in (
            (self.of_pass, of_pass), (self.of_step, of_step))]  # fmt: skip
        slopes = np.exp(2.0 * (z[:, (3, 5)] - z[:, (2, 4)])).sum(axis=1)
        value: Floats = norms[0] + norms[1] + _OF_GAMMA * (z[:, 6] - 1.0) ** 2 + _OF_SLOPE * slopes
        return value

    def _errors(self, z: Floats) -> tuple[tuple[Floats, ...], Floats, Floats]:
        """Times and their logarithmic errors, [job, sample]."""
        times, gamma = np.exp(z[:, :6]), z[:, 6:]
        constant, growing = times[:, :1], times[:, 1:2] * self.local
        gradient = constant + growing
        alpha = np.where(self.across, times[:, 2:3], times[:, 4:5])
        beta = np.where(self.across, times[:, 3:4], times[:, 5:6]) * self.beyond
        sync = np.where(self.alone, 0.0, alpha + beta)
        ratio = np.log(np.where(self.alone, 1.0, sync) / gradient)
        ratio = np.where(self.alone, -np.inf, gamma * ratio)
        lift = np.logaddexp(0.0, ratio)  # γ × log(T_iter / T_grad)
        last = gradient * np.exp(lift / gamma)
        whole = last + self.passes * gradient
        of_pass, of_step = np.log(gradient) - self.gradient, np.log(whole) - self.step
        return (gradient, constant, alpha, sync, ratio, lift, last, whole), of_pass, of_step

    def _model(self, z: Floats, smooth: float) -> tuple[Floats, Floats, Floats]:
        """Value, gradient [job, 7] and an upper bound of the curvature [job, 7, 7]."""
        (gradient, constant, alpha, sync, ratio, lift, last, whole), of_pass, of_step = self._errors(z)
        gamma = z[:, 6:]
        jobs, samples = gradient.shape
        by_pass = np.zeros((jobs, samples, PARAMETERS))
        by_pass[:, :, 0] = constant / gradient
        by_pass[:, :, 1] = 1.0 - by_pass[:, :, 0]
        share = 1.0 / (1.0 + np.exp(-np.maximum(ratio, -700.0)))  # of synchronising in T_iter^γ
        share = np.where(self.alone, 0.0, share)
        within = last / whole
        of_alpha = np.divide(alpha, sync, out=np.zeros_like(sync), where=~self.alone)
        by_step = by_pass * (within * (1.0 - share) + (1.0 - within))[:, :, None]
        moved = within * share
        for first, here in ((2, self.across), (4, ~self.across)):
            by_step[:, :, first] = np.where(here, moved * of_alpha, 0.0)
            by_step[:, :, first + 1] = np.where(here, moved * (1.0 - of_alpha), 0.0)
        by_step[:, :, 6] = np.where(
            self.alone, 0.0, within * (share * np.where(self.alone, 0.0, ratio) - lift) / gamma**2
        )
        value = np.zeros(jobs)
        slope = np.zeros((jobs, PARAMETERS))
        curve = np.zeros((jobs, PARAMETERS, PARAMETERS))
        for weights, error, by in ((self.of_pass, of_pass, by_pass), (self.of_step, of_step, by_step)):
            norm = np.sqrt((weights * error**2).sum(axis=1) + smooth**2)
            scaled = by * (weights / norm[:, None])[:, :, None]
            value += norm
            slope += (scaled * error[:, :, None]).sum(axis=1)
            curve += np.matmul(scaled.transpose(0, 2, 1), by)
        return self._penalised(z, value, slope, curve)

    @staticmethod
    def _penalised(z: Floats, value: Floats, slope: Floats, curve: Floats) -> tuple[Floats, Floats, Floats]:
        """Value, gradient and curvature with the penalties on γ and on slopes added."""
        value += _OF_GAMMA * (z[:, 6] - 1.0) ** 2
        slope[:, 6] += 2.0 * _OF_GAMMA * (z[:, 6] - 1.0)
        curve[:, 6, 6] += 2.0 * _OF_GAMMA
        for alpha, beta in ((2, 3), (4, 5)):
            term = _OF_SLOPE * np.exp(2.0 * (z[:, beta] - z[:, alpha]))
            value += term
            slope[:, beta] += 2.0 * term
            slope[:, alpha] -= 2.0 * term
            for one, other, sign in ((beta, beta, 4.0), (alpha, alpha, 4.0), (alpha, beta, -4.0)):
                curve[:, one, other] += sign * term
                if one != other:
                    curve[:, other, one] += sign * term
        return value, slope, curve
