"""Waiting jobs by expected duration, when expectations move with every job that completes.

All jobs for which the same past speaks (`Recurrence.speaker`) have the same expectation.  They stand in one
line, in order of submission, so that a completion moves a few lines and not the jobs in them.  A job changes
its line only when a key of its own gets a past: at most as often as the number of its keys.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from heapq import heapify, heappop, heapreplace

from rota.stages.order import Front, Item, SortedItems
from rota.systems.pai.recurrence import EVERYBODY, Recurrence

Keys = tuple[Hashable, ...]


class ExpectationLine:
    """Rows that wait with one expectation and one kind of request, ascending."""

    __slots__ = ("_head", "_rows", "first", "kind", "speaker")

    def __init__(self, speaker: Hashable, kind: int) -> None:
        self.speaker = speaker
        self.kind = kind
        self.first: Item | None = None
        """Expectation and first row, as ordered within the kind."""
        self._rows: list[int] = []
        self._head = 0  # earlier rows have left

    def add(self, row: int) -> None:
        insort(self._rows, row, self._head)

    def remove(self, row: int) -> None:
        if self._rows[self._head] != row:
            del self._rows[bisect_left(self._rows, row, self._head)]
            return
        self._head += 1
        if self._head > 64 and 2 * self._head > len(self._rows):
            del self._rows[: self._head]
            self._head = 0

    def after(self, row: int) -> int:
        """The first row behind `row`; -1 if there is none."""
        place = bisect_left(self._rows, row + 1, self._head)
        return self._rows[place] if place < len(self._rows) else -1


class ExpectedOrder:
    """The waiting rows, shortest expected first, ties by submission: lists of lines by kind of request."""

    def __init__(self, history: Recurrence) -> None:
        self.history = history
        self._keys_of: dict[int, Keys] = {}
        self._line_of: dict[int, ExpectationLine] = {}
        self._lines: dict[Hashable, dict[int, ExpectationLine]] = {}
        """By speaker and kind; none of them is empty."""
        self._alike: dict[Hashable, dict[Keys, set[int]]] = {}
        """Waiting rows by each of their keys and by all of them together."""
        self._firsts: dict[int, SortedItems] = {}
        """Per kind, the first row of each line."""

    # -- waiting jobs ------------------------------------------------------------------------------

    def add(self, row: int, keys: Keys, kind: int) -> None:
        """Add `row`, which waits from now on, unless it is there."""
        if row in self._keys_of:
            return
        self._keys_of[row] = keys
        for key in keys:
            self._alike.setdefault(key, {}).setdefault(keys, set()).add(row)
        self._join(row, kind)

    def drop(self, row: int) -> None:
        """Remove `row`, which waits no longer, if it is there."""
        keys = self._keys_of.pop(row, None)
        if keys is None:
            return
        for key in keys:
            rows = self._alike[key][keys]
            rows.remove(row)
            if not rows:
                del self._alike[key][keys]
                if not self._alike[key]:
                    del self._alike[key]
        self._part(row)

    def learn(self, keys: Keys, seconds: float) -> None:
        """Count a job with `keys` completed after `seconds`: the means of its keys and of all jobs change."""
        for key in self.history.add(keys, seconds):
            for alike, rows in self._alike.get(key, {}).items():
                if self.history.speaker(alike) == key:
                    self._change_line(rows)
        for speaker in (*keys, EVERYBODY):
            for line in self._lines.get(speaker, {}).values():
                self._place(line)

    def _change_line(self, rows: Iterable[int]) -> None:
        for row in sorted(rows):
            kind = self._line_of[row].kind
            self._part(row)
            self._join(row, kind)

    def _join(self, row: int, kind: int) -> None:
        speaker = self.history.speaker(self._keys_of[row])
        lines = self._lines.setdefault(speaker, {})
        line = lines.get(kind)
        if line is None:
            line = lines[kind] = ExpectationLine(speaker, kind)
        self._line_of[row] = line
        line.add(row)
        if line.first is None or row < line.first[1]:
            self._place(line)

    def _part(self, row: int) -> None:
        line = self._line_of.pop(row)
        line.remove(row)
        if line.first is not None and line.first[1] == row:
            self._place(line)

    def _place(self, line: ExpectationLine) -> None:
        """Enter the first row of `line` with its present expectation."""
        firsts = self._firsts.setdefault(line.kind, SortedItems())
        if line.first is not None:
            firsts.remove(line.first)
        first, line.first = line.after(-1), None
        if first >= 0:
            line.first = (self.history.expected_s(line.speaker), first)
            firsts.add(line.first)
            return
        del self._lines[line.speaker][line.kind]
        if not len(firsts):
            del self._firsts[line.kind]

    # -- in order ----------------------------------------------------------------------------------

    def walk(self) -> Walk:
        """All waiting rows in order, kind by kind if need be, as long as no job comes or goes."""
        return Walk(self._firsts, self._line_of)


class Walk:
    """Goes through the waiting rows; a kind can be left aside once one of its rows was passed over."""

    def __init__(self, firsts: dict[int, SortedItems], line_of: dict[int, ExpectationLine]) -> None:
        self._firsts = firsts
        self._line_of = line_of
        self._heads: dict[int, list[Item]] = {}  # next row of each line, of the kinds that were asked for

    def fronts(self) -> list[Front]:
        """The first job of each kind with that kind, as a heap: its head is first of all."""
        fronts = [(items.items[items.head], kind) for kind, items in self._firsts.items()]
        heapify(fronts)
        return fronts

    def advance(self, fronts: list[Front], passed: dict[int, int]) -> None:
        """Drop the head of `fronts`; the next job of its kind takes its place."""
        (expected_s, row), kind = fronts[0]
        if kind not in self._heads:
            firsts = self._firsts[kind]
            self._heads[kind] = firsts.items[firsts.head :]  # sorted, so a heap
        heads, following = self._heads[kind], self._line_of[row].after(row)
        if following >= 0:
            heapreplace(heads, (expected_s, following))
        else:
            heappop(heads)
        if heads:
            heapreplace(fronts, (heads[0], kind))
        else:
            heappop(fronts)
