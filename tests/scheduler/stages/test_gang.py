"""Attempts of a gang: timeout, pause, next level."""

from __future__ import annotations

import math

from rota.scheduler.stages.gang import Agenda, Patience, next_moment
from rota.scheduler.stages.locality import Locality


def test_attempts_of_a_job_that_never_fits() -> None:
    """Openings at 0, 300, 600 ...; two failed attempts at each of the first two levels, then it stays."""
    patience = Patience(timeout_s=180, backoff_s=120, relax_after=2)
    attempt = patience.first(Locality.FEWEST_NODES, now=0.0)
    openings = []
    for _ in range(7):
        now = next_moment(attempt)
        openings.append((now, attempt["level"]))
        patience.opened(attempt, 0b1, now)
        assert next_moment(attempt) == now + 180
        patience.timed_out(attempt)
        assert attempt["nodes"] == 0
    assert openings == [(0, 0), (300, 0), (600, 1), (900, 1), (1200, 2), (1500, 2), (1800, 2)]


def test_agenda() -> None:
    """Moments in order, each row once; what has changed or gone since is forgotten."""
    patience = Patience(timeout_s=180, backoff_s=120, relax_after=2)
    attempts = {row: patience.first(Locality.ANYWHERE, now=10.0 * row) for row in range(4)}
    agenda = Agenda(attempts)
    assert agenda.next_s() == 0
    assert agenda.due(10.0) == [0, 1]
    del attempts[2]
    patience.opened(attempts[0], 0b1, 10.0)
    agenda.plan(0)
    assert agenda.next_s() == 30
    assert agenda.due(1000.0) == [0, 3]
    assert agenda.next_s() == math.inf
