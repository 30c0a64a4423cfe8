"""An attempt that a machine could not begin is no try of its job, which waits longer each time in a row."""

from __future__ import annotations

import pytest
from live_stage import EPOCH_S, Stage

from rota.wire.sync import Exit, PartStatus, Wanted
from rota.worlds.live.endings import BackOff

NO_LOGS = "the folder of logs cannot be written"


def refuse(stage: Stage, row: int, device: int = 0) -> None:
    """The policy gives `row` this device, and its machine cannot begin it."""
    stage.grant(row, device)
    stage.end(row, None, error=NO_LOGS, infrastructure=True)


def test_it_uses_up_no_retry_and_the_pause_doubles() -> None:
    """Slurm queues such a job anew and counts nothing; but it shall not go round and round."""
    stage = Stage(n0=2)
    row = stage.submit(retries=0)
    for number, pause_s in ((1, 4.0), (2, 8.0), (3, 16.0)):
        refuse(stage, row)
        job = stage.job(row)
        assert (stage.state(row), stage.holds(row)) == ("PENDING", ["back-off"])
        again = f", {number} times in a row" if number > 1 else ""
        hold = job.holds["back-off"]
        assert (
            hold.detail == f"could not begin on n0: {NO_LOGS}{again}; none of its retries is used up by that"
        )
        assert hold.until_s == stage.now + pause_s
        stage.wait(pause_s + 0.1)
    stage.start(row, 0)
    stage.end(row, None, signal=9)
    assert (stage.state(row), stage.job(row).refusals) == ("NODE_FAIL", 0)


def test_who_has_run_in_between_waits_from_the_first_pause() -> None:
    stage = Stage(n0=2)
    row = stage.submit()
    refuse(stage, row)
    stage.wait(4.1)
    stage.start(row, 0)
    stage.end(row, 85)
    refuse(stage, row)
    assert stage.job(row).holds["back-off"].until_s == stage.now + 4.0


def test_of_a_gang_one_machine_that_cannot_begin_is_enough() -> None:
    """Its ranks elsewhere ran for a moment; they are stopped for that, by nobody's fault."""
    stage = Stage(n0=1, n1=1)
    row = stage.submit(gpus=2, retries=0)
    stage.grant(row, 0, 1)
    stage.tell("n0", stage.report(row, PartStatus.RUNNING, started_s=EPOCH_S + stage.now))
    end = Exit(ended_s=EPOCH_S + stage.now, error=NO_LOGS, infrastructure=True)
    stage.tell("n1", stage.report(row, PartStatus.LOST, end=end, why=NO_LOGS))
    assert stage.wanted("n0", row, 1) is Wanted.STOP
    stage.wait(1.0)
    ended = Exit(ended_s=EPOCH_S + stage.now, signal=15)
    stage.tell("n0", stage.report(row, PartStatus.ENDED, started_s=EPOCH_S, end=ended))
    assert (stage.state(row), stage.holds(row)) == ("PENDING", ["back-off"])
    assert stage.job(row).cause == f"could not begin on n1: {NO_LOGS}"


@pytest.mark.parametrize("status", [PartStatus.ENDED, PartStatus.LOST])
def test_what_had_begun_and_is_lost_is_a_try(status: PartStatus) -> None:
    """Its shim was killed, or its agent fenced it: the program may be what is wrong with the machine."""
    stage = Stage(n0=2)
    row = stage.submit(retries=0)
    stage.grant(row, 0)
    end = Exit(ended_s=EPOCH_S + stage.now, error="its shim was killed", infrastructure=True)
    stage.tell("n0", stage.report(row, status, started_s=EPOCH_S + stage.now, end=end))
    assert stage.state(row) == "NODE_FAIL"


def test_who_was_told_to_go_before_it_could_not_begin_waits_for_nothing() -> None:
    stage = Stage(n0=2)
    row = stage.submit(retries=0)
    stage.grant(row, 0)
    stage.ask("requeue", row)
    stage.end(row, None, error=NO_LOGS, infrastructure=True)
    assert (stage.state(row), stage.holds(row)) == ("PENDING", [])


def test_pauses_stay_finite_however_often_it_is_tried() -> None:
    assert BackOff(10.0, 600.0).after(5000) == 600.0
