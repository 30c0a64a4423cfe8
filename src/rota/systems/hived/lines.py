"""Waiting jobs in lines of jobs that fit, or do not, alike: a decision looks at the first of each line.

If the first of a line cannot start none of it can, so the cost of a decision depends on the kinds of
requests and on the jobs that start, not on how many wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Any

from rota.model.grants import Constraint
from rota.scheduler.reasons.when_asked import ReasonsWhenAsked
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.systems.hived.gang_requests import AskedOnce, Requests, Shape

Lines = dict[Shape, list[int]]
"""Rows by what they ask for, each line in the order in which its jobs are served."""

Rank = Callable[[int], Any]
"""Order of service: the least comes first."""
_NOBODY: list[int] = []


class WaitingLines:
    """Waiting jobs by what they ask for, updated from jobs that came or left; rows ascend in a line.

    A cache: dropping it changes no decision.
    """

    def __init__(self, asked: AskedOnce) -> None:
        self.asked = asked
        """What lines are made by: while it is kept, requests do not change."""
        self.guaranteed: Lines = {}
        self.low: list[int] = []
        """Waiting jobs that want no cells, and whose tenants own none."""
        self.idle: list[int] = []
        """Jobs without GPUs."""
        self.again: list[int] = []
        """Jobs of `guaranteed` that have run: their cells may have moved since."""
        self._line_of: dict[int, list[int]] = {}
        self._cursor = Cursor()

    def bring_up(self, snapshot: Snapshot, requests: Requests) -> None:
        """Bring the lines up to `snapshot`."""
        changed = snapshot.changes(self._cursor)
        if changed is None:
            self.guaranteed, self.low, self.idle, self.again, self._line_of = {}, [], [], [], {}
            changed = snapshot.waiting.tolist()
        for row in changed:
            if row in self._line_of:
                self._leave(row)
            if snapshot.waits(row):
                self._join(snapshot, requests, row)

    def _join(self, snapshot: Snapshot, requests: Requests, row: int) -> None:
        if not snapshot.gpus_of[row]:
            line = self.idle
        elif requests.is_guaranteed(row):
            line = self.guaranteed.setdefault(requests.shape(row), [])
            if requests.has_run(row):
                insort(self.again, row)
        else:
            line = self.low
        insort(line, row)
        self._line_of[row] = line

    def _leave(self, row: int) -> None:
        line = self._line_of.pop(row)
        _take_out(line, row)
        if not line and line is not self.low and line is not self.idle:
            del self.guaranteed[self.asked.shape[row]]
        if self.again:
            _take_out(self.again, row)

    def with_guarantee(self) -> list[int]:
        """Rows of all lines, ascending."""
        return sorted(row for line in self.guaranteed.values() for row in line)

    def copied(self, without: Iterable[int] = ()) -> Lines:
        """The guaranteed lines but for some rows, for one decision to change."""
        lines = {shape: line.copy() for shape, line in self.guaranteed.items()}
        for row in without:
            line = lines[self.asked.shape[row]]
            _take_out(line, row)
            if not line:
                del lines[self.asked.shape[row]]
        return lines


class LineTurns:
    """One go through `lines` by rank, from the head of each; what joins meanwhile is served in its place."""

    def __init__(self, lines: Lines, rank: Rank) -> None:
        self.lines, self.rank = lines, rank
        self.failed: dict[Shape, Constraint] = {}
        """Why no job of a line can start."""
        self._heads: list[tuple[Any, int, Shape]] = []
        for shape in lines:
            self._push(shape)

    def next(self) -> tuple[int, Shape] | None:
        """The job to try next; None once all lines have failed or are empty."""
        while self._heads:
            _, row, shape = heappop(self._heads)
            if shape not in self.failed and self.lines.get(shape, _NOBODY)[:1] == [row]:
                return row, shape
        return None

    def leave(self, shape: Shape) -> None:
        """Remove the head of a line, which waits no more."""
        line = self.lines[shape]
        del line[0]
        if line:
            self._push(shape)
        else:
            del self.lines[shape]

    def join(self, row: int, shape: Shape) -> None:
        """Add the waiting `row`; if its line has failed it has failed as well."""
        line = self.lines.setdefault(shape, [])
        insort(line, row, key=self.rank)
        if line[0] == row:
            self._push(shape)

    def _push(self, shape: Shape) -> None:
        head = self.lines[shape][0]
        heappush(self._heads, (self.rank(head), head, shape))


class LineReasons(ReasonsWhenAsked):
    """Why rows wait: one reason for each of `lines`, and those of single rows beside them."""

    def __init__(
        self,
        asked: AskedOnce,
        lines: Lines,
        by_line: Mapping[Shape, Constraint],
        single: Mapping[int, Constraint],
        gone: Iterable[int],
    ) -> None:
        """`lines` ascend, and are handed over; `gone` rows wait for nothing."""
        self._asked, self._lines, self._by_line, self._single = asked, lines, by_line, dict(single)
        for row in gone:
            self._single.pop(row, None)
            if (line := self._line_of(row)) is not None:
                _take_out(line, row)

    def _line_of(self, row: int) -> list[int] | None:
        shape = self._asked.shape.get(row)
        return None if shape is None else self._lines.get(shape)

    def of(self, row: int) -> Constraint | None:
        if row in self._single:
            return self._single[row]
        line = self._line_of(row)
        return None if line is None or not _has(line, row) else self._by_line[self._asked.shape[row]]

    def rows(self) -> Iterable[int]:
        return chain(self._single, *self._lines.values())


def _has(line: Sequence[int], row: int) -> bool:
    at = bisect_left(line, row)
    return at < len(line) and line[at] == row


def _take_out(line: list[int], row: int) -> None:
    if _has(line, row):
        del line[bisect_left(line, row)]
