"""Alarms: the next instant among many that are set, moved and taken away."""

from __future__ import annotations

import math
import random

from rota.stages.alarms import Alarms


def test_rows_come_in_order_of_moment_and_row() -> None:
    alarms = Alarms()
    for row, moment in ((3, 5.0), (1, 5.0), (2, 9.0), (4, 1.0)):
        alarms.set(row, moment)
    assert alarms.pop(5.0) == [4, 1, 3]
    assert alarms.next_s() == 9.0
    assert alarms.pop(5.0) == []


def test_rows_can_be_left_aside_without_losing_their_alarm() -> None:
    alarms = Alarms()
    alarms.set(1, 3.0)
    alarms.set(2, 4.0)
    assert alarms.next_s(apart={1}) == 4.0
    assert alarms.next_s(apart={1, 2}) == math.inf
    assert alarms.pop(4.0) == [1, 2]


def test_the_last_setting_counts() -> None:
    """Whatever was set before, the heap answers as a dictionary would."""
    rng, alarms, expected = random.Random(1), Alarms(), dict[int, float]()
    for _ in range(2000):
        row, moment = rng.randrange(20), rng.choice([rng.uniform(0, 100), math.inf])
        alarms.set(row, moment)
        expected[row] = moment
        assert alarms.next_s() == min(expected.values())
        if rng.random() < 0.1:
            now = rng.uniform(0, 40)
            due = sorted((at, row) for row, at in expected.items() if at <= now)
            assert alarms.pop(now) == [row for _, row in due]
            for _, popped in due:
                expected[popped] = math.inf
