"""The live world: what agents, people and time bring, and what machines are told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from live_stage import SETTINGS, SUSPENDS, Stage, suspended_by_its_owner, suspended_by_its_policy

from rota.model.grants import Grant, Leave
from rota.scheduler.decision import Event as Cause
from rota.scheduler.decision import Wake
from rota.scheduler.world import How
from rota.wire.sync import DeviceInfo, PartStatus, Wanted
from rota.worlds.live.attempts import WITHDRAWN
from rota.worlds.live.inbox import Changed


def two() -> Stage:
    """One node of two CPU slots."""
    return Stage(n0=2)


def healthy(*flags: bool) -> list[DeviceInfo]:
    return [
        DeviceInfo(index=i, type="cpu", healthy=flag, why="" if flag else "hot")
        for i, flag in enumerate(flags)
    ]


# -- a job's plain life ----------------------------------------------------------------------------


def test_a_job_arrives_runs_and_ends() -> None:
    stage = two()
    row = stage.submit()
    assert stage.state(row) == "PENDING"
    attempt = stage.grant(row, 1)
    assert (attempt.number, attempt.places[0].devices) == (1, (1,))
    part = stage.orders("n0")[row, 1]
    assert (part.wanted, part.devices, part.job, part.world_size) == (Wanted.RUN, [1], "1", 1)
    stage.now = 3.0
    stage.run(row)
    assert stage.state(row) == "RUNNING"
    assert (attempt.start_s, attempt.ready_s) == (3.0, 3.0)
    stage.now = 10.0
    stage.end(row)
    assert stage.state(row) == "COMPLETED"
    assert (attempt.how, attempt.end_s, stage.job(row).finish_s) == ("finished", 10.0, 10.0)
    assert stage.free() == [0, 1]
    assert stage.wanted("n0", row, 1) is Wanted.FORGET
    assert row not in stage.world.live


def test_a_policy_that_waits_for_its_round_is_asked_when_nobody_runs_any_more() -> None:
    """It asks for nothing but that: one of two that end is no reason, nor is an arrival beside the other."""
    stage, until_idle = two(), {"wake": Wake(on=Cause.IDLE)}
    first, second = stage.submit(), stage.submit()
    stage.decide(grants=[Grant(first, (0,)), Grant(second, (1,))], **until_idle)
    stage.run(first)
    stage.run(second)
    stage.plan(until_idle, until_idle)
    stage.end(first)
    stage.submit()
    assert len(stage.policy.turns) == 2
    stage.end(second)
    assert len(stage.policy.turns) == 1
    stage.submit()
    assert stage.policy.turns == []


def test_a_gang_on_two_nodes_waits_for_its_masters_port() -> None:
    stage = Stage(n0=1, n1=1)
    row = stage.submit(gpus=2)
    stage.grant(row, 0, 1)
    parts = stage.orders("n0")[row, 1], stage.orders("n1")[row, 1]
    assert [part.node_rank for part in parts] == [0, 1]
    assert [part.world_size for part in parts] == [2, 2]
    assert {part.master for part in parts} == {"10.0.0.0"}
    stage.tell("n0", stage.report(row, PartStatus.WAITING, port=4242))
    assert stage.orders("n0")[row, 1].port is None
    assert stage.orders("n1")[row, 1].port == 4242


def test_a_job_without_devices() -> None:
    stage = two()
    row = stage.submit(gpus=0)
    stage.decide(grants=[Grant(row, (), node=0)])
    stage.run(row)
    assert stage.orders("n0")[row, 1].devices == []
    stage.end(row)
    assert stage.state(row) == "COMPLETED"


def test_the_policy_ends_a_job() -> None:
    stage = two()
    waits, runs = stage.submit(), stage.submit()
    stage.start(runs, 0)
    stage.decide(cancel={waits: "too late", runs: "too late"})
    assert [stage.state(waits), stage.state(runs)] == ["CANCELLED", "COMPLETING"]
    assert stage.wanted("n0", runs, 1) is Wanted.STOP
    stage.end(runs, None, signal=15)
    assert stage.state(runs) == "CANCELLED"


# -- failures --------------------------------------------------------------------------------------


def test_a_users_error_fails_at_once() -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.end(row, 1, tail="ValueError: bad")
    job = stage.job(row)
    assert (stage.state(row), job.user_failures, job.infrastructure_failures) == ("FAILED", 1, 0)
    assert job.cause == "rank 0 exited with code 1: error in the program"
    assert job.exit is not None
    assert job.exit.code == 1


ALIKE = "; failed of the same 3 times in a row, so it is not tried again"


@pytest.mark.parametrize(
    ("ends", "state", "why"),
    [
        (["KeyError: 'x'"] * 3, "FAILED", "three times the same"),
        (["KeyError: 'x'"] * 2, "PENDING", "twice"),
        (["KeyError: 'x'", "IndexError: 1", "KeyError: 'x'"], "PENDING", "another thing in between"),
        (["KeyError: 'x'", "TypeError: 0", "TypeError: 0", "TypeError: 1"], "FAILED", "the last three alike"),
        (["CUDA out of memory"] * 3, "OUT_OF_MEMORY", "memory does not grow by trying"),
        (["NCCL error: unhandled system error"] * 3, "NODE_FAIL", "a network that is broken for good"),
        ([""] * 4, "PENDING", "nothing says of what: it may be another thing each time"),
        (["KeyError: 'x'", "KeyError: 'x'", "preempted", "KeyError: 'x'"], "PENDING", "it ran on in between"),
    ],
)
def test_what_fails_of_the_same_thing_again_and_again_is_given_up(
    ends: list[str], state: str, why: str
) -> None:
    """Each end is the last line of the log; the guideline of the Philly study, with its three attempts."""
    stage = two()
    row = stage.submit(retries=9, user_retries=9)
    for tail in ends:
        stage.start(row, 0)
        stage.end(row, 85 if tail == "preempted" else 1, tail=tail)
        stage.wait(20.0)
    assert stage.state(row) == state, why
    assert stage.job(row).cause.endswith(ALIKE) == (state != "PENDING")


@pytest.mark.parametrize(("others", "tries"), [(2, [2, 2, 1, 1]), (0, [2, 2, 2, 2])])
def test_what_others_failed_of_again_is_not_tried_again(others: int, tries: list[int]) -> None:
    """Four jobs of a user, each of which may be tried twice and fails of the same."""
    stage = Stage(settings=replace(SETTINGS, others=others), n0=2)
    rows = [stage.submit(user_retries=1) for _ in tries]
    for row in rows:
        while stage.state(row) == "PENDING":
            stage.start(row, 0)
            stage.end(row, 1, tail="KeyError: 'x'")
            stage.wait(20.0)
    assert [len(stage.job(row).attempts) for row in rows] == tries
    told = stage.job(rows[-1]).cause
    assert ("in vain for others" in told) == bool(others), told


def test_lost_and_killed_attempts_are_alike_in_nothing() -> None:
    stage = two()
    row = stage.submit(retries=9)
    for _ in range(5):
        stage.start(row, 0)
        stage.end(row, None, signal=9)
        stage.wait(20.0)
    assert stage.state(row) == "PENDING", "somebody outside did that"


def test_the_infrastructures_fault_is_tried_again_after_a_pause_that_doubles() -> None:
    stage = two()
    row = stage.submit(retries=2)
    for number, pause_s in ((1, 4.0), (2, 8.0)):
        stage.start(row, 0)
        stage.end(row, None, signal=9)
        assert (stage.state(row), stage.holds(row)) == ("PENDING", ["back-off"])
        assert stage.job(row).holds["back-off"].until_s == stage.now + pause_s
        assert stage.job(row).attempts[number - 1].how == "lost"
        stage.wait(pause_s + 0.1)
        assert stage.holds(row) == []
    stage.start(row, 0)
    stage.end(row, None, signal=9)
    assert stage.state(row) == "NODE_FAIL"
    assert [a.number for a in stage.job(row).attempts] == [1, 2, 3]


def test_out_of_memory_is_the_users_and_has_its_own_word() -> None:
    stage = two()
    row = stage.submit(user_retries=1)
    stage.start(row, 0)
    stage.end(row, 1, tail="torch.OutOfMemoryError: CUDA out of memory.")
    assert stage.holds(row) == ["back-off"]
    stage.wait(5)
    stage.start(row, 0)
    stage.end(row, None, signal=9, oom=True)
    assert stage.state(row) == "OUT_OF_MEMORY"


def test_exit_85_is_run_again_without_a_pause() -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.wait(7)
    stage.end(row, 85)
    assert (stage.state(row), stage.holds(row)) == ("PENDING", [])
    assert stage.newest(row).how == "preempted"
    assert stage.world.progress.base[row] == pytest.approx(7.0, abs=0.1)
    stage.start(row, 0)
    assert stage.orders("n0")[row, 2].restore == [1]


def test_who_asks_twice_at_once_to_be_run_again_gets_a_pause() -> None:
    """Otherwise it would go round and round, a new process each time."""
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.end(row, 85)
    assert stage.holds(row) == []
    stage.start(row, 0)
    stage.end(row, 85)
    assert stage.holds(row) == ["back-off"]
    stage.wait(60)
    assert (stage.state(row), stage.holds(row)) == ("PENDING", [])


def test_a_command_that_cannot_be_started() -> None:
    stage = two()
    row = stage.submit(retries=0)
    stage.start(row, 0)
    stage.end(row, None, error="the folder of logs cannot be written", infrastructure=True)
    assert (stage.state(row), stage.job(row).cause) == ("NODE_FAIL", "the folder of logs cannot be written")


def test_part_of_a_gang_fails_first() -> None:
    """The rest is stopped, and the story is that of the part that failed."""
    stage = Stage(n0=1, n1=1)
    row = stage.submit(gpus=2)
    stage.start(row, 0, 1)
    attempt = stage.newest(row)
    failed = {"code": 1, "tail": "KeyError: 'x'", "ended_s": stage.now}
    stage.tell("n1", stage.report(row, PartStatus.ENDED, end=failed))
    assert stage.state(row) == "RUNNING"
    assert stage.wanted("n0", row, 1) is Wanted.STOP
    stage.tell("n0", stage.report(row, PartStatus.ENDED, end={"signal": 15, "ended_s": stage.now + 1}))
    assert stage.state(row) == "FAILED"
    assert attempt.exit is not None
    assert attempt.exit.code == 1


def test_part_of_a_gang_finishes_first() -> None:
    """The others may have something left to do."""
    stage = Stage(n0=1, n1=1)
    row = stage.submit(gpus=2)
    stage.start(row, 0, 1)
    done = {"code": 0, "ended_s": stage.now}
    stage.tell("n1", stage.report(row, PartStatus.ENDED, end=done))
    assert stage.wanted("n0", row, 1) is Wanted.RUN
    stage.tell("n0", stage.report(row, PartStatus.ENDED, end=done))
    assert stage.state(row) == "COMPLETED"


def test_part_of_a_gang_is_lost() -> None:
    stage = Stage(n0=1, n1=1)
    row = stage.submit(gpus=2)
    stage.start(row, 0, 1)
    stage.tell("n1", stage.report(row, PartStatus.LOST, why="its shim was killed"))
    assert stage.wanted("n0", row, 1) is Wanted.STOP
    stage.tell("n0", stage.report(row, PartStatus.ENDED, end={"signal": 15, "ended_s": stage.now}))
    assert (stage.holds(row), stage.job(row).infrastructure_failures) == (["back-off"], 1)
    assert "its shim was killed" in stage.job(row).cause


# -- preemption ------------------------------------------------------------------------------------


def test_a_preempted_job_leaves_and_its_next_attempt_waits_for_that() -> None:
    stage = two()
    first, second = stage.submit(gpus=2), stage.submit(gpus=2)
    attempt = stage.start(first, 0, 1)
    stage.decide(preempt=[first], grants=[Grant(second, (0, 1))])
    assert (stage.state(first), stage.state(second)) == ("PENDING", "RUNNING")
    assert stage.wanted("n0", first, 1) is Wanted.LEAVE
    assert attempt.notice is not None
    assert attempt.notice.text == "preempted for job 2"
    assert stage.job(first).preempted_for == "2"
    stage.end(second)
    stage.grant(first, 0, 1)
    assert stage.wanted("n0", first, 2) is None, "attempt 1 has not gone"
    assert stage.newest(first).is_ordered is False
    stage.end(first, 85, number=1)
    assert attempt.how == "preempted"
    assert stage.wanted("n0", first, 2) is Wanted.RUN
    stage.run(first)
    stage.end(first)
    assert stage.state(first) == "COMPLETED"


def test_a_job_that_can_be_suspended_resumes_as_the_same_attempt_on_other_slots() -> None:
    stage = two()
    first, second = stage.submit(), stage.submit()
    stage.start(first, 0)
    stage.run(first, capability=SUSPENDS)
    stage.decide(preempt=[first], grants=[Grant(second, (0,))])
    assert stage.wanted("n0", first, 1) is Wanted.SUSPEND
    stage.tell("n0", stage.report(first, PartStatus.SUSPENDED, suspended_gib=1.5))
    assert stage.state(first) == "SUSPENDED"
    stage.grant(first, 1)
    part = stage.orders("n0")[first, 1]
    assert (part.wanted, part.devices, part.notice) == (Wanted.RUN, [1], None)
    stage.now += 2
    stage.run(first)
    assert stage.newest(first).ready_s == stage.now
    assert len(stage.job(first).attempts) == 1
    stage.end(first)
    assert stage.state(first) == "COMPLETED"


def suspended(stage: Stage, holds_gib: float, **spec: Any) -> int:
    """A job that was preempted into host memory."""
    row = stage.submit(**spec)
    stage.start(row, 0)
    stage.run(row, capability=SUSPENDS)
    stage.decide(preempt=[row])
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED, suspended_gib=holds_gib))
    return row


@pytest.mark.parametrize(
    ("asks_gib", "holds_gib", "wanted"),
    [(0.0, 3.9, Wanted.SUSPEND), (0.0, 4.1, Wanted.LEAVE), (5.0, 0.5, Wanted.LEAVE)],
    ids=["there is room", "it was seen to hold too much", "it has asked for too much"],
)
def test_a_suspended_job_leaves_memory_that_a_start_needs(
    asks_gib: float, holds_gib: float, wanted: Wanted
) -> None:
    """Its devices are somebody's already; its memory counts against the node as well."""
    stage = Stage(memory_gib=10.0, n0=2)
    row = suspended(stage, holds_gib, memory_gib=asks_gib)
    other = stage.submit(memory_gib=6.0)
    stage.start(other, 0)
    assert stage.wanted("n0", row, 1) is wanted
    if wanted is Wanted.LEAVE:
        notice = stage.newest(row).notice
        assert notice is not None
        assert notice.text == "leaves host memory, which other jobs need"
        stage.end(row, 85)
    stage.end(other)
    stage.start(row, 1)
    again = 2 if wanted is Wanted.LEAVE else 1
    assert stage.newest(row).number == again, "once out of memory it starts again from its checkpoint"


