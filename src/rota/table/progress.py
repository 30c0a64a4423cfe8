"""The progress of each job: written by the world, read everywhere.

Progress is stored as value, rate and moment, and evaluated when it is read: between two events
nothing is touched.  Work is in the job's own unit: seconds at the requested allocation, or
iterations; `per_s` is the number of them done in such a second.
"""

from __future__ import annotations

from typing import Final, overload

import numpy as np

from rota.model.columns import Cells, Floats, Ints, Row, cells
from rota.model.grants import Can

COLUMNS = ("base", "rate", "since", "batch", "can", "worked")
"""What a `Progress` notes about each job: arrays of these names."""
_ALL: Final = int(Can.ALL)


class Progress:
    """Work done by each row, as base + rate x (now - since), flat while the job starts up."""

    __slots__ = (
        "_base", "_base_cells", "_rate", "_rate_cells", "_since", "_since_cells",
        "batch", "can", "per_s", "steady", "worked",
    )  # fmt: skip

    _base_cells: Cells[float]
    _rate_cells: Cells[float]
    _since_cells: Cells[float]

    def __init__(self, rows: int, per_s: Floats | None = None, batch: Floats | None = None) -> None:
        self.base = np.zeros(rows)
        self.rate = np.zeros(rows)
        self.since = np.zeros(rows)
        self.batch: Floats = np.full(rows, np.nan) if batch is None else batch
        """Batch size that the program of each row, while it runs, says it uses; NaN if it says nothing."""
        self.can = np.full(rows, _ALL, dtype=np.int64)
        """What each row can do without losing work, as `Can` flags."""
        self.worked = np.full(rows, np.nan)
        """Seconds that each row worked in its last round; NaN where there are no rounds."""
        self.per_s = per_s
        """Work of each row per second at the requested allocation, NaN where that varies;
        None if all work is counted in such seconds."""
        self.steady = per_s is None
        """True as long as every job has done a second's work per second from the moment it started."""

    @property
    def base(self) -> Floats:
        """Work done before `since`."""
        return self._base

    @base.setter
    def base(self, column: Floats) -> None:
        self._base, self._base_cells = column, cells(column)

    @property
    def rate(self) -> Floats:
        """Work per second from `since` on."""
        return self._rate

    @rate.setter
    def rate(self, column: Floats) -> None:
        self._rate, self._rate_cells = column, cells(column)

    @property
    def since(self) -> Floats:
        """Moment from which work is done at `rate`; may be in the future."""
        return self._since

    @since.setter
    def since(self, column: Floats) -> None:
        self._since, self._since_cells = column, cells(column)

    @overload
    def done(self, rows: int, now: float) -> float: ...
    @overload
    def done(self, rows: Ints, now: float) -> Floats: ...
    def done(self, rows: int | Ints, now: float) -> float | Floats:
        """Work done at `now` by a row or by several."""
        row: Row = rows
        if isinstance(rows, int):
            elapsed: float = now - self._since_cells[row]
            base: float = self._base_cells[row]
            if elapsed > 0.0:
                rate: float = self._rate_cells[row]
                base += rate * elapsed
            return base
        done: Floats = now - self._since[rows]
        np.maximum(done, 0.0, out=done)
        done *= self._rate[rows]
        done += self._base[rows]
        return done

    def of(self, rows: Ints) -> tuple[list[float], list[float], list[float]]:
        """For each of `rows`: work before `since`, work per second from then on, and `since`."""
        return self._base[rows].tolist(), self._rate[rows].tolist(), self._since[rows].tolist()

    def base_of(self, row: Row) -> float:
        """Work that `row` has done before `since`."""
        base: float = self._base_cells[row]
        return base

    def rate_of(self, row: Row) -> float:
        """Work that `row` does per second, from `since` on."""
        rate: float = self._rate_cells[row]
        return rate

    def finish_s(self, row: Row, total: float) -> float:
        """When `row` has done `total` if it does a second's work per second from `since` on."""
        since: float = self._since_cells[row]
        base: float = self._base_cells[row]
        return since + (total - base)

    def begin(self, row: Row, rate: float, since: float) -> None:
        """From `since` on, `row`, which stands still, works at `rate`."""
        self._rate_cells[row] = rate
        self._since_cells[row] = since

    def pace(self, row: Row, rate: float, since: float, now: float) -> None:
        """From `since` on, `row` works at `rate`; what it did until `now` is kept."""
        self._base_cells[row] = self.done(row, now)
        self._rate_cells[row] = rate
        self._since_cells[row] = since

    def stop(self, row: Row, now: float) -> float:
        """`row` stands still from `now` on; returns the work it has done."""
        done: float = self._base_cells[row]
        elapsed: float = now - self._since_cells[row]
        if elapsed > 0.0:
            rate: float = self._rate_cells[row]
            done += rate * elapsed
            self._base_cells[row] = done
        self._rate_cells[row] = 0.0
        return done
