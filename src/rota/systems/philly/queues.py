"""Waiting jobs by virtual cluster and kind: which of them may get further now, and when one may next.

A job can get further only when an attempt opens while GPUs are free, or when GPUs become free where an
attempt is open.  `AttemptQueues` returns those jobs in order without looking at the others.

Jobs of one kind need the same nodes, and find the same there or nothing.  A gang gets GPUs of one type: an
attempt takes the first type on which it fits at once, and if it fits on none the first that could hold it at
all.  So free GPUs of a later type are no use to a gang that needs more of them than there are: it would not
even hold them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial

from rota.model.cluster import Cluster
from rota.systems.philly.delays import Class
from rota.systems.philly.gang import Attempts, Calendar, Cycle, Latest
from rota.systems.philly.locality import Domains, Locality
from rota.table.free import Free
from rota.table.node_sets import NodeSets

Key = tuple[int, int]
"""The nodes that will do, and the size of the gang, 0 where that does not matter."""


class Kind:
    """What an attempt may find, by what is free."""

    __slots__ = ("first", "gpus", "key", "nodes", "others")

    def __init__(self, nodes: int, first: int, others: list[int], gpus: int) -> None:
        self.nodes = nodes
        """Mask of the nodes that are suitable, whether free or not."""
        self.first = first
        """Nodes on which an attempt that does not fit at once has its candidates."""
        self.others = others
        """By type, the other nodes: candidates only if the gang fits there at once."""
        self.gpus = gpus
        self.key: Key = (nodes, gpus if others else 0)

    def finds_none(self, free: Free, free_nodes: int) -> bool:
        """True if an attempt that opens now, without taking any back, holds no GPU."""
        if not self.others:
            return not self.nodes & free_nodes
        if self.first & free_nodes:
            return False
        return all(free.within(nodes) < self.gpus for nodes in self.others)


class Kinds:
    """The kinds of jobs in a cluster."""

    def __init__(self, cluster: Cluster, domains: Domains, are_told_apart: bool, up: int = -1) -> None:
        """`up` are the nodes that may be granted: gangs turn to others only once those are back.

        Kinds `are_told_apart` where more than free GPUs decides; else only nodes count.
        """
        self._domains = domains
        self._up = up
        self._by_type = NodeSets(cluster).of_type
        self._are_told_apart = are_told_apart and len(self._by_type) > 1
        self._kinds: dict[Key, Kind] = {}

    def of(self, nodes: int, gpus: int, level: int) -> Kind:
        """The kind of a job of `gpus` GPUs for which `nodes` will do, from locality `level` on."""
        kind = self._kinds.get((nodes, gpus))
        if kind is None:
            kind = self._kinds[nodes, gpus] = self._new(nodes, gpus, level)
        return kind

    def _new(self, nodes: int, gpus: int, level: int) -> Kind:
        if not gpus or not self._are_told_apart:
            return Kind(nodes, nodes, [], gpus)
        first, by_type = 0, [there for of_type in self._by_type if (there := nodes & of_type & self._up)]
        levels = [each for each in Locality if each >= level]
        for place, within in enumerate(by_type):
            first |= within
            if all(self._domains.candidates(self._domains.full, gpus, each, within) for each in levels):
                return Kind(nodes, first, by_type[place + 1 :], gpus)
        return Kind(nodes, nodes, [], gpus)


class Line:
    """Rows of one virtual cluster and kind, ascending."""

    def __init__(self, cycle: Cycle, kind: Kind) -> None:
        self.cycle = cycle
        self.kind = kind
        self.rows: list[int] = []
        self.astray: list[int] = []
        """Rows with an attempt whose candidate nodes differed from `kind.first`, ascending."""
        self._since_s: list[float] = []
        """When each row began to wait."""
        self._paused = 0
        """Number of first rows that are between two attempts, and stay so until `_until_s`."""
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
        if row in self.astray:
            self.astray.remove(row)
        if place < self._paused:
            self._paused -= 1

    def goes_astray(self, row: int) -> None:
        """Note an attempt of `row` with candidate nodes that are not among `kind.first`."""
        place = bisect_left(self.astray, row)
        if self.astray[place : place + 1] != [row]:
            self.astray.insert(place, row)

    def first_open(self, now: float) -> int:
        """Place of the first row whose attempt may be open: all before it are in a pause."""
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
        """The first place, `place` or one behind it, whose attempt may be open."""
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
        self._kinds: dict[Key, Kind] = {}
        self._calendars: dict[Key, Calendar] = {}
        """When attempts open, by kind."""
        self.lines: dict[str, dict[Key, Line]] = {}
        """Rows of each virtual cluster, by kind."""
        self.kind_of: dict[int, Kind] = {}
        self.classes: Counter[Class] = Counter()
        """Jobs of each virtual cluster and size."""
        self._in_order: list[Class] | None = None
        """The classes in order; None if some have come or gone."""
        self.class_of: dict[int, Class] = {}
        self.without_gpus: set[int] = set()
        self.labelled: tuple[float, dict[str, float], dict[str, float], list[Class]] | None = None
        """Free GPUs, those used and due, and classes when the reasons of the classes were last noted."""
        self.unwanted = 0
        """Nodes whose free GPUs no open attempt wanted when they were last looked at."""
        self.offered: dict[tuple[float, ...], dict[int, int]] = {}
        """Candidate nodes in a full cluster, by needs and level."""
        self.offered_to: dict[int, dict[int, int]] = {}
        """Candidate nodes in a full cluster, by row and level: a row's needs are looked up once."""

    def add(self, row: int, of: Class, kind: Kind) -> None:
        """Add `row`, which has an entry in `attempts`, to the queue of its virtual cluster."""
        key, lines = kind.key, self.lines.setdefault(of[0], {})
        line = lines.get(key)
        if line is None:
            line = lines[key] = Line(self.cycle, kind)
        line.add(row, self.attempts[row]["since_s"])
        self.class_of[row] = of
        self.kind_of[row] = kind
        if self.attempts[row]["nodes"] & ~kind.first:
            line.goes_astray(row)
        if of not in self.classes:
            self._in_order = None
        self.classes[of] += 1
        calendar = self._calendars.get(key)
        if calendar is None:
            self._kinds[key] = kind
            calendar = self._calendars[key] = Calendar(self.attempts, self.cycle, self.latest)
        calendar.add(row)
        if not of[1]:
            self.without_gpus.add(row)

    def drop(self, row: int) -> tuple[Class, Attempts]:
        """Remove `row`, which waits no longer; returns what it was filed under."""
        of, key = self.class_of.pop(row), self.kind_of.pop(row).key
        calendar = self._calendars[key]
        calendar.drop(row)
        if calendar.is_empty:
            del self._calendars[key], self._kinds[key]
        lines = self.lines[of[0]]
        lines[key].drop(row)
        if not lines[key].rows:
            del lines[key]
            if not lines:
                del self.lines[of[0]]
        self.classes[of] -= 1
        if not self.classes[of]:
            del self.classes[of]
            self._in_order = None
        self.without_gpus.discard(row)
        self.offered_to.pop(row, None)
        return of, self.attempts.pop(row)

    def in_order(self) -> list[Class]:
        """The classes that wait, in order; callers must not change the list."""
        if self._in_order is None:
            self._in_order = sorted(self.classes)
        return self._in_order

    def note_attempt(self, row: int, nodes: int) -> None:
        """Note the candidate nodes `nodes` of the latest attempt of `row`."""
        kind = self.kind_of[row]
        if nodes & ~kind.first:
            self.lines[self.class_of[row][0]][kind.key].goes_astray(row)

    def opened(self, from_s: float, to_s: float, but: Collection[Key] = ()) -> list[int]:
        """Rows whose attempt opened at one of these moments, both included; ascending.

        Rows of the kinds `but` are left out.
        """
        rows_by_line = [
            calendar.opened(from_s, to_s) for key, calendar in self._calendars.items() if key not in but
        ]
        return (
            rows_by_line[0]
            if len(rows_by_line) == 1
            else sorted([row for rows in rows_by_line for row in rows])
        )

    def without(self, free: Free, free_nodes: int, by_size: bool) -> list[Key]:
        """Kinds whose attempts find nothing; if not `by_size`, those with no GPU free on any node."""
        return [
            key
            for key, kind in self._kinds.items()
            if (kind.finds_none(free, free_nodes) if by_size else not kind.nodes & free_nodes)
        ]

    def next_s(
        self, now: float, free: Free, free_nodes: int, hopeful: Callable[[], Collection[Class]]
    ) -> float:
        """The next opening after now of an attempt that finds something, or of a class of `hopeful()`.

        Infinite if there is none.
        """
        best, others = math.inf, None
        for key, calendar in self._calendars.items():
            if not self._kinds[key].finds_none(free, free_nodes):
                best = min(best, calendar.next_s(now))
                continue
            if others is None:
                others = hopeful()
            if others:
                best = min(best, calendar.next_s(now, partial(self._is_of, others)))
        return best

    def next_of_any_s(self, now: float) -> float:
        """When an attempt opens after now; infinite if there is none."""
        return min([calendar.next_s(now) for calendar in self._calendars.values()], default=math.inf)

    def _is_of(self, classes: Collection[Class], row: int) -> bool:
        return self.class_of[row] in classes
