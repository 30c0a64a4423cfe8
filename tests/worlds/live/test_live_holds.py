"""What keeps submitted jobs from their policy, and what lets them go."""

from __future__ import annotations

from typing import Any

import pytest
from live_stage import EPOCH_S, SUSPENDS, Stage, suspended_by_its_owner

from rota.model.grants import Grant
from rota.model.reasons import Code, Constraint
from rota.scheduler.decision import Decision
from rota.scheduler.reasons.waiting import explain
from rota.wire.sync import PartStatus, Wanted
from rota.worlds.live.holds import (
    ACCOUNT,
    ARRAY,
    BACK_OFF,
    BEGIN,
    DEPENDENCY,
    INFEASIBLE,
    OFFERED,
    ORDER,
    RECORD,
    SUSPENDED,
    USER,
    Hold,
    dominant,
)
from rota.worlds.live.inbox import Begun


def after(stage: Stage, before: int, when: str = "ok") -> int:
    """A job that is to run after row `before`."""
    return stage.submit(after=[{"job": str(before + 1), "when": when}])


def finish(stage: Stage, row: int, how: str) -> None:
    """Let the waiting job `row` end in that way."""
    if how == "cancelled":
        stage.ask("cancel", row)
    else:
        stage.start(row, 0)
        stage.end(row, 0 if how == "ok" else 1)


# -- dependencies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "how", "runs"),
    [
        ("ok", "ok", True),
        ("ok", "failed", False),
        ("ok", "cancelled", False),
        ("any", "ok", True),
        ("any", "failed", True),
        ("any", "cancelled", True),
        ("failed", "ok", False),
        ("failed", "failed", True),
        ("failed", "cancelled", True),
    ],
)
@pytest.mark.parametrize("is_late", [False, True], ids=["before", "afterwards"])
def test_a_dependency(when: str, how: str, runs: bool, is_late: bool) -> None:
    """Submitted before the other ended, or afterwards."""
    stage = Stage(n0=2)
    first = stage.submit()
    if is_late:
        finish(stage, first, how)
    second = after(stage, first, when)
    if not is_late:
        stage.wait(2)
        assert (stage.holds(second), stage.state(second)) == ([DEPENDENCY], "PENDING")
        finish(stage, first, how)
    stage.wait(2)
    assert stage.holds(second) == []
    assert stage.state(second) == ("PENDING" if runs else "CANCELLED")
    if runs:
        stage.start(second, 0)
    else:
        assert stage.job(second).cause == f"job 1, which it was to run after, did not end as asked ({when})"


def test_a_job_that_never_was() -> None:
    stage = Stage(n0=2)
    row = stage.submit(after=[{"job": "77"}])
    stage.wait(1)
    assert (stage.state(row), stage.job(row).cause) == (
        "CANCELLED",
        "job 77, which it was to run after, does not exist",
    )


WELL, BADLY = "ok", "failed"


@pytest.mark.parametrize(
    ("when", "ends", "becomes"),
    [
        ("ok", [WELL, WELL, WELL], "PENDING"),
        ("ok", [WELL, BADLY], "CANCELLED"),
        ("any", [WELL, BADLY, "cancelled"], "PENDING"),
        ("failed", [WELL, WELL, WELL], "CANCELLED"),
        ("failed", [BADLY, WELL, WELL], "PENDING"),
    ],
)
@pytest.mark.parametrize("is_late", [False, True], ids=["before", "afterwards"])
def test_a_whole_array(when: str, ends: list[str], becomes: str, is_late: bool) -> None:
    """Nothing is known before its last job has ended, unless one that was to end well did not."""
    stage = Stage(n0=2)
    rows = stage.submit_all([{}] * 3, array=True)
    second = None if is_late else after(stage, rows[0], when)
    for row, how in zip(rows, ends, strict=False):
        if second is not None:
            assert stage.holds(second) == [DEPENDENCY]
        finish(stage, row, how)
        stage.wait(2)
    second = after(stage, rows[0], when) if second is None else second
    stage.wait(2)
    assert (stage.holds(second), stage.state(second)) == ([], becomes)
    if becomes == "CANCELLED":
        assert stage.job(second).cause == f"job 1, which it was to run after, did not end as asked ({when})"


