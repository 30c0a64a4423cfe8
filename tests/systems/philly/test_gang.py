"""Attempts of a gang: timeout, pause, next level; who opens when."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rota.systems.philly.gang import Calendar, Cycle
from rota.systems.philly.locality import Locality

CYCLE = Cycle(timeout_s=180, backoff_s=120)


@pytest.mark.parametrize(
    ("relax_after", "levels"),
    [(2, [0, 0, 1, 1, 2, 2, 2]), (1, [0, 1, 2, 2]), (0, [0, 1, 2, 2]), (2.5, [0, 0, 0, 1, 1, 1, 2])],
)
def test_attempts_of_a_job_that_never_fits(relax_after: float, levels: list[int]) -> None:
    """Openings at 7, 307, 607 ...; each level is tried so often, once at least, the last for ever."""
    attempts = CYCLE.first(Locality.FEWEST_NODES, relax_after, now=7.0)
    for count, level in enumerate(levels):
        opening = 7.0 + 300 * count
        for now in (opening, opening + 179, opening + 299.5):
            assert CYCLE.opened_s(attempts, now) == opening
            assert CYCLE.until_s(attempts, now) == opening + 180
            assert CYCLE.next_s(attempts, now) == opening + 300
            assert CYCLE.level(attempts, now) == level


def test_moments_agree_to_the_last_bit() -> None:
    """Whoever is woken at an opening finds that attempt open, although 0.1 + 0.2 is not 0.3."""
    cycle = Cycle(timeout_s=0.1, backoff_s=0.2)
    attempts = cycle.first(Locality.ANYWHERE, 1, now=1.1)
    now = 1.1
    for _ in range(1000):
        later = cycle.next_s(attempts, now)
        assert cycle.opened_s(attempts, later) == later > now
        now = later


def test_calendar() -> None:
    attempts = {row: CYCLE.first(Locality.ANYWHERE, 2, now=100.0 * row) for row in range(4)}
    calendar = Calendar(attempts, CYCLE)
    for row in attempts:
        calendar.add(row)
    assert calendar.opened(300.0, 300.0) == [0, 3]
    assert calendar.opened(310.0, 500.0) == [1, 2]
    assert calendar.opened(0.0, 10000.0) == [0, 1, 2, 3]
    assert calendar.next_s(300.0) == 400
    assert calendar.next_s(300.0, lambda row: row == 0) == 600
    assert calendar.next_s(300.0, lambda row: row > 3) == math.inf
    calendar.drop(3)
    assert calendar.opened(600.0, 600.0) == [0]


def test_calendar_against_looking_at_everybody() -> None:
    """The next opening of 200 jobs with odd starts, at 200 odd moments."""
    random = np.random.default_rng(1)
    starts = random.uniform(0, 5000, 200).tolist()
    attempts = {row: CYCLE.first(Locality.ANYWHERE, 2, now=start) for row, start in enumerate(starts)}
    calendar = Calendar(attempts, CYCLE)
    for row in attempts:
        calendar.add(row)
    for now in random.uniform(5000, 9000, 200).tolist():
        assert calendar.next_s(now) == min(CYCLE.next_s(one, now) for one in attempts.values())
        since = now - 10.0
        expected = [row for row, one in attempts.items() if CYCLE.opened_s(one, now) >= since]
        assert calendar.opened(since, now) == expected


def test_calendar_at_the_very_moments() -> None:
    """Jobs that came together, periods that no binary number is: asked when attempts open, none is missed."""
    cycle, random = Cycle(timeout_s=0.1, backoff_s=0.2), np.random.default_rng(2)
    starts = np.repeat(random.uniform(0, 50, 25), 4).tolist()
    attempts = {row: cycle.first(Locality.ANYWHERE, 2, now=start) for row, start in enumerate(starts)}
    calendar = Calendar(attempts, cycle)
    for row in attempts:
        calendar.add(row)
    now = 50.0
    for _ in range(200):
        before, now = now, calendar.next_s(now)
        assert now == min(cycle.next_s(one, before) for one in attempts.values())
        expected = [row for row, one in attempts.items() if cycle.opened_s(one, now) >= now]
        assert expected
        assert calendar.opened(now, now) == expected
