"""What people are told of turns: the fractions, what a job has had, who is before it, and until when."""

from __future__ import annotations

import numpy as np

from play import trace_of
from rota.knowledge.needs import Knowledge
from rota.model.cluster import parse_cluster
from rota.model.reasons import Code
from rota.scheduler.reasons.running import explain_running
from rota.scheduler.reasons.waiting import explain
from rota.stages.rounds import Rounds, Turns
from rota.worlds.simulated.run import Setting, prepare


class ThreeQuarters:
    """A has three quarters of the one GPU, B the rest; C nothing."""

    needs = frozenset({Knowledge.THROUGHPUT})

    def __init__(self):
        self.inner = Rounds(
            lambda _, demand, __: np.array([[0.75], [0.25], [0.0]])[: len(demand.rows)], Turns()
        )
        self.last = None

    def decide(self, snapshot, memory):
        self.last = self.inner.decide(snapshot, memory)
        return self.last


def _at(until_s, jobs="A 1x9000 B 1x9000 C 1x9000"):
    policy = ThreeQuarters()
    loop, _ = prepare(policy, trace_of(jobs), parse_cluster("1x1"), Setting())
    loop.run(until_s)
    return loop, policy.last


def _turn(constraints):
    return next(one for one in constraints if one.code is Code.TURN)


def test_who_waits_hears_what_it_has_had_and_who_is_before_it():
    """After A, A, B, A A runs again: B has had a quarter of the 24 minutes, and waits for A, for 5 more."""
    loop, decision = _at(1500.0)
    decision.grants, decision.preempt = [], []
    turn = _turn(explain(loop.snapshot(), decision, 1))
    assert turn.detail == (
        "is to have 25% of the time, and has had 24% in the last 25m; before it in this round: A"
    )
    assert turn.provided == 1800.0 - 1500.0
    assert "takes turns: is to have 25%" in turn.sentence()
    assert turn.sentence().endswith("; the next round begins in 5m")


def test_who_has_no_fraction_and_who_runs():
    loop, decision = _at(1500.0)
    decision.grants, decision.preempt = [], []
    assert "has no fraction of the time" in _turn(explain(loop.snapshot(), decision, 2)).detail
    runs = _turn(explain_running(loop.snapshot(), 0, decision.ranking))
    assert runs.detail == "is to have 75% of the time, and has had 76% in the last 25m"
    assert runs.sentence().endswith("; its turn ends in 5m")
    assert explain_running(loop.snapshot(), 0) == ()


def test_who_is_further_behind_is_ahead():
    """When A has had the first round, B is further behind its fraction than C, which has none."""
    loop, decision = _at(100.0)
    assert list(decision.ranking.ahead(loop.snapshot(), 1)) == []
    assert list(decision.ranking.ahead(loop.snapshot(), 2)) == [1]


def test_who_came_since_has_its_turn_in_the_next_round():
    loop, decision = _at(100.0, "A 1x9000 B 1x9000 C 1x900@50")
    assert [one.code for one in explain(loop.snapshot(), decision, 2)][-1] is Code.ROUND
