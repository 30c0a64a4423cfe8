"""What ended before anybody told the controller is on record with the moment at which it ended."""

from __future__ import annotations

import pytest
from live_stage import EPOCH_S, SUSPENDS, Stage

from rota.wire.sync import Exit, PartStatus
from rota.worlds.live.attempts import Attempt

HEARD_S = 30.0
"""The moment at which ends are heard of."""


def ended(stage: Stage, row: int, *ended_s: float, code: int = 0) -> Attempt:
    """The newest attempt, whose parts are said to have ended at these moments, one on each node."""
    attempt = stage.newest(row)
    stage.now = HEARD_S
    for name in stage.heard:
        stage.heard[name] = HEARD_S
    for place, at_s in zip(attempt.places, ended_s, strict=True):
        end = Exit(ended_s=EPOCH_S + at_s, code=code)
        report = stage.report(row, PartStatus.ENDED, number=attempt.number, end=end)
        stage.tell(place.name, report, settle=False)
    stage.settle()
    return attempt


def test_an_end_counts_from_when_it_was() -> None:
    """Devices granted at 1 s, running from 3 s, done at 10 s, heard of at 30 s."""
    stage = Stage(n0=2)
    stage.now = 1.0
    row = stage.submit(gpus=2)
    stage.grant(row, 0, 1)
    stage.now = 3.0
    stage.run(row)
    attempt = ended(stage, row, 10.0)
    assert (stage.job(row).finish_s, attempt.end_s) == (10.0, 10.0)
    state = stage.loop.state
    assert (state.now, state.ran_s(row), state.service_gpu_s(row)) == (HEARD_S, 9.0, 18.0)
    assert state.progress.done(row, HEARD_S) == 7.0
    assert [(i.start_s, i.end_s, i.overhead_s) for i in stage.intervals] == [(1.0, 10.0, 2.0)]


@pytest.mark.parametrize(("said_s", "kept_s"), [(-500.0, 5.0), (4.0, 5.0), (1e6, HEARD_S)])
def test_a_wrong_clock_makes_no_impossible_times(said_s: float, kept_s: float) -> None:
    stage = Stage(n0=1)
    stage.now = 5.0
    row = stage.submit()
    stage.start(row, 0)
    attempt = ended(stage, row, said_s)
    assert (attempt.end_s, stage.job(row).finish_s) == (kept_s, kept_s)
    assert stage.loop.state.ran_s(row) == kept_s - 5.0


@pytest.mark.parametrize(("said_s", "kept_s"), [(-500.0, 5.0), (6.0, 6.0), (1e6, 7.0)])
def test_so_it_is_with_starts(said_s: float, kept_s: float) -> None:
    stage = Stage(n0=1)
    stage.now = 5.0
    row = stage.submit()
    attempt = stage.grant(row, 0)
    stage.now = 7.0
    stage.run(row, started_s=EPOCH_S + said_s)
    assert attempt.start_s == kept_s


def test_nobody_heard_that_it_ran() -> None:
    """All of its time was for what came before its first step, as far as anybody knows."""
    stage = Stage(n0=1)
    row = stage.submit()
    stage.grant(row, 0)
    assert ended(stage, row, 10.0).end_s == 10.0
    assert [(i.end_s, i.overhead_s) for i in stage.intervals] == [(10.0, 10.0)]


def test_it_was_heard_to_run_after_it_had_ended() -> None:
    stage = Stage(n0=1)
    row = stage.submit()
    stage.grant(row, 0)
    stage.now = 2.0
    stage.run(row, started_s=EPOCH_S + 1.0)
    ended(stage, row, 1.5)
    assert stage.loop.state.progress.done(row, HEARD_S) == 0.0
    assert [(i.end_s, i.overhead_s) for i in stage.intervals] == [(1.5, 1.5)]


def test_a_gang_has_ended_when_its_last_part_has() -> None:
    stage = Stage(n0=1, n1=1)
    row = stage.submit(gpus=2)
    stage.start(row, 0, 1)
    assert ended(stage, row, 12.0, 9.0).end_s == 12.0


def test_what_is_lost_was_there_until_its_agent_missed_it() -> None:
    stage = Stage(n0=1)
    row = stage.submit()
    attempt = stage.start(row, 0)
    report = stage.report(row, PartStatus.LOST, why="its shim was killed")
    stage.now = HEARD_S
    stage.tell("n0", report.model_copy(update={"since_s": EPOCH_S + 20.0}))
    assert (attempt.how, attempt.end_s) == ("lost", 20.0)
    assert stage.holds(row) == ["back-off"]


