"""What is noted about many jobs that stop and begin at one moment, at one call each: in C (`turnover.c`).

Only where that could be built, and for so many that the call pays; `state.py` and `progress.py` note the same
one by one, to the same bit.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from rota import native
from rota.model.columns import Array, Row

SOURCE: Final = Path(__file__).with_name("turnover.c")  # compiled, this file ends differently
LEAST_TOGETHER: Final = 8
"""For fewer jobs a call takes longer than the jobs one by one."""


def function(name: str, *whole: Any) -> Any:
    """The function `name` of the library, of columns, rows and the arguments `whole`; None without it."""
    library: Any = native.library(SOURCE)
    if library is None:
        return None
    made = library[name]  # another object each time: what it takes is its own
    made.restype = None
    made.argtypes = (ctypes.c_void_p, ctypes.c_void_p, *whole)
    return made


def _pointers(columns: Sequence[Array]) -> Array:
    """Where `columns` begin, as one more column; they must be kept for as long as it is used."""
    return np.array([column.ctypes.data for column in columns], dtype=np.uintp)


class StateTurnover:
    """The columns of a `State`, in the order of its `COLUMNS`."""

    def __init__(self, columns: Sequence[Array]) -> None:
        self._kept = list(columns)
        self._pointers = _pointers(columns)
        self._columns: Any = self._pointers.ctypes.data
        last = ctypes.c_int64, ctypes.c_int64, ctypes.c_double
        self._stop_rows = function("stop_rows", *last, ctypes.c_void_p)
        self._begin_rows = function("begin_rows", ctypes.c_void_p, *last)
        # Compiled, what is local is let go as soon as its address has been taken.
        self._rows: Any = None
        self._numbers: Any = None

    def stop(self, rows: Sequence[Row], phase: int, now: float) -> list[Any]:
        """`rows` stop now, and are in `phase`; since when each held what it held."""
        count = len(rows)
        self._rows, self._numbers = array("q", rows), array("d", bytes(8 * count))
        self._stop_rows(self._columns, _address(self._rows), count, phase, now, _address(self._numbers))
        since: list[Any] = self._numbers.tolist()
        return since

    def begin(self, rows: Sequence[Row], devices: Sequence[Any], phase: int, now: float) -> None:
        """`rows` begin now, each on so many whole devices, and are in `phase`."""
        self._rows, self._numbers = array("q", rows), array("d", devices)
        self._begin_rows(self._columns, _address(self._rows), _address(self._numbers), len(rows), phase, now)


class ProgressTurnover:
    """The columns of a `Progress`, the first three of its `COLUMNS`."""

    def __init__(self, columns: Sequence[Array]) -> None:
        self._kept = list(columns)
        self._pointers = _pointers(columns)
        self._columns: Any = self._pointers.ctypes.data
        last = ctypes.c_int64, ctypes.c_double
        self._stand_still = function("stand_still", *last)
        self._work_on = function("work_on", ctypes.c_void_p, *last)
        self._rows: Any = None  # as in `StateTurnover`
        self._rates: Any = None

    def stand_still(self, rows: Sequence[Row], now: float) -> None:
        """`rows` stand still from now on."""
        self._rows = array("q", rows)
        self._stand_still(self._columns, _address(self._rows), len(rows), now)

    def work_on(self, rows: Sequence[Row], rates: Sequence[Any], now: float) -> None:
        """`rows` work at `rates` from now on, whether they stood still before or not."""
        self._rows, self._rates = array("q", rows), array("d", rates)
        self._work_on(self._columns, _address(self._rows), _address(self._rates), len(rows), now)


def _address(numbers: Any) -> Any:
    """Where an array begins, which is kept until that is no more needed."""
    return numbers.buffer_info()[0]


def is_built() -> bool:
    """True if the library is there."""
    return native.library(SOURCE) is not None
