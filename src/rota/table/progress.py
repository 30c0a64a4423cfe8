"""How far each job is: written by the world, read by everyone.

Progress is stored as value, rate and moment, and evaluated when somebody looks: between two events
nothing is touched.  Work is in the job's own unit: seconds at the requested allocation, or iterations,
of which `per_s` tells how many are done in such a second.
"""

from __future__ import annotations

from typing import overload

import numpy as np

from rota.model.columns import Floats, Ints
from rota.model.grants import Can

COLUMNS = ("base", "rate", "since", "batch", "can", "worked")
"""What a `Progress` notes about each job: arrays of these names."""
_ALL = int(Can.ALL)


class Progress:
    """Work done by each row, as base + rate x (now - since), flat while the job starts up."""

    __slots__ = ("base", "batch", "can", "per_s", "rate", "since", "steady", "worked")

    def __init__(self, rows: int, per_s: Floats | None = None, batch: Floats | None = None) -> None:
        self.base = np.zeros(rows)
        self.rate = np.zeros(rows)
        self.since = np.zeros(rows)
        """Moment from which work is done at `rate`; may lie ahead of now."""
        self.batch: Floats = np.full(rows, np.nan) if batch is None else batch
        """Batch size that the program of each row, while it runs, says it uses; NaN if it says nothing."""
        self.can = np.full(rows, _ALL, dtype=np.int64)
        """What each row bears, as `Can` flags."""
        self.worked = np.full(rows, np.nan)
        """Seconds that each row worked in its last round; NaN where nothing goes by rounds."""
        self.per_s = per_s
        """Work of each row in a second at the requested allocation, NaN where that is not always the same;
        None if all work is counted in such seconds."""
        self.steady = per_s is None
        """True as long as every job has done a second's work per second from the moment it started."""

    @overload
    def done(self, rows: int, now: float) -> float: ...
    @overload
    def done(self, rows: Ints, now: float) -> Floats: ...
    def done(self, rows: int | Ints, now: float) -> float | Floats:
        """Work done at `now` by a row or by several."""
        if isinstance(rows, int):
            elapsed = now - self.since.item(rows)
            base = self.base.item(rows)
            return base + self.rate.item(rows) * elapsed if elapsed > 0.0 else base
        done: Floats = now - self.since[rows]
        np.maximum(done, 0.0, out=done)
        done *= self.rate[rows]
        done += self.base[rows]
        return done

    def pace(self, row: int, rate: float, since: float, now: float) -> None:
        """From `since` on, `row` works at `rate`; what it did until `now` is kept."""
        self.base[row] = self.done(row, now)
        self.rate[row] = rate
        self.since[row] = since

    def stop(self, row: int, now: float) -> float:
        """`row` stands still from `now` on; returns the work it has done."""
        done = self.base.item(row)
        elapsed = now - self.since.item(row)
        if elapsed > 0.0:
            done += self.rate.item(row) * elapsed
            self.base[row] = done
        self.rate[row] = 0.0
        return done
