"""Gang acquisition in part: hold what is free for a while, give it up, wait, try again less strictly.

An attempt fixes its candidate nodes when it opens, collects GPUs that are or become free there, and starts
its job when the gang is complete.  At the timeout it lets go of everything; the next attempt follows after
a pause.  What is held is a `Reservation`; an `Attempt` is what must be remembered besides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

from rota.scheduler.stages.locality import Locality


class Attempt(TypedDict):
    """The efforts of one waiting job; JSON, for a policy's memory."""

    level: int
    """`Locality` asked for."""
    failed: int
    """Attempts that timed out at this level."""
    nodes: int
    """Candidate nodes of the open attempt, as a bit mask."""
    until_s: float
    """Timeout of the open attempt; infinite while none is open."""
    retry_s: float
    """When the next attempt opens; infinite while one is open."""


@dataclass(frozen=True)
class Patience:
    """How long attempts last and how often they are repeated."""

    timeout_s: float
    backoff_s: float
    relax_after: float
    """Failed attempts at a level before the next, laxer one."""

    def first(self, level: Locality, now: float) -> Attempt:
        """A job that has just begun to wait."""
        return Attempt(level=int(level), failed=0, nodes=0, until_s=math.inf, retry_s=now)

    def opened(self, attempt: Attempt, nodes: int, now: float) -> None:
        """An attempt on `nodes` begins."""
        attempt["nodes"] = nodes
        attempt["until_s"], attempt["retry_s"] = now + self.timeout_s, math.inf

    def timed_out(self, attempt: Attempt) -> None:
        """The open attempt has failed at its timeout."""
        attempt["failed"] += 1
        attempt["retry_s"] = attempt["until_s"] + self.backoff_s
        attempt["nodes"], attempt["until_s"] = 0, math.inf
        if attempt["failed"] >= self.relax_after and attempt["level"] < Locality.ANYWHERE:
            attempt["level"] += 1
            attempt["failed"] = 0


def next_moment(attempts: dict[int, Attempt]) -> float:
    """When the next attempt times out or opens; infinite if none does."""
    return min((min(a["until_s"], a["retry_s"]) for a in attempts.values()), default=math.inf)
