"""Queues of waiting jobs whose attempts come and go."""

from __future__ import annotations

import random

from rota.systems.philly.gang import Cycle
from rota.systems.philly.locality import Locality
from rota.systems.philly.queues import Kind, Line

CYCLE = Cycle(timeout_s=180.0, backoff_s=120.0)


def _is_open(since_s: float, now: float) -> bool:
    attempts = CYCLE.first(Locality.ANYWHERE, 2.0, since_s)
    return now < CYCLE.until_s(attempts, now)


def test_a_pause_is_told_only_while_it_lasts() -> None:
    """Whoever is said to pause for some seconds has no attempt open before they are over."""
    rng = random.Random(0)
    moments = [
        (rng.uniform(0, 1e7), rng.choice([rng.uniform(0, 900), rng.randrange(900)])) for _ in range(2000)
    ]
    told = 0
    for since_s, waited_s in moments:
        phase_s, (closed_s, opens_s) = waited_s % CYCLE.period_s, CYCLE.pause_s
        left_s = opens_s - phase_s
        if closed_s < phase_s < opens_s:
            told += 1
            assert not _is_open(since_s, since_s + waited_s)
            assert not _is_open(since_s, since_s + waited_s + 0.999 * left_s)
    assert told > 600  # of the 800 that pause


def test_a_line_knows_who_pauses_at_its_head_while_rows_come_and_go() -> None:
    """Before the first that may be open everybody pauses, and whoever is open is not passed over."""
    rng = random.Random(1)
    line, since_s, now = Line(CYCLE, Kind(-1, -1, [], 1)), dict[int, float](), 0.0
    for step in range(250):
        now += rng.choice([0.0, 1.0, rng.uniform(0, 200)])
        if since_s and rng.random() < 0.4:
            row = rng.choice(list(since_s))
            line.drop(row)
            del since_s[row]
        else:
            row = rng.choice([row for row in range(400) if row not in since_s][:: step % 7 + 1][:50])
            since_s[row] = now
            line.add(row, now)
        first = line.first_open(now)
        assert line.rows == sorted(since_s)
        assert not any(_is_open(since_s[row], now) for row in line.rows[:first])
        found, place = [], 0
        while (place := line.next_open(place, now)) < len(line.rows):
            found.append(line.rows[place])
            place += 1
        assert set(found) >= {row for row in since_s if _is_open(since_s[row], now)}
