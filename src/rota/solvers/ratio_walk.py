"""The fractions of `solvers.worst_ratio` where an interior-point solver ends, walked the way that it walks.

    minimise t  with  a_i + b_i u_i <= t,  u_i x_i r_i >= 1,  0 <= x_i <= 1,  sum g_i x_i <= G

Where x has room to choose, the answer of the authors' solver is no centre of anything: the worst ratio is
found before the rest has come to the middle.  So reproducing it takes the same steps: a primal-dual method
on the homogeneous self-dual embedding with scalings of Nesterov and Todd and Mehrotra's corrector (Domahidi,
Chu, Boyd, "ECOS: an SOCP solver for embedded systems", ECC 2013), u x r >= 1 written as the second-order cone
(r x + u, r x - u, 2), after three rounds of row and column scaling by the roots of the largest entries, with
one factor for the rows of a cone, the root of their sum.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from rota.model.columns import Floats
from rota.solvers.inner_walk import WholeProgram

_TOLERANCE, _ROUGH = 1e-8, 1e-4
_MOST_STEPS = 100
_LEAST_STEP, _LARGEST_STEP, _BACK_OFF = 1e-6, 0.999, 0.99
_LEAST_CENTRING = 1e-4
_SCALINGS = 3


class ConeProgram(NamedTuple):
    """minimise c v with h - A v in the cones: entries at least 0, then second-order cones of three."""

    c: Floats
    a: Floats
    h: Floats
    linear: int
    """Entries of the first kind."""
    columns: Floats
    """What v was divided by."""


class _Point(NamedTuple):
    x: Floats
    s: Floats
    z: Floats
    tau: float
    kappa: float


class _Direction(NamedTuple):
    s: Floats
    z: Floats
    tau: float
    kappa: float


def walked(fixed: Floats, over: Floats, rates: Floats, gpus: Floats, capacity: float) -> Floats | None:
    """x for `fixed` = a, `over` = b / r, `rates` = r and `gpus` = g; None if the solver breaks down."""
    at = _walked(_program(fixed, over, rates, gpus, capacity))
    return None if at is None else np.clip(at[: len(fixed)], 0.0, 1.0)


def walked_from(program: WholeProgram) -> Floats | None:
    """The columns where the walk of any program ends, t last; None if the solver breaks down."""
    n, is_free = len(program.costs), program.free is not None
    starts, of, values = program.rows
    a = np.zeros((len(program.limits), n + is_free))
    a[np.arange(n), np.arange(n)] = program.bounds
    a[n + np.repeat(np.arange(len(starts) - 1), np.diff(starts)), of] = values
    if program.free is not None:
        a[:, n] = program.free
    costs = -np.append(program.costs, [program.of_free] * is_free)
    return _walked(_scaled(costs, a, program.limits, len(program.limits) - 3 * program.cones))


def _walked(program: ConeProgram) -> Floats | None:
    """The columns where the walk ends."""
    nearest: tuple[float, _Point | None] = math.inf, None
    with np.errstate(all="ignore"):
        try:
            at = _start(program)
            for _ in range(_MOST_STEPS):
                missed = _missed(program, at)
                if missed < nearest[0]:
                    nearest = missed, at
                if not missed >= _TOLERANCE:
                    break
                at = _step(program, at)
        except (LinAlgError, ValueError):  # rounding leaves no direction
            pass
    missed, best = nearest
    if best is None or missed > _ROUGH:
        return None
    columns: Floats = best.x / best.tau / program.columns
    return columns


def _program(fixed: Floats, over: Floats, rates: Floats, gpus: Floats, capacity: float) -> ConeProgram:
    """Columns are x, u and t; rows are ratios, x >= 0, x <= 1, the capacity, then the cones; scaled."""
    k = len(fixed)
    each, linear = np.arange(k), 3 * k + 1
    a, h = np.zeros((linear + 3 * k, 2 * k + 1)), np.zeros(linear + 3 * k)
    a[each, k + each], a[each, 2 * k], h[:k] = over * rates, -1.0, -fixed
    a[k + each, each] = -1.0
    a[2 * k + each, each], h[2 * k : 3 * k] = 1.0, 1.0
    a[3 * k, :k], h[3 * k] = gpus, capacity
    cone = linear + 3 * each
    a[cone, each], a[cone, k + each] = -rates, -1.0
    a[cone + 1, each], a[cone + 1, k + each] = -rates, 1.0
    h[cone + 2] = 2.0
    c = np.zeros(2 * k + 1)
    c[2 * k] = 1.0
    return _scaled(c, a, h, linear)


def _scaled(c: Floats, a: Floats, h: Floats, linear: int) -> ConeProgram:
    """Rows and columns of similar size; the last rows, from `linear` on, are cones."""
    columns, rows = np.ones(a.shape[1]), np.ones(len(a))
    for _ in range(_SCALINGS):
        of_rows, of_columns = np.abs(a).max(axis=1), _root(np.abs(a).max(axis=0))
        of_rows[linear:] = np.repeat(of_rows[linear:].reshape(-1, 3).sum(axis=1), 3)
        of_rows = _root(of_rows)
        a = a / of_rows[:, None] / of_columns
        columns, rows = columns * of_columns, rows * of_rows
    return ConeProgram(c / columns, a, h / rows, linear, columns)


def _root(largest: Floats) -> Floats:
    roots: Floats = np.sqrt(np.where(largest < 1e-6, 1.0, largest))
    return roots


# -- second-order cones ----------------------------------------------------------------------------


def _split(p: ConeProgram, v: Floats) -> tuple[Floats, Floats]:
    """The entries of the first kind, and the cones, [cone, 3]."""
    return v[: p.linear], v[p.linear :].reshape(-1, 3)


def _joined(first: Floats, cones: Floats) -> Floats:
    return np.concatenate((first, cones.ravel()))


def _one(p: ConeProgram) -> Floats:
    """The middle of all cones."""
    cones = np.zeros(((len(p.h) - p.linear) // 3, 3))
    cones[:, 0] = 1.0
    return _joined(np.ones(p.linear), cones)


def _square(cones: Floats) -> Floats:
    """By how much the first entry exceeds the others, in squares; above 0 inside."""
    inside: Floats = cones[:, 0] ** 2 - (cones[:, 1:] ** 2).sum(axis=1)
    return inside


def _inside(p: ConeProgram, r: Floats) -> Floats:
    """`r` if it is inside all cones, else moved along their middle until the worst is 1."""
    first, cones = _split(p, r)
    room = np.concatenate((first, cones[:, 0] - np.hypot(cones[:, 1], cones[:, 2])))
    return r.copy() if room.min() > 0.0 else r + (1.0 - room.min()) * _one(p)


def _product(p: ConeProgram, u: Floats, v: Floats) -> Floats:
    (first, cones), (other, others) = _split(p, u), _split(p, v)
    product = cones[:, :1] * others + others[:, :1] * cones
    product[:, 0] = (cones * others).sum(axis=1)
    return _joined(first * other, product)


def _quotient(p: ConeProgram, scaled: Floats, v: Floats) -> Floats:
    """What times `scaled` is `v`."""
    (first, by), (other, cones) = _split(p, scaled), _split(p, v)
    inside, along = _square(by), (by[:, 1:] * cones[:, 1:]).sum(axis=1)
    quotient = np.empty_like(cones)
    quotient[:, 0] = (by[:, 0] * cones[:, 0] - along) / inside
    factor = (along / by[:, 0] - cones[:, 0]) / inside
    quotient[:, 1:] = factor[:, None] * by[:, 1:] + cones[:, 1:] / by[:, :1]
    return _joined(other / first, quotient)


class _Scaling:
    """The scaling point at which s and z coincide: W z = W^-1 s."""

    def __init__(self, p: ConeProgram, at: _Point) -> None:
        (s, cones_s), (z, cones_z) = _split(p, at.s), _split(p, at.z)
        of_s, of_z = _square(cones_s), _square(cones_z)
        if min(of_s.min(), of_z.min(), s.min(), z.min()) <= 0.0:
            raise LinAlgError("a point outside the cones")
        self._p, self.linear = p, np.sqrt(s / z)
        unit_s, unit_z = cones_s / np.sqrt(of_s)[:, None], cones_z / np.sqrt(of_z)[:, None]
        twice = 2.0 * np.sqrt((1.0 + (unit_s * unit_z).sum(axis=1)) / 2.0)
        middle = unit_s - unit_z
        middle[:, 0] += 2.0 * unit_z[:, 0]
        middle /= twice[:, None]
        cones = np.empty((len(middle), 3, 3))
        cones[:, 0, :] = cones[:, :, 0] = middle
        tail = middle[:, 1:]
        cones[:, 1:, 1:] = (
            np.eye(2) + tail[:, :, None] * tail[:, None, :] / (1.0 + middle[:, 0])[:, None, None]
        )
        self.cones = cones * ((of_s / of_z) ** 0.25)[:, None, None]
        self.inverse = np.linalg.inv(self.cones)

    def times(self, v: Floats) -> Floats:
        first, cones = _split(self._p, v)
        return _joined(self.linear * first, np.matmul(self.cones, cones[:, :, None])[:, :, 0])

    def undone(self, v: Floats) -> Floats:
        first, cones = _split(self._p, v)
        return _joined(first / self.linear, np.matmul(self.inverse, cones[:, :, None])[:, :, 0])

    def of_rows(self, a: Floats) -> Floats:
        """The rows of a matrix, undone."""
        linear = self._p.linear
        cones = np.matmul(self.inverse, a[linear:].reshape(-1, 3, a.shape[1]))
        rows: Floats = np.concatenate((a[:linear] / self.linear[:, None], cones.reshape(-1, a.shape[1])))
        return rows


# -- the walk --------------------------------------------------------------------------------------


class _Equations:
    """Solves  A' z = b,  A x - W² z = d  for x and z."""

    def __init__(self, p: ConeProgram, scaling: _Scaling | None) -> None:
        self._scaling = scaling
        self._rows = p.a if scaling is None else scaling.of_rows(p.a)
        self._factor: Any = cho_factor(self._rows.T @ self._rows)

    def solve(self, b: Floats, d: Floats) -> tuple[Floats, Floats]:
        undone = d if self._scaling is None else self._scaling.undone(d)
        x: Floats = cho_solve(self._factor, b + self._rows.T @ undone)
        z = self._rows @ x - undone
        return x, z if self._scaling is None else self._scaling.undone(z)


