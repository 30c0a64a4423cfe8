"""A grant to measure ends: the policy is asked again, and its providers have heard what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from play import play
from rota.knowledge.given import Provides
from rota.knowledge.needs import Knowledge, Observation, Provenance
from rota.model.grants import Grant, Leave, Purpose
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import PRESETS

TEST = Grant(0, (0,), purpose=Purpose.PROFILE)


class Seconds(Provides):
    """Seconds in which each job was seen at work."""

    learns = listens = True

    def __init__(self) -> None:
        self.seconds = np.zeros(2)
        super().__init__(Knowledge.SKEW, Provenance.MEASURED, self.seconds)

    def observed(self, seen: Sequence[Observation]) -> None:
        for one in seen:
            self.seconds[one.row] += one.until_s - one.since_s


class Profiler:
    """Runs A to measure it until 30, or to its end; notes when it is told of it, and how many seconds."""

    needs = frozenset({Knowledge.SKEW})

    def __init__(self, then: dict[str, Any], on: Event = Event.PROFILE) -> None:
        self.then, self.on = then, on
        self.told: list[tuple[float, bool, float]] = []

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        known = float(snapshot.know(Knowledge.SKEW)[0])
        self.told.append((snapshot.now, bool(snapshot.cause & Event.PROFILE), known))
        if snapshot.now == 0.0:
            return Decision(memory, [TEST], wake=Wake(30.0, self.on))
        if snapshot.now == 30.0 and not snapshot.cause & Event.PROFILE:
            return Decision(memory, wake=Wake(on=self.on), **self.then)
        waiting = [Grant(row, (0,)) for row in snapshot.waiting.tolist()[:1] if not snapshot.grants]
        return Decision(memory, waiting, wake=Wake(on=self.on))


ENDS = [
    # jobs         how it ends                                             told of the end      why
    ("A 1x100", {"preempt": [0], "leave": Leave.ABANDON}, (30.0, True, 30.0), "stopped by the policy"),
    ("A 1x100", {"grants": [Grant(0, (1,))]}, (30.0, True, 30.0), "it goes on elsewhere, as an ordinary run"),
    ("A 1x100", {"grants": [Grant(0, (0,))]}, (30.0, True, 30.0), "it goes on where it is"),
    ("A 1x12", {}, (12.0, True, 12.0), "the job ends by itself"),
]


@pytest.mark.parametrize(("jobs", "then", "told", "why"), ENDS, ids=[row[-1] for row in ENDS])
def test_the_end_of_a_measurement_wakes_the_policy(
    jobs: str, then: dict[str, Any], told: tuple[float, bool, float], why: str
) -> None:
    policy = Profiler(then)
    play(policy, jobs, "1x2", Setting(providers=(Seconds(),)))
    assert [one for one in policy.told if one[1]] == [told], why


def test_an_ordinary_run_wakes_nobody() -> None:
    """Who listens to measurements alone is not told of other ends, nor is one told that does not listen."""
    policy = Profiler({"preempt": [0]}, on=Event.END)
    play(policy, "A 1x100", "1x2", Setting(providers=(Seconds(),)))
    assert [one for one in policy.told if one[1]] == []


def test_in_rounds_it_is_told_at_the_end_of_the_round() -> None:
    policy = Profiler({}, on=Event.PROFILE)
    play(policy, "A 1x12", "1x2", Setting(providers=(Seconds(),), semantics=PRESETS["elasticflow"]))
    assert [one[0] for one in policy.told if one[1]] == [60.0]