def test_a_victim_without_room_in_memory_is_not_suspended() -> None:
    stage = Stage(memory_gib=10.0, n0=1)
    row, other = stage.submit(memory_gib=5.0), stage.submit(memory_gib=6.0)
    stage.start(row, 0)
    stage.run(row, capability=SUSPENDS)
    stage.decide(preempt=[row], grants=[Grant(other, (0,))], leave=Leave.IN_MEMORY)
    assert stage.wanted("n0", row, 1) is Wanted.LEAVE


def test_who_has_saved_its_work_leaves_memory_before_who_would_lose_it() -> None:
    """Two are suspended, one of them can write a checkpoint: it goes."""
    stage = Stage(memory_gib=10.0, n0=2)
    loses = suspended(stage, 3.0)
    saves = suspended(stage, 3.0, checkpoint="own")
    stage.wait(5.0)
    stage.start(stage.submit(memory_gib=6.0), 0)
    assert stage.wanted("n0", loses, 1) is Wanted.SUSPEND
    assert stage.wanted("n0", saves, 1) is Wanted.LEAVE


def test_a_suspended_job_on_another_gpu_is_a_new_attempt() -> None:
    stage = Stage("nvidia", n0=2)
    first, second = stage.submit(), stage.submit()
    stage.start(first, 0)
    stage.decide(preempt=[first], grants=[Grant(second, (0,))], leave=Leave.IN_MEMORY)
    stage.tell("n0", stage.report(first, PartStatus.SUSPENDED))
    stage.grant(first, 1)
    assert stage.wanted("n0", first, 1) is Wanted.LEAVE
    assert stage.job(first).attempts[0].told is How.MIGRATED
    stage.end(first, 85, number=1)
    assert stage.wanted("n0", first, 2) is Wanted.RUN