def test_one_job_of_an_array() -> None:
    stage = Stage(n0=2)
    rows = stage.submit_all([{}] * 3, array=True)
    follower = stage.submit(after=[{"job": "1_1"}])
    finish(stage, rows[0], BADLY)
    stage.wait(2)
    assert stage.holds(follower) == [DEPENDENCY]
    finish(stage, rows[1], WELL)
    stage.wait(2)
    assert stage.holds(follower) == []
    assert stage.state(follower) == "PENDING"


def test_an_array_after_an_array() -> None:
    stage = Stage(n0=2)
    first = stage.submit_all([{}] * 2, array=True)
    second = stage.submit_all([{"after": [{"job": "1"}]}] * 2, array=True)
    for row in first:
        assert [stage.holds(other) for other in second] == [[DEPENDENCY]] * 2
        finish(stage, row, WELL)
        stage.wait(2)
    assert [stage.holds(other) for other in second] == [[], []]


def test_all_of_several() -> None:
    stage = Stage(n0=2)
    first, second = stage.submit(), stage.submit()
    third = stage.submit(after=[{"job": "1"}, {"job": "2", "when": "any"}])
    finish(stage, first, "ok")
    stage.wait(1)
    assert stage.holds(third) == [DEPENDENCY]
    finish(stage, second, "failed")
    stage.wait(1)
    assert stage.holds(third) == []


def test_a_chain_falls_together() -> None:
    stage = Stage(n0=2)
    rows = [stage.submit()]
    for _ in range(4):
        rows.append(after(stage, rows[-1]))
    finish(stage, rows[0], "failed")
    stage.wait(3)
    assert [stage.state(row) for row in rows] == ["FAILED"] + ["CANCELLED"] * 4


def test_the_end_of_the_other_and_its_own_beginning_at_one_moment() -> None:
    """Two holds end together: neither is forgotten."""
    stage = Stage(n0=2)
    first = stage.submit()
    second = stage.submit(after=[{"job": "1"}], begin_s=EPOCH_S + 50)
    finish(stage, first, "ok")
    stage.world.live.timers.due(stage.now + 10)  # as a controller that comes back finds it
    stage.now = 60.0
    stage.world.live.set_timers(stage.job(second))
    stage.wait(2)
    assert stage.holds(second) == []
    assert stage.state(second) == "PENDING"
    assert second in stage.loop.state.waiting


# -- arrays ----------------------------------------------------------------------------------------


def array(stage: Stage, number: int, most: int, **spec: Any) -> list[int]:
    return stage.submit_all([spec] * number, most=most)


def allowed(stage: Stage, rows: list[int]) -> list[int]:
    """Positions of the jobs that may run or run."""
    return [i for i, row in enumerate(rows) if not stage.job(row).holds and not stage.job(row).is_over]


def test_an_array_with_a_limit() -> None:
    stage = Stage(n0=4)
    rows = array(stage, 5, 2)
    assert allowed(stage, rows) == [0, 1]
    stage.start(rows[0], 0)
    stage.start(rows[1], 1)
    stage.end(rows[1])
    stage.wait(1)
    assert allowed(stage, rows) == [0, 2]
    stage.ask("cancel", rows[2])
    stage.wait(1)
    assert allowed(stage, rows) == [0, 3]
    stage.ask("cancel", rows[0])
    stage.ask("cancel", rows[3])
    stage.wait(1)
    assert allowed(stage, rows) == [4]


def test_the_place_of_a_job_that_is_held_goes_to_another_and_it_waits_for_a_place() -> None:
    stage = Stage(n0=4)
    rows = array(stage, 4, 2)
    stage.ask("hold", rows[0])
    stage.wait(1)
    assert allowed(stage, rows) == [1, 2]
    stage.ask("release", rows[0])
    stage.wait(1)
    assert allowed(stage, rows) == [1, 2]
    assert stage.holds(rows[0]) == [ARRAY]
    stage.ask("cancel", rows[1])
    stage.wait(1)
    assert allowed(stage, rows) == [0, 2]


