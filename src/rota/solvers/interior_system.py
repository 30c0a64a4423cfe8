"""The system that each step of the interior-point method solves: the program, scaled, and its factors.

With bounds eliminated, what is left has the size of the program's rows (the normal equations).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, lapack
from scipy.sparse.linalg import splu

from rota.model.columns import Floats, Ints

_SCALINGS = 3
_REGULARISATION = 1e-11
_DENSE_ROWS = 400
"""Rows up to which the normal equations are dense."""
_DENSE_ENTRIES = 30_000
"""Entries, zeros included, up to which rows are dense."""


class SparseRows(NamedTuple):
    """A sparse matrix row by row: row i has the entries starts[i] up to starts[i + 1]."""

    starts: Ints
    columns: Ints
    values: Floats


@dataclass(frozen=True)
class InnerProgram:
    """maximise costs · x + of_free × t with rows x + free × t <= limits, x >= 0."""

    costs: Floats
    rows: SparseRows
    limits: Floats
    free: Floats | None = None
    """Entries of the free column t, one a row; None if there is none."""
    of_free: float = 0.0
    column_copies: Floats | None = None
    """Number of columns that each represents; None for one each.  A row shared by all of them adds up all
    copies; a row that has copies itself touches one of each."""
    row_copies: Floats | None = None


Solver = Callable[[Floats, Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Scaled:
    """minimise c x with G x + s = h, s >= 0, where G is [diag(bounds); A], of entries of similar size."""

    c: Floats
    h: Floats
    bounds: Floats
    A: Any
    """[row, column], the free column last; an array or sparse."""
    transposed: Any
    bounded: Any
    """The system without the free column."""
    transposed_bounded: Any
    normal: _Normal
    free: Floats | None
    columns: Floats
    """By how much x is larger than what was asked for."""
    rows: Floats
    """By how much limits are smaller than what was asked for."""
    copies: Floats | None
    """Number of copies of each row of G."""

    def of_x(self, x: Floats) -> Floats:
        """G x"""
        n = len(self.bounds)
        y = np.empty(len(self.h))
        np.multiply(self.bounds, x[:n], out=y[:n])
        y[n:] = self.A @ x
        return y

    @cached_property
    def whole(self) -> tuple[Any, Ints]:
        """[0 Gᵀ; G −1] as one sparse matrix, and the positions of the diagonal of −1 in its data."""
        n, rows = len(self.c), len(self.h)
        bounds = sparse.diags(self.bounds, shape=(len(self.bounds), n))
        G = sparse.vstack((bounds, sparse.csr_matrix(self.A)), format="csr")
        blocks = [[None, G.T], [G, sparse.diags(-np.ones(rows))]]
        matrix = sparse.csc_matrix(sparse.bmat(blocks, format="csc"))
        column = np.repeat(np.arange(n + rows), np.diff(matrix.indptr))
        return matrix, np.flatnonzero((matrix.indices == column) & (column >= n))

    def of_z(self, z: Floats) -> Floats:
        """Gᵀ z"""
        n = len(self.bounds)
        y: Floats = self.transposed @ z[n:]
        y[:n] += self.bounds * z[:n]
        return y


# -- scaling ---------------------------------------------------------------------------------------


def scaled_program(program: InnerProgram) -> Scaled:
    """Divide rows and columns by the root of their largest entry, three times; then account for copies."""
    n, m = len(program.costs), len(program.limits)
    matrix = program.rows if program.free is None else with_column(program.rows, n, program.free)
    rows_of = np.repeat(np.arange(m), np.diff(matrix.starts))
    values, by_column = matrix.values, np.argsort(matrix.columns, kind="stable")
    counts = np.bincount(matrix.columns, minlength=n + (program.free is not None))
    filled_rows = np.flatnonzero(np.diff(matrix.starts))
    filled, first = np.flatnonzero(counts), np.cumsum(counts) - counts
    bounds, row_scale, column_scale = -np.ones(n), np.ones(m), np.ones(len(counts))
    bound_scale = np.ones(n)
    for _ in range(_SCALINGS):
        size = np.abs(values)
        by_row, largest = np.zeros(m), np.zeros(len(counts))
        if len(values):
            by_row[filled_rows] = np.maximum.reduceat(size, matrix.starts[filled_rows])
            largest[filled] = np.maximum.reduceat(size[by_column], first[filled])
        largest[:n] = np.maximum(largest[:n], np.abs(bounds))
        by_bound, by_row, largest = _root(np.abs(bounds)), _root(by_row), _root(largest)
        bounds = bounds / (by_bound * largest[:n])
        values = values / (by_row[rows_of] * largest[matrix.columns])
        row_scale, column_scale, bound_scale = (
            row_scale * by_row,
            column_scale * largest,
            bound_scale * by_bound,
        )
    c = -np.append(program.costs, [program.of_free] * (program.free is not None)) / column_scale
    h = np.concatenate((np.zeros(n), program.limits / row_scale))
    copies = None
    if program.column_copies is not None and program.row_copies is not None:
        of_columns = np.ones(len(counts))
        of_columns[:n] = np.sqrt(program.column_copies)
        of_rows = np.sqrt(program.row_copies)
        both = of_rows[rows_of], of_columns[matrix.columns]
        values = values * np.maximum(*both) ** 2 / (both[0] * both[1])
        copies = np.concatenate((program.column_copies, program.row_copies))
        c, h[n:] = c * of_columns, h[n:] * of_rows
        # A copy's own x and s: divided by the root again.
        column_scale, row_scale = column_scale * of_columns, row_scale / of_rows
    is_dense = m * len(counts) <= _DENSE_ENTRIES
    A = sparse.csr_matrix((values, matrix.columns, matrix.starts), shape=(m, len(counts)))
    transposed = sparse.csr_matrix(A.T)
    normal = _Normal(transposed.indptr[: n + 1], transposed.indices, transposed.data, m)
    free = None
    if program.free is not None:
        free = np.zeros(m)
        free[rows_of[matrix.columns == n]] = values[matrix.columns == n]
    if is_dense:
        A = A.toarray()
        transposed = np.ascontiguousarray(A.T)
    return Scaled(
        c, h, bounds, A, transposed, A[:, :n], transposed[:n], normal, free, column_scale, row_scale, copies
    )


def with_column(rows: SparseRows, column: int, values: Floats) -> SparseRows:
    """`rows` with a last column appended that has `values` [row]."""
    has = np.flatnonzero(values)
    starts = rows.starts + np.concatenate(([0], np.cumsum(values != 0.0)))
    ends = rows.starts[1:][has]
    return SparseRows(
        starts, np.insert(rows.columns, ends, column), np.insert(rows.values, ends, values[has])
    )


def _root(largest: Floats) -> Floats:
    roots: Floats = np.sqrt(np.where(largest < 1e-6, 1.0, largest))
    return roots


# -- the system of each step -----------------------------------------------------------------------


class _Normal:
    """A D Aᵀ + W² for changing diagonals D of columns and W² of rows, solved."""

    def __init__(self, starts: Ints, rows: Ints, values: Floats, m: int) -> None:
        """A column by column, without the free one."""
        counts = np.diff(starts)
        of_entry = np.repeat(np.arange(len(counts)), counts)
        entries = len(of_entry)
        partners = counts[of_entry]
        one = np.repeat(np.arange(entries), partners)
        place = np.arange(len(one)) - np.repeat(np.cumsum(partners) - partners, partners)
        other = starts[of_entry[one]] + place
        self.m = m
        self.column = of_entry[one]
        self.product = values[one] * values[other]
        self.place = rows[one].astype(np.int64) * m + rows[other]
        self.diagonal = np.arange(m) * (m + 1)
        self.is_dense = m <= _DENSE_ROWS
        if not self.is_dense:
            keys, at = np.unique(np.concatenate((self.place, self.diagonal)), return_inverse=True)
            self.place, self.diagonal = at[: len(one)], at[len(one) :]
            self.indices = (keys % m).astype(np.int32)
            self.indptr = np.searchsorted(keys, np.arange(m + 1) * m).astype(np.int32)
        self.size = m * m if self.is_dense else len(self.indices)

    def factor(self, of_columns: Floats, of_rows: Floats) -> Callable[[Floats], Floats]:
        """Solves for right-hand sides [row] or [row, side]; LinAlgError if rounding leaves nothing."""
        weights = self.product * of_columns[self.column]
        data = np.bincount(self.place, weights=weights, minlength=self.size).astype(np.float64, copy=False)
        data[self.diagonal] += of_rows
        if not self.is_dense:
            matrix = sparse.csc_matrix((data, self.indices, self.indptr), shape=(self.m, self.m))
            solve: Callable[[Floats], Floats] = splu(
                matrix, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}
            ).solve
            return solve
        lower, failed = lapack.dpotrf(data.reshape(self.m, self.m).T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise LinAlgError("not positive definite")
        return lambda sides: lapack.dpotrs(lower, sides, lower=1)[0]


def factor(p: Scaled, w2: Floats) -> Solver:
    """Solves [0 Gᵀ; G −W²] [x; z] = [a; b] for sides [place, side].

    A little regularisation keeps it sound; refinement takes it out again.
    """
    n = len(p.bounds)
    try:
        once, refinements = _by_rows(p, w2 + _REGULARISATION), 1
    except LinAlgError:
        # Where constraints that hold depend on each other, the whole system is sounder than its reduction.
        once, refinements = _whole(p, w2 + _REGULARISATION), 2

    def solve(a: Floats, b: Floats) -> tuple[Floats, Floats]:
        x, z = once(a, b)
        for _ in range(refinements):
            miss_a, miss_b = a - p.transposed @ z[n:], b + w2[:, None] * z
            miss_a[:n] -= p.bounds[:, None] * z[:n]
            miss_b[:n] -= p.bounds[:, None] * x[:n]
            miss_b[n:] -= p.A @ x
            more_x, more_z = once(miss_a, miss_b)
            x, z = x + more_x, z + more_z
        return x, z

    return solve


def _by_rows(p: Scaled, w2: Floats) -> Solver:
    """With x = D (a − Aᵀ z) + b / bounds, D = W² / bounds² of bounds, A D Aᵀ + W² remains for the rows."""
    n = len(p.bounds)
    inverse = (1.0 / p.bounds)[:, None]
    scale = (w2[:n] / (p.bounds * p.bounds))[:, None]
    of_rows = p.normal.factor(scale[:, 0], w2[n:])
    if p.free is not None:
        by_free = of_rows(p.free)
        of_free = float(p.free @ by_free)

    def once(a: Floats, b: Floats) -> tuple[Floats, Floats]:
        from_bounds = b[:n] * inverse
        z_rows = of_rows(p.bounded @ (scale * a[:n] + from_bounds) - b[n:])
        x, z = np.empty_like(a), np.empty_like(b)
        if p.free is not None:
            x[n] = (a[n] - p.free @ z_rows) / of_free
            z_rows = z_rows + by_free[:, None] * x[n]
        rest = a[:n] - p.transposed_bounded @ z_rows
        np.multiply(rest, inverse, out=z[:n])
        z[n:] = z_rows
        np.add(scale * rest, from_bounds, out=x[:n])
        return x, z

    return once


def _whole(p: Scaled, w2: Floats) -> Solver:
    """All of it as one sparse matrix."""
    columns = len(p.c)
    pattern, diagonal = p.whole
    matrix = pattern.copy()
    matrix.data[diagonal] = -w2
    solve = splu(matrix).solve

    def once(a: Floats, b: Floats) -> tuple[Floats, Floats]:
        both = solve(np.concatenate((a, b)))
        return both[:columns], both[columns:]

    return once
