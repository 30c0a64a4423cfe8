"""Queues of virtual clusters whose waiting jobs try again and again: who may get further now, and when next.

A job can get further at few of its many moments: when an attempt opens while GPUs are free, or when GPUs
become free where an attempt is open.  `AttemptQueues` finds those jobs in order without
looking at the others.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection

from rota.policies.philly.delays import Class
from rota.policies.philly.gang import Attempts, Calendar, Cycle, Latest


class Line:
    """Rows of one virtual cluster for which the same nodes will do, ascending."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.rows: list[int] = []
        self._since_s: list[float] = []
        """Since when each row waits."""
        self._paused = 0
        """So many of the first rows are between two attempts, and stay so until `_until_s`."""
        self._until_s = math.inf
        self._period_s, (self._closed_s, self._opens_s) = cycle.period_s, cycle.pause_s

    def add(self, row: int, since_s: float) -> None:
        place = bisect_right(self.rows, row)
        self.rows.insert(place, row)
        self._since_s.insert(place, since_s)
        self._paused = min(self._paused, place)

    def drop(self, row: int) -> None:
        place = bisect_right(self.rows, row) - 1
        del self.rows[place], self._since_s[place]
        if place < self._paused:
            self._paused -= 1

    def first_open(self, now: float) -> int:
        """Place of the first row of which an attempt may be open: all before it are in a pause."""
        place, until_s, since_s = self._paused, self._until_s, self._since_s
        period_s, closed_s, opens_s = self._period_s, self._closed_s, self._opens_s
        if now >= until_s:
            place, until_s = 0, math.inf
        while place < len(since_s):
            phase_s = (now - since_s[place]) % period_s
            if phase_s <= closed_s or phase_s >= opens_s:
                break
            place += 1
            end_s = now + (opens_s - phase_s)
            if end_s < until_s:
                until_s = end_s
        self._paused, self._until_s = place, until_s
        return place

    def next_open(self, place: int, now: float) -> int:
        """The first place, `place` or one behind it, of which an attempt may be open."""
        since_s, period_s, closed_s, opens_s = self._since_s, self._period_s, self._closed_s, self._opens_s
        while place < len(since_s) and closed_s < (now - since_s[place]) % period_s < opens_s:
            place += 1
        return place


class AttemptQueues:
    """Waiting rows by virtual cluster, in order of arrival: a cache of the attempts in a policy's memory."""

    def __init__(self, attempts: dict[int, Attempts], cycle: Cycle) -> None:
        self.attempts = attempts
        self.cycle = cycle
        self.latest = Latest(attempts, cycle)
        self._calendars: dict[int, Calendar] = {}
        """When attempts open, by the nodes that will do."""
        self.lines: dict[str, dict[int, Line]] = {}
        """Rows of each virtual cluster, by the nodes that will do."""
        self.nodes_of: dict[int, int] = {}
        """Mask of the nodes that will do for each row, whoever is there."""
        self.classes: Counter[Class] = Counter()
        """Jobs of each virtual cluster and size."""
        self._in_order: list[Class] | None = None
        """These in order; None if some have come or gone."""
        self.class_of: dict[int, Class] = {}
        self.without_gpus: set[int] = set()
        self.labelled: tuple[float, dict[str, float], dict[str, float], list[Class]] | None = None
        """Free GPUs, those used and due, and classes when the reasons of the classes were last noted."""
        self.unwanted = 0
        """Nodes whose free GPUs no open attempt wanted when somebody last looked."""
        self.need_of: dict[int, tuple[float, ...]] = {}
        """What the rows that somebody asked for need."""
        self.offered: dict[tuple[float, ...], dict[int, int]] = {}
        """Candidate nodes in a full cluster, by needs and level."""

    def add(self, row: int, of: Class, nodes: int) -> None:
        """`row`, which has an entry in `attempts`, joins the queue of its virtual cluster for `nodes`."""
        lines = self.lines.setdefault(of[0], {})
        if nodes not in lines:
            lines[nodes] = Line(self.cycle)
        lines[nodes].add(row, self.attempts[row]["since_s"])
        self.class_of[row] = of
        self.nodes_of[row] = nodes
        if of not in self.classes:
            self._in_order = None
        self.classes[of] += 1
        calendar = self._calendars.get(nodes)
        if calendar is None:
            calendar = self._calendars[nodes] = Calendar(self.attempts, self.cycle, self.latest)
        calendar.add(row)
        if not of[1]:
            self.without_gpus.add(row)

    def drop(self, row: int) -> tuple[Class, Attempts]:
        """`row` waits no longer; returns what its entry was."""
        of, nodes = self.class_of.pop(row), self.nodes_of.pop(row)
        calendar = self._calendars[nodes]
        calendar.drop(row)
        if calendar.is_empty:
            del self._calendars[nodes]
        lines = self.lines[of[0]]
        lines[nodes].drop(row)
        if not lines[nodes].rows:
            del lines[nodes]
            if not lines:
                del self.lines[of[0]]
        self.classes[of] -= 1
        if not self.classes[of]:
            del self.classes[of]
            self._in_order = None
        self.without_gpus.discard(row)
        self.need_of.pop(row, None)
        return of, self.attempts.pop(row)

    def in_order(self) -> list[Class]:
        """The classes that wait, in order; a list that nobody changes."""
        if self._in_order is None:
            self._in_order = sorted(self.classes)
        return self._in_order

    def opened(self, from_s: float, to_s: float, but: Collection[int] = ()) -> list[int]:
        """Rows of which an attempt opened at one of these moments, both included; ascending.

        Without those for which exactly the nodes of a mask of `but` will do.
        """
        rows_by_line = [
            calendar.opened(from_s, to_s) for mask, calendar in self._calendars.items() if mask not in but
        ]
        return (
            rows_by_line[0]
            if len(rows_by_line) == 1
            else sorted([row for rows in rows_by_line for row in rows])
        )

    def without(self, nodes: int) -> list[int]:
        """Masks of the nodes that will do for some rows, and have none of `nodes`."""
        return [mask for mask in self._calendars if not mask & nodes]

    def has_none_of(self, nodes: int) -> bool:
        """True if there may be jobs for which none of `nodes` will do."""
        return any(not mask & nodes for mask in self._calendars)

    def next_s(self, now: float, nodes: int = -1, others: Collection[Class] = ()) -> float:
        """When an attempt opens after now for which some of `nodes` will do, or of a class of `others`.

        Infinite if there is none.
        """
        best = math.inf
        for mask, calendar in self._calendars.items():
            if mask & nodes:
                best = min(best, calendar.next_s(now))
            elif others:
                best = min(best, calendar.next_s(now, lambda row: self.class_of[row] in others))
        return best
