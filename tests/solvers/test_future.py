"""Least shares in the slots to come, against all plans there are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.solvers.future import NOTHING, FreeCurve, Plan, SpeedLevels, least_share, soonest

CURVE = SpeedLevels.of(np.array([1, 2, 4]), np.array([1.0, 1.5, 2.0]))
"""The curve of the card's examples: 1, 1.5 and 2 on 1, 2 and 4 GPUs."""


def _held(plan: Plan, slots: int) -> list[int]:
    """GPUs in each of the first slots."""
    return [int(plan.gpus[np.searchsorted(plan.starts, slot, side="right") - 1]) for slot in range(slots)]


def _filled(gpus: int, *jobs: tuple[float, float]) -> list[list[int] | None]:
    """Plans of jobs (work, due) one after the other."""
    curve, plans = FreeCurve.of(gpus), []
    for work, due in jobs:
        plan = least_share(curve, CURVE, work, due)
        plans.append(None if plan is None else _held(plan, 3))
        curve = curve if plan is None else curve.less(plan)
    return plans


@pytest.mark.parametrize(
    ("jobs", "plans"),
    [
        ([(3, 2), (2, 2), (4, 3)], [[2, 2, 0], [1, 1, 0], [1, 1, 4]]),
        ([(1, 1), (3, 2), (2, 2), (4, 3)], [[1, 0, 0], [2, 2, 0], [1, 1, 0], None]),
        ([(2.4, 2.5)], [[1, 1, 1]]),
        ([(2.8, 2.5)], [[2, 2, 0]]),
        ([(9, 3)], [None]),
        ([(0.5, 0.5), (0.6, 0.5)], [[1, 0, 0], [2, 0, 0]]),
    ],
    ids=["card 1", "card 2", "a part of a slot", "more of it", "too much", "less than a slot"],
)
def test_plans_of_the_card(jobs, plans):
    assert _filled(4, *jobs) == plans


@pytest.mark.parametrize(
    ("rates", "gpu_slots"), [((1.0, 2.0, 3.6), (8.0, 8.0, 8.4)), ((1.0, 1.5, 2.0), (8.0, 8.5, 10.0))]
)
def test_gpu_time_of_a_raised_slot(rates, gpu_slots):
    """Card 3: the present slot at 1, 2 and 4 GPUs, then the least share again."""
    levels = SpeedLevels.of(np.array([1, 2, 4]), np.array(rates))
    for first, expected in enumerate(gpu_slots, 1):
        plan = least_share(FreeCurve.of(4), levels, 8.0, 8.0, first=first)
        assert plan is not None
        assert plan.gpu_slots == pytest.approx(expected)


def test_levels_end_where_the_curve_stops_rising():
    levels = SpeedLevels.of(np.array([1, 2, 4, 8]), np.array([6.0, 8.6, 8.6, 11.0]))
    assert levels.gpus.tolist() == [0, 1, 2]
    assert levels.most == 2


def test_stops_are_paid_for():
    """Three slots of work on 1 GPU; to start takes half a slot, and to change again as much."""
    one = SpeedLevels.of(np.array([1]), np.array([1.0]))
    assert least_share(FreeCurve.of(1), one, 3.0, 3.4, pause=0.5) is None
    plan = least_share(FreeCurve.of(1), one, 3.0, 3.5, pause=0.5)
    assert plan is not None
    assert plan.end == pytest.approx(3.5)
    running = least_share(FreeCurve.of(1), one, 3.0, 3.0, pause=0.5, held=1)
    assert running is not None
    assert running.end == pytest.approx(3.0)


def test_what_is_taken_and_given_back():
    curve = FreeCurve.of(4)
    plan = least_share(curve, CURVE, 4.0, 3.0)
    assert plan is not None
    assert curve.less(plan).more(plan) == curve or curve.less(plan).more(plan).free.tolist() == [4]
    assert soonest(FreeCurve.of(0), CURVE, 1.0) is NOTHING
    assert NOTHING.gpu_slots == 0.0
    assert NOTHING.change == math.inf


levels = st.sampled_from(
    [((1, 2, 4), (1.0, 1.5, 2.0)), ((1, 2), (1.0, 1.9)), ((2, 4), (1.0, 1.2)), ((1,), (0.7,))]
)


@given(
    free=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    levels=levels,
    work=st.floats(0.1, 12.0),
    due=st.floats(0.2, 6.0),
)
def test_against_slot_by_slot(free, levels, work, due):
    """The lowest level that is done in time, and when, as counting slots tells."""
    counts, rates = levels
    curve = FreeCurve(np.arange(len(free)), np.array(free))
    own = SpeedLevels.of(np.array(counts), np.array(rates))
    rate_of = dict(zip((0, *counts), (0.0, *rates), strict=True))
    expected = None
    for level in counts:
        end = _end(free, [0, *(count for count in counts if count <= level)], rate_of, work)
        if end <= due:
            expected = level, end
            break
    plan = least_share(curve, own, work, due)
    if expected is None:
        assert plan is None or plan.end == pytest.approx(due)
    else:
        assert plan is not None
        assert plan.end == pytest.approx(expected[1])
        assert plan.gpus.max() <= expected[0]


def _end(free, counts, rate_of, work):
    for slot in range(200):
        room = free[min(slot, len(free) - 1)]
        rate = rate_of[max(count for count in counts if count <= room)]
        if rate > 0.0 and work <= rate:
            return slot + work / rate
        work -= rate
    return math.inf
