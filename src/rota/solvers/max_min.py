"""The max-min allocation over GPU types: the linear program of Gavel's least-attained-service policy.

x[m, j] is the fraction of its time that job m spends on type j, and score[m, j] what it gains there.
Maximise t, subject to  Σ_j score[m, j] x[m, j] >= t   for each job,
                        Σ_j x[m, j] <= 1               for each job,
                        Σ_m gpus[m] x[m, j] <= n[j]    for each type,   0 <= x <= 1.

Many allocations reach the best t.  `Tie.SUM` takes the one with the largest sum of scores among them,
`Tie.VERTEX` whatever corner the solver ends at.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from rota.model.columns import Floats
from rota.solvers.lp import INFINITY, LinearProgram

SLACK = 1e-6
"""Relative loss of t that the second objective may use."""


class Tie(StrEnum):
    """Which of many optima."""

    SUM = "sum"
    VERTEX = "vertex"


class Allocation(NamedTuple):
    """The best t, and the fraction of time of each job on each type."""

    value: float
    fractions: Floats


def max_min(scores: Floats, gpus: Floats, capacity: Floats, tie: Tie = Tie.SUM) -> Allocation:
    """The max-min allocation of `capacity` (GPUs of each type) among at least one job.

    `scores` is [job, type], 0 where a job cannot run; `gpus` is what each job holds while it runs.
    """
    program = _program(scores, gpus, capacity)
    best = program.optimum()  # there is one: no time for anyone is always possible
    columns = best.columns if tie is Tie.VERTEX else _largest_sum(program, scores, best.value)
    return Allocation(best.value, columns[1:].reshape(scores.shape).clip(0.0, 1.0))


def _program(scores: Floats, gpus: Floats, capacity: Floats) -> LinearProgram:
    """Column 0 is t, then x job by job; rows are the types, then for each job its time and its score."""
    jobs, types = scores.shape
    x = 1 + np.arange(jobs * types).reshape(jobs, types)
    program = LinearProgram()
    program.add_columns(
        np.r_[1.0, np.zeros(x.size)], np.zeros(1 + x.size), np.r_[INFINITY, (scores > 0.0).ravel()]
    )
    held = np.repeat(gpus, types).reshape(jobs, types).T
    program.add_rows(np.full(types, -INFINITY), capacity, np.arange(types) * jobs, x.T.ravel(), held.ravel())
    # Σ x <= 1 and Σ score x - t >= 0, entry by entry.
    columns = np.concatenate((x, np.zeros((jobs, 1), dtype=np.int64), x), axis=1)
    values = np.concatenate((np.ones((jobs, types)), -np.ones((jobs, 1)), scores), axis=1)
    starts = np.arange(jobs)[:, None] * (2 * types + 1) + [0, types]
    low, high = np.tile([-INFINITY, 0.0], jobs), np.tile([1.0, INFINITY], jobs)
    program.add_rows(low, high, starts.ravel(), columns.ravel(), values.ravel())
    return program


def _largest_sum(program: LinearProgram, scores: Floats, value: float) -> Floats:
    """Among the allocations that reach `value`, the one with the largest sum of scores."""
    t = np.zeros(1, dtype=np.int64)
    program.set_column_bounds(t, np.array([value * (1.0 - SLACK)]), np.full(1, INFINITY))
    program.set_costs(np.arange(1 + scores.size), np.r_[0.0, scores.ravel()])
    return program.optimum().columns  # there is one: the first optimum is still feasible
