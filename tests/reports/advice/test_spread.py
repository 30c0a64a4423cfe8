"""How firm a difference is, on values made up."""

from __future__ import annotations

import numpy as np
import pytest

from rota.reports.advice.goals import GOALS, Parts, WeightedGoals
from rota.reports.advice.verdict import drawn_costs
from rota.reports.confidence import DRAWS

JCT = WeightedGoals((GOALS["jct"],), (1.0,))
SUBMIT_S = np.arange(600.0)
BASE = np.random.default_rng(5).lognormal(6.0, 1.0, 600)


def parts(values: np.ndarray) -> list[Parts]:
    return [Parts(SUBMIT_S, values[:, None])]


CASES = [
    # what the second policy does                                             told apart
    (lambda rng: BASE * 0.8,                                                  True),
    (lambda rng: BASE.copy(),                                                 False),
    # a gain in one week of ten, and a loss of the same kind in another
    (lambda rng: BASE * np.where(SUBMIT_S < 60, 0.5, np.where(SUBMIT_S >= 540, 1.5, 1.0)), False),
]  # fmt: skip


@pytest.mark.parametrize(("change", "apart"), CASES)
def test_who_is_told_apart(change, apart: bool) -> None:
    other = change(np.random.default_rng(7))
    costs = drawn_costs({"a": [parts(BASE)], "b": [parts(other)]}, JCT, [SUBMIT_S])
    low, high = costs.between("b", "a")
    assert (high < 0.0 or low > 0.0) is apart
    assert costs.draws.shape == (2, DRAWS)


def test_noise_is_seldom_taken_for_a_difference() -> None:
    """Of 40 policies that only shuffle who waits few are told apart; nominal is one in twenty."""
    found = 0
    for seed in range(40):
        noise = np.random.default_rng(seed).lognormal(-0.125, 0.5, 600)
        costs = drawn_costs({"a": [parts(BASE)], "b": [parts(BASE * noise)]}, JCT, [SUBMIT_S])
        low, high = costs.between("b", "a")
        found += high < 0.0 or low > 0.0
    assert found <= 6


def test_seeds_widen_the_range() -> None:
    """Two replays that disagree about who is better decide nothing, however many jobs there are."""
    better, worse = parts(BASE * 0.8), parts(BASE * 1.25)
    runs = {"a": [parts(BASE), parts(BASE)], "b": [better, worse]}
    low, high = drawn_costs(runs, JCT, [SUBMIT_S, SUBMIT_S]).between("b", "a")
    assert low == pytest.approx(np.log(0.8), abs=0.05)
    assert high == pytest.approx(np.log(1.25), abs=0.05)


def test_the_same_draws_every_time() -> None:
    runs = {"a": [parts(BASE)], "b": [parts(BASE * 0.9 + 1.0)]}
    first, again = (drawn_costs(runs, JCT, [SUBMIT_S]).draws for _ in range(2))
    assert (first == again).all()
