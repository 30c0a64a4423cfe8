"""The first job of a group to complete ends the others that say so, live as in a simulation."""

from __future__ import annotations

import pytest
from live_stage import Stage

from rota.scheduler.world import How

FIRST: dict[str, object] = {"group_rule": "first"}


def test_the_others_leave() -> None:
    """Who runs is told to stop, who waits or is held is over; who does not say so goes on."""
    stage = Stage(n0=4)
    winner, running, waiting, other = stage.submit_all([FIRST, FIRST, FIRST, {}])
    held = stage.submit(hold=True, **FIRST)
    for device, row in enumerate((winner, running, other)):
        stage.start(row, device)
    stage.end(winner, 0)
    why = f"job {winner + 1} of its group has completed"
    for row in (running, waiting, held):
        assert stage.state(row) in ("CANCELLED", "COMPLETING"), row
        assert stage.job(row).cause == why
    assert stage.newest(running).told is How.CANCELLED
    assert stage.state(winner) == "COMPLETED"
    assert stage.state(other) == "RUNNING"


@pytest.mark.parametrize(("code", "rule"), [(1, "first"), (0, "all")], ids=["it failed", "it says all"])
def test_the_others_stay(code: int, rule: str) -> None:
    stage = Stage(n0=2)
    ends, stays = stage.submit(group_rule=rule), stage.submit(**FIRST)
    stage.start(ends, 0)
    stage.start(stays, 1)
    stage.end(ends, code)
    assert stage.state(stays) == "RUNNING"


def test_who_comes_later_runs() -> None:
    stage = Stage(n0=2)
    stage.start(stage.submit(**FIRST), 0)
    stage.end(0, 0)
    later = stage.submit(**FIRST)
    stage.start(later, 1)
    assert stage.state(later) == "RUNNING"


def test_what_happens_to_it_at_that_moment_happens_first() -> None:
    """Both ends are told at once: the other has failed, would be tried again, and is cancelled then."""
    stage = Stage(n0=2)
    first, second = stage.submit(**FIRST), stage.submit(user_retries=1, **FIRST)
    stage.start(first, 0)
    stage.start(second, 1)
    stage.end(second, 1, settle=False)
    stage.end(first, 0, settle=False)
    stage.settle()
    stage.wait(2)
    assert (stage.state(first), stage.state(second)) == ("COMPLETED", "CANCELLED")
