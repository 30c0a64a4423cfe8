"""Intervals of holding as columns of numbers, for runs with millions of turns.

An interval as it is reported is half a dozen objects, 0.4 to 0.5 KB; as numbers it is 60 to 100 bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.grants import LIMITS, Grant
from rota.scheduler.world import How, Lost

Interval = tuple[Grant, float, float, How, Lost]
_PART = 1 << 18
"""Intervals that are turned into columns, and freed, at a time."""
_HOWS = list(How)
HOW_ENDED = [str(how) for how in _HOWS]
"""The words behind the codes of how intervals ended."""
_CODE_OF = {how: code for code, how in enumerate(_HOWS)}
_LIMIT_AT = {name: Grant._fields.index(name) for name in LIMITS}


def _compact(values: Array) -> Array:
    """`values`, stored as a single number in memory if all are equal."""
    if len(values) and (values == values[0]).all():
        return np.broadcast_to(values[:1].copy(), len(values))
    if len(values) and np.isnan(values).all():
        return np.broadcast_to(values[:1].copy(), len(values))
    return values


class IntervalColumns:
    """Some intervals, in order."""

    def __init__(self, intervals: Sequence[Any]) -> None:
        """`intervals` holds `Interval`s."""
        grants, starts_s, ends_s, hows, losts = zip(*intervals, strict=True) if intervals else [()] * 5
        n = len(grants)

        def of_grants(field: int, dtype: type = np.float64) -> Array:
            return _compact(np.fromiter(map(itemgetter(field), grants), dtype, n))

        self.count = n
        self.jobs: Ints = np.fromiter(map(itemgetter(0), grants), np.int64, n)
        self.start_s: Floats = np.array(starts_s, dtype=np.float64)
        self.end_s: Floats = np.array(ends_s, dtype=np.float64)
        devices = list(map(itemgetter(1), grants))
        self.gpus: Ints = np.fromiter(map(len, devices), np.int64, n)
        self.devices: Array = np.fromiter(chain.from_iterable(devices), np.int32, int(self.gpus.sum()))
        """Devices of all intervals, one interval after the other."""
        self.share = of_grants(2)
        self.roles = of_grants(3, np.int8)
        self.limits: dict[str, Floats] = {name: of_grants(field) for name, field in _LIMIT_AT.items()}
        self.hows = _compact(np.fromiter(map(_CODE_OF.__getitem__, hows), np.int8, n))
        """How each ended: index in the list of all `How`."""
        self.overhead_s = _compact(np.fromiter(map(itemgetter(0), losts), np.float64, n))
        self.lost_s = _compact(np.fromiter(map(itemgetter(1), losts), np.float64, n))

    def ended(self, how: How) -> Bools:
        """True for each interval that ended by `how`."""
        so: Bools = self.hows == _CODE_OF[how]
        return so

    @property
    def gpu_s(self) -> Floats:
        """GPU-seconds of each interval."""
        held: Floats = (self.end_s - self.start_s) * (self.gpus * self.share)
        return held


NO_INTERVALS = IntervalColumns(())


class IntervalBook:
    """All intervals of a run: the latest as they were reported, the others as columns."""

    def __init__(self) -> None:
        self.parts: list[IntervalColumns] = []
        self.cpu_s = 0.0
        """CPU seconds spent on making columns, which count for the record and not for the run."""

    def fold(self, intervals: list[Any]) -> None:
        """Keep the columns of `intervals`; the intervals themselves are freed."""
        began = time.process_time()
        for first in range(0, len(intervals), _PART):
            part = slice(first, first + _PART)
            self.parts.append(IntervalColumns(intervals[part]))
            intervals[part] = [None] * len(intervals[part])
        intervals.clear()
        self.cpu_s += time.process_time() - began

    def of_all(self, column: Callable[[IntervalColumns], Array], dtype: type = np.float64) -> Array:
        """One column of all intervals."""
        return np.concatenate([np.empty(0, dtype), *(column(part) for part in self.parts)])

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)