def test_devices_come_back_while_it_is_still_being_suspended() -> None:
    """The attempt that was to follow is withdrawn, the first goes on."""
    stage = two()
    first, second = stage.submit(), stage.submit()
    stage.start(first, 0)
    stage.run(first, capability=SUSPENDS)
    stage.decide(preempt=[first], grants=[Grant(second, (0,))])
    stage.grant(first, 1)
    assert [a.number for a in stage.job(first).attempts] == [1, 2]
    stage.tell("n0", stage.report(first, PartStatus.SUSPENDED, number=1))
    job = stage.job(first)
    assert (job.attempts[1].how, job.attempt) == (WITHDRAWN, job.attempts[0])
    assert stage.orders("n0")[first, 1].wanted is Wanted.RUN
    assert (first, 2) not in stage.orders("n0")
    stage.decide(preempt=[first])
    stage.tell("n0", stage.report(first, PartStatus.SUSPENDED))
    stage.decide(preempt=[second])
    third = stage.grant(first, 0)
    assert third is job.attempts[0]
    stage.run(first)
    stage.end(first)
    assert stage.state(first) == "COMPLETED"


def test_preempted_twice_before_it_resumed() -> None:
    stage = two()
    row = suspended_by_its_policy(stage)
    stage.grant(row, 1)
    stage.decide(preempt=[row])
    assert stage.wanted("n0", row, 1) is Wanted.SUSPEND
    stage.grant(row, 0)
    assert stage.orders("n0")[row, 1].devices == [0]
    stage.run(row)
    stage.end(row)
    assert stage.state(row) == "COMPLETED"


