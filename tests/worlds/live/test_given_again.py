"""A number that is given again after a restored backup: the job before is not taken for the new one."""

from __future__ import annotations

import pytest
from live_stage import EPOCH_S, Stage

from rota.wire.sync import Exit, PartStatus, Wanted

FORGOTTEN_S = EPOCH_S - 1000.0
"""When the job was submitted that the store does not know any more."""


@pytest.mark.parametrize(
    ("status", "end"),
    [(PartStatus.RUNNING, None), (PartStatus.ENDED, Exit(ended_s=EPOCH_S, code=0))],
)
def test_the_new_job_neither_runs_nor_ends_by_the_old_one(status: PartStatus, end: Exit | None) -> None:
    stage = Stage(n0=2)
    row = stage.submit()
    attempt = stage.grant(row, 0)
    said = stage.report(row, status, submit_s=FORGOTTEN_S, started_s=EPOCH_S, end=end)
    stage.tell("n0", said, complete=True)
    assert (attempt.places[0].status, attempt.start_s, attempt.is_over) == (None, None, False)
    (order,) = stage.directives.since("n0", 0)
    assert (order.wanted, order.submit_s) == (Wanted.RUN, EPOCH_S), "by which the agent sees whose it is"


def test_what_runs_under_an_attempt_that_the_new_job_has_not_had_is_killed() -> None:
    stage = Stage(n0=2)
    row = stage.submit()
    stage.start(row, 0)
    stage.tell("n0", stage.report(row, PartStatus.RUNNING, number=3, submit_s=FORGOTTEN_S))
    orders = {(one.row, one.attempt): one.wanted for one in stage.directives.since("n0", 0)}
    assert orders == {(row, 1): Wanted.RUN, (row, 3): Wanted.KILL}


def test_a_complete_report_about_the_old_job_does_not_name_the_new_one() -> None:
    """Its folder is gone if the agent knows another job's part under its number."""
    stage = Stage(n0=2)
    row = stage.submit()
    attempt = stage.start(row, 0)
    stage.tell("n0", stage.report(row, PartStatus.RUNNING, submit_s=FORGOTTEN_S), complete=True)
    assert attempt.how == "lost"


@pytest.mark.parametrize("submit_s", [0.0, EPOCH_S + 0.0000002])
def test_older_agents_are_heard_as_ever(submit_s: float) -> None:
    stage = Stage(n0=2)
    row = stage.submit()
    attempt = stage.grant(row, 0)
    stage.tell("n0", stage.report(row, PartStatus.RUNNING, submit_s=submit_s, started_s=EPOCH_S))
    assert attempt.places[0].status is PartStatus.RUNNING
