"""Gang acquisition in part: hold what is free for a while, give it up, wait, try again less strictly.

An attempt fixes its candidate nodes when it opens, collects GPUs that are or become free there, and starts
its job when the gang is complete.  At the timeout it lets go of everything; the next attempt follows after
a pause.  What is held is a `Reservation`; an `Attempt` is what must be remembered besides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
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


def next_moment(attempt: Attempt) -> float:
    """When the attempt times out, or the next one opens."""
    return min(attempt["until_s"], attempt["retry_s"])


class Agenda:
    """The attempts in a policy's memory by their next moment: a cache that may be built anew at any time."""

    def __init__(self, attempts: dict[int, Attempt]) -> None:
        self.attempts = attempts
        self._heap = [(next_moment(attempt), row) for row, attempt in attempts.items()]
        heapify(self._heap)

    def plan(self, row: int) -> None:
        """The attempt of `row` is new or has changed."""
        heappush(self._heap, (next_moment(self.attempts[row]), row))

    def next_s(self) -> float:
        """The next moment of all; infinite if there is none."""
        heap, attempts = self._heap, self.attempts
        while heap and (heap[0][1] not in attempts or next_moment(attempts[heap[0][1]]) != heap[0][0]):
            heappop(heap)
        return heap[0][0] if heap else math.inf

    def due(self, now: float) -> list[int]:
        """Rows whose moment has come; they leave the agenda."""
        rows = []
        while self.next_s() <= now:
            rows.append(heappop(self._heap)[1])
        return sorted(set(rows))
