"""What jobs lose because others are to have their devices or their memory, and what of it is done again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from live_stage import SUSPENDS, Stage

from rota.model.grants import Grant, Leave
from rota.scheduler.guard.live_rules import Redo
from rota.wire.sync import PartStatus, ProgressReport, Wanted
from rota.worlds.live.preemption import to_redo

RAN_S = 20.0


def running(stage: Stage, **spec: Any) -> int:
    """A job that has run for a while on device 0 and saved nothing."""
    row = stage.submit(**spec)
    stage.start(row, 0)
    stage.run(row, capability=SUSPENDS)
    stage.wait(RAN_S)
    return row


def suspended(stage: Stage, **spec: Any) -> int:
    """Likewise, then preempted into host memory."""
    row = running(stage, **spec)
    stage.decide(preempt=[row])
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED, suspended_gib=1.0))
    return row


def killed(stage: Stage, row: int) -> None:
    """Its first attempt ends by SIGTERM, as it was told to."""
    stage.end(row, None, signal=15, number=1)


def redo(stage: Stage, row: int) -> Redo:
    return to_redo(stage.world.live, stage.loop.state, row)


def preempted(stage: Stage) -> int:
    row = running(stage)
    stage.decide(preempt=[row], leave=Leave.ABANDON)
    killed(stage, row)
    return row


def preempted_and_left(stage: Stage) -> int:
    """A program that takes no notice of what it was told, and is killed."""
    row = running(stage, checkpoint="none")
    stage.decide(preempt=[row])
    assert stage.wanted("n0", row, 1) is Wanted.LEAVE
    stage.end(row, 137, number=1)
    return row


def without_room(stage: Stage) -> int:
    """Its agent has no memory for it, and stops it in place of suspending it."""
    row = running(stage)
    stage.decide(preempt=[row])
    assert stage.wanted("n0", row, 1) is Wanted.SUSPEND
    killed(stage, row)
    return row


def put_out(stage: Stage) -> int:
    row = suspended(stage, memory_gib=6.0)
    stage.start(stage.submit(memory_gib=6.0), 1)
    assert stage.wanted("n0", row, 1) is Wanted.LEAVE
    killed(stage, row)
    return row


def suspended_by_its_user_and_put_out(stage: Stage) -> int:
    """That it waits is its user's wish, not that it waits outside of memory."""
    row = running(stage, memory_gib=6.0)
    stage.ask("suspend", row)
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED, suspended_gib=1.0))
    stage.start(stage.submit(memory_gib=6.0), 1)
    killed(stage, row)
    return row


def resized(stage: Stage) -> int:
    row = running(stage, gpus_min=1, gpus_max=2)
    stage.decide(grants=[Grant(row, (0, 1))])
    killed(stage, row)
    return row


def taken_elsewhere(stage: Stage) -> int:
    """It was suspended where it cannot go on."""
    row = suspended(stage, gpus_min=1, gpus_max=2)
    stage.grant(row, 0, 1)
    killed(stage, row)
    return row


@pytest.mark.parametrize(
    "lose",
    [
        preempted,
        preempted_and_left,
        without_room,
        put_out,
        suspended_by_its_user_and_put_out,
        resized,
        taken_elsewhere,
    ],
)
def test_work_that_is_lost_for_others(lose: Callable[[Stage], int]) -> None:
    """It is to be done again, all of it, before that is over."""
    stage = Stage(memory_gib=10.0, n0=2)
    row = lose(stage)
    assert stage.job(row).lost_s == pytest.approx(RAN_S)
    assert redo(stage, row) == pytest.approx((RAN_S, RAN_S))
    assert stage.world.progress.base.item(row) == 0.0


def requeued(stage: Stage) -> int:
    row = running(stage)
    stage.ask("requeue", row)
    killed(stage, row)
    return row


def suspended_without_room(stage: Stage) -> int:
    row = running(stage)
    stage.ask("suspend", row)
    killed(stage, row)
    return row


def failed(stage: Stage) -> int:
    row = running(stage, user_retries=1)
    stage.end(row, 1)
    return row


def failed_after_it_had_been_suspended(stage: Stage) -> int:
    row = suspended(stage, user_retries=1)
    stage.start(row, 0)
    stage.end(row, 1)
    return row


