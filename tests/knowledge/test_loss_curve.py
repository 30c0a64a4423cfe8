"""Optimus' worked example 1: the curve through losses, and when it has levelled off."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rota.knowledge.loss_curve import ConvergenceRule, converged_at, fit_losses, is_outlier, loss_at

TRUE = np.array([[0.5, 1.0, 0.1]])
EPOCHS = np.arange(1.0, 11.0)[None, :]
LOSSES = loss_at(TRUE[:, None, :], EPOCHS)


def test_the_curve_is_found_again() -> None:
    """In units of the losses: fits are of losses divided by the largest, .7667."""
    largest = LOSSES.max()
    assert LOSSES[0, :5] == pytest.approx([0.7667, 0.6, 0.5, 0.4333, 0.3857], abs=5e-5)
    b0, b1, b2 = fit_losses(EPOCHS, LOSSES)[0]
    assert (b0 / largest, b1 / largest, b2 * largest) == pytest.approx((0.5, 1.0, 0.1), rel=1e-5)


ENDS = [
    # curve, patience, threshold, rule   epoch
    (TRUE, 10, 0.01, ConvergenceRule.WINDOW, 46),
    (TRUE, 2, 0.01, ConvergenceRule.WINDOW, 13),
    (TRUE, 1, 0.01, ConvergenceRule.STEP, 13),  # the drop to 13, from 12, is the first that is small enough
    (TRUE, 1, 0.005, ConvergenceRule.STEP, 19),
    (TRUE, 2, 0.05, ConvergenceRule.WINDOW, 5),  # a naive test of one epoch stops here
    (np.array([[0.0, 1.0, 0.3]]), 10, 0.05, ConvergenceRule.WINDOW, 10),  # it never falls
]


@pytest.mark.parametrize(("curve", "patience", "threshold", "rule", "end"), ENDS)
def test_convergence(
    curve: np.ndarray, patience: int, threshold: float, rule: ConvergenceRule, end: int
) -> None:
    assert converged_at(curve, patience, threshold, rule).tolist() == [end]


def test_convergence_of_scaled_losses() -> None:
    """Patience 10 and 5 % of the largest: 25."""
    assert converged_at(fit_losses(EPOCHS, LOSSES)).tolist() == [25]


@pytest.mark.parametrize("seed", range(20))
def test_the_rule_to_the_letter(seed: int) -> None:
    """Epoch by epoch the same end as by the formula."""
    random = np.random.default_rng(seed)
    curve, patience = random.uniform(0.01, 2.0, (1, 3)), int(random.integers(2, 12))
    threshold = float(random.uniform(0.001, 0.2))

    def drop(k: int) -> float:
        return float(loss_at(curve, np.array(k - patience + 1.0))[0] - loss_at(curve, np.array(float(k)))[0])

    end = next(k for k in range(patience, 100_000) if drop(k) <= threshold)
    assert converged_at(curve, patience, threshold)[0] == end


def test_many_jobs_at_once_are_fitted_as_one_by_one() -> None:
    random = np.random.default_rng(0)
    curves = np.stack(
        [random.uniform(0.05, 1, 30), random.uniform(0.5, 2, 30), random.uniform(0, 0.3, 30)], 1
    )
    losses = loss_at(curves[:, None, :], np.arange(1.0, 21.0)[None, :])
    losses *= np.exp(0.02 * random.standard_normal(losses.shape))
    for job in range(30):
        losses[job, random.integers(2, 21) :] = math.nan
    at = np.broadcast_to(np.arange(1.0, 21.0), losses.shape)
    together = fit_losses(at, losses)
    apart = np.concatenate([fit_losses(at[job : job + 1], losses[job : job + 1]) for job in range(30)])
    assert np.isnan(together[:, 0]).tolist() == (np.isfinite(losses).sum(axis=1) < 3).tolist()
    assert together == pytest.approx(apart, nan_ok=True)
    fitted = together[~np.isnan(together[:, 0])]
    assert (fitted >= 0.0).all()


def test_the_floor_stays_below_the_least_loss() -> None:
    """Losses that have levelled off: b2 comes close to them and no further."""
    losses = np.array([[1.0, 0.5, 0.31, 0.3, 0.3, 0.3]])
    b2 = fit_losses(np.arange(1.0, 7.0)[None, :], losses)[0, 2]
    assert 0.0 <= b2 < 0.3


def test_outliers_do_not_count() -> None:
    """A loss twice its neighbours' is left out, but not one of the first two, which fall fast."""
    losses = LOSSES.copy()
    losses[0, 5] *= 2.0
    assert np.flatnonzero(is_outlier(losses)[0]).tolist() == [5]
    fits = fit_losses(EPOCHS, losses)[0] / [LOSSES.max(), LOSSES.max(), 1.0]
    assert fits[:2] == pytest.approx((0.5, 1.0), rel=1e-4)
    steep = np.array([[100.0, 10.0, 2.0, 1.9, 1.8, 1.7]])
    assert not is_outlier(steep)[0, :2].any()


@pytest.mark.parametrize("losses", [[], [1.0], [1.0, 0.9], [math.nan, 1.0, 0.9, math.nan]])
def test_too_few_losses_fit_nothing(losses: list[float]) -> None:
    at = np.arange(1.0, len(losses) + 1.0)[None, :]
    assert np.isnan(converged_at(fit_losses(at, np.array([losses]).reshape(1, -1)))).all()


def test_rising_losses_do_not_crash() -> None:
    """A loss that rises fits a flat curve: it counts as converged, at the earliest."""
    losses = np.array([[0.5, 0.6, 0.7, 0.8]])
    assert converged_at(fit_losses(EPOCHS[:, :4], losses)).tolist() == [10]
