"""Rewards by a moment: the examples of the deadline-SLA page, and shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InputError
from rota.knowledge.reward import ByDeadline, Reward, by_steps, fallen
from rota.model.job_columns import Deadline

ENDS_S = np.array([80.0, 85.0, 90.0, 92.0, 95.0, 99.0, 104.0, 110.0, 130.0, 160.0])
"""Finish times of example a2."""


def agreement(deadline_s: float, grace_s: float = 50.0) -> Reward:
    return ByDeadline(deadline_s, full=10.0, floor=-5.0, grace_s=grace_s).reward


@pytest.mark.parametrize(
    ("moment_s", "reward"),
    [(90.0, 10.0), (100.0, 10.0), (120.0, 4.0), (150.0, -5.0), (160.0, -5.0), (math.inf, -5.0)],
)
def test_example_a1_reward_function(moment_s: float, reward: float) -> None:
    assert agreement(100.0).at(moment_s) == pytest.approx(reward)


@pytest.mark.parametrize(("deadline_s", "mean"), [(100.0, 7.18), (80.0, 3.55), (110.0, 7.90), (130.0, 9.10)])
def test_example_a2_mean_reward(deadline_s: float, mean: float) -> None:
    assert agreement(deadline_s).at(ENDS_S).mean() == pytest.approx(mean)


def test_a_step_has_no_grace() -> None:
    assert agreement(100.0, grace_s=0.0).at([100.0, 100.001]).tolist() == [10.0, -5.0]


def test_as_soon_as_possible_and_best_effort_are_rewards_too() -> None:
    soon = Reward(((0.0, 8.0), (100.0, 2.0), (200.0, 0.0)))
    assert soon.at([-1.0, 0.0, 50.0, 150.0, 300.0]).tolist() == [8.0, 8.0, 5.0, 1.0, 0.0]
    assert Reward(((0.0, 0.1),)).at([0.0, 1e9, math.inf]).tolist() == [0.1, 0.1, 0.1]


def test_several_deadlines_are_steps() -> None:
    """What it is worth is the value of the first deadline that is kept."""
    reward = by_steps([Deadline(10.0, 5.0), Deadline(20.0, 2.0)])
    assert reward.at([5.0, 10.0, 11.0, 20.0, 21.0, math.inf]).tolist() == [5.0, 5.0, 2.0, 2.0, 0.0, 0.0]


@given(
    due_s=st.floats(0.0, 1e6),
    grace_s=st.one_of(st.just(0.0), st.floats(1e-3, 1e6)),
    moment_s=st.one_of(st.floats(0.0, 3e6), st.just(math.inf)),
)
def test_many_agreements_fall_as_each_does(due_s: float, grace_s: float, moment_s: float) -> None:
    one = ByDeadline(due_s, full=3.0, floor=-2.0, grace_s=grace_s).reward.at(moment_s)
    assert 3.0 - 5.0 * float(fallen(moment_s, due_s, grace_s)) == pytest.approx(one, abs=1e-6)


def test_a_job_without_a_deadline_never_loses() -> None:
    assert fallen(np.array([5.0, math.inf]), np.full(2, math.nan), np.full(2, math.nan)).tolist() == [
        0.0,
        0.0,
    ]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"deadline_s": math.nan}, "needs a moment"),
        ({"deadline_s": 5.0, "grace_s": -1.0}, "grace of 0 s or more"),
        ({"deadline_s": 5.0, "min_fraction": 0.0}, "min_fraction=0 is no part"),
        ({"deadline_s": 5.0, "min_fraction": 1.5}, "min_fraction=1.5 is no part"),
        ({"deadline_s": 5.0, "full": 1.0, "floor": 2.0}, "cannot rise from full=1 to floor=2"),
    ],
)
def test_agreements_that_make_no_sense(values: dict[str, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        ByDeadline(**values)


@pytest.mark.parametrize("points", [(), ((5.0, 1.0), (4.0, 0.0)), ((math.inf, 1.0),)])
def test_points_that_are_none(points: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(ValueError, match="no points of a reward"):
        Reward(points)
