"""A new policy fills what is free at its first decision, preempts nobody, and is free from its second on."""

from __future__ import annotations

from play import trace_of
from rota.model.cluster import parse_cluster
from rota.scheduler.decision import Decision
from rota.scheduler.guard.check import Breach
from rota.scheduler.guard.live_rules import Gentle, together
from rota.scheduler.loop import Loop, Rules
from rota.scheduler.policy import parse_policy
from rota.table.state import State
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.run import Setting, prepare


def swapped(jobs: str, rules: Rules) -> Loop:
    """A loop under fifo at second 5, in which srtf takes over."""
    trace = trace_of(jobs)
    old, _ = prepare(parse_policy("fifo").make(), trace, parse_cluster("1x4"), Setting())
    old.run(5.0)
    new, _ = prepare(parse_policy("srtf").make(), trace, parse_cluster("1x4"), Setting())
    told = new.providers
    return Loop(
        old.world, new.policy, RunRecorder(), providers=told, state=old.state, strict=False, rules=rules
    )


def test_the_first_decision_fills_what_is_free_and_stops_nobody() -> None:
    """C and D would both stop A; D finds a free device besides."""
    loop = swapped("A 3x1000 C 3x10@4 D 1x20@6", Gentle())
    assert loop.step()
    assert loop.state.now == 6.0
    assert sorted(loop.state.grants) == [0, 2]
    assert loop.state.preemptions.sum() == 0
    assert "first decision of a policy that takes over" in loop.state.refused[0]
    assert loop.wake.at_s <= 6.0 + loop.retry_s


def test_from_the_second_decision_on_it_is_free() -> None:
    loop = swapped("A 3x1000 C 3x10@4 D 1x20@6", Gentle())
    while loop.counts.decisions < 2:
        assert loop.step()
    assert loop.state.now == 26.0, "when D has ended"
    assert loop.state.preemptions.tolist() == [1, 0, 0]
    assert 1 in loop.state.grants


def test_the_rules_of_the_world_hold_all_the_time() -> None:
    def nobody(state: State, decision: Decision) -> list[Breach]:
        return [Breach("test", grant.job, "no") for grant in decision.grants]

    loop = swapped("A 3x1000 C 3x10@4 D 1x5@6", together(nobody, Gentle()))
    for _ in range(4):
        assert loop.step()
    assert sorted(loop.state.grants) == [0]
    assert loop.state.preemptions.sum() == 0


def test_a_decision_without_preemption_is_whole() -> None:
    loop = swapped("A 3x1000 D 1x5@6", Gentle())
    assert loop.step()
    assert sorted(loop.state.grants) == [0, 1]
    assert loop.counts.refused == 0
    assert loop.wake.at_s > 6.0 + loop.retry_s
