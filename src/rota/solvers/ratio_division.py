"""The division of time whose worst ratio is least, at the point where the authors' solver ends.

    minimise t  with  a_i + b_i u_i <= t  and  u_i times what job i obtains >= 1  for each job,

under the constraints of `solvers.division`: Gavel's finish-time fairness (OSDI 2020, section 4.2), which its
authors hand to a solver of cone programs (ECOS).  The worst ratio is unique, the fractions are not: where
jobs have room to choose, the answer is where the walk of that solver ends (`solvers.ratio_walk`).
"""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats, Ints
from rota.solvers.division import Division
from rota.solvers.inner_walk import WholeProgram, can_walk, walked
from rota.solvers.interior import ROUGH_TOLERANCE
from rota.solvers.interior_system import SparseRows
from rota.solvers.ratio_walk import walked_from

MOST_COLUMNS = 1_500
"""Fractions up to which the walk is taken: its cost grows with the square of the jobs, with NumPy with the
cube of the fractions."""
_MOST_ENTRIES = 20_000
_ROUNDING = 1e-7
_NEAR = 1.001
"""By how much the worst ratio may exceed what the solver takes it for."""


def least_ratio(division: Division, fixed: Floats, over: Floats) -> Floats | None:
    """The fractions, [entry, type], for a = `fixed` (at least 0) and b = `over` (above 0) of each job.

    None if there are more than `MOST_COLUMNS`, or if rounding leaves no point near enough to the optimum: a
    point may miss the cones by next to nothing, and by much for a job that obtains next to nothing.
    """
    if division.size > MOST_COLUMNS:
        return None
    program = _program(division, fixed, over) if len(fixed) > 1 else _program_of_one(division)
    if can_walk(program.rows, _MOST_ENTRIES):
        at = walked(program)
        columns = at.columns if at.miss <= ROUGH_TOLERANCE else None
    else:
        columns = walked_from(program)
    if columns is None:
        return None
    fractions = _within(division, division.fractions(columns))
    with np.errstate(divide="ignore"):
        ratios = fixed + over / _sums(division.by_job(division.gains), fractions)
    least = float(columns[-1]) if len(fixed) > 1 else float(fixed[0] + over[0] * columns[-1])
    return fractions if float(ratios.max()) <= _NEAR * least else None


def _within(division: Division, fractions: Floats) -> Floats:
    """The fractions, less where rounding has given more than there is: time of a job, GPUs of a type."""
    for rows, limits in ((division.time, division.counts), (division.held, division.capacity)):
        over = _sums(rows, fractions) / limits
        for place in np.flatnonzero(over > 1.0 + _ROUNDING).tolist():
            fractions.ravel()[rows.columns[rows.starts[place] : rows.starts[place + 1]]] /= over[place]
    return fractions


def _sums(rows: SparseRows, fractions: Floats) -> Floats:
    """The sum of each row."""
    sums: Floats = np.add.reduceat(
        np.append(rows.values * fractions.ravel()[rows.columns], 0.0), rows.starts[:-1]
    )
    return sums


def _program(division: Division, fixed: Floats, over: Floats) -> WholeProgram:
    """Columns are the fractions, u of each job, and t as the free one."""
    jobs, size = len(fixed), division.size
    rows, limits = _rows(division, size + np.arange(jobs))
    return WholeProgram(
        np.zeros(size + jobs),
        np.concatenate((np.full(size, -1.0), over)),
        rows,
        np.concatenate((np.zeros(size), -fixed, limits)),
        np.concatenate((np.zeros(size), np.full(jobs, -1.0), np.zeros(len(limits)))),
        -1.0,
        jobs,
    )


def _program_of_one(division: Division) -> WholeProgram:
    """With one job there is no worst one: u itself is to be least, and it is the free column."""
    size = division.size
    rows, limits = _rows(division, None)
    free = np.zeros(size + len(limits))
    free[-3:-1] = -1.0, 1.0
    return WholeProgram(
        np.zeros(size), np.full(size, -1.0), rows, np.concatenate((np.zeros(size), limits)), free, -1.0, 1
    )


def _rows(division: Division, inverse: Ints | None) -> tuple[SparseRows, Floats]:
    """GPUs, time, and the cones (obtained + u, obtained - u, 2), with u in the columns `inverse`."""
    held, time, obtained = division.held, division.time, division.by_job(-division.gains)
    jobs = len(division.counts)
    lengths = [*np.diff(held.starts), *np.diff(time.starts)]
    columns, values = [held.columns, time.columns], [held.values, time.values]
    for job in range(jobs):
        part = slice(obtained.starts[job], obtained.starts[job + 1])
        for of_inverse in (-1.0, 1.0):
            columns.append(obtained.columns[part])
            values.append(obtained.values[part])
            if inverse is not None:
                columns.append(inverse[job : job + 1])
                values.append(np.array([of_inverse]))
            lengths.append(len(obtained.columns[part]) + (inverse is not None))
        lengths.append(0)
    limits = np.concatenate((division.capacity, division.counts, np.tile([0.0, 0.0, 2.0], jobs)))
    starts = np.concatenate(([0], np.cumsum(lengths)))
    return SparseRows(starts, np.concatenate(columns), np.concatenate(values)), limits