def test_a_job_that_is_preempted_before_its_attempt_was_ordered() -> None:
    stage = two()
    first = stage.submit(gpus=2)
    stage.start(first, 0, 1)
    stage.decide(preempt=[first])
    stage.grant(first, 0, 1)
    stage.decide(preempt=[first])
    assert stage.job(first).attempts[1].how == WITHDRAWN
    stage.end(first, 85, number=1)
    assert stage.state(first) == "PENDING"
    stage.start(first, 0, 1)
    assert stage.newest(first).number == 3
    assert stage.orders("n0")[first, 3].restore == [1]


@pytest.mark.parametrize("waits", [True, False])
def test_a_job_that_finishes_while_it_is_told_to_go(waits: bool) -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.decide(preempt=[row])
    if not waits:
        stage.grant(row, 1)
    stage.end(row, number=1)
    assert stage.state(row) == "COMPLETED"
    assert stage.free() == [0, 1]
    assert row not in stage.world.live


def test_killed_while_suspended_it_begins_anew() -> None:
    stage = two()
    row = suspended_by_its_policy(stage)
    stage.tell("n0", stage.report(row, PartStatus.LOST, why="its shim was killed"))
    assert (stage.state(row), stage.holds(row)) == ("PENDING", [])
    assert stage.start(row, 0).number == 2


@pytest.mark.parametrize(
    ("spec", "can", "leave", "way"),
    [
        ({}, False, Leave.CHECKPOINT, Wanted.LEAVE),
        ({}, True, Leave.CHECKPOINT, Wanted.SUSPEND),
        ({"checkpoint": "own"}, True, Leave.CHECKPOINT, Wanted.LEAVE),
        ({"checkpoint": "own"}, True, Leave.IN_MEMORY, Wanted.SUSPEND),
        ({"checkpoint": "none"}, True, Leave.CHECKPOINT, Wanted.LEAVE),
        ({}, True, Leave.ABANDON, Wanted.STOP),
    ],
)
def test_ways_to_give_devices_back(spec: dict[str, Any], can: bool, leave: Leave, way: Wanted) -> None:
    stage = two()
    row = stage.submit(**spec)
    stage.start(row, 0)
    if can:
        stage.run(row, capability=SUSPENDS)
    stage.decide(preempt=[row], leave=leave)
    assert stage.wanted("n0", row, 1) is way


def test_a_job_moves_without_stopping_between_slots_and_by_stopping_between_sizes() -> None:
    stage = Stage(n0=4)
    row = stage.submit(gpus=2, gpus_max=3)
    stage.start(row, 0, 1)
    stage.now = 5.0
    stage.grant(row, 2, 3)
    attempt = stage.newest(row)
    assert (attempt.number, stage.orders("n0")[row, 1].devices) == (1, [2, 3])
    assert attempt.ready_s == 5.0, "its processes run on"
    stage.grant(row, 0, 1, 2)
    assert attempt.told is How.RESIZED
    stage.end(row, 85, number=1)
    assert stage.orders("n0")[row, 2].devices == [0, 1, 2]


def test_a_claim_that_changes_is_no_pause() -> None:
    """Another share of the same device: what runs there goes on running."""
    stage = two()
    row = stage.submit()
    attempt = stage.start(row, 0)
    stage.now = 4.0
    stage.grant(row, 0, share=0.5)
    assert attempt.ready_s is not None
    stage.now = 9.0
    lost = stage.world.stopped(row, How.PREEMPTED)
    assert lost.overhead_s == 0.0


# -- what people ask for ---------------------------------------------------------------------------


def test_cancelled_while_it_waits() -> None:
    stage = two()
    row = stage.submit()
    assert stage.ask("cancel", row, reason="typo") == {}
    assert (stage.state(row), stage.job(row).cause) == ("CANCELLED", "cancelled by ann: typo")


def test_cancelled_while_it_is_held() -> None:
    stage = two()
    row = stage.submit(hold=True)
    stage.ask("cancel", row)
    assert (stage.state(row), stage.loop.state.held) == ("CANCELLED", {})


@pytest.mark.parametrize(("force", "way"), [(False, Wanted.STOP), (True, Wanted.KILL)])
def test_cancelled_while_it_runs(force: bool, way: Wanted) -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.ask("cancel", row, force=force)
    assert (stage.state(row), stage.free()) == ("COMPLETING", [0, 1])
    assert stage.wanted("n0", row, 1) is way
    stage.end(row, None, signal=15)
    assert (stage.state(row), stage.newest(row).how) == ("CANCELLED", "cancelled")
    assert row not in stage.world.live


