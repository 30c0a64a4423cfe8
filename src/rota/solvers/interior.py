"""A linear program solved from the inside: the point at which an interior-point method ends.

    maximise costs · x   subject to   rows x <= limits   (x is free)

Linear programs of schedulers have many optima.  The simplex method ends at a corner; an interior-point method
ends inside the face of optima, where jobs that are alike get the same.  Authors who called such a solver took
that point for their policy's answer, so to follow them one has to walk the way that their solver walks: a
primal-dual method on the homogeneous self-dual embedding with Mehrotra's predictor and corrector
(Domahidi, Chu, Boyd, "ECOS: an SOCP solver for embedded systems", ECC 2013, sections III and IV, for linear
constraints alone), after three rounds of row and column scaling by the roots of the largest entries.

Where it ends depends on the constraints as they are written: a bound that others imply moves the point.  It
does not depend on their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from rota.errors import PolicyError
from rota.model.columns import Floats, Ints
from rota.solvers.lp import Solution, SolveStatus

TOLERANCE = 1e-8
"""Of residuals and of the gap, absolute and relative."""
ROUGH_TOLERANCE = 1e-4
MOST_STEPS = 100
_SCALINGS = 3
_LEAST_STEP, _LARGEST_STEP, _BACK_OFF = 1e-6, 0.999, 0.99
_LEAST_CENTRING = 1e-4
_REFINEMENTS = 2
_REGULARISATION = 1e-11

Pair = tuple[Floats, Floats]
_Solver = Callable[[Floats, Floats], Pair]


@dataclass(frozen=True)
class _Scaled:
    """minimise c x with G x + s = h, s >= 0, where rows and columns are of similar size."""

    c: Floats
    G: Any
    h: Floats
    columns: Floats
    """By how much x is larger than what was asked for."""
    transposed: Any
    newton: Any
    """[0 Gᵀ; G −W²] for the weights of the last step, sparse by column, ..."""
    diagonal: Ints
    """... and where the entries of W² stand in its data."""


class _Point(NamedTuple):
    """An iterate; x / tau is the solution when kappa has gone to 0."""

    x: Floats
    s: Floats
    z: Floats
    tau: float
    kappa: float


class _Residuals(NamedTuple):
    """By how much a point misses dual and primal equations, and the gap."""

    x: Floats
    z: Floats
    tau: float


def inner_optimum(costs: Floats, rows: Any, limits: Floats) -> Solution:
    """Where the method ends; `rows` is a SciPy sparse matrix, [row, column].

    Where constraints leave no room inside, the method loses its footing before it is as near as `TOLERANCE`;
    then the nearest point counts if it is as near as `ROUGH_TOLERANCE`, as in the authors' solver.
    PolicyError if there is none.
    """
    scaled = _scale(-costs, sparse.csr_matrix(rows), limits)
    point, nearest = _start(scaled), (math.inf, np.zeros(0))
    for _ in range(MOST_STEPS):
        missed = _residuals(scaled, point)
        status, miss = _status(scaled, point, missed)
        if miss < nearest[0]:
            nearest = miss, point.x / (point.tau * scaled.columns)
        if status is SolveStatus.OPTIMAL:
            break
        if status is not None:
            return Solution(status, float("nan"), np.zeros(0))
        following = _step(scaled, point, missed)
        if following is None:
            break
        point = following
    miss, columns = nearest
    if miss > ROUGH_TOLERANCE:
        raise PolicyError(
            f"a linear program with {len(limits)} rows and {len(costs)} columns was not solved from the "
            f"inside: the nearest point misses an equation or the optimum by {miss:.1g}"
        )
    return Solution(SolveStatus.OPTIMAL, float(costs @ columns), columns)


def _scale(c: Floats, matrix: Any, h: Floats) -> _Scaled:
    """Divide rows and columns by the root of their largest entry, three times."""
    row_scale, column_scale = np.ones(matrix.shape[0]), np.ones(matrix.shape[1])
    for _ in range(_SCALINGS):
        size = abs(matrix)
        by_row, by_column = (_root(size.max(axis=axis).toarray().ravel()) for axis in (1, 0))
        matrix = sparse.diags(1.0 / by_row) @ matrix @ sparse.diags(1.0 / by_column)
        row_scale, column_scale = row_scale * by_row, column_scale * by_column
    rows = sparse.csr_matrix(matrix)
    newton = sparse.csc_matrix(sparse.bmat([[None, rows.T], [rows, sparse.identity(len(h))]], format="csc"))
    newton.sort_indices()
    diagonal = newton.indptr[len(c) + 1 :] - 1  # the last entry of each of these columns
    return _Scaled(
        c / column_scale, rows, h / row_scale, column_scale, sparse.csr_matrix(rows.T), newton, diagonal
    )


def _root(largest: Floats) -> Floats:
    roots: Floats = np.sqrt(np.where(largest < 1e-6, 1.0, largest))
    return roots


def _start(p: _Scaled) -> _Point:
    """The points that miss the equations least, moved inside."""
    solve = _factor(p, np.ones(len(p.h)))
    x, minus_s = solve(np.zeros(len(p.c)), p.h)
    _, z = solve(-p.c, np.zeros(len(p.h)))
    return _Point(x, _inside(-minus_s), _inside(z), 1.0, 1.0)


def _inside(r: Floats) -> Floats:
    """`r` if all of it is above 0, else moved until the least is 1."""
    return r.copy() if r.min() > 0.0 else r + (1.0 - r.min())


def _factor(p: _Scaled, w2: Floats) -> _Solver:
    """Solves [0 Gᵀ; G −W²] [x; z] = [a; b].

    Where constraints that hold with equality depend on each other a little regularisation keeps the matrix
    sound; refinement takes it out of x again.
    """
    n = len(p.c)
    p.newton.data[p.diagonal] = -w2 - _REGULARISATION
    lu = splu(p.newton)

    def solve(a: Floats, b: Floats) -> Pair:
        both = lu.solve(np.concatenate((a, b)))
        x, z = both[:n], both[n:]
        for _ in range(_REFINEMENTS):
            more = lu.solve(np.concatenate((a - p.transposed @ z, b - (p.G @ x - w2 * z))))
            x, z = x + more[:n], z + more[n:]
        return x, z

    return solve


def _residuals(p: _Scaled, at: _Point) -> _Residuals:
    return _Residuals(
        -(p.transposed @ at.z) - at.tau * p.c,
        at.s + p.G @ at.x - at.tau * p.h,
        float(at.kappa + p.c @ at.x + p.h @ at.z),
    )


def _status(p: _Scaled, at: _Point, missed: _Residuals) -> tuple[SolveStatus | None, float]:
    """What is known at this point, None if not enough; and by how much it misses equations or the optimum."""
    of_h, of_c = max(1.0, float(np.linalg.norm(p.h))), max(1.0, float(np.linalg.norm(p.c)))
    cost, bound = float(p.c @ at.x), float(-(p.h @ at.z))
    misses = max(float(np.linalg.norm(missed.z)) / of_h, float(np.linalg.norm(missed.x)) / of_c) / at.tau
    gap = float(at.s @ at.z) / max(1.0, -cost / at.tau, bound / at.tau)
    miss = max(misses, gap)
    if miss < TOLERANCE:
        return SolveStatus.OPTIMAL, miss
    if at.tau >= at.kappa:
        return None, miss
    of_z, of_x = max(1.0, float(np.linalg.norm(at.z))), max(1.0, float(np.linalg.norm(at.x)))
    if bound > TOLERANCE * of_z and np.linalg.norm(p.transposed @ at.z) < TOLERANCE * of_z:
        return SolveStatus.INFEASIBLE, miss
    if -cost > TOLERANCE * of_x and np.linalg.norm(p.G @ at.x + at.s) < TOLERANCE * of_x:
        return SolveStatus.UNBOUNDED, miss
    return None, miss


def _step(p: _Scaled, at: _Point, missed: _Residuals) -> _Point | None:
    """One step: where Newton's method would go, then a corrected one that keeps away from the walls.

    None where rounding leaves no direction.
    """
    with np.errstate(all="ignore"):
        try:
            following = _stepped(p, at, missed)
        except RuntimeError:  # SuperLU: the matrix is singular
            return None
    sound = min(following.s.min(), following.z.min(), following.tau, following.kappa) > 0.0
    return following if sound and np.isfinite(following.x).all() else None


def _stepped(p: _Scaled, at: _Point, missed: _Residuals) -> _Point:
    w, scaled = np.sqrt(at.s / at.z), np.sqrt(at.s * at.z)
    mu = float(at.s @ at.z + at.kappa * at.tau) / (len(at.s) + 1)
    solve = _factor(p, w * w)
    x1, z1 = solve(-p.c, p.h)
    denominator = at.kappa / at.tau - float(p.c @ x1 + p.h @ z1)

    def direction(centring: float, complement: Floats, kappa: float) -> tuple[Floats, Pair, float, float]:
        """Changes of x, of (s / w, w z), of tau and of kappa that lead to the given complementarities."""
        rest = 1.0 - centring
        x2, z2 = solve(rest * missed.x, w * complement - rest * missed.z)
        tau = (rest * missed.tau - kappa / at.tau + float(p.c @ x2 + p.h @ z2)) / denominator
        of_z = w * (z2 + tau * z1)
        return x2 + tau * x1, (-(complement + of_z), of_z), tau, -(kappa + at.kappa * tau) / at.tau

    _, (of_s, of_z), tau, kappa = direction(0.0, scaled, at.kappa * at.tau)
    length = _length(at, scaled, of_s, of_z, tau, kappa)
    centring = min(max((1.0 - length) ** 3, _LEAST_CENTRING), 1.0)
    complement = scaled + (of_s * of_z - centring * mu) / scaled
    x, (of_s, of_z), tau, kappa = direction(
        centring, complement, at.kappa * at.tau + kappa * tau - centring * mu
    )
    length = _BACK_OFF * _length(at, scaled, of_s, of_z, tau, kappa)
    return _Point(
        at.x + length * x,
        at.s + length * w * of_s,
        at.z + length * of_z / w,
        at.tau + length * tau,
        at.kappa + length * kappa,
    )


def _length(at: _Point, scaled: Floats, of_s: Floats, of_z: Floats, tau: float, kappa: float) -> float:
    """How far one may go until something is 0."""
    steepest = max(
        -float((of_s / scaled).min()), -float((of_z / scaled).min()), -tau / at.tau, -kappa / at.kappa, 1e-13
    )
    return min(max(1.0 / steepest, _LEAST_STEP), _LARGEST_STEP)
