"""Max-min fairness on two levels: among tenants by weight, then among the jobs of each (section 4.3).

Water filling: shares rise together, in proportion to their weights, until some cannot rise any more without
another one falling.  Those are frozen, their weight goes to their siblings, and the others rise on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from rota.model.columns import Bools, Floats, Ints
from rota.policies.gavel.parameters import Inside
from rota.policies.gavel.problem import Problem
from rota.policies.gavel.programs import optimal
from rota.scheduler.stages.round_books import Shares
from rota.solvers.division import Demands, Division, Objective, best, most_rising

_RISE = 1e-3
"""Part of the largest share by which it is tried who can still rise; small, so that all can at once."""
_RISEN = 0.1
"""Part of that rise from which on it counts; far above what rounding lets through."""
_ROUNDING = 1e-6
"""By how much a share that is to be kept may fall short where solvers round."""


@dataclass(frozen=True)
class _Water:
    """The jobs of the division, of which one may stand for several that are alike."""

    division: Division
    gains: Any
    """Share of each, sparse [job, fraction]: work per second over that of equal time on all types."""
    gpus: Floats
    weights: Floats
    tenants: Ints
    """Code of the tenant at the top."""
    of_tenants: Floats
    """Weight of each tenant."""
    inside: Inside

    def slope(self, frozen: Bools) -> Floats:
        """How fast the share of each rises: its weight among those of its tenant that rise, over its GPUs."""
        rise = np.zeros(len(frozen))
        for code, weight in enumerate(self.of_tenants):
            mine = np.flatnonzero((self.tenants == code) & ~frozen)
            if not len(mine):
                continue
            if self.inside is Inside.FIFO:
                rise[mine[0]] = weight
            else:
                total = (self.weights[mine] * self.division.counts[mine]).sum()
                rise[mine] = weight * self.weights[mine] / total
        return rise / self.gpus

    def least(self, shares: Floats) -> Floats:
        """What the rows of the program must reach so that nobody falls below its share."""
        return shares * self.division.counts * (1.0 - _ROUNDING)


def hierarchy(problem: Problem) -> Shares:
    """The water-filled fractions."""
    water = _water(problem)
    division, counts = water.division, water.division.counts
    shares, frozen = np.zeros(len(counts)), np.zeros(len(counts), dtype=bool)
    fractions = np.zeros((len(division.members), len(division.capacity)))
    objective = Objective(np.zeros(division.size), 1.0)
    tie = problem.parameters.best_tie
    while not frozen.all():
        slope = water.slope(frozen)
        solution = optimal(
            best(division, objective, Demands(water.gains, water.least(shares), slope * counts), tie)
        )
        fractions = division.fractions(solution.columns)
        shares = shares + max(solution.columns.item(division.size), 0.0) * slope
        stuck = _stuck(water, shares, ~frozen & (slope > 0.0))
        if not stuck.any():
            break
        frozen |= stuck
    return problem.entries.shares(fractions)


def _water(problem: Problem) -> _Water:
    names = list(dict.fromkeys(problem.tenants))
    tenants = problem.snapshot.cluster.tenants
    of_job = np.array([names.index(name) for name in problem.tenants], dtype=np.float64)
    return _Water(
        problem.division,
        sparse.diags(1.0 / problem.mean(problem.equal_share)) @ problem.division.gains(),
        problem.mean(problem.gpus),
        problem.mean(problem.weights),
        np.rint(problem.mean(of_job)).astype(np.int64),
        np.array([tenants.get(name).weight for name in names]),
        problem.parameters.inside,
    )


def _stuck(water: _Water, shares: Floats, asked: Bools) -> Bools:
    """Which of those asked about cannot rise while nobody falls.

    One program lets all of them rise a little; those that did are left out, and the others tried again, until
    nobody more rises.
    """
    rise = _RISE * max(float(shares.max()), _RISE)
    stuck = asked.copy()
    while stuck.any():
        rows = np.flatnonzero(stuck)
        risen = most_rising(water.division, water.gains, water.least(shares), rows, rise)
        up = risen > _RISEN * rise
        if not up.any():
            break
        stuck[rows[up]] = False
    return stuck