def test_cancelled_before_anybody_heard_of_it() -> None:
    """Ordered, but its agent has not said a word: the agent answers that it never began."""
    stage = two()
    row = stage.submit()
    stage.grant(row, 0)
    stage.ask("cancel", row)
    stage.tell("n0", stage.report(row, PartStatus.LOST, why="never began"))
    assert stage.state(row) == "CANCELLED"
    assert row not in stage.world.live


def test_cancelled_while_it_is_suspended() -> None:
    stage = two()
    row = suspended_by_its_policy(stage)
    stage.ask("cancel", row)
    assert stage.wanted("n0", row, 1) is Wanted.STOP
    stage.end(row, None, signal=9)
    assert stage.state(row) == "CANCELLED"


def test_cancelled_while_one_attempt_leaves_and_the_next_waits() -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.decide(preempt=[row])
    stage.grant(row, 1)
    stage.ask("cancel", row)
    assert stage.job(row).attempts[1].how == WITHDRAWN
    assert stage.free() == [0, 1]
    stage.end(row, 85, number=1)
    assert stage.state(row) == "CANCELLED"


def test_cancelled_with_patience_then_without() -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.ask("cancel", row)
    assert stage.ask("cancel", row, force=True) == {}
    assert stage.wanted("n0", row, 1) is Wanted.KILL


def test_a_job_that_finished_before_it_was_cancelled_has_finished() -> None:
    """The end and the wish meet in one moment: what happened first counts."""
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.end(row, settle=False)
    stage.ask("cancel", row, settle=False)
    stage.settle()
    assert stage.state(row) == "COMPLETED"


def test_hold_and_release() -> None:
    stage = two()
    row = stage.submit()
    stage.ask("hold", row)
    assert stage.holds(row) == ["user"]
    assert "it is not suspended" in str(stage.ask("resume", row)["error"])
    stage.ask("release", row)
    assert stage.holds(row) == []
    stage.start(row, 0)
    assert "suspend it" in str(stage.ask("hold", row)["error"])


def test_suspend_and_resume() -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.run(row, capability=SUSPENDS)
    stage.ask("suspend", row)
    assert (stage.holds(row), stage.free()) == (["suspended"], [0, 1])
    assert stage.wanted("n0", row, 1) is Wanted.SUSPEND
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED))
    assert stage.state(row) == "SUSPENDED"
    stage.ask("resume", row)
    assert stage.holds(row) == []
    stage.grant(row, 0)
    assert stage.wanted("n0", row, 1) is Wanted.RUN


def test_requeue() -> None:
    stage = two()
    row = stage.submit()
    assert stage.ask("requeue", row) == {"error": "it is not running"}
    stage.start(row, 0)
    assert stage.ask("requeue", row) == {}
    assert stage.wanted("n0", row, 1) is Wanted.LEAVE
    stage.end(row, None, signal=15)
    assert stage.state(row) == "PENDING"


@pytest.mark.parametrize("heard", [False, True], ids=["before its agent says so", "afterwards"])
def test_requeue_of_one_that_was_just_resumed(heard: bool) -> None:
    """It leaves, and the next attempt begins once it has: it does not simply go on."""
    stage = two()
    row = suspended_by_its_owner(stage)
    stage.ask("resume", row)
    stage.grant(row, 0)
    if heard:
        stage.run(row)
    assert stage.ask("requeue", row) == {}
    assert stage.wanted("n0", row, 1) is Wanted.LEAVE
    stage.grant(row, 0)
    assert stage.wanted("n0", row, 1) is Wanted.LEAVE
    stage.end(row, None, signal=15, number=1)
    assert stage.wanted("n0", row, 2) is Wanted.RUN


@pytest.mark.parametrize("heard", [False, True], ids=["under way", "done"])
def test_a_requeue_of_one_that_is_suspended_says_what_to_do(heard: bool) -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.run(row, capability=SUSPENDS)
    stage.ask("suspend", row)
    if heard:
        stage.tell("n0", stage.report(row, PartStatus.SUSPENDED))
    assert stage.ask("requeue", row) == {"error": "it is suspended; resume it first"}
    stage.ask("resume", row)
    stage.grant(row, 0)
    assert stage.ask("requeue", row) == {}


def test_a_requeue_of_one_that_its_policy_suspended() -> None:
    """It has no devices that it could give up, and is not told to be what it is not."""
    stage = two()
    row = suspended_by_its_policy(stage)
    assert "goes on by itself" in str(stage.ask("requeue", row)["error"])


def test_commands_about_jobs_that_are_over() -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.end(row)
    for kind in ("hold", "suspend", "requeue", "cancel"):
        assert stage.ask(kind, row) == {"error": "it has ended"}


def test_a_command_for_an_array_means_those_of_its_jobs_that_are_not_over() -> None:
    """And no other job; who refuses is named, and the others obey."""
    stage = two()
    rows = stage.submit_all([{}] * 4, array=True)
    other = stage.submit()
    stage.start(rows[0], 0)
    stage.end(rows[0])
    stage.start(rows[1], 0)
    assert stage.ask("hold", array=rows[0]) == {
        "refused": {"it is running; suspend it to take its devices away and keep it": ["1_1"]}
    }
    assert [bool(stage.job(row).holds) for row in (*rows[1:], other)] == [False, True, True, False]
    assert stage.ask("release", array=rows[0]) == {}
    assert not any(stage.job(row).holds for row in rows[1:])
    assert stage.ask("cancel", array=rows[0], reason="enough") == {}
    states = [stage.state(row) for row in (*rows, other)]
    assert states == ["COMPLETED", "COMPLETING", "CANCELLED", "CANCELLED", "PENDING"]
    assert stage.wanted("n0", rows[1], 1) is Wanted.STOP
    assert stage.ask("cancel", array=rows[0], force=True) == {}
    assert stage.wanted("n0", rows[1], 1) is Wanted.KILL, "no more patience"


