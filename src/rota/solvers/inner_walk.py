"""The walk of `interior.py` in C (`inner_walk.c`), for small programs and where it could be built.

Where it could not, `interior.py` takes it with NumPy, some ten times slower for a dozen jobs, and ends at the
same point but for rounding.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rota import native
from rota.model.columns import Floats
from rota.solvers.interior_system import InnerProgram, SparseRows

SOURCE = Path(__file__).with_suffix(".c")
MOST_ENTRIES = 20_000
"""Entries of rows up to which a program is small: a larger one is as fast with sparse matrices."""
OPTIMAL, INFEASIBLE, UNBOUNDED, NEAREST = range(4)
"""How it ended; NEAREST if it broke down numerically, or ran out of steps, before it knew."""


class Walked(NamedTuple):
    """Where the walk ended."""

    ended: int
    miss: float
    """By how much the point misses equations or the optimum."""
    columns: Floats
    slack: Floats
    prices: Floats
    """Price of one copy of each row, as with columns."""


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
    """Coefficients of the column t; None if there is none."""
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
    return Laid(program).walked()


class Laid:
    """A program that `can_walk`, laid out as C takes it; its limits and free column may be written over.

    One piece of memory for all input and one for all output, as taking an address costs a microsecond.
    """

    def __init__(self, program: WholeProgram) -> None:
        n, m, is_free = len(program.costs), len(program.rows.starts) - 1, program.free is not None
        numbers = [program.rows.values, program.bounds, program.costs, program.limits]
        numbers += [part for part in (program.free, program.copies) if part is not None]
        self._given = np.concatenate(numbers, dtype=np.float64)
        self._places = np.concatenate((program.rows.starts, program.rows.columns), dtype=np.int64)
        self._ends = n + is_free, n + is_free + m, n + is_free + 2 * m
        self._out = np.zeros(self._ends[2] + 1)
        begins = [0]
        for part in numbers:
            begins.append(begins[-1] + len(part))
        self.limits: Floats = self._given[begins[3] : begins[4]]
        """One for each column, then one for each row."""
        self.free: Floats = self._given[begins[4] : begins[4] + is_free * (n + m)]
        """Coefficients of the column t; empty if there is none."""
        given, starts, into = (part.ctypes.data for part in (self._given, self._places, self._out))
        of = [given + 8 * begin for begin in begins]
        self._arguments = (
            n,
            m,
            program.cones,
            starts,
            starts + 8 * (m + 1),
            *of[:4],
            of[4] if is_free else None,
            program.of_free,
            None if program.copies is None else of[4 + is_free],
            into,
            *(into + 8 * end for end in self._ends),
        )
        self._walk = _function()

    def walked(self) -> Walked:
        """Where the walk ends."""
        ended = self._walk(*self._arguments)
        if ended > NEAREST:
            n, m = self._arguments[:2]
            raise MemoryError(f"a program with {m} rows and {n} columns found no memory")
        out, (columns, slack, prices) = self._out.copy(), self._ends
        return Walked(ended, out.item(prices), out[:columns], out[columns:slack], out[slack:prices])


@cache
def _function() -> Any:
    """`inner_walk` of the library, which is there."""
    library = native.library(SOURCE)
    assert library is not None
    walk = library.inner_walk
    number, address = ctypes.c_int64, ctypes.c_void_p
    walk.argtypes = [*[number] * 3, *[address] * 7, ctypes.c_double, *[address] * 5]
    return walk