def _start(p: ConeProgram) -> _Point:
    """The points that miss the equations least, moved inside."""
    equations = _Equations(p, None)
    x, r = equations.solve(np.zeros(len(p.c)), p.h)
    _, z = equations.solve(-p.c, np.zeros(len(p.h)))
    return _Point(x, _inside(p, -r), _inside(p, z), 1.0, 1.0)


def _residuals(p: ConeProgram, at: _Point) -> tuple[Floats, Floats, float]:
    """By how much a point misses dual and primal equations, and the gap."""
    of_x, of_z = -(p.a.T @ at.z) - at.tau * p.c, at.s + p.a @ at.x - at.tau * p.h
    return of_x, of_z, float(at.kappa + p.c @ at.x + p.h @ at.z)


def _missed(p: ConeProgram, at: _Point) -> float:
    """By how much it misses equations or the optimum."""
    of_x, of_z, _ = _residuals(p, at)
    norm = np.linalg.norm
    primal = float(norm(of_z)) / max(1.0, float(norm(p.h))) / at.tau
    dual = float(norm(of_x)) / max(1.0, float(norm(p.c))) / at.tau
    gap, cost, bound = float(at.s @ at.z), float(p.c @ at.x) / at.tau, float(-(p.h @ at.z)) / at.tau
    relative = gap / -cost if cost < 0.0 else gap / bound if bound > 0.0 else math.inf
    return max(primal, dual, min(gap, relative))