def test_a_command_for_an_array_waits_for_what_happens_to_its_jobs() -> None:
    """It comes with its jobs, or with the end of one of them, in one moment."""
    stage = two()
    rows = stage.submit_all([{}] * 3, array=True, settle=False)
    assert stage.ask("hold", array=rows[0]) == {}
    assert all(stage.job(row).holds for row in rows)
    stage.ask("release", array=rows[0])
    stage.start(rows[0], 0)
    stage.end(rows[0], settle=False)
    assert stage.ask("cancel", array=rows[0]) == {}
    assert [stage.state(row) for row in rows] == ["COMPLETED", "CANCELLED", "CANCELLED"]


def test_the_same_command_twice_is_done_once() -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.ask("requeue", row, settle=False)
    stage.seq -= 1  # it was on record, and it was in the inbox
    stage.ask("requeue", row)
    assert sum(number == stage.seq for news in stage.news for number, _ in news.done) == 1


# -- time ------------------------------------------------------------------------------------------


def test_the_time_limit_counts_running_only() -> None:
    stage = two()
    row = stage.submit(time_s=10)
    stage.start(row, 0)
    stage.run(row, capability=SUSPENDS)
    stage.wait(6)
    stage.decide(preempt=[row])
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED))
    stage.wait(100)
    stage.grant(row, 0)
    stage.run(row)
    stage.wait(3.5)
    assert stage.state(row) == "RUNNING"
    stage.wait(1)
    assert stage.wanted("n0", row, 1) is Wanted.STOP
    assert stage.newest(row).notice is not None
    stage.end(row, None, signal=15)
    assert (stage.state(row), stage.job(row).cause) == ("TIMEOUT", "reached its time limit of 10s")
    assert stage.newest(row).how == "timeout"
    assert stage.intervals[-1].how == "failed", "the word that reports know"


def test_a_trial_is_passed() -> None:
    stage = Stage(n0=4)
    row = stage.submit(gpus=4, trial=True)
    attempt = stage.start(row, 0)
    assert attempt.is_trial
    stage.wait(29)
    assert not stage.job(row).passed_trial
    stage.wait(1.5)
    assert stage.job(row).passed_trial
    assert any(news.rebuild for news in stage.news)
    assert stage.wanted("n0", row, 1) is Wanted.STOP
    assert stage.events("trial") == ["passed"]


def test_a_trial_is_failed() -> None:
    stage = Stage(n0=4)
    row = stage.submit(gpus=4, trial=True)
    stage.start(row, 0)
    stage.wait(5)
    stage.end(row, 1, tail="ImportError: no module")
    assert stage.state(row) == "FAILED"
    assert stage.job(row).cause.endswith("in its trial on one device")


def test_a_program_that_ends_within_its_trial_has_ended() -> None:
    stage = Stage(n0=4)
    row = stage.submit(gpus=4, trial=True)
    stage.start(row, 0)
    stage.end(row)
    assert stage.state(row) == "COMPLETED"


# -- nodes and devices -----------------------------------------------------------------------------


def test_a_lost_node_is_fenced_and_may_come_back() -> None:
    stage = Stage(n0=1, n1=1)
    row = stage.submit()
    attempt = stage.start(row, 0)
    stage.silent = frozenset({"n0"})
    stage.wait(60)
    assert stage.nodes[0].state == "lost"
    assert (attempt.how, stage.state(row), stage.free()) == ("lost", "PENDING", [1])
    stage.grant(row, 1)
    assert stage.orders("n1")[row, 2].void == [1]
    stage.run(row)
    stage.tell("n0", stage.report(row, PartStatus.RUNNING, number=1), complete=True)
    assert stage.nodes[0].state == "up"
    assert stage.wanted("n0", row, 1) is Wanted.KILL
    assert stage.newest(row).number == 2
    assert stage.free() == [0]
    stage.end(row, number=2)
    assert stage.state(row) == "COMPLETED"


def test_what_leaves_a_lost_node_is_given_up() -> None:
    stage = Stage(n0=1, n1=1)
    row = stage.submit()
    stage.start(row, 0)
    stage.decide(preempt=[row])
    stage.grant(row, 1)
    assert (row, 2) not in stage.orders("n1")
    stage.silent = frozenset({"n0"})
    stage.wait(60)
    assert stage.job(row).attempts[0].how == "lost"
    assert stage.wanted("n1", row, 2) is Wanted.RUN


def test_a_cancelled_job_on_a_lost_node_is_over() -> None:
    stage = Stage(n0=1, n1=1)
    row = stage.submit()
    stage.start(row, 0)
    stage.ask("cancel", row)
    stage.silent = frozenset({"n0"})
    stage.wait(60)
    assert stage.state(row) == "CANCELLED"
    assert row not in stage.world.live
    assert [row in news.jobs for news in stage.news if (row, 1) in news.attempts][-1], "it is stored as over"


def test_a_gang_with_one_node_lost() -> None:
    stage = Stage(n0=1, n1=1)
    row = stage.submit(gpus=2)
    stage.start(row, 0, 1)
    stage.silent = frozenset({"n1"})
    stage.wait(60)
    assert (stage.state(row), stage.free()) == ("PENDING", [0])
    assert stage.wanted("n0", row, 1) is Wanted.KILL
    stage.tell("n0", stage.report(row, PartStatus.ENDED, number=1, end={"signal": 9, "ended_s": 0}))
    assert stage.wanted("n0", row, 1) is Wanted.FORGET


def test_drain_and_undrain() -> None:
    stage = Stage(n0=1, n1=1)
    row = stage.submit()
    stage.start(row, 0)
    assert stage.ask("drain", node="n0", reason="dust") == {}
    assert (stage.nodes[0].state, stage.nodes[0].reason) == ("drained", "dust")
    assert (stage.state(row), stage.free()) == ("RUNNING", [1])
    stage.end(row)
    assert stage.free() == [1]
    stage.ask("undrain", node="n0")
    assert (stage.nodes[0].state, stage.free()) == ("up", [0, 1])
    assert stage.ask("drain", node="n7") == {"error": "there is no node n7"}


