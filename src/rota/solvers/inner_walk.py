"""The walk of `interior.py` in C (`inner_walk.c`), for small programs and where it could be built.

Where it could not, `interior.py` takes it with NumPy, some ten times slower for a dozen jobs, and ends at the
same point but for rounding.
"""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rota.model.columns import Floats, Ints
from rota.solvers import native
from rota.solvers.interior_system import InnerProgram, SparseRows

SOURCE = Path(__file__).with_suffix(".c")
MOST_ENTRIES = 20_000
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


class WholeProgram(NamedTuple):
    """maximise costs · x + of_free × t with all rows written out, and perhaps second-order cones.

        bounds[j] x[j] + free[j] t <= limits[j]            for each column, then
        rows x + free t <= limits                          for each row.

    Of the rows the last `cones` times 3 belong together three by three: of what is left of their limits the
    first is to be at least the length of the other two.
    """

    costs: Floats
    bounds: Floats
    rows: SparseRows
    limits: Floats
    """One for each column, then one for each row."""
    free: Floats | None = None
    """The same of the column t; None if there is none."""
    of_free: float = 0.0
    cones: int = 0
    copies: Floats | None = None


def whole(program: InnerProgram) -> WholeProgram:
    """A linear program with x >= 0 written out."""
    nothing, free = np.zeros(len(program.costs)), program.free
    of_columns, of_rows = program.column_copies, program.row_copies
    return WholeProgram(
        program.costs,
        nothing - 1.0,
        program.rows,
        np.concatenate((nothing, program.limits)),
        None if free is None else np.concatenate((nothing, free)),
        program.of_free,
        0,
        None if of_columns is None or of_rows is None else np.concatenate((of_columns, of_rows)),
    )


def can_walk(rows: SparseRows, most: int = MOST_ENTRIES) -> bool:
    """True if `rows` have `most` entries or fewer, and the library is there."""
    return len(rows.columns) <= most and native.library(SOURCE) is not None


def walked(program: WholeProgram) -> Walked:
    """Where the walk of a program that `can_walk` ends."""
    library = native.library(SOURCE)
    assert library is not None
    n, m = len(program.costs), len(program.rows.starts) - 1
    columns, slack, prices = np.zeros(n + (program.free is not None)), np.zeros(m), np.zeros(m)
    miss = ctypes.c_double(math.inf)
    kept = [  # until the call is over
        np.ascontiguousarray(program.rows.starts, dtype=np.int64),
        np.ascontiguousarray(program.rows.columns, dtype=np.int64),
        *map(
            _doubles,
            (
                program.rows.values,
                program.bounds,
                program.costs,
                program.limits,
                program.free,
                program.copies,
            ),
        ),
    ]
    starts, of, values, bounds, costs, limits, free, copies = map(_address, kept)
    ended = library.inner_walk(
        ctypes.c_int64(n),
        ctypes.c_int64(m),
        ctypes.c_int64(program.cones),
        starts,
        of,
        values,
        bounds,
        costs,
        limits,
        free,
        ctypes.c_double(program.of_free),
        copies,
        _address(columns),
        _address(slack),
        _address(prices),
        ctypes.byref(miss),
    )
    if ended > NEAREST:
        raise MemoryError(f"a program with {m} rows and {n} columns found no memory")
    return Walked(ended, miss.value, columns, slack, prices)


def _doubles(values: Floats | None) -> Floats | None:
    return None if values is None else np.ascontiguousarray(values, dtype=np.float64)


def _address(values: Floats | Ints | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if values is None else values.ctypes.data)
