"""Time limits: the notice comes before them, and what leaves then has used up its time."""

from __future__ import annotations

import pytest
from live_stage import EPOCH_S, Stage

from rota.wire.job import JobSpec
from rota.wire.sync import Wanted


def noticed(**spec: float) -> tuple[Stage, int]:
    """A job with 10 s of time that runs since 0 s, 3 s of notice before the end."""
    stage = Stage(n0=1)
    row = stage.submit(**{"time_s": 10.0, "notice_s": 3.0, "grace_s": 60.0, "user_retries": 3, **spec})
    stage.start(row, 0)
    stage.run(row)
    return stage, row


def test_the_notice_comes_before_the_limit() -> None:
    """SIGTERM at the limit, SIGKILL after the grace; until then it runs and holds its devices."""
    stage, row = noticed()
    stage.wait(6.9)
    assert stage.wanted("n0", row, 1) is Wanted.RUN
    stage.wait(0.2)
    assert (stage.wanted("n0", row, 1), stage.state(row), stage.free()) == (Wanted.STOP, "RUNNING", [])
    notice = stage.newest(row).notice
    assert notice is not None
    assert (notice.reason, notice.text) == ("timeout", "reaches its time limit of 10s")
    assert notice.deadline_s - EPOCH_S == pytest.approx(10.0 + 60.0, abs=0.2)
    stage.wait(3.0)
    assert (stage.job(row).state, stage.job(row).cause) == ("TIMEOUT", "reached its time limit of 10s")
    assert stage.newest(row).notice is notice, "it is not told again"
    stage.end(row, None, signal=15)
    assert stage.newest(row).how == "timeout"


@pytest.mark.parametrize(
    ("code", "signal", "state", "cause"),
    [
        (0, None, "COMPLETED", "finished"),
        (
            85,
            None,
            "TIMEOUT",
            "reaches its time limit of 10s; left a checkpoint and asked to be run again (85)",
        ),
        (3, None, "TIMEOUT", "reaches its time limit of 10s; rank 0 exited with code 3"),
        (None, 10, "TIMEOUT", "reaches its time limit of 10s; rank 0 was ended by SIGUSR1"),
    ],
)
def test_what_leaves_at_the_notice(code: int | None, signal: int | None, state: str, cause: str) -> None:
    """There is no time left to run it again, whatever it asks for."""
    stage, row = noticed()
    stage.wait(8.0)
    stage.end(row, code, signal=signal)
    job = stage.job(row)
    assert (job.state, job.cause, job.exit is not None, stage.free()) == (state, cause, True, [0])
    stage.wait(100.0)
    assert len(job.attempts) == 1


def test_one_that_failed_by_itself_has_failed() -> None:
    """Its end was on its way when the notice was sent."""
    stage, row = noticed(user_retries=0)
    stage.wait(8.0)
    stage.end(row, 3, by_itself=True)
    assert stage.job(row).state == "FAILED"


def test_a_notice_longer_than_the_limit_comes_when_it_runs() -> None:
    """It has the whole of its notice: SIGTERM comes after that, not at the limit."""
    stage = Stage(n0=1)
    row = stage.submit(time_s=2.0, notice_s=5.0)
    stage.grant(row, 0)
    assert stage.wanted("n0", row, 1) is Wanted.RUN, "nothing of it is there yet"
    stage.run(row)
    stage.wait(0.1)
    assert (stage.wanted("n0", row, 1), stage.state(row)) == (Wanted.STOP, "RUNNING")
    stage.wait(3.0)
    assert stage.state(row) == "RUNNING"
    stage.wait(2.5)
    assert stage.job(row).state == "TIMEOUT"


def test_a_limit_that_was_announced_stays() -> None:
    """A longer time comes too late for processes that have been told to go; before that it does not."""
    stage, row = noticed()
    stage.wait(8.0)
    said = stage.ask("update", row, time_s=100.0)
    assert said == {"error": "it has had the notice of its time limit, and is on its way out"}


@pytest.mark.parametrize(
    ("time_s", "notice_s", "most"), [(None, 5.0, None), (10.0, 3.0, 10.0), (2.0, 5.0, 5.0), (2.0, 0.0, 2.0)]
)
def test_most_that_a_job_runs(time_s: float | None, notice_s: float, most: float | None) -> None:
    assert JobSpec(command=["a"], time_s=time_s, notice_s=notice_s).most_run_s == most