def test_sick_devices_stay_closed_through_drain_and_loss() -> None:
    stage = two()
    stage.tell("n0", devices=healthy(False, True))
    assert stage.free() == [1]
    stage.ask("drain", node="n0")
    stage.ask("undrain", node="n0")
    assert stage.free() == [1]
    stage.silent = frozenset({"n0"})
    stage.wait(60)
    assert stage.free() == []
    stage.tell("n0", complete=True)
    assert stage.free() == [1]
    stage.tell("n0", devices=healthy(True, True))
    assert stage.free() == [0, 1]


def test_a_device_gets_well_on_a_drained_node() -> None:
    stage = two()
    stage.tell("n0", devices=healthy(False, True))
    stage.ask("drain", node="n0")
    stage.tell("n0", devices=healthy(True, True))
    assert stage.free() == []
    stage.ask("undrain", node="n0")
    assert stage.free() == [0, 1]


def test_a_node_whose_agent_was_stopped_takes_no_jobs_until_it_is_back() -> None:
    stage = two()
    row = stage.submit(gpus=1)
    attempt = stage.start(row, 0)
    stage.tell("n0", leaving=True)
    assert (stage.nodes[0].state, stage.free()) == ("away", [])
    assert stage.state(row) == "RUNNING"
    stage.tell("n0", stage.report(row, PartStatus.RUNNING), leaving=True)
    assert stage.nodes[0].state == "away", "said before the goodbye, and heard after it"
    stage.tell("n0")
    assert (stage.nodes[0].state, stage.free()) == ("up", [1])
    assert attempt.end_s is None
    assert stage.events("away") == ["node n0: its agent was stopped"]
    assert stage.events("back") == ["node n0"]


@pytest.mark.parametrize("before", [True, False])
def test_a_drained_node_whose_agent_was_stopped_is_drained_when_it_is_back(before: bool) -> None:
    """Whether it was drained before its agent was stopped, or while it was away."""
    stage = two()
    stage.tell("n0", devices=healthy(False, True))
    if before:
        stage.ask("drain", node="n0", reason="dust")
    stage.tell("n0", leaving=True)
    if not before:
        stage.ask("drain", node="n0", reason="dust")
    assert (stage.nodes[0].state, stage.free()) == ("away", [])
    stage.tell("n0")
    assert (stage.nodes[0].state, stage.nodes[0].reason, stage.free()) == ("drained", "dust", [])
    stage.tell("n0", leaving=True)
    stage.ask("undrain", node="n0")
    assert (stage.nodes[0].state, stage.free()) == ("away", [])
    stage.tell("n0")
    assert (stage.nodes[0].state, stage.free()) == ("up", [1])


def test_a_stopped_agent_that_stays_away_loses_its_node() -> None:
    stage = two()
    row = stage.submit(gpus=1)
    attempt = stage.start(row, 0)
    stage.tell("n0", leaving=True)
    stage.silent = frozenset({"n0"})
    stage.wait(60)
    assert (stage.nodes[0].state, attempt.how) == ("lost", "lost")
    stage.tell("n0", leaving=True)
    assert stage.nodes[0].state == "lost", "a goodbye is no return"
    stage.tell("n0")
    assert (stage.nodes[0].state, stage.free()) == ("up", [0, 1])


def test_only_a_lost_node_is_forgotten() -> None:
    stage = Stage(n0=2, n1=1)
    assert stage.ask("forget", node="n0") == {
        "error": "it is up, and only a lost node can be forgotten; stop its agent and wait until it is"
    }
    assert stage.ask("forget", node="n7") == {"error": "there is no node n7"}
    stage.silent = frozenset({"n0"})
    stage.wait(60)
    assert stage.nodes[0].state == "lost"
    assert stage.ask("forget", node="n0") == stage.ask("forget", node="n0") == {}
    assert (stage.nodes[0].state, stage.nodes[0].reason) == ("forgotten", "forgotten by ann")
    assert [news.rebuild for news in stage.news if news.rebuild] == ["node n0 was forgotten"]
    assert stage.events("forget") == ["node n0"], "once"
    for verb in ("drain", "undrain"):
        assert stage.ask(verb, node="n0") == {"error": "there is no node n0"}
    stage.tell("n0", complete=True, devices=healthy(True, True))
    stage.wait(60)
    assert stage.nodes[0].state == "forgotten", "until it joins anew"
    assert stage.free() == [2]


@pytest.mark.parametrize("kinds", [("drain", "undrain"), ("undrain", "drain"), ("drain", "undrain", "drain")])
def test_the_last_word_about_a_node_holds_in_one_moment(kinds: tuple[str, ...]) -> None:
    stage = two()
    if kinds[0] == "undrain":
        stage.ask("drain", node="n0")
    for kind in kinds:
        stage.ask(kind, node="n0", settle=False)
    stage.settle()
    assert (stage.nodes[0].state == "up") is (kinds[-1] == "undrain")
    assert stage.free() == ([0, 1] if kinds[-1] == "undrain" else [])


@pytest.mark.parametrize("flags", [(False, True), (True, False), (False, True, False)])
def test_the_last_word_about_a_device_holds_in_one_moment(flags: tuple[bool, ...]) -> None:
    stage = two()
    stage.tell("n0", devices=healthy(not flags[0], True))
    for flag in flags:
        stage.tell("n0", devices=healthy(flag, True), settle=False)
    stage.settle()
    assert stage.free() == ([0, 1] if flags[-1] else [1])


def test_a_node_that_was_drained_comes_back_drained() -> None:
    stage = two()
    stage.ask("drain", node="n0", reason="dust")
    stage.silent = frozenset({"n0"})
    stage.wait(60)
    assert stage.nodes[0].state == "lost"
    stage.tell("n0", complete=True)
    assert (stage.nodes[0].state, stage.free()) == ("drained", [])
    stage.ask("undrain", node="n0")
    assert stage.free() == [0, 1]


