"""The window of rounds with a binary for each job and round, as Shockwave's authors wrote it.

An oracle for `rota.solvers.window`, which plans numbers of rounds.  The program has x[job, round], progress
below its rounds, the utility as the lowest of its straight lines, and the worst time left as one more column.
HiGHS solves it in one piece, within a relative gap and a number of nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from rota.model.columns import Bools, Floats
from rota.solvers.window import PlanningWindow


class Binaries(NamedTuple):
    """What the program with binaries answers."""

    runs: Bools
    """[job, round]"""
    value: float
    """Its objective, computed again from the rounds."""
    is_cut: bool
    """True if it ended at the limit of nodes."""


def solve_binary(window: PlanningWindow, gap: float = 1e-3, nodes: int = 10_000) -> Binaries | None:
    """The best rounds to within `gap`; None if the program is infeasible or the solver has no solution.

    Columns: x[job, round] row by row, the utility of each job, the worst time left.
    """
    jobs, rounds = len(window.sizes), window.rounds
    binaries, columns = jobs * rounds, jobs * rounds + jobs + 1
    costs = np.zeros(columns)
    costs[binaries : binaries + jobs] = -window.weights / window.scale
    costs[-1] = window.makespan_weight
    of_job = sparse.kron(sparse.identity(jobs), np.ones((1, rounds)), format="csr")
    of_round = sparse.kron(window.sizes[None, :], sparse.identity(rounds), format="csr")
    pad = sparse.csr_matrix((rounds, jobs + 1))
    demand = sparse.hstack((of_job, sparse.csr_matrix((jobs, jobs + 1))))
    rows = [
        LinearConstraint(sparse.hstack((of_round, pad)), -np.inf, window.capacity),
        LinearConstraint(demand, window.least, np.inf),
        *_lines(window, of_job, window.utility, utility=True),
        *_lines(window, of_job, window.left_s, utility=False),
    ]
    low = np.concatenate((np.zeros(binaries), np.full(jobs, -np.inf), [0.0]))
    high = np.concatenate((np.ones(binaries), np.full(jobs + 1, np.inf)))
    whole = np.concatenate((np.ones(binaries), np.zeros(jobs + 1)))
    options = {"mip_rel_gap": gap, "node_limit": nodes}
    solution = milp(costs, constraints=rows, bounds=Bounds(low, high), integrality=whole, options=options)
    if solution.x is None:
        return None
    runs = solution.x[:binaries].reshape(jobs, rounds) > 0.5
    return Binaries(runs, window.value(runs.sum(axis=1)), solution.status == 1)


def _lines(
    window: PlanningWindow, of_job: sparse.csr_matrix, values: Floats, *, utility: bool
) -> list[LinearConstraint]:
    """The utility below, or the worst time left above, the line through each pair of neighbouring values."""
    jobs, constraints = len(window.sizes), []
    own = sparse.identity(jobs) if utility else sparse.csr_matrix((jobs, jobs))
    worst = sparse.csr_matrix((jobs, 1)) if utility else sparse.csr_matrix(np.ones((jobs, 1)))
    for at in range(window.rounds):
        slope = values[:, at + 1] - values[:, at]
        row = sparse.hstack((sparse.diags(-slope) @ of_job, own, worst))
        start = values[:, at] - slope * at
        low, high = (-np.inf, start) if utility else (start, np.inf)
        constraints.append(LinearConstraint(row, low, high))
    return constraints
