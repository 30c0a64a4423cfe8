"""What has happened in the live world since the last step was stored."""

from __future__ import annotations

from dataclasses import dataclass, field

from rota.wire.sync import Cost
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.curves import Point
from rota.worlds.live.inbox import CommandAsked


@dataclass
class Unsaved:
    """Taken by whoever stores it; what comes after belongs to the next step."""

    jobs: dict[int, LiveJob] = field(default_factory=dict)
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    nodes: set[int] = field(default_factory=set)
    done: list[tuple[int, dict[str, object]]] = field(default_factory=list)
    """Commands, with what became of each."""
    events: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Who, kind, job, text."""
    points: list[Point] = field(default_factory=list)
    """Of the curves of jobs."""
    thinned: set[int] = field(default_factory=set)
    """Rows of jobs of which neighbouring points become one, after those above are on record."""
    costs: list[tuple[int, Cost]] = field(default_factory=list)
    asked: list[CommandAsked] = field(default_factory=list)
    """Commands that are the controller's to carry out: policies, changes of what jobs ask for."""
    started: list[tuple[float, float]] = field(default_factory=list)
    """Moments of submission and of the first process, of jobs that have just begun."""
    idle: list[tuple[int, str]] = field(default_factory=list)
    """Rows of jobs that hold devices and do nothing, with what is to be said of it."""
    risks: list[tuple[int, str]] = field(default_factory=list)
    """Rows of jobs whose promise is at risk from now on, or safe again, likewise."""
    scaling: bool = False
    """How many nodes are wanted, or which of them may go, has changed."""
    rebuild: str = ""
    """Why the loop has to be built anew; empty if it need not."""

    def job(self, job: LiveJob) -> None:
        """Something about `job` has changed."""
        self.jobs[job.row] = job

    def attempt(self, attempt: Attempt) -> None:
        """Something about `attempt` has changed."""
        self.attempts[attempt.row, attempt.number] = attempt

    def event(self, kind: str, job: str, text: str, who: str = "rota") -> None:
        """A line for the audit; `job` is an id, or empty."""
        self.events.append((who, kind, job, text))
