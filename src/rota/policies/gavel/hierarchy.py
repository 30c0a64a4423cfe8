"""Max-min fairness on two levels: among tenants by weight, then among the jobs of each (section 4.3).

Water filling: shares rise together, in proportion to their weights, until some cannot rise any more without
another one falling.  Those are frozen, their weight goes to their siblings, and the others rise on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from rota.model.columns import Bools, Floats
from rota.policies.gavel.parameters import Inside
from rota.policies.gavel.problem import Problem
from rota.policies.gavel.programs import optimal
from rota.solvers.division import Demands, Objective, Tie, best

_RISE = 1e-4
"""By which part of a share it is tried whether it can still rise: so little that all who can, can together."""
_RISEN = 1e-2
"""Part of that rise from which on it counts."""
_ROUNDING = 1e-6


def hierarchy(problem: Problem) -> Floats:
    """The water-filled fractions; a job's share is its work per second over that of equal time on all types."""
    tenants = _tenants(problem)
    division = problem.division
    gains = sparse.diags(1.0 / problem.mean(problem.equal_share)) @ division.gains()
    shares = np.zeros(len(problem.rows))
    frozen = np.zeros(len(problem.rows), dtype=bool)
    fractions = np.zeros((len(division.members), len(problem.capacity)))
    while not frozen.all():
        slope = _weights(problem, tenants, frozen) / problem.gpus
        demands = Demands(gains, shares * (1.0 - _ROUNDING), slope)
        # Ties are the authors' here or nobody's: what the others rise by is decided by the next round.
        tie = Tie.INTERIOR if problem.is_artifact else Tie.VERTEX
        solution = optimal(best(division, Objective(np.zeros(division.size), 1.0), demands, tie))
        fractions = division.fractions(solution.columns)
        shares = shares + max(solution.columns.item(division.size), 0.0) * slope
        stuck = _stuck(problem, gains, shares, ~frozen & (slope > 0.0))
        if not stuck.any():
            break
        frozen |= stuck
    return fractions


def _tenants(problem: Problem) -> tuple[list[str], np.ndarray[Any, np.dtype[np.int64]]]:
    """Names of the tenants at the top, and which of them each job belongs to."""
    table = problem.snapshot.jobs.table
    tops = [table.name_of("tenant", row).partition("/")[0] for row in problem.rows.tolist()]
    names = list(dict.fromkeys(tops))
    return names, np.array([names.index(top) for top in tops], dtype=np.int64)


def _weights(problem: Problem, tenants: tuple[list[str], Any], frozen: Bools) -> Floats:
    """The weight of each tenant, among those of its jobs that can still rise; 0 for the others."""
    names, of_job = tenants
    weights = np.zeros(len(frozen))
    for code, name in enumerate(names):
        mine = np.flatnonzero((of_job == code) & ~frozen)
        if not len(mine):
            continue
        of_tenant = problem.snapshot.cluster.tenants.get(name).weight
        if problem.parameters.inside is Inside.FIFO:
            weights[mine[0]] = of_tenant
        else:
            weights[mine] = of_tenant * problem.weights[mine] / problem.weights[mine].sum()
    return weights


def _stuck(problem: Problem, gains: Any, shares: Floats, asked: Bools) -> Bools:
    """Which of the jobs asked about cannot rise while nobody falls.

    One program lets all of them rise a little; those that did are left out, and the others tried again, until
    nobody more rises.
    """
    division = problem.division
    rise = _RISE * max(float(shares.max()), _RISE)
    stuck = asked.copy()
    while stuck.any():
        rows = np.flatnonzero(stuck)
        # Columns: the fractions, then a rise for each row asked about, of at most `rise`.
        value = _risen(division, gains, shares, rows, rise)
        up = value > _RISEN * rise
        if not up.any():
            break
        stuck[rows[up]] = False
    return stuck


def _risen(division: Any, gains: Any, shares: Floats, rows: Any, rise: float) -> Floats:
    """How far each of `rows` gets when the sum of their rises, each at most `rise`, is as large as possible."""
    from rota.solvers.lp import INFINITY, LinearProgram

    made = LinearProgram()
    n = division.size
    made.add_columns(np.zeros(n), np.zeros(n), np.where(division.able.ravel(), INFINITY, 0.0))
    made.add_columns(np.ones(len(rows)), np.zeros(len(rows)), np.full(len(rows), rise))
    lifts = sparse.csr_matrix((-np.ones(len(rows)), (rows, np.arange(len(rows)))), (len(shares), len(rows)))
    for block, low, high in (
        (division.held, np.full(len(division.capacity), -INFINITY), division.capacity),
        (division.time, np.full(len(division.counts), -INFINITY), division.counts),
        (
            sparse.hstack((gains, lifts), format="csr"),
            shares * (1.0 - _ROUNDING),
            np.full(len(shares), INFINITY),
        ),
    ):
        made.add_rows(low, high, block.indptr[:-1], block.indices, block.data)
    return made.optimum().columns[n:]
