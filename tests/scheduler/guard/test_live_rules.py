"""Rules of live clusters: who may not be disturbed, until when, and what is left of the decision."""

from __future__ import annotations

import math
from typing import Any

import pytest

from play import trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Role
from rota.model.job_columns import JobKind
from rota.scheduler.decision import Decision, Wake
from rota.scheduler.guard.live_rules import (
    LIVE_RULES,
    Gentle,
    LostWork,
    MinimumRun,
    NoPreemption,
    Redo,
    together,
)
from rota.scheduler.loop import Loop, Rules
from rota.table.state import State
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.world import SimulatedWorld
from scripted import Scripted, state_of

JOBS = "A 2x900 B 2x900 C 2x900"
HELD = [Grant(0, (0, 1)), Grant(1, (2, 3))]


def moment(now: float = 25.0, since: float = 5.0, **columns: Any) -> State:
    """A and B run since `since`, C waits; it is `now`."""
    state = state_of(JOBS, "1x4", HELD, now, **columns)
    state.since_s[:] = since
    return state


@pytest.mark.parametrize(
    ("decision", "sentence"),
    [
        (Decision({}, [Grant(2, (0, 1))], [0]), "would be preempted"),
        (Decision({}, [Grant(0, (0,))]), "would be resized"),
        (Decision({}, [Grant(0, (2, 3))]), "would be moved"),
    ],
)
def test_a_job_that_has_just_started_is_left_alone(decision: Decision, sentence: str) -> None:
    state = moment()
    (refused,) = MinimumRun(60.0)(state, decision)
    assert refused.message == (
        f"job A has run for 20s of its minimum of 1m and {sentence}; rule: {LIVE_RULES['minimum-run']}"
    )
    assert (refused.rule, refused.job, refused.until_s) == ("minimum-run", 0, 65.0)
    state.now = 65.0
    assert MinimumRun(60.0)(state, decision) == [], "at this very moment it may be stopped"


@pytest.mark.parametrize("limits", [{"batch_size": 64.0}, {"cpus": 2.0}, {"power_limit_w": 200.0}])
def test_who_is_adjusted_is_not_disturbed(limits: dict[str, float]) -> None:
    state = moment()
    decision = Decision({}, [Grant(0, (0, 1), **limits)])  # type: ignore[arg-type]
    assert MinimumRun(60.0)(state, decision) == []
    assert NoPreemption(lambda: {0})(state, decision) == []
    assert Gentle()(state, decision) == []


def test_who_gets_another_claim_is_disturbed_but_loses_nothing() -> None:
    state = moment()
    decision = Decision({}, [Grant(0, (0, 1), 0.5, Role.PACKED)])
    assert MinimumRun(60.0)(state, decision) == []
    (refused,) = Gentle()(state, decision)
    assert "would be changed" in refused.message


def test_a_job_that_waits_for_its_devices_to_be_left_is_not_stopped() -> None:
    """Or two jobs could send each other away for ever without a step of either."""
    rule = MinimumRun(60.0, began=lambda state, row: math.nan if row == 0 else 1.0)
    state = moment()
    state.now = 1000.0
    (refused,) = rule(state, Decision({}, preempt=[0, 1]))
    assert refused.message.startswith("job A has not begun on the devices it was given and would be ")
    assert math.isnan(refused.until_s), "nobody knows when: the policy is asked again before long"


def test_who_may_be_stopped_nevertheless() -> None:
    kinds = [JobKind.OPPORTUNISTIC, JobKind.TRAIN, JobKind.TRAIN]
    state = moment(kind=kinds)
    refused = MinimumRun(60.0)(state, Decision({}, preempt=[0, 1]))
    assert [breach.job for breach in refused] == [1]
    assert MinimumRun(60.0)(moment(), Decision({}, cancel={0: "its user wants it"})) == []
    assert MinimumRun(60.0)(moment(), Decision({}, [Grant(0, (0, 1))])) == [], "it simply goes on"
    assert MinimumRun(60.0)(moment(), Decision({}, [Grant(2, ())])) == [], "starts disturb nobody"


LOST = LostWork(lambda state, row: Redo(240.0, 100.0) if row == 0 else Redo(0.0, 0.0))
"""A has lost 240 s of work and done 140 s of them again, B has lost nothing."""