def test_time_after_a_failure_is_not_held_against_the_next_try() -> None:
    """With a limit of 10 s, of which it used 4: the rest is left, though 30 s have passed."""
    stage = Stage(n0=1)
    row = stage.submit(time_s=10.0, user_retries=1)
    stage.start(row, 0)
    ended(stage, row, 4.0, code=1)
    assert stage.loop.state.ran_s(row) == 4.0
    stage.wait(5.0)
    stage.start(row, 0)
    stage.wait(5.5)
    assert stage.state(row) == "RUNNING"
    stage.wait(1.0)
    assert stage.job(row).state == "TIMEOUT"


def test_one_that_had_ended_before_it_was_to_resume_elsewhere() -> None:
    """The end is earlier than what it was given last: that has served for nothing."""
    stage = Stage(n0=2)
    row = stage.submit()
    stage.start(row, 0)
    stage.run(row, capability=SUSPENDS)
    stage.now = 6.0
    stage.decide(preempt=[row])
    stage.now = 8.0
    stage.grant(row, 1)
    attempt = stage.job(row).attempts[0]
    stage.now = HEARD_S
    end = Exit(ended_s=EPOCH_S + 5.0, code=0)
    stage.tell("n0", stage.report(row, PartStatus.ENDED, number=1, end=end))
    assert (stage.state(row), attempt.end_s) == ("COMPLETED", 5.0)
    assert stage.job(row).finish_s == 5.0
    assert stage.loop.state.ran_s(row) == 6.0, "until its devices were taken; nothing on the others"
    assert [(i.start_s, i.end_s) for i in stage.intervals] == [(0.0, 6.0), (8.0, 8.0)]


@pytest.mark.parametrize(("way", "state"), [("cancel", "CANCELLED"), ("limit", "TIMEOUT")])
def test_who_is_made_to_end_has_ended_when_its_processes_left(way: str, state: str) -> None:
    """Its devices are others' from the word on: it neither runs nor waits while it leaves."""
    stage = Stage(n0=1)
    row = stage.submit(time_s=10.0)
    attempt = stage.start(row, 0)
    stage.wait(4.0 if way == "cancel" else 10.0)
    if way == "cancel":
        stage.ask("cancel", row)
    job = stage.job(row)
    told_s = job.finish_s
    assert told_s is not None
    stage.wait(3.0)
    stage.end(row, None, signal=15)
    assert (job.state, job.finish_s, job.leaving_s) == (state, attempt.end_s, stage.now - told_s)
    assert job.finish_s == stage.now > told_s
    assert stage.loop.state.ran_s(row) == told_s == job.finish_s - job.leaving_s


@pytest.mark.parametrize(
    ("code", "by_itself", "again", "state"),
    [
        (3, True, False, "FAILED"),
        (3, True, True, "FAILED"),
        (3, False, False, "PENDING"),  # its answer to our signal
        (3, False, True, "RUNNING"),
        (0, True, True, "COMPLETED"),
        (85, True, False, "PENDING"),
    ],
)
def test_an_own_end_wins_over_a_preemption(code: int, by_itself: bool, again: bool, state: str) -> None:
    """It ends at 5 s, is preempted at 6 s, and may be granted devices again before that is heard of."""
    stage = Stage(n0=2)
    row = stage.submit()
    stage.start(row, 0)
    stage.now = 6.0
    stage.decide(preempt=[row])
    if again:
        stage.grant(row, 1)
    end = Exit(ended_s=EPOCH_S + 5.0, code=code, by_itself=by_itself)
    stage.now = 7.0
    stage.tell("n0", stage.report(row, PartStatus.ENDED, number=1, end=end))
    assert stage.state(row) == state
    attempt = stage.job(row).attempts[0]
    assert attempt.how == {"FAILED": "failed", "COMPLETED": "finished"}.get(state, "preempted")
    if state in ("FAILED", "COMPLETED"):
        assert stage.job(row).finish_s == 5.0
        assert stage.free() == [0, 1]


def test_a_job_that_failed_by_itself_as_it_was_preempted_is_retried_as_after_any_failure() -> None:
    stage = Stage(n0=2)
    row = stage.submit(user_retries=1)
    stage.start(row, 0)
    stage.decide(preempt=[row])
    stage.grant(row, 1)
    stage.end(row, 3, number=1, by_itself=True)
    assert (stage.holds(row), stage.job(row).user_failures) == (["back-off"], 1)
    assert stage.free() == [0, 1]
