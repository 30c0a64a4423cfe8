"""A run that would never end is given up, with a sentence; one that is slow, or waits, is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from play import finishes, play, trace_of
from rota.errors import PolicyError
from rota.model.grants import Grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated import headway
from rota.worlds.simulated.abilities import parse_can
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import WATCH_EVERY, Setting


class Alternating:
    """Lets two jobs have the only GPU in turn, each for a second."""

    needs = frozenset[str]()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        running, waiting = snapshot.running.tolist(), snapshot.waiting.tolist()
        if snapshot.occupancy.down:
            return Decision(memory, wake=Wake(snapshot.now + 1.0))
        grants = [Grant(waiting[0], (0,))] if waiting else []
        preempt = running if waiting else []
        return Decision(memory, grants, preempt, wake=Wake(snapshot.now + 1.0))


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headway, "MOST_WITHOUT", 2 * WATCH_EVERY)


def test_a_run_that_gets_nowhere_is_given_up(soon: None) -> None:
    """Whoever starts restores for three seconds, and is stopped after one."""
    with pytest.raises(
        PolicyError, match=r"^policy \S+: the run gets nowhere: between .* in 4,096 events; w"
    ):
        play(Alternating(), "A 1x10 B 1x10", "1x1", Setting(costs=parse_costs("restore=3s")))


def test_one_that_gets_on_is_not(soon: None) -> None:
    """As many turns, of which each brings somebody on by ten milliseconds."""
    jobs = f"A 1x{WATCH_EVERY / 50:g} B 1x{WATCH_EVERY / 50:g}"
    record = play(Alternating(), jobs, "1x1", Setting(costs=parse_costs("restore=990ms")))
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 2
    assert record.decisions > 2 * WATCH_EVERY


def test_who_waits_for_a_node_is_not_given_up(soon: None) -> None:
    late_s = 5.0 * WATCH_EVERY
    record = play(Alternating(), "A 1x10", "1x1", Setting(faults=[Fault(0, 0.0, late_s)]))
    assert record.jobs["start_s"].to_list() == [late_s]


def test_somebody_who_gets_on_is_seen_whoever_runs_when_it_is_looked_at(soon: None) -> None:
    """A saves its work; B, whose turn it always is then, loses what it has done at the end of each."""
    trace = trace_of("A 1x200000 B 1x1800", workload=[0, 1], workload_names=("saves", "loses"))
    setting = Setting(can=parse_can("loses=nothing"))
    assert finishes(play("gandiva@tiresias", trace, "1x1", setting))["A"] == pytest.approx(4e5, abs=60.0)


def test_of_rules_that_are_somebody_elses_that_is_said(soon: None) -> None:
    policy: Any = Alternating()
    policy.parameters = SimpleNamespace(mode="artifact")
    with pytest.raises(PolicyError, match=r"; mode=artifact keeps to its authors' rules, which know no such"):
        play(policy, "A 1x10 B 1x10", "1x1", Setting(costs=parse_costs("restore=3s")))
