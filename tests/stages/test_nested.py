"""A policy around another: its memory beside the inner one's, what it sets on a grant kept."""

from __future__ import annotations

import math

import pytest

from play import finishes, play, trace_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Lever
from rota.scheduler.snapshot import Snapshot
from rota.stages.nested import KNOBS, Nested, joined
from rota.systems.fifo.system import Fifo
from rota.table.progress import Progress
from rota.table.state import State
from rota.testing import check_policy


class Says:
    """Grants what it was made with, and counts its calls."""

    needs = frozenset()
    levers = frozenset({Lever.MIGRATE})

    def __init__(self, *grants: Grant) -> None:
        self.grants = grants

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return Decision({"calls": memory.get("calls", 0) + 1}, list(self.grants))


def one_running(held: Grant) -> Snapshot:
    state = State(trace_of("A 1x10").jobs, parse_cluster("1x2"), Progress(1))
    state.submit(0)
    state.start(held)
    return Snapshot(state)


@pytest.mark.parametrize(
    ("held", "said", "kept"),
    [
        (Grant(0, (0,), batch_size=64.0), Grant(0, (1,)), 64.0),
        (Grant(0, (0,), batch_size=64.0), Grant(0, (1,), batch_size=32.0), 32.0),
        (Grant(0, (0,)), Grant(0, (1,)), math.nan),
    ],
    ids=["left open, it is kept", "said, it is changed", "open before, it stays open"],
)
def test_a_grant_without_knobs_does_not_clear_the_wrapper_s(held: Grant, said: Grant, kept: float) -> None:
    (grant,) = Nested(Says(said)).decide(one_running(held), {}).grants
    assert grant.devices == (1,)
    assert grant.batch_size == pytest.approx(kept, nan_ok=True)


def test_knobs_are_what_a_grant_may_leave_open() -> None:
    assert {"batch_size", "power_limit_w"} <= set(KNOBS)
    assert {"job", "devices", "share"}.isdisjoint(KNOBS)


def test_memories_stand_side_by_side() -> None:
    def note(snapshot: Snapshot, decision: Decision, own: Memory) -> Decision:
        own["seen"] = [*own.get("seen", []), decision.memory["calls"]]
        return decision

    policy, snapshot = Nested(Says(), edit=note), one_running(Grant(0, (0,)))
    memory = policy.decide(snapshot, policy.decide(snapshot, {}).memory).memory
    assert memory == {"own": {"seen": [1, 2]}, "inner": {"calls": 2}}


def test_a_wrapper_may_do_what_both_may() -> None:
    policy = Nested(Says(), levers=frozenset({Lever.RESIZE}))
    assert policy.levers == {Lever.MIGRATE, Lever.RESIZE}


def test_a_wrapper_that_does_nothing_changes_nothing() -> None:
    jobs = "A 2x10 B 4x10 C 2x10@1"
    assert finishes(play(Nested(Fifo()), jobs)) == finishes(play("fifo", jobs))
    check_policy(lambda: Nested(Fifo()), seeds=(0, 1))


@pytest.mark.parametrize(
    ("wakes", "at_s", "on", "if_waiting"),
    [
        ([Wake(5.0), Wake(3.0)], 3.0, Event.ANY, False),
        ([Wake(on=Event.END), Wake(on=Event.ARRIVAL)], math.inf, Event.END | Event.ARRIVAL, False),
        ([Wake(if_waiting=True), Wake(if_waiting=True)], math.inf, Event.ANY, True),
        ([Wake(if_waiting=True), Wake()], math.inf, Event.ANY, False),
        ([Wake(7.0, Event.ROUND | Event.IDLE), Wake(8.0, Event.ROUND)], 7.0, Event.ANY | Event.IDLE, False),
    ],
    ids=[
        "the first moment",
        "any event",
        "all only if somebody waits",
        "one in any case",
        "one may be idle while the others are not",
    ],
)
def test_joined_wakes(wakes: list[Wake], at_s: float, on: Event, if_waiting: bool) -> None:
    wake = joined(wakes)
    assert (wake.at_s, wake.on, wake.if_waiting) == (at_s, on, if_waiting)
