"""Sentences that hold for every policy, and the words in which their checks report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rota.scheduler.decision import Decision
from rota.scheduler.loop import Loop
from rota.scheduler.moments.frozen import packed_decision
from rota.scheduler.moments.values import digest
from rota.scheduler.snapshot import Snapshot
from rota.testing.onlooking import Onlooker, watch
from rota.testing.scenes import Scene
from rota.testing.subject import Subject

Check = Callable[[Subject, Scene], Iterator[str]]
"""Plays a scene and yields one line per offence: the moment, the jobs, the devices."""


@dataclass(frozen=True)
class Property:
    """A sentence that holds for every policy, and the check that looks for a scene that breaks it."""

    sentence: str
    seen_by: type[Onlooker] | None = None
    """Looks on at an ordinary run, together with others."""
    in_company: type[Onlooker] | None = None
    """Looks on in its place when all look on together: one onlooker for all sentences that name it."""
    found_by: Check | None = None
    """Plays runs of its own instead."""

    @property
    def together(self) -> type[Onlooker] | None:
        """The onlooker when all look on together."""
        return self.in_company or self.seen_by

    def check(self, subject: Subject, scene: Scene) -> Iterator[str]:
        """The offences in `scene`, one line each."""
        if self.seen_by is not None:
            yield from (line for _, line in watch(subject, scene, [self.seen_by]))
        if self.found_by is not None:
            yield from self.found_by(subject, scene)

    def __str__(self) -> str:
        return self.sentence


def print_of(decision: Decision) -> str:
    return digest(packed_decision(decision), "the decision")


def moves(loop: Loop, decision: Decision) -> list[int]:
    """Jobs that a decision would change."""
    held = loop.state.grants
    moved = [grant.job for grant in decision.grants if held.get(grant.job) != grant]
    return [*moved, *decision.preempt, *decision.reject, *decision.offers, *decision.cancel]


def show(decision: Decision) -> str:
    starts = ", ".join(f"{grant.job} on {list(grant.devices)}" for grant in decision.grants) or "nobody"
    return f"it grants {starts}; preempts {list(decision.preempt)}; remembers {str(decision.memory)[:200]}"


def at(snapshot: Snapshot) -> str:
    return f"at {snapshot.now:g} s"


def moment(loop: Loop) -> str:
    return f"at {loop.state.now:g} s"


def ids(loop: Loop, rows: list[int]) -> str:
    return ", ".join(loop.state.jobs.ids[row] for row in rows[:6])
