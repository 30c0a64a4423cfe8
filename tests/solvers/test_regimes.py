"""Run time left of jobs that change their batch size: worked examples of systems/shockwave.md."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.solvers.regimes import Epochs, epochs_ahead, posterior_left_s, restated_left_s


def _job(
    done: float, mode: int, seen: tuple[float, ...], total: float = 10.0, seconds=(100.0, 60.0)
) -> Epochs:
    return Epochs(
        np.array([total]), np.array([done]), np.array([seen]), np.array([mode]), np.array([seconds])
    )


# Card example 1: ten epochs, 100 s with batch 32, 60 s with 64, which change after the fifth.
@pytest.mark.parametrize(
    ("done", "mode", "seen", "posterior", "restated", "truth"),
    [
        (0, 0, (1, 0), 718.1818, 800, 800),
        (3, 0, (4, 0), 457.1429, 500, 500),
        (5, 1, (5, 1), 290.0, 300, 300),
        (8, 1, (5, 4), 70.5263, 120, 120),
        (7, 0, (8, 0), None, 180, None),
    ],
)
def test_left(done, mode, seen, posterior, restated, truth):
    job = _job(done, mode, seen)
    assert restated_left_s(job)[0] == pytest.approx(restated)
    if posterior is not None:
        assert posterior_left_s(job)[0] == pytest.approx(posterior, abs=1e-4)
    if truth is not None:
        naive = (10 - done) * (100.0, 60.0)[mode]
        assert abs(restated_left_s(job)[0] - truth) <= abs(naive - truth)


def test_what_was_spent_and_the_mean_pace():
    job = _job(8, 1, (5, 4))
    assert job.spent_s[0] == pytest.approx(5 * 100 + 3 * 60)
    assert job.mean_s[0] == pytest.approx((500 + 240) / 9)


def test_part_of_an_epoch_counts():
    assert _job(7.5, 1, (5, 3)).spent_s[0] == pytest.approx(5 * 100 + 2.5 * 60)
    assert restated_left_s(_job(7.5, 1, (5, 3)))[0] == pytest.approx(150)


def test_nothing_left_is_a_second_in_the_posterior():
    assert posterior_left_s(_job(10, 1, (5, 5)))[0] == 1.0


def test_a_mode_that_a_job_does_not_have():
    """The table is as wide as the job with most modes."""
    alone, both = _job(3, 0, (4, 0), seconds=(100.0, math.nan)), _job(3, 0, (4, 0), seconds=(100.0, 60.0))
    assert restated_left_s(alone)[0] == pytest.approx(700)
    assert posterior_left_s(alone)[0] > posterior_left_s(both)[0]


@given(st.integers(1, 40), st.integers(1, 5), st.data())
def test_epochs_ahead_are_those_to_go(total, modes, data):
    done = data.draw(st.integers(0, total - 1))
    begun = data.draw(st.lists(st.integers(0, modes - 1), min_size=done + 1, max_size=done + 1))
    seen = np.bincount(begun, minlength=modes).astype(float)
    job = _job(done, begun[-1], tuple(seen), total=float(total), seconds=tuple(60.0 + np.arange(modes)))
    ahead = epochs_ahead(job)[0]
    assert (ahead >= 0.0).all()
    assert ahead.sum() == pytest.approx(total - done)
    ended = (seen > 0) & (np.arange(modes) != begun[-1])
    assert (ahead[ended] == 0.0).all(), "what has ended is known exactly"
    slow, fast = job.seconds.max(), job.seconds.min()
    assert fast * (total - done) <= restated_left_s(job)[0] + 1e-6 <= slow * (total - done) + 1.0
