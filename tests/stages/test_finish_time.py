"""Finish-time fairness: worked examples of systems/themis.md, Gavel's isolated time, averages over time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.stages.finish_time import (
    Crowd,
    alone_so_far_s,
    equal_parts,
    finish_time_ratio,
    rate_for,
)


@pytest.mark.parametrize(
    ("gpus", "slowdown", "rho"),
    [
        (4, 1.0, 0.375),  # 1,500 s in all
        (4, 1.5, 0.4375),  # 1,750 s
        (2, 1.0, 0.5),
    ],
)
def test_ratio_by_gpus_and_slowdown(gpus, slowdown, rho):
    """1,000 s passed, 2,000 of 4,000 GPU-seconds left; on 4 of 16 GPUs at a quarter of the time: 4,000 s."""
    alone_s = 1000 * 4.0 / min(16, 4) * 4
    assert finish_time_ratio(1000.0, 500 * 4.0 * slowdown / gpus, alone_s) == rho


def test_who_never_finishes_has_no_finite_ratio():
    assert finish_time_ratio(np.array([5.0]), np.array([np.inf]), np.array([10.0])) == np.inf


@given(st.floats(0.1, 50), st.floats(0, 1e5), st.floats(1, 1e6), st.floats(1, 1e6))
def test_the_rate_for_a_ratio_gives_that_ratio(ratio, since_s, work_left, alone_s):
    rate = rate_for(ratio, since_s, work_left, alone_s)
    if ratio * alone_s > since_s + 1e-3:
        assert finish_time_ratio(since_s, work_left / rate, alone_s) == pytest.approx(ratio)
    else:
        assert rate >= work_left / 1e-3  # too late: as fast as can be


@pytest.mark.parametrize(
    ("capacity", "gpus", "parts"),
    [
        ([1, 1], [1, 1], [[0.5, 0.5], [0.5, 0.5]]),
        ([2], [1, 2], [[1.0], [0.5]]),
        ([8, 8], [1], [[0.5, 0.5]]),  # nobody has more than all its time
    ],
)
def test_equal_parts(capacity, gpus, parts):
    assert equal_parts(np.array(capacity, float), np.array(gpus, float)).tolist() == parts


def test_time_alone_adds_up_at_the_rates_of_each_stretch():
    memory = {}
    rows = np.array([3, 5])
    assert alone_so_far_s(memory, rows, np.array([0.0, 0.0]), np.array([0.5, 2.0])).tolist() == [0.0, 0.0]
    assert alone_so_far_s(memory, rows, np.array([10.0, 4.0]), np.array([1.0, 1.0])).tolist() == [20.0, 2.0]
    later = alone_so_far_s(memory, np.array([4, 5]), np.array([0.0, 7.0]), np.array([1.0, 1.0]))
    assert later.tolist() == [0.0, 5.0]  # row 4 is new, row 5 did 3 more at rate 1


def test_work_that_is_lost_takes_its_time_alone_along():
    """Whatever the rates were: half of the work, half of the time; all of it, none."""
    memory, rows = {}, np.array([1, 2])
    alone_so_far_s(memory, rows, np.array([0.0, 0.0]), np.array([1.0, 1.0]))
    both = alone_so_far_s(memory, rows, np.array([80.0, 80.0]), np.array([0.1, 0.1]))
    assert both.tolist() == [80.0, 80.0]
    lost = alone_so_far_s(memory, rows, np.array([40.0, 0.0]), np.array([0.1, 0.1]))
    assert lost.tolist() == [40.0, 0.0]
    again = alone_so_far_s(memory, rows, np.array([41.0, 1.0]), np.array([0.1, 0.1]))
    assert again.tolist() == [50.0, 10.0]


def test_work_still_to_do_may_become_more():
    """Work counted from the end, as the authors' code does: what is left is no work that was lost."""
    memory, rows, rate = {}, np.array([1]), np.array([0.5])
    alone_so_far_s(memory, rows, np.array([-100.0]), rate)
    assert alone_so_far_s(memory, rows, np.array([-90.0]), rate).tolist() == [20.0]
    assert alone_so_far_s(memory, rows, np.array([-95.0]), rate).tolist() == [10.0]


def test_what_is_not_noted_counts_again():
    """As in the authors' code where its program fails: time adds up, and work counts from the note before."""
    memory, rows, rate = {}, np.array([1]), np.array([1.0])
    alone_so_far_s(memory, rows, np.array([0.0]), rate)
    both = np.array([1, 2])
    missed = alone_so_far_s(memory, both, np.array([6.0, 9.0]), np.array([2.0, 2.0]), notes=False)
    assert missed.tolist() == [6.0, 0.0]
    after = alone_so_far_s(memory, both, np.array([8.0, 11.0]), np.array([2.0, 2.0]))
    assert after.tolist() == [14.0, 0.0]  # row 1 did 8 since the note; row 2 was never noted


def test_the_average_counts_from_the_moment_each_began():
    """One alone for 10 s, two for 10 s, three for 20 s."""
    memory = {}
    crowd = Crowd(memory)
    crowd.follow(0.0, {1: 0.0})
    assert crowd.mean(1) == 1.0
    crowd.follow(10.0, {1: 0.0, 2: 10.0})
    assert crowd.mean(2) == 2.0
    crowd.follow(20.0, {1: 0.0, 2: 10.0, 3: 20.0})
    crowd.follow(40.0, {1: 0.0, 3: 20.0})
    assert crowd.mean(1) == (10 * 1 + 10 * 2 + 20 * 3) / 40
    assert crowd.mean(3) == 3.0
    assert set(memory["since"]) == {1, 3}


def test_who_takes_over_takes_the_past_to_have_been_like_the_present():
    crowd = Crowd({})
    crowd.follow(100.0, {1: 20.0, 2: 60.0})
    assert crowd.mean(1) == crowd.mean(2) == 2.0


def test_an_average_of_anything():
    """A cluster that is asked for one and a half times over, then half."""
    crowd = Crowd({})
    crowd.follow(0.0, {7: 0.0}, many=1.5)
    crowd.follow(10.0, {7: 0.0}, many=0.5)
    crowd.follow(20.0, {7: 0.0}, many=9.0)
    assert crowd.mean(7) == 1.0
