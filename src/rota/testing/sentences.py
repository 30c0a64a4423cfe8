"""Sentences that hold for every policy, and the words in which their checks report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rota.scheduler.decision import Decision, Memory
from rota.scheduler.loop import Loop
from rota.scheduler.moments.frozen import packed_decision
from rota.scheduler.moments.values import digest
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Snapshot
from rota.testing.scenes import Scene
from rota.testing.subject import Around, Subject

Check = Callable[[Subject, Scene], Iterator[str]]
"""Plays a scene and yields one line per offence: the moment, the jobs, the devices."""


@dataclass(frozen=True)
class Property:
    """A sentence that holds for every policy, with the check that looks for a scene that breaks it."""

    sentence: str
    check: Check

    def __str__(self) -> str:
        return self.sentence


def ask(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
    return policy.decide(snapshot, memory)


def played(subject: Subject, scene: Scene, around: Around, offences: list[str]) -> Iterator[str]:
    """Plays the scene; yields the offences that `around` notes."""
    for _ in subject.play(scene, around):
        yield from offences
        offences.clear()


def print_of(decision: Decision) -> str:
    return digest(packed_decision(decision), "the decision")


def moves(loop: Loop, decision: Decision) -> list[int]:
    """Jobs that a decision would change."""
    held = loop.state.grants
    moved = [grant.job for grant in decision.grants if held.get(grant.job) != grant]
    return [*moved, *decision.preempt, *decision.reject, *decision.cancel]


def show(decision: Decision) -> str:
    starts = ", ".join(f"{grant.job} on {list(grant.devices)}" for grant in decision.grants) or "nobody"
    return f"it grants {starts}; preempts {list(decision.preempt)}; remembers {str(decision.memory)[:200]}"


def at(snapshot: Snapshot) -> str:
    return f"at {snapshot.now:g} s"


def moment(loop: Loop) -> str:
    return f"at {loop.state.now:g} s"


def ids(loop: Loop, rows: list[int]) -> str:
    return ", ".join(loop.state.jobs.ids[row] for row in rows[:6])
