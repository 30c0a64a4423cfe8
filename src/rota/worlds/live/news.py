"""The machines of the live world, and what has happened in it since the last step was stored."""

from __future__ import annotations

from dataclasses import dataclass, field

from rota.wire.sync import Cost, NodeInfo, Usage
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.inbox import CommandAsked


@dataclass
class LiveNode:
    """A machine that has joined."""

    position: int
    info: NodeInfo
    state: str = "up"
    """up, drained, away (its agent was stopped), lost or forgotten."""
    reason: str = ""
    drained_by: str = ""
    sick: dict[int, str] = field(default_factory=dict)
    """Local indexes of unhealthy devices, with the reason."""

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def is_forgotten(self) -> bool:
        """It will not be back: it only keeps its place and the numbers of its devices."""
        return self.state == "forgotten"


@dataclass
class News:
    """What has happened in the world since the last step was stored."""

    jobs: dict[int, LiveJob] = field(default_factory=dict)
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    nodes: set[int] = field(default_factory=set)
    done: list[tuple[int, dict[str, object]]] = field(default_factory=list)
    """Commands, with what became of each."""
    events: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Who, kind, job, text."""
    usage: list[tuple[int, int, Usage]] = field(default_factory=list)
    costs: list[tuple[int, Cost]] = field(default_factory=list)
    asked: list[CommandAsked] = field(default_factory=list)
    """Commands that are the controller's to carry out: policies, changes of what jobs ask for."""
    started: list[tuple[float, float]] = field(default_factory=list)
    """Moments of submission and of the first process, of jobs that have just begun."""
    rebuild: str = ""
    """Why the loop has to be built anew; empty if it need not."""