def _step(p: ConeProgram, at: _Point) -> _Point:
    """Where Newton's method would go, then a corrected step that keeps away from the walls."""
    of_x, of_z, gap = _residuals(p, at)
    scaling = _Scaling(p, at)
    scaled, one = scaling.times(at.z), _one(p)
    mu = float(at.s @ at.z + at.kappa * at.tau) / (p.linear + (len(p.h) - p.linear) // 3 + 1)
    equations = _Equations(p, scaling)
    x1, z1 = equations.solve(-p.c, p.h)
    denominator = at.kappa / at.tau - float(p.c @ x1 + p.h @ z1)

    def direction(rest: float, complement: Floats, of_kappa: float) -> tuple[Floats, Floats, _Direction]:
        x2, z2 = equations.solve(rest * of_x, scaling.times(complement) - rest * of_z)
        tau = (rest * gap - of_kappa / at.tau + float(p.c @ x2 + p.h @ z2)) / denominator
        z = z2 + tau * z1
        alike = scaling.times(z)
        kappa = -(of_kappa + at.kappa * tau) / at.tau
        return x2 + tau * x1, z, _Direction(-(complement + alike), alike, tau, kappa)

    _, _, straight = direction(1.0, scaled, at.kappa * at.tau)
    centring = min(max((1.0 - _length(p, at, scaled, straight)) ** 3, _LEAST_CENTRING), 1.0)
    target = centring * mu
    complement = _product(p, scaled, scaled) + _product(p, straight.s, straight.z) - target * one
    of_kappa = at.kappa * at.tau + straight.kappa * straight.tau - target
    x, z, by = direction(1.0 - centring, _quotient(p, scaled, complement), of_kappa)
    length = _BACK_OFF * _length(p, at, scaled, by)
    return _Point(
        at.x + length * x,
        at.s + length * scaling.times(by.s),
        at.z + length * z,
        at.tau + length * by.tau,
        at.kappa + length * by.kappa,
    )


def _length(p: ConeProgram, at: _Point, scaled: Floats, by: _Direction) -> float:
    """How far one may go until something is at a wall."""
    first, cones = _split(p, scaled)
    root = np.sqrt(_square(cones))
    unit = cones / root[:, None]
    steepest = max(-by.tau / at.tau, -by.kappa / at.kappa, 1e-13)
    for part in (by.s, by.z):
        linear, others = _split(p, part)
        along = unit[:, 0] * others[:, 0] - (unit[:, 1:] * others[:, 1:]).sum(axis=1)
        factor = (along + others[:, 0]) / (unit[:, 0] + 1.0)
        across = others[:, 1:] - factor[:, None] * unit[:, 1:]
        walls = (np.hypot(across[:, 0], across[:, 1]) - along) / root
        steepest = max(steepest, -float((linear / first).min()), float(walls.max()))
    return min(max(1.0 / steepest, _LEAST_STEP), _LARGEST_STEP)
