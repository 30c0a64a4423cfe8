"""A set of job rows that changes by one row at a time and is read as an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rota.model.columns import Cells, Ints, cells


class RowSet:
    """Rows with constant-time insertion and removal, and their array without copying."""

    __slots__ = ("_at", "_cells", "_rows", "_sorted", "n")

    def __init__(self) -> None:
        self._rows = np.zeros(16, dtype=np.int64)
        self._cells: Cells[int] = cells(self._rows)
        self._at: dict[int, int] = {}
        self._sorted: Ints | None = None
        self.n = 0

    def __contains__(self, row: int) -> bool:
        return row in self._at

    def __len__(self) -> int:
        return self.n

    def add(self, row: int) -> None:
        if self.n == len(self._rows):
            self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
            self._cells = cells(self._rows)
        self._cells[self.n] = row
        self._at[row] = self.n
        self.n += 1
        self._sorted = None

    def remove(self, row: int) -> None:
        place = self._at.pop(row)
        self.n -= 1
        if place != self.n:
            last: int = self._cells[self.n]
            self._cells[place] = last
            self._at[last] = place
        self._sorted = None

    def exchange(self, gone: Sequence[Any], come: Sequence[Any]) -> None:
        """`gone` are removed and `come` are added, in their places as far as there are some."""
        at, places = self._at, self._cells
        for out, row in zip(gone, come, strict=False):
            place: Any = at.pop(out)
            places[place] = row
            at[row] = place
        self._sorted = None
        for i in range(len(come), len(gone)):
            self.remove(gone[i])
        for i in range(len(gone), len(come)):
            self.add(come[i])

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
