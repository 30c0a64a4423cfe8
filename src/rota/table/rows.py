"""A set of job rows that changes by one row at a time and is read as an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from rota.model.columns import Cells, Ints, Row, cells


class RowSet:
    """Rows with constant-time insertion and removal, and their array without copying."""

    __slots__ = ("_cells", "_room", "_rows", "_sorted", "n", "places")

    def __init__(self) -> None:
        self._rows = np.zeros(16, dtype=np.int64)
        self._cells: Cells[Any] = cells(self._rows)
        self._room = len(self._rows)
        self.places: dict[Row, Any] = {}
        """Where each row is in the array; for reading only."""
        self._sorted: Ints | None = None
        self.n = 0

    def __contains__(self, row: Row) -> bool:
        return row in self.places

    def __len__(self) -> int:
        return self.n

    def add(self, row: Row) -> None:
        if self.n == self._room:
            self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
            self._cells, self._room = cells(self._rows), len(self._rows)
        place: Any = self.n
        self._cells[place] = row
        self.places[row] = place
        self.n += 1
        self._sorted = None

    def remove(self, row: Row) -> None:
        place, at = self.places.pop(row), self.places
        self.n -= 1
        end: Any = self.n
        if place != end:
            last = self._cells[end]
            self._cells[place] = last
            at[last] = place
        self._sorted = None

    @property
    def rows(self) -> Ints:
        """The rows, in no particular (but repeatable) order; valid until the next change."""
        return self._rows[: self.n]

    def sorted(self) -> Ints:
        """The rows in order of submission, read-only."""
        if self._sorted is None:
            self._sorted = np.sort(self.rows) if self.n > 1 else self.rows.copy()
            self._sorted.flags.writeable = False
        return self._sorted
