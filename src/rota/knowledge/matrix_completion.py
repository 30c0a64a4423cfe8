"""Completion of matrices with missing entries, and the known row that a row is most like.

Throughputs of jobs are measured in part and estimated from jobs that were measured in full (Gavel, OSDI 2020;
the idea is Paragon's and Quasar's): the matrix is completed by factors of low rank, and the row then stands
for the reference row in the direction that is nearest to its own.
"""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats

RANK = 10
"""Most factors of a row."""
PENALTY = 1e-2
"""Weight of the squares of the factors beside the square of what they miss."""
_SWEEPS = 200
_SETTLED = 1e-9


def completed(matrix: Floats, rank: int = RANK, penalty: float = PENALTY) -> Floats:
    """`matrix` [row, column], NaN where unknown, with estimates in place of NaN; known entries stay.

    Probabilistic matrix factorisation (Salakhutdinov & Mnih, NIPS 2007) by alternating least squares.  It
    begins with the singular vectors of the matrix filled with its column means (of all entries for columns
    without any), and so answers the same each time.  A row of which nothing is known gets these means.
    """
    known = ~np.isnan(matrix)
    if known.all() or not known.any():
        return np.nan_to_num(matrix)
    counts = known.sum(axis=0)
    sums = np.where(known, matrix, 0.0).sum(axis=0)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), matrix[known].mean())
    filled = np.where(known, matrix, means)
    left, values, right = np.linalg.svd(filled, full_matrices=False)
    factors = min(rank, len(values))
    rows = left[:, :factors] * np.sqrt(values[:factors])
    columns = right[:factors].T * np.sqrt(values[:factors])
    last = rows @ columns.T
    for _ in range(_SWEEPS):
        rows = _regressed(matrix, known, columns, rows, penalty)
        columns = _regressed(matrix.T, known.T, rows, columns, penalty)
        estimate = rows @ columns.T
        if np.abs(estimate - last).max() <= _SETTLED:
            break
        last = estimate
    has_some = known.any(axis=1, keepdims=True) & (counts > 0)
    return np.where(known, matrix, np.where(has_some, last, means))


def _regressed(matrix: Floats, known: Floats, columns: Floats, rows: Floats, penalty: float) -> Floats:
    """The factors of each row that fit its known entries best; a row without any keeps what it has."""
    better = rows.copy()
    ridge = penalty * np.eye(columns.shape[1])
    for row in np.flatnonzero(known.any(axis=1)).tolist():
        mine = columns[known[row]]
        better[row] = np.linalg.solve(mine.T @ mine + ridge, mine.T @ matrix[row, known[row]])
    return better


def fingerprint(row: Floats, references: Floats) -> int:
    """The row of `references` [row, column] at the least angle to `row`; the first of several.

    Rows of nothing but 0 are like no other; -1 if there is no reference.
    """
    if not len(references):
        return -1
    lengths = np.linalg.norm(references, axis=1) * max(float(np.linalg.norm(row)), 1e-300)
    likeness = np.divide(references @ row, lengths, out=np.full(len(references), -1.0), where=lengths > 0.0)
    return int(likeness.argmax())


def estimated(row: Floats, references: Floats) -> Floats:
    """`row`, NaN where unmeasured, with the numbers of the reference row that it is most like.

    `references` [row, column] are known in full.  They are scaled to fit the measured entries best.  At least
    one entry of the row has to be measured.
    """
    known = ~np.isnan(row)
    whole = completed(np.vstack((references, row)) / _sizes(references, row)[:, None])[-1]
    like = references[fingerprint(whole, references)]
    scale = float(like[known] @ row[known]) / float(like[known] @ like[known])
    return np.where(known, row, scale * like)


def _sizes(references: Floats, row: Floats) -> Floats:
    """Divisors that bring all rows to a similar size: means over the entries where `row` is known."""
    known = ~np.isnan(row)
    return np.concatenate((references[:, known].mean(axis=1), [row[known].mean()]))
