"""The walk of `interior.py` in C (`inner_walk.c`), for small programs and where it could be built.

Where it could not, `interior.py` takes it with NumPy, some ten times slower for a dozen jobs, and ends at the
same point but for rounding.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rota.model.columns import Floats, Ints
from rota.solvers.interior_system import InnerProgram

LIBRARY = Path(__file__).with_name("libinner.so")
MOST_ENTRIES = 1_000
"""Entries of rows up to which a program is small: a larger one is as fast with sparse matrices."""
OPTIMAL, INFEASIBLE, UNBOUNDED, NEAREST = range(4)
"""How it ended; NEAREST if it lost its footing, or had no more steps, before it knew."""


class Walked(NamedTuple):
    """Where the walk ended."""

    ended: int
    miss: float
    """By how much the point misses equations or the optimum."""
    columns: Floats
    slack: Floats
    prices: Floats
    """Of one copy of each row, as columns are."""


@cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(LIBRARY))
    except OSError:
        return None


def can_walk(program: InnerProgram) -> bool:
    """True if `program` is small, and the library there."""
    return len(program.rows.columns) <= MOST_ENTRIES and _library() is not None


def walked(program: InnerProgram) -> Walked:
    """Where the walk of a program that `can_walk` ends."""
    library = _library()
    assert library is not None
    n, m = len(program.costs), len(program.limits)
    free, of_columns, of_rows = program.free, program.column_copies, program.row_copies
    copies = None if of_columns is None or of_rows is None else np.concatenate((of_columns, of_rows))
    columns, slack, prices = np.zeros(n + (free is not None)), np.zeros(m), np.zeros(m)
    miss = ctypes.c_double(math.inf)
    kept = [  # until the call is over
        np.ascontiguousarray(program.rows.starts, dtype=np.int64),
        np.ascontiguousarray(program.rows.columns, dtype=np.int64),
        *map(_doubles, (program.rows.values, program.costs, program.limits, free, copies)),
    ]
    starts, of, values, costs, limits, free_at, copies_at = map(_address, kept)
    ended = library.inner_walk(
        ctypes.c_int64(n),
        ctypes.c_int64(m),
        starts,
        of,
        values,
        costs,
        limits,
        free_at,
        ctypes.c_double(program.of_free),
        copies_at,
        _address(columns),
        _address(slack),
        _address(prices),
        ctypes.byref(miss),
    )
    if ended > NEAREST:
        raise MemoryError(f"a linear program with {m} rows and {n} columns found no memory")
    return Walked(ended, miss.value, columns, slack, prices)


def _doubles(values: Floats | None) -> Floats | None:
    return None if values is None else np.ascontiguousarray(values, dtype=np.float64)


def _address(values: Floats | Ints | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if values is None else values.ctypes.data)