def lost_with_its_shim(stage: Stage) -> int:
    row = running(stage)
    stage.tell("n0", stage.report(row, PartStatus.LOST, why="its shim was killed"))
    return row


def lost_while_it_was_suspended(stage: Stage) -> int:
    row = suspended(stage)
    stage.tell("n0", stage.report(row, PartStatus.LOST, why="the machine was booted anew"))
    return row


def on_a_lost_node(stage: Stage) -> int:
    row = suspended(stage)
    stage.silent = frozenset({"n0"})
    stage.wait(60.0)
    assert stage.nodes[0].state == "lost"
    return row


def after_its_trial(stage: Stage) -> int:
    row = running(stage, gpus=2, trial=True)
    stage.wait(20.0)
    assert stage.job(row).passed_trial
    killed(stage, row)
    return row


@pytest.mark.parametrize(
    "lose",
    [
        requeued,
        suspended_without_room,
        failed,
        failed_after_it_had_been_suspended,
        lost_with_its_shim,
        lost_while_it_was_suspended,
        on_a_lost_node,
        after_its_trial,
    ],
)
def test_work_that_is_lost_for_nobody_else(lose: Callable[[Stage], int]) -> None:
    """By a user's wish, a failure, the infrastructure: nobody has to wait for it."""
    stage = Stage(memory_gib=10.0, n0=2)
    row = lose(stage)
    assert stage.job(row).attempts[0].is_over
    assert stage.world.progress.base.item(row) == 0.0, "it was lost"
    assert stage.job(row).lost_s == 0.0
    assert redo(stage, row) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("spec", "progress", "code", "lost_s"),
    [
        ({}, None, 85, 0.0),
        ({"checkpoint": "own"}, None, 143, 0.0),
        ({}, ProgressReport(steps=100, checkpoint_step=75), 143, RAN_S / 4),
    ],
    ids=["it left a checkpoint", "it keeps its own", "it saves now and then"],
)
def test_who_saves_loses_what_was_not_saved(
    spec: dict[str, Any], progress: ProgressReport | None, code: int, lost_s: float
) -> None:
    stage = Stage(n0=1)
    row = running(stage, **spec)
    if progress is not None:
        stage.run(row, progress=progress)
    stage.decide(preempt=[row], leave=Leave.CHECKPOINT)
    stage.end(row, code)
    assert redo(stage, row) == pytest.approx((lost_s, lost_s)), "what was saved is not done again"


def test_what_is_done_again_is_less_to_be_done_again() -> None:
    """Over suspensions, which lose nothing, until it is lost once more: then it is all of both."""
    stage = Stage(n0=2)
    row = preempted(stage)
    stage.start(row, 0)
    stage.run(row, capability=SUSPENDS)
    stage.wait(5.0)
    assert redo(stage, row) == pytest.approx((20.0, 15.0))
    stage.ask("suspend", row)
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED))
    stage.wait(100.0)
    assert redo(stage, row) == pytest.approx((20.0, 15.0))
    stage.ask("resume", row)
    stage.start(row, 1)
    stage.wait(25.0)
    assert redo(stage, row) == pytest.approx((20.0, 0.0))
    stage.decide(preempt=[row], leave=Leave.ABANDON)
    assert redo(stage, row) == pytest.approx((20.0, 20.0)), "it is about to lose all of it"
    stage.end(row, None, signal=15)
    assert redo(stage, row) == pytest.approx((50.0, 50.0))
    stage.start(row, 0)
    assert redo(stage, row) == pytest.approx((50.0, 50.0))


def test_what_was_not_saved_is_known_of_an_attempt_that_was_granted_before() -> None:
    """While the first is on its way out nobody knows what it will leave."""
    stage = Stage("nvidia", n0=2)
    row = running(stage, checkpoint="none")
    stage.decide(grants=[Grant(row, (1,))])
    assert [attempt.number for attempt in stage.job(row).living] == [1, 2]
    killed(stage, row)
    stage.run(row)
    stage.wait(5.0)
    assert stage.world.progress.done(row, stage.now) == pytest.approx(5.0)
    assert redo(stage, row) == pytest.approx((20.0, 15.0))
    stage.decide(preempt=[row])
    stage.end(row, 137)
    assert stage.world.progress.base.item(row) == 0.0
    assert redo(stage, row) == pytest.approx((25.0, 25.0))