def test_an_array_that_is_submitted_held() -> None:
    stage = Stage(n0=4)
    rows = array(stage, 3, 1, hold=True)
    assert allowed(stage, rows) == []
    for row in rows:
        stage.ask("release", row)
    stage.wait(1)
    assert allowed(stage, rows) == [0]


def test_two_arrays_do_not_count_for_each_other() -> None:
    stage = Stage(n0=4)
    one, other = array(stage, 2, 1), array(stage, 2, 1)
    assert (allowed(stage, one), allowed(stage, other)) == ([0], [0])


# -- time, cluster, people -------------------------------------------------------------------------


def test_not_before_a_moment() -> None:
    stage = Stage(n0=2)
    row, past = stage.submit(begin_s=EPOCH_S + 30), stage.submit(begin_s=EPOCH_S - 30)
    assert (stage.holds(row), stage.holds(past)) == ([BEGIN], [])
    assert stage.job(row).holds[BEGIN].constraint(10.0).requested == 20.0
    stage.wait(29)
    assert stage.holds(row) == [BEGIN]
    stage.wait(2)
    assert (stage.holds(row), stage.state(row)) == ([], "PENDING")


@pytest.mark.parametrize(
    ("spec", "detail"),
    [
        ({"gpus": 3}, ""),
        ({"gpus": 3, "memory_gib": 999.0}, ""),
        ({"gpus": 1, "gpu_types": ["H100", "A100"]}, "H100|A100"),
        ({"gpus": 1, "memory_gib": 65.0}, "GiB of host memory"),
        ({"gpus": 0, "memory_gib": 65.0}, "GiB of host memory"),
    ],
)
def test_a_job_that_this_cluster_could_never_run(spec: dict[str, Any], detail: str) -> None:
    stage = Stage(n0=1, n1=1, memory_gib=64.0)
    row = stage.submit(**spec)
    hold = stage.job(row).holds[INFEASIBLE]
    assert (hold.detail, stage.state(row)) == (detail, "PENDING")
    codes = {"": Code.GANG_TOO_LARGE, "H100|A100": Code.GPU_TYPE}
    assert hold.constraint().code is codes.get(detail, Code.HOST_TOO_LARGE)
    stage.wait(2)
    assert stage.holds(row) == [INFEASIBLE]


def test_the_fewest_devices_count_for_an_elastic_job() -> None:
    stage = Stage(n0=2)
    assert stage.holds(stage.submit(gpus=8, gpus_min=2, gpus_max=8)) == []


def test_a_node_joins_and_the_job_could_run_now() -> None:
    """The world is built anew on a larger cluster; the hold it brings along goes."""
    small, large = Stage(n0=1), Stage(n0=1, n1=1)
    row = small.submit(gpus=2, settle=True)
    hold = small.job(row).holds[INFEASIBLE]
    again = large.submit(gpus=2, hold=True)
    job = large.job(again)
    job.holds = {INFEASIBLE: hold}
    large.world.attach(large.loop.state)
    large.wait(1)
    assert (large.holds(again), large.state(again)) == ([], "PENDING")
    assert again in large.loop.state.waiting


def test_what_a_cluster_lacks_may_become_something_else() -> None:
    """Devices have come, and now it is memory that no node has."""
    stage = Stage(n0=2, memory_gib=64.0)
    row = stage.submit(gpus=2, memory_gib=100.0)
    stage.job(row).holds = {INFEASIBLE: Hold(INFEASIBLE, requested=2, provided=1)}
    stage.world.attach(stage.loop.state)
    stage.wait(1)
    found = stage.job(row).holds[INFEASIBLE].constraint()
    assert found == Constraint(Code.HOST_TOO_LARGE, 100.0, 64.0, "GiB of host memory")
    assert stage.holds(row) == [INFEASIBLE]


