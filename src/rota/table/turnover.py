"""What is noted about many jobs that stop and begin at one moment, at one call each: in C (`turnover.c`).

Only where that could be built, and for so many that the call pays; `state.py` and `progress.py` note the same
one by one, to the same bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from rota import native
from rota.model.columns import Array, Row

SOURCE: Final = Path(__file__).with_name("turnover.c")  # compiled, this file ends differently
LEAST_TOGETHER: Final = 8
"""For fewer jobs a call takes longer than the jobs one by one."""
_ROOM: Final = 64


def function(name: str, *whole: Any) -> Any:
    """The function `name` of the library, of columns, rows and the arguments `whole`; None without it."""
    library: Any = native.library(SOURCE)
    if library is None:
        return None
    made = library[name]  # another object each time: what it takes is its own
    made.restype = None
    made.argtypes = (ctypes.c_void_p, ctypes.c_void_p, *whole)
    return made


class _Numbers:
    """Room for as many numbers as are handed over at once, where it is."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype
        self._grow(_ROOM)

    def _grow(self, room: int) -> None:
        self._room = room
        self._array: Any = np.zeros(room, dtype=self._dtype)
        self.address: Any = self._array.ctypes.data

    def put(self, numbers: Sequence[Any]) -> Any:
        """The address at which `numbers` lie until the next call."""
        count = len(numbers)
        if count > self._room:
            self._grow(2 * count)
        self._array[:count] = numbers
        return self.address

    def read(self, count: int) -> list[Any]:
        """The first `count` of them."""
        numbers: list[Any] = self._array[:count].tolist()
        return numbers

    def hold(self, count: int) -> Any:
        """The address of room for `count` numbers."""
        if count > self._room:
            self._grow(2 * count)
        return self.address


def _pointers(columns: Sequence[Array]) -> Array:
    """Where `columns` begin, as one more column; they must be kept for as long as it is used."""
    return np.array([column.ctypes.data for column in columns], dtype=np.uintp)


class StateTurnover:
    """The columns of a `State`, in the order of its `COLUMNS`."""

    def __init__(self, columns: Sequence[Array]) -> None:
        self._kept = list(columns)
        self._pointers = _pointers(columns)
        self._columns: Any = self._pointers.ctypes.data
        self._rows = _Numbers(np.int64)
        self._devices = _Numbers(np.float64)
        self._held_since = _Numbers(np.float64)
        last = ctypes.c_int64, ctypes.c_int64, ctypes.c_double
        self._stop_rows = function("stop_rows", *last, ctypes.c_void_p)
        self._begin_rows = function("begin_rows", ctypes.c_void_p, *last)

    def stop(self, rows: Sequence[Row], phase: int, now: float) -> list[Any]:
        """`rows` stop now, and are in `phase`; since when each held what it held."""
        count = len(rows)
        since = self._held_since.hold(count)
        self._stop_rows(self._columns, self._rows.put(rows), count, phase, now, since)
        return self._held_since.read(count)

    def begin(self, rows: Sequence[Row], devices: Sequence[Any], phase: int, now: float) -> None:
        """`rows` begin now, each on so many whole devices, and are in `phase`."""
        self._begin_rows(
            self._columns, self._rows.put(rows), self._devices.put(devices), len(rows), phase, now
        )


class ProgressTurnover:
    """The columns of a `Progress`, the first three of its `COLUMNS`."""

    def __init__(self, columns: Sequence[Array]) -> None:
        self._kept = list(columns)
        self._pointers = _pointers(columns)
        self._columns: Any = self._pointers.ctypes.data
        self._rows = _Numbers(np.int64)
        self._rates = _Numbers(np.float64)
        last = ctypes.c_int64, ctypes.c_double
        self._stand_still = function("stand_still", *last)
        self._work_on = function("work_on", ctypes.c_void_p, *last)

    def stand_still(self, rows: Sequence[Row], now: float) -> None:
        """`rows` stand still from now on."""
        self._stand_still(self._columns, self._rows.put(rows), len(rows), now)

    def work_on(self, rows: Sequence[Row], rates: Sequence[Any], now: float) -> None:
        """`rows` work at `rates` from now on, whether they stood still before or not."""
        self._work_on(self._columns, self._rows.put(rows), self._rates.put(rates), len(rows), now)


def is_built() -> bool:
    """True if the library is there."""
    return native.library(SOURCE) is not None
