"""Gang acquisition in part: hold what is free for a while, give it up, wait, try again less strictly.

An attempt fixes its candidate nodes when it opens, collects GPUs that are or become free there, and starts
its job when the gang is complete.  At the timeout it lets go of everything; the next attempt follows after
a pause.  What is held is a `Reservation`; `Attempts` is what must be remembered besides.

Timeouts and pauses are fixed, so the opening of the first attempt determines all later moments: nothing is
counted, and an attempt that finds nothing costs nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypedDict

from rota.systems.philly.locality import Locality

_LEVELS: Final = tuple(Locality)
_ROUNDING: Final = 1e-4
"""Part of a period by which rounding may move an opening: closer ones are compared exactly."""


class Attempts(TypedDict):
    """The efforts of one waiting job; JSON, for a policy's memory."""

    since_s: float
    """When the first attempt opened."""
    level: int
    """`Locality` that it asked for."""
    per_level: int
    """Failed attempts after which the next level is allowed."""
    opened_s: float
    """The latest opening at which the job was looked at; minus infinity before the first."""
    nodes: int
    """Candidate nodes that were found at `opened_s`, as a bit mask."""


@dataclass(frozen=True)
class Cycle:
    """How long attempts last and how often they are repeated."""

    timeout_s: float
    backoff_s: float

    @property
    def period_s(self) -> float:
        """Seconds from one opening to the next."""
        return self.timeout_s + self.backoff_s

    def first(self, level: Locality, relax_after: float, now: float) -> Attempts:
        """The schedule of a job that begins to wait; each level gets `relax_after` tries, at least one."""
        per_level = max(1, math.ceil(relax_after))
        return Attempts(since_s=now, level=int(level), per_level=per_level, opened_s=-math.inf, nodes=0)

    def opened_s(self, attempts: Attempts, now: float) -> float:
        """When the latest attempt opened."""
        return attempts["since_s"] + self._count(attempts, now) * self.period_s

    def next_s(self, attempts: Attempts, now: float) -> float:
        """When the next attempt opens: after now."""
        return attempts["since_s"] + (self._count(attempts, now) + 1) * self.period_s

    def until_s(self, attempts: Attempts, now: float) -> float:
        """Timeout of the latest attempt, which is open before that moment."""
        return self.opened_s(attempts, now) + self.timeout_s

    def level(self, attempts: Attempts, now: float) -> Locality:
        """The level that the latest attempt asks for."""
        return self.latest(attempts, now).level

    def latest(self, attempts: Attempts, now: float) -> LatestAttempt:
        """The latest attempt: its opening, timeout, next opening and level."""
        count, since, period = self._count(attempts, now), attempts["since_s"], self.period_s
        relaxed = min(attempts["level"] + count // attempts["per_level"], len(_LEVELS) - 1)
        opened_s = since + count * period
        return LatestAttempt(
            opened_s, opened_s + self.timeout_s, since + (count + 1) * period, _LEVELS[relaxed]
        )

    def _count(self, attempts: Attempts, now: float) -> int:
        """Attempts that failed before the latest one; consistent with the moments above to the last bit."""
        since, period = attempts["since_s"], self.period_s
        count = max(0, int((now - since) / period))
        while since + (count + 1) * period <= now:
            count += 1
        while count and since + count * period > now:
            count -= 1
        return count

    @property
    def pause_s(self) -> tuple[float, float]:
        """Seconds of a period between which certainly no attempt is open: not so close to its ends that
        rounding decides."""
        near_s = _ROUNDING * self.period_s
        return self.timeout_s + near_s, self.period_s - near_s


class LatestAttempt:
    """The latest attempt of a job."""

    __slots__ = ("level", "next_s", "opened_s", "until_s", "wants")

    def __init__(self, opened_s: float, until_s: float, next_s: float, level: Locality) -> None:
        self.opened_s = opened_s
        self.until_s = until_s
        """Timeout of the attempt."""
        self.next_s = next_s
        """When the next attempt opens."""
        self.level = level
        """Level that the attempt asks for."""
        self.wants = -1
        """Its candidate nodes, a mask; -1 before they were looked at."""


class Latest:
    """The latest attempt of each waiting job: a cache, good until the next one of the job opens."""

    def __init__(self, attempts: dict[int, Attempts], cycle: Cycle) -> None:
        self._attempts = attempts
        self._cycle = cycle
        self._of: dict[int, LatestAttempt] = {}

    def of(self, row: int, now: float) -> LatestAttempt:
        """The latest attempt of `row`, which has an entry in `attempts`."""
        latest = self._of.get(row)
        if latest is None or not latest.opened_s <= now < latest.next_s:
            latest = self._of[row] = self._cycle.latest(self._attempts[row], now)
        return latest

    def forget(self, row: int) -> None:
        """Drop the cached attempt of `row`, whose entry is about to go, or is new."""
        self._of.pop(row, None)


class Calendar:
    """Waiting jobs by the part of the cycle in which their attempts open; holds the rows that are added."""

    def __init__(self, attempts: dict[int, Attempts], cycle: Cycle, latest: Latest | None = None) -> None:
        self.attempts = attempts
        self.cycle = cycle
        self.latest = latest or Latest(attempts, cycle)
        self._phases: list[float] = []
        """When in the cycle each row's attempts open, ascending."""
        self._rows: list[int] = []
        """These rows; those that open at the same moment ascend."""
        self._near_s = _ROUNDING * cycle.period_s
        self._next = (math.inf, -math.inf)
        """Moments (a, b): from a to before b, the next attempt opens at b; nothing is known at first."""

    def add(self, row: int) -> None:
        """Add `row`, which has an entry in `attempts`."""
        self.latest.forget(row)
        self._next = (math.inf, -math.inf)
        place, phase = self._place(row)
        self._phases.insert(place, phase)
        self._rows.insert(place, row)

    @property
    def is_empty(self) -> bool:
        return not self._phases

    def drop(self, row: int) -> None:
        """Remove `row`, whose entry is about to go."""
        self.latest.forget(row)
        self._next = (math.inf, -math.inf)
        place, _ = self._place(row)
        del self._phases[place], self._rows[place]

    def opened(self, from_s: float, to_s: float) -> list[int]:
        """Rows whose attempt opened at one of these moments, both included; ascending."""
        latest, near = self.latest, self._near_s
        around = self._within(from_s - near, to_s - from_s + 2.0 * near)
        rows = [row for row in around if latest.of(row, to_s).opened_s >= from_s]
        rows.sort()
        return rows

    def _within(self, from_s: float, span_s: float) -> list[int]:
        """Rows whose attempts open within `span_s` from `from_s` on, both ends included."""
        phases, rows, period = self._phases, self._rows, self.cycle.period_s
        if span_s >= period:
            return rows
        first = from_s % period
        last, begin = first + span_s, bisect_left(phases, first)
        if last < period:
            return rows[begin : bisect_right(phases, last, begin)]
        return rows[begin:] + rows[: bisect_right(phases, last - period)]

    def next_s(self, now: float, wanted: Callable[[int], bool] | None = None) -> float:
        """When the next attempt of a `wanted` row (of any) opens, after now; infinite if there is none."""
        if wanted is not None:
            return self._found_next_s(now, wanted)
        from_s, next_s = self._next
        if not from_s <= now < next_s:
            next_s = self._found_next_s(now, None)
            self._next = now, next_s
        return next_s

    def _found_next_s(self, now: float, wanted: Callable[[int], bool] | None) -> float:
        phases, rows, period, near = self._phases, self._rows, self.cycle.period_s, self._near_s
        best, from_s = math.inf, now - near
        first = from_s % period
        begin, count = bisect_left(phases, first), len(phases)
        for at in range(begin, begin + count):
            place = at if at < count else at - count
            phase, row = phases[place], rows[place]
            if best <= from_s + (phase - first) % period - near:
                break  # all others open later
            if wanted is None or wanted(row):
                best = min(best, self.latest.of(row, now).next_s)
        return best

    def _place(self, row: int) -> tuple[int, float]:
        """The present or future place of `row`, and when in the cycle its attempts open."""
        phases, phase = self._phases, self.attempts[row]["since_s"] % self.cycle.period_s
        place = bisect_left(phases, phase)
        if place < len(phases) and phases[place] == phase:
            place = bisect_left(self._rows, row, place, bisect_right(phases, phase, place))
        return place, phase
