"""The life of a job as stretches of time: when it waited, ran and was suspended, where, and why each
ended."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel


class Doing(StrEnum):
    """What a job does during a stretch of time."""

    WAITING = "waiting"
    RUNNING = "running"  # it holds devices, its start included
    SUSPENDED = "suspended"  # its processes are stopped, in host memory


class StretchView(BaseModel):
    """One stretch of time; its `to_s` is the `from_s` of the next."""

    doing: Doing
    from_s: float
    """Unix time."""
    to_s: float | None = None
    """Unix time; None if the stretch has not ended."""
    attempt: int = 0
    """Number of the attempt; 0 before the first."""
    nodes: list[str] = []
    gpus: int = 0
    share: float = 1.0
    starting_s: float = 0.0
    """Seconds from its beginning in which nothing was computed: programs started, state was loaded."""
    lost_work_s: float = 0.0
    """Work lost at its end, in seconds at the requested allocation."""
    end: str = ""
    """finished failed cancelled preempted migrated resized adjusted lost; empty until it ends, and where the
    job did not run."""
    why: str = ""
    """Why it ended, or why a job that ran before does not run now: a clause, as far as it is known."""