@pytest.mark.parametrize(
    ("decision", "how"),
    [
        (Decision({}, [Grant(2, (0, 1))], [0, 1]), "preempted"),
        (Decision({}, [Grant(0, (0,)), Grant(1, (2,))]), "resized"),
        (Decision({}, [Grant(0, (2, 3)), Grant(1, (0, 1))]), "moved"),
    ],
)
@pytest.mark.parametrize(("rate", "until_s"), [(1.0, 1100.0), (0.5, 1200.0), (2.0, 1050.0)])
def test_a_job_that_lost_work_goes_on_until_it_has_done_it_again(
    decision: Decision, how: str, rate: float, until_s: float
) -> None:
    """However long it has run by now; on half of its devices that takes twice as long."""
    state = moment(now=1000.0)
    state.progress.rate[:] = rate
    (refused,) = LOST(state, decision)
    assert refused.message == (
        f"job A has done again 2m 20s of the 4m of work that preemption cost it, and would be {how}; "
        f"rule: {LIVE_RULES['lost-work']}"
    )
    assert (refused.rule, refused.job, refused.until_s) == ("lost-work", 0, until_s)


def test_who_lost_work_and_may_be_stopped_nevertheless() -> None:
    stop = Decision({}, preempt=[0])
    state = moment(kind=[JobKind.OPPORTUNISTIC, JobKind.TRAIN, JobKind.TRAIN])
    state.progress.rate[:] = 1.0
    assert LOST(state, stop) == [], "opportunistic"
    state = moment()
    state.progress.rate[:] = 1.0
    assert LOST(state, Decision({}, [Grant(0, (0, 1), batch_size=64.0)])) == [], "that costs it nothing"
    assert LOST(state, Decision({}, cancel={0: "its user wants it"})) == []
    rounded = LostWork(lambda state, row: Redo(240.0, 1e-6))
    assert rounded(state, stop) == [], "or it would be asked for at the very same moment again"
    state.progress.rate[:] = 0.0
    assert LOST(state, stop) == [], "it has not begun, which the minimum run says better"
    both = together(LOST, MinimumRun(60.0, lambda state, row: math.nan))
    assert [breach.rule for breach in both(state, stop)] == ["minimum-run"]


def test_jobs_that_are_not_preemptible() -> None:
    kept: set[int] = {1}
    rule = NoPreemption(lambda: kept)
    (refused,) = rule(moment(), Decision({}, preempt=[0, 1]))
    assert (refused.job, refused.message) == (
        1, f"job B would be preempted, and is not preemptible; rule: {LIVE_RULES['not-preemptible']}"
    )  # fmt: skip
    assert math.isnan(refused.until_s)
    kept.clear()
    assert rule(moment(), Decision({}, preempt=[0, 1])) == []


def test_the_first_decision_of_a_new_policy_is_gentle() -> None:
    state, rule = moment(), Gentle()
    decision = Decision({}, [Grant(2, (0, 1))], [0])
    assert rule(state, Decision({}, is_cut=True)) == [], "a policy that failed has not decided yet"
    state.now = 30.0
    assert [breach.job for breach in rule(state, decision)] == [0]
    assert [breach.job for breach in rule(state, decision)] == [0], "judged again, in the same moment"
    state.now = 31.0
    assert rule(state, decision) == []


def test_a_job_is_refused_once_for_the_first_reason() -> None:
    rules = together(MinimumRun(60.0), NoPreemption(lambda: [0, 1]))
    assert [(b.job, b.rule) for b in rules(moment(), Decision({}, preempt=[0]))] == [(0, "minimum-run")]
    late = moment(now=500.0)
    assert [(b.job, b.rule) for b in rules(late, Decision({}, preempt=[0, 1]))] == [
        (0, "not-preemptible"),
        (1, "not-preemptible"),
    ]


@pytest.mark.parametrize(
    ("rules", "asked_s", "expected_s"),
    [
        (MinimumRun(60.0), math.inf, 65.0),
        (MinimumRun(60.0), 50.0, 50.0),
        (LOST, math.inf, 125.0),
        (NoPreemption(lambda: [0]), math.inf, 25.0 + 30.0),
        (NoPreemption(lambda: [0]), 25.000001, 25.6),  # it means to let C run for a microsecond
        (MinimumRun(60.0), 25.000001, 25.6),
        (MinimumRun(20.5), 25.000001, 25.5),
        (NoPreemption(lambda: [0]), 24.0, 24.0),  # that is an error of its own
    ],
)
def test_the_policy_is_asked_again_when_it_may_be_allowed(
    rules: Rules, asked_s: float, expected_s: float
) -> None:
    state = moment()
    state.progress.rate[:] = 1.0
    world = SimulatedWorld(trace_of(JOBS), parse_cluster("1x4"))
    loop = Loop(world, Scripted(), RunRecorder(), rules=rules, strict=False, state=state)
    wanted = Decision({}, [Grant(2, (0, 1))], [0], wake=Wake(asked_s))
    left = loop._handle(loop._check(state, wanted), wanted)
    assert (list(left.grants), list(left.preempt)) == ([], [])
    assert left.wake.at_s == expected_s
    assert set(state.refused) == {0, 2}
