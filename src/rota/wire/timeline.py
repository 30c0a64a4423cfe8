"""The life of a job as stretches of time: when it waited, ran and stood still, where, and why that ended."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel


class Doing(StrEnum):
    """What a job does for a stretch of time."""

    WAITING = "waiting"
    RUNNING = "running"  # it holds devices, its start included
    SUSPENDED = "suspended"  # its processes stand still, in host memory


class StretchView(BaseModel):
    """One stretch; `to_s` of one is `from_s` of the next."""

    doing: Doing
    from_s: float
    """Unix time."""
    to_s: float | None = None
    """None while it lasts."""
    attempt: int = 0
    """0 before the first."""
    nodes: list[str] = []
    gpus: int = 0
    share: float = 1.0
    starting_s: float = 0.0
    """So long from its begin nothing was worked on: programs started, state was loaded."""
    lost_work_s: float = 0.0
    """Work that its end lost, in seconds at the requested allocation."""
    end: str = ""
    """finished failed cancelled preempted migrated resized adjusted lost; empty while it lasts, and where the
    job did not run."""
    why: str = ""
    """Why it ended, or why a job that ran before does not now: as a clause, as far as it is known."""
