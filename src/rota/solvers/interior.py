"""A linear program solved from the inside: the point at which an interior-point method ends.

    maximise costs · x + of_free × t   subject to   rows x + free × t <= limits,  x >= 0

Linear programs of schedulers have many optima.  The simplex method ends at a corner; an interior-point method
ends inside the face of optima, where equal jobs get the same.  Authors that called such a solver took that
point as their policy's answer, so reproducing it takes the same steps as their solver's: a
primal-dual method on the homogeneous self-dual embedding with Mehrotra's predictor and corrector
(Domahidi, Chu, Boyd, "ECOS: an SOCP solver for embedded systems", ECC 2013, sections III and IV, for linear
constraints alone), after three rounds of row and column scaling by the roots of the largest entries.

Where it ends depends on the constraints as they are written: a bound that others imply moves the point.  It
does not depend on their order, and equal columns end at equal values.  So equal columns may be listed once,
with the number of their copies: the walk is the same, step by step, as with all of them written out.

Each step solves one system of the size of `rows` (the normal equations: bounds are eliminated).  Small
programs are walked in C where it could be built (`inner_walk.c`), step by step the same.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from rota.errors import PolicyError
from rota.model.columns import Floats
from rota.solvers.inner_walk import INFEASIBLE, UNBOUNDED, Walked, can_walk, walked, whole
from rota.solvers.interior_system import InnerProgram, Scaled, factor, scaled_program
from rota.solvers.lp import SolveStatus

TOLERANCE = 1e-8
"""Tolerance of residuals and of the gap, absolute and relative."""
ROUGH_TOLERANCE = 1e-4
MOST_STEPS = 100
_LEAST_STEP, _LARGEST_STEP, _BACK_OFF = 1e-6, 0.999, 0.99
_LEAST_CENTRING = 1e-4
_NOTHING = 1e-12
"""What rounding may leave of 0."""


class InnerSolution(NamedTuple):
    """Where the method ended; without an optimum the value is NaN and the arrays are empty."""

    status: SolveStatus
    value: float
    columns: Floats
    """x of each copy, then t if it is there."""
    slack: Floats
    """What is left of the limits, ..."""
    prices: Floats
    """... and what a little more of them would be worth: one of both is near 0, the other is not."""


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


def inner_optimum(program: InnerProgram) -> InnerSolution:
    """Where the method ends.

    Where the constraints leave no interior, the method breaks down before it is within `TOLERANCE`; then the
    nearest point counts if it is within `ROUGH_TOLERANCE`, as in the authors' solver.  PolicyError if there
    is none.
    """
    if can_walk(program.rows):
        return _of_small(program)
    return _of_large(program)


def _of_small(program: InnerProgram) -> InnerSolution:
    return solution_at(program, walked(whole(program)))


def solution_at(program: InnerProgram, at: Walked) -> InnerSolution:
    """The solution at the end of a walk of `program`; PolicyError if it is too far from an optimum."""
    if at.ended in (INFEASIBLE, UNBOUNDED):
        status = SolveStatus.INFEASIBLE if at.ended == INFEASIBLE else SolveStatus.UNBOUNDED
        return InnerSolution(status, math.nan, *[np.zeros(0)] * 3)
    if at.miss > ROUGH_TOLERANCE:
        raise _not_solved(program, at.miss)
    return _solution(program, at.columns, at.slack, at.prices)


def _of_large(program: InnerProgram) -> InnerSolution:
    """With NumPy, and sparse matrices where programs are large."""
    scaled = scaled_program(program)
    nearest: tuple[float, _Point | None] = math.inf, None
    with np.errstate(all="ignore"):
        point = _start(scaled)
        for _ in range(MOST_STEPS):
            missed = _residuals(scaled, point)
            status, miss = _status(scaled, point, missed)
            if miss < nearest[0]:
                nearest = miss, point
            if status is SolveStatus.OPTIMAL:
                break
            if status is not None:
                return InnerSolution(status, math.nan, *[np.zeros(0)] * 3)
            following = _step(scaled, point, missed)
            if following is None:
                break
            point = following
    miss, best = nearest
    if best is None or miss > ROUGH_TOLERANCE:
        raise _not_solved(program, miss)
    n = len(program.costs)
    slack, prices = best.s[n:] * scaled.rows / best.tau, best.z[n:] / (scaled.rows * best.tau)
    return _solution(program, best.x / (best.tau * scaled.columns), slack, prices)


class NotInsideError(PolicyError):
    """The method did not end near an optimum."""


def _not_solved(program: InnerProgram, miss: float) -> NotInsideError:
    return NotInsideError(
        f"a linear program with {len(program.limits)} rows and {len(program.costs)} columns was not "
        f"solved from the inside: the nearest point misses an equation or the optimum by {miss:.1g}"
    )


def _solution(program: InnerProgram, columns: Floats, slack: Floats, prices: Floats) -> InnerSolution:
    """The point with its value, and prices of rows with all their copies."""
    n = len(program.costs)
    worth = program.costs * columns[:n]
    if program.column_copies is not None:
        worth = worth * program.column_copies
    value = float(worth.sum()) + (program.of_free * columns.item(n) if program.free is not None else 0.0)
    if program.row_copies is not None:
        prices = prices / program.row_copies
    return InnerSolution(SolveStatus.OPTIMAL, value, columns, slack, prices)


# -- the walk --------------------------------------------------------------------------------------


def _start(p: Scaled) -> _Point:
    """The points that miss the equations least, moved inside."""
    solve = factor(p, np.ones(len(p.h)))
    a, b = np.zeros((len(p.c), 2)), np.zeros((len(p.h), 2))
    b[:, 0], a[:, 1] = p.h, -p.c
    x, z = solve(a, b)
    roots = 1.0 if p.copies is None else np.sqrt(p.copies)
    return _Point(x[:, 0], _inside(-z[:, 0], roots), _inside(z[:, 1], roots), 1.0, 1.0)


def _inside(r: Floats, roots: Floats | float) -> Floats:
    """`r` if all of it is above 0, else moved until the least is 1, copy by copy."""
    least = float((r / roots).min()) if len(r) else 1.0
    moved: Floats = r.copy() if least > _NOTHING else r + (1.0 - least) * roots
    return moved


def _residuals(p: Scaled, at: _Point) -> _Residuals:
    of_z = p.of_z(at.z)
    of_z += at.tau * p.c
    of_x = p.of_x(at.x)
    of_x += at.s
    of_x -= at.tau * p.h
    return _Residuals(-of_z, of_x, float(at.kappa + p.c @ at.x + p.h @ at.z))


def _norm(values: Floats) -> float:
    return math.sqrt(values @ values)


def _status(p: Scaled, at: _Point, missed: _Residuals) -> tuple[SolveStatus | None, float]:
    """The status at this point, None if undecided; and by how much it misses equations or the optimum."""
    of_h, of_c = max(1.0, _norm(p.h)), max(1.0, _norm(p.c))
    cost, bound = float(p.c @ at.x), float(-(p.h @ at.z))
    misses = max(_norm(missed.z) / of_h, _norm(missed.x) / of_c) / at.tau
    gap = float(at.s @ at.z) / max(1.0, -cost / at.tau, bound / at.tau)
    miss = max(misses, gap)
    if miss < TOLERANCE:
        return SolveStatus.OPTIMAL, miss
    if at.tau >= at.kappa:
        return None, miss
    of_z, of_x = max(1.0, _norm(at.z)), max(1.0, _norm(at.x))
    if bound > TOLERANCE * of_z and _norm(p.of_z(at.z)) < TOLERANCE * of_z:
        return SolveStatus.INFEASIBLE, miss
    if -cost > TOLERANCE * of_x and _norm(p.of_x(at.x) + at.s) < TOLERANCE * of_x:
        return SolveStatus.UNBOUNDED, miss
    return None, miss


def _step(p: Scaled, at: _Point, missed: _Residuals) -> _Point | None:
    """One step: where Newton's method would go, then a corrected one that keeps away from the walls.

    None where rounding leaves no direction.
    """
    try:
        following = _stepped(p, at, missed)
    except (RuntimeError, LinAlgError):  # the matrix is singular
        return None
    sound = min(following.s.min(), following.z.min(), following.tau, following.kappa) > 0.0
    return following if sound and math.isfinite(following.x.sum()) else None


def _stepped(p: Scaled, at: _Point, missed: _Residuals) -> _Point:
    w2 = at.s / at.z
    w = np.sqrt(w2)
    scaled = w * at.z
    rows = len(at.s) if p.copies is None else float(p.copies.sum())
    mu = float(at.s @ at.z + at.kappa * at.tau) / (rows + 1)
    solve = factor(p, w2)
    x, z = solve(np.column_stack((-p.c, missed.x)), np.column_stack((p.h, at.s - missed.z)))
    x1, z1 = x[:, 0], z[:, 0]
    denominator = at.kappa / at.tau - float(p.c @ x1 + p.h @ z1)
    # Straight to complementarity 0, ...
    tau = (missed.tau - at.kappa + float(p.c @ x[:, 1] + p.h @ z[:, 1])) / denominator
    of_z = w * (z[:, 1] + tau * z1)
    of_s = -(scaled + of_z)
    kappa = -at.kappa * (at.tau + tau) / at.tau
    length = _length(at, scaled, of_s, of_z, tau, kappa)
    # ... then what that misses by corrected, towards the middle.
    centring = min(max((1.0 - length) ** 3, _LEAST_CENTRING), 1.0)
    rest, target = 1.0 - centring, centring * mu
    complement = scaled + (of_s * of_z - (target if p.copies is None else target * p.copies)) / scaled
    of_kappa = at.kappa * at.tau + kappa * tau - target
    x, z = solve(rest * missed.x[:, None], (w * complement - rest * missed.z)[:, None])
    x2, z2 = x[:, 0], z[:, 0]
    tau = (rest * missed.tau - of_kappa / at.tau + float(p.c @ x2 + p.h @ z2)) / denominator
    of_z = w * (z2 + tau * z1)
    of_s = -(complement + of_z)
    kappa = -(of_kappa + at.kappa * tau) / at.tau
    length = _BACK_OFF * _length(at, scaled, of_s, of_z, tau, kappa)
    return _Point(
        at.x + length * (x2 + tau * x1),
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