def test_reasons_in_their_order() -> None:
    holds = {kind: Hold(kind) for kind in (BACK_OFF, ARRAY, DEPENDENCY, USER, BEGIN, OFFERED, SUSPENDED)}
    names = []
    while holds:
        names.append(dominant(holds).kind)
        del holds[names[-1]]
    assert names == [kind for kind in ORDER if kind not in (RECORD, ACCOUNT, INFEASIBLE)]


def test_a_hold_may_be_kept_as_json() -> None:
    hold = Hold(BACK_OFF, "failed", 12.5, None, 3.0)
    assert Hold(**hold.plain()) == hold


def test_releasing_what_nobody_holds() -> None:
    stage = Stage(n0=2)
    first = stage.submit()
    second = after(stage, first)
    assert stage.ask("release", first) == {}
    assert stage.ask("release", second) == {"error": "no person holds it; it waits for something else"}


def test_one_hold_goes_another_stays() -> None:
    stage = Stage(n0=2)
    first = stage.submit()
    second = stage.submit(after=[{"job": "1"}], hold=True)
    stage.ask("release", second)
    assert stage.holds(second) == [DEPENDENCY]
    (why,) = explain(stage.loop.snapshot(), Decision(memory={}), second)
    assert (why.code, why.sentence()) == (Code.DEPENDENCY, "waits for job 1 to end")
    finish(stage, first, "ok")
    stage.wait(1)
    assert stage.holds(second) == []


def test_suspended_by_a_user_and_held_by_another() -> None:
    stage = Stage(n0=2)
    row = suspended_by_its_owner(stage)
    stage.ask("hold", row)
    stage.ask("resume", row)
    assert stage.holds(row) == [USER]
    stage.ask("release", row)
    assert stage.holds(row) == []
    assert stage.start(row, 1).number == 1


def barred(stage: Stage) -> int:
    """A job that runs on device 0, and whose user has been removed."""
    row = stage.submit(gpus=1)
    stage.start(row, 0)
    stage.job(row).barred = "its user was removed"
    return row


def is_held_for_its_account(stage: Stage, row: int, attempts: int = 1) -> bool:
    job = stage.job(row)
    return (list(job.holds), len(job.attempts), stage.state(row)) == (["account"], attempts, "PENDING")


@pytest.mark.parametrize(
    "then",
    [
        [{"preempt": [0]}],
        [{"preempt": [0]}, {"grants": [Grant(0, (1,))]}],
        [{"grants": [Grant(0, (1,))]}],  # a move: it leaves, and begins nowhere
    ],
)
def test_a_job_that_may_begin_no_more_is_held_when_it_leaves(then: list[dict[str, Any]]) -> None:
    stage = Stage("nvidia", gpu_type="V100", n0=2)
    row = barred(stage)
    stage.plan(*then)
    stage.inbox.put(Begun())
    stage.settle()
    stage.end(row, 85, number=1)
    stage.wait(10)
    stage.plan({"grants": [Grant(0, (1,))]})
    stage.inbox.put(Begun())
    stage.wait(10)
    assert is_held_for_its_account(stage, row)


def test_it_is_held_once_its_pause_after_a_failure_is_over() -> None:
    stage = Stage(n0=2)
    row = stage.submit(gpus=1, user_retries=3)
    stage.start(row, 0)
    stage.job(row).barred = "its user was removed"
    stage.end(row, 1)
    stage.wait(60)
    assert is_held_for_its_account(stage, row)


def test_one_that_is_suspended_goes_on_no_more() -> None:
    stage = Stage(n0=2)
    row = stage.submit(gpus=1)
    stage.start(row, 0)
    stage.tell("n0", stage.report(row, PartStatus.RUNNING, capability=SUSPENDS))
    stage.decide(preempt=[row])
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED))
    stage.job(row).barred = "its user was removed"
    stage.plan({"grants": [Grant(row, (1,))]})
    stage.inbox.put(Begun())
    stage.wait(10)
    assert stage.job(row).holds.keys() == {"account"}
    assert stage.newest(row).wanted is Wanted.SUSPEND
