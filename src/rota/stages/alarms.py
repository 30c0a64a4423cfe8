"""Alarms: instants at which something about a job changes by itself, such as crossing a limit.

Between two changes of phase such an instant is fixed, so it is computed once, when the job starts or begins
to wait, and kept in a heap.  `Alarms` is a cache: built from the snapshot when new, brought up to date from
the rows that changed phase since.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from heapq import heappop, heappush
from typing import Any

from rota.model.columns import Row
from rota.scheduler.snapshot import Cursor, Snapshot


class Alarms:
    """The next instant, and the row of the job that it belongs to.

    An instant must not be computed from `now`: a later computation must give the same number.
    """

    def __init__(self) -> None:
        self._cursor = Cursor()
        self._heap: list[tuple[Any, ...]] = []  # moments and rows
        self._set: dict[Row, float] = {}  # entries of the heap that are in force

    def changed(self, snapshot: Snapshot) -> list[Row]:
        """Rows that changed phase since the last call, each once; all live rows on the first call."""
        rows = snapshot.changes(self._cursor)
        if rows is None:
            self._heap.clear()
            self._set.clear()
            return [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
        return rows

    def set(self, row: Row, moment: float) -> None:
        """The alarm of `row` is at `moment`, whatever it was before; infinite for none."""
        if moment == math.inf:
            self._set.pop(row, None)
        elif self._set.get(row) != moment:
            self._set[row] = moment
            heappush(self._heap, (moment, row))

    def pop(self, now: float) -> list[Row]:
        """Rows whose moment has come, in order of moment and row; they have no alarm afterwards."""
        rows: list[Row] = []
        while self.next_s() <= now:
            row = heappop(self._heap)[1]
            del self._set[row]
            rows.append(row)
        return rows

    def next_s(self, apart: Collection[int] = ()) -> float:
        """The next moment, leaving aside those of the rows `apart`; infinite if there is none."""
        heap, in_force = self._heap, self._set
        aside = []
        while heap:
            first = heap[0]
            row = first[1]
            is_in_force = in_force.get(row) == first[0]
            if is_in_force and row not in apart:
                break
            heappop(heap)
            if is_in_force:
                aside.append(first)
        next_s: float = heap[0][0] if heap else math.inf
        for entry in aside:
            heappush(heap, entry)
        return next_s