# -- what agents say -------------------------------------------------------------------------------


def test_a_complete_report_that_misses_a_part() -> None:
    """Its folder is gone: lost by infrastructure."""
    stage = two()
    begun, ordered = stage.submit(), stage.submit()
    stage.start(begun, 0)
    stage.grant(ordered, 1)
    stage.tell("n0", complete=True)
    assert stage.holds(begun) == ["back-off"]
    assert stage.job(begun).cause == "node n0 does not know it any more"
    assert stage.state(ordered) == "RUNNING", "it may never have heard of it"


def test_a_complete_report_that_misses_a_part_that_was_suspended_before_it_began() -> None:
    """An agent that starts anew has no folder of it and begins it now: lost, it would run twice."""
    stage = two()
    row = stage.submit()
    stage.grant(row, 0)
    stage.ask("suspend", row)
    assert stage.wanted("n0", row, 1) is Wanted.SUSPEND
    stage.tell("n0", stage.report(row, PartStatus.HELD))
    assert stage.state(row) == "SUSPENDED"
    stage.ask("resume", row)
    stage.grant(row, 0)
    assert stage.wanted("n0", row, 1) is Wanted.RUN
    stage.tell("n0", complete=True)
    assert stage.state(row) == "RUNNING"
    stage.run(row)
    stage.end(row)
    assert (stage.state(row), len(stage.job(row).attempts)) == ("COMPLETED", 1)


def test_a_complete_report_about_a_job_that_changes_at_the_same_moment() -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.ask("cancel", row, settle=False)
    stage.tell("n0", complete=True, settle=False)
    stage.settle()
    assert stage.state(row) == "CANCELLED", "nobody will ever hear of it again"
    assert row not in stage.world.live


def test_reports_of_a_node_keep_their_order() -> None:
    """Two reports that have to wait for the next moment are heard one after the other."""
    stage = Stage(n0=1, n1=1)
    row = stage.submit(gpus=2)
    stage.grant(row, 0, 1)
    stage.tell("n1", stage.report(row, PartStatus.RUNNING))
    stage.ask("suspend", row, settle=False)
    stage.tell("n0", stage.report(row, PartStatus.RUNNING), settle=False)
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED), settle=False)
    stage.tell("n1", stage.report(row, PartStatus.SUSPENDED), settle=False)
    stage.settle()
    assert stage.state(row) == "SUSPENDED"


def test_a_complete_report_that_waits_does_not_hide_what_began_since() -> None:
    stage = two()
    held, fresh = stage.submit(), stage.submit()
    stage.start(held, 0)
    stage.grant(fresh, 1)
    stage.ask("suspend", held, settle=False)
    stage.tell("n0", stage.report(held, PartStatus.RUNNING), complete=True, settle=False)
    stage.tell("n0", stage.report(fresh, PartStatus.RUNNING), settle=False)
    stage.settle()
    assert stage.state(fresh) == "RUNNING"


def test_stale_and_strange_reports() -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.end(row, 85)
    second = stage.start(row, 1)
    stage.tell("n0", stage.report(row, PartStatus.ENDED, number=1, end={"code": 0, "ended_s": 0}))
    assert stage.state(row) == "RUNNING"
    assert stage.wanted("n0", row, 1) is Wanted.FORGET
    stage.tell(
        "n0", stage.report(row, PartStatus.RUNNING, number=7), stage.report(40, PartStatus.LOST, number=1)
    )
    assert stage.wanted("n0", row, 7) is Wanted.KILL
    assert stage.wanted("n0", 40, 1) is Wanted.FORGET
    assert stage.newest(row) is second


def test_an_end_that_is_reported_twice_counts_once() -> None:
    stage = two()
    row = stage.submit(user_retries=3)
    stage.start(row, 0)
    stage.end(row, 1)
    stage.end(row, 1)
    assert stage.job(row).user_failures == 1


def test_progress_usage_and_costs_change_nobodys_plans() -> None:
    stage = two()
    row = stage.submit()
    attempt = stage.start(row, 0)
    asked = len(stage.policy.seen)
    said: dict[str, Any] = {
        "progress": {"steps": 5, "samples": 50},
        "usage": {"at_s": 1.0, "cpu_cores": 0.5},
        "costs": [{"kind": "start", "seconds": 0.25}],
    }
    for _ in range(2):
        stage.tell("n0", stage.report(row, PartStatus.RUNNING, **said))
    assert attempt.progress is not None
    assert (attempt.progress.steps, attempt.costs) == (5, {"start": 0.25})
    assert sum(len(news.costs) for news in stage.news) == 1
    assert sum(len(news.points) for news in stage.news) == 1
    assert all(seen.cause == Cause.TIMER for seen in stage.policy.seen[asked:])


def test_only_what_a_checkpoint_holds_is_kept() -> None:
    stage = two()
    row = stage.submit()
    stage.start(row, 0)
    stage.wait(10)
    saved: dict[str, Any] = {"progress": {"steps": 100, "checkpoint_step": 50}}
    stage.tell("n0", stage.report(row, PartStatus.RUNNING, **saved))
    stage.end(row, None, signal=9)
    assert stage.world.progress.base[row] == pytest.approx(5.0, abs=0.1)


def test_a_change_of_the_cluster_has_everything_built_anew() -> None:
    stage = two()
    for node in ("n1", "n2", "n3"):
        stage.inbox.put(Changed(f"node {node} has joined"))
    row = stage.submit(settle=False)
    stage.turn(stage.now)
    assert [news.rebuild for news in stage.news][-1] == "node n1 has joined"
    assert not any(isinstance(event, Changed) for event in stage.inbox._events), "once for all of them"
    assert stage.table.filled == row, "what came after may be about the new cluster"
