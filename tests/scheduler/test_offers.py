"""A later deadline is offered: its job is held until the user answers, comes back with it or is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from play import play, trace_of
from recording import RecordingWorld
from rota.errors import GuardError
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.model.promises import Offer, Promise
from rota.model.reasons import Code, noted
from rota.scheduler.decision import Decision, Event, Wake
from rota.scheduler.loop import Loop
from rota.scheduler.moments.frozen import packed_decision
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.world import Batch
from rota.server.policy.messages import unpack_decision
from rota.table.state import Phase
from rota.worlds.simulated.answers import UserAnswers
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.run import Setting
from scripted import Scripted

TRACE = "A 1x10 B 1x5"
DUE = {"deadline_s": [8.0, math.nan]}


class Offering(Scripted):
    """Offers A the moment 20 s at once; starts whoever waits with a deadline of that or with none."""

    def __init__(self, until_s: float = 100.0) -> None:
        super().__init__()
        self.until_s = until_s

    def decide(self, snapshot: Snapshot, memory: dict) -> Decision:
        self.seen.append(snapshot)
        due_s = snapshot.jobs.deadline_s
        waits = snapshot.waiting.tolist()
        offers = {row: Offer(20.0, self.until_s, "too late") for row in waits if due_s[row] == 8.0}
        free = [d for d, part in enumerate(snapshot.occupancy.claimed) if not part]
        starts = [row for row in waits if row not in offers][: len(free)]
        grants = [Grant(row, (device,)) for row, device in zip(starts, free, strict=False)]
        promises = {row: Promise(20.0, 15.0) for row in starts if due_s[row] == 20.0}
        return Decision(memory, grants, offers=offers, promises=promises)


def record(answers: UserAnswers, until_s: float = 100.0):
    trace = trace_of(TRACE, **DUE)
    return play(Offering(until_s), trace, "1x2", Setting(answers=answers)).jobs


@pytest.mark.parametrize(
    ("answers", "until_s", "state", "start_s"),
    [
        (UserAnswers(), 100.0, "REJECTED", None),
        (UserAnswers(2.5), 100.0, "COMPLETED", 0.0),
        (UserAnswers(2.4), 100.0, "REJECTED", None),
        (UserAnswers(2.5, after_s=6.0), 100.0, "COMPLETED", 6.0),
        (UserAnswers(2.5, after_s=6.0), 5.0, "REJECTED", None),
    ],
    ids=["nobody takes one", "takes it", "too late for them", "takes it later", "answers too late"],
)
def test_users_answer(answers: UserAnswers, until_s: float, state: str, start_s: float | None) -> None:
    jobs = record(answers, until_s)
    assert jobs["state"].to_list() == [state, "COMPLETED"]
    assert jobs["start_s"].to_list() == [start_s, 0.0]
    assert jobs["deadline_s"].to_list() == [8.0, None]
    assert jobs["offered_s"].to_list() == [20.0, None]
    assert jobs["promised_s"].to_list() == [20.0 if state == "COMPLETED" else None, None]


def test_an_offer_that_lapses_ends_its_job_then() -> None:
    jobs = record(UserAnswers(2.5, after_s=60.0), until_s=30.0)
    assert jobs["finish_s"].to_list() == [30.0, 5.0]


def test_who_was_made_an_offer_is_held_and_seen_by_nobody() -> None:
    world = RecordingWorld(
        parse_cluster("1x2"),
        trace_of(TRACE, **DUE).jobs,
        [
            Batch(0.0, int(Event.ARRIVAL), arrived=(0, 1)),
            Batch(3.0, int(Event.ARRIVAL), accepted=[(0, 20.0)]),
        ],
    )
    policy, recorder = Offering(), RunRecorder()
    loop = Loop(world, policy, recorder)
    assert loop.step()
    assert world.offers == {0: Offer(20.0, 100.0, "too late")}
    reason = noted(loop.state.held[0])
    assert (reason.code, reason.requested, reason.provided) == (Code.OFFERED, 20.0, 100.0)
    assert reason.sentence() == "waits for an answer to a later deadline: too late"
    assert loop.state.waiting.n == 0
    loop.wake = Wake()
    assert loop.step()
    assert loop.state.phase[0] == Phase.RUNNING
    assert policy.seen[-1].jobs.deadline_s[0] == 20.0
    assert world.jobs.deadline_s[0] == 8.0, "what was asked for stays on record"
    assert recorder.promises == {0: Promise(20.0, 15.0)}


def test_several_deadlines_give_way_to_the_accepted_one() -> None:
    trace = trace_of(TRACE, deadline_s=[8.0, 8.0], deadlines={0: ((8.0, 2.0), (9.0, 1.0)), 1: ((8.0, 1.0),)})
    world = RecordingWorld(parse_cluster("1x2"), trace.jobs, [Batch(0.0, 1, arrived=(0, 1))])
    loop = Loop(world, Scripted({"offers": {0: Offer(20.0, 30.0, "")}}), RunRecorder())
    loop.step()
    loop.state.accept(0, 20.0)
    assert loop.state.jobs.deadlines.keys() == {1}
    np.testing.assert_array_equal(loop.state.jobs.deadline_s, [20.0, 8.0])


def test_a_policy_that_may_not_refuse_may_not_offer() -> None:
    policy = Scripted({"offers": {0: Offer(20.0, 30.0, "")}})
    policy.levers = frozenset()
    with pytest.raises(GuardError, match="is refused, and the policy does not declare the lever reject"):
        play(policy, trace_of(TRACE, **DUE), "1x2")


def test_offers_and_promises_cross_to_another_process() -> None:
    decision = Decision({}, offers={3: Offer(20.0, 9.0, "why")}, promises={1: Promise(5.0, math.inf)})
    again = unpack_decision(packed_decision(decision), {})
    assert (again.offers, again.promises) == (decision.offers, decision.promises)
    assert again.promises[1].is_at_risk
