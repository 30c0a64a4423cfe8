"""Max-min fairness on two levels: among tenants by weight, then among the jobs of each (section 4.3).

Water filling: shares rise together, in proportion to their weights, until some cannot rise any more without
another one falling.  Those are frozen, their weight goes to their siblings, and the others rise on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rota.errors import PolicyError
from rota.model.columns import Bools, Floats
from rota.solvers.division import Answer, DemandRows, Division, Objective, Tie, best
from rota.solvers.interior_system import SparseRows
from rota.solvers.levels import WaterLevels
from rota.stages.round_books import Shares
from rota.systems.gavel.policy import optimal, scaled
from rota.systems.gavel.problem import GavelProblem

_ROUNDING = 1e-6
"""Amount by which a share that is to be kept may fall short, because solvers round."""
MOST_LEVELS = 1000
"""The most levels that are distinguished, from the lowest, each a program: 2,000 jobs have 664."""


@dataclass(frozen=True)
class _Water:
    """The jobs of the division, one of which may stand for several that are alike."""

    division: Division
    gains: Floats
    """Shares, [entry, 2, type]: work per second over that of equal time on all types."""
    gpus: Floats
    weights: Floats
    tenants: Sequence[int]
    """Code of the tenant at the top."""
    of_tenants: Sequence[float]
    """Weight of each tenant."""
    in_order: bool
    """Only the first job of a tenant that can still rise does."""

    def slope(self, frozen: Bools) -> Floats:
        """How fast each share rises: its weight among the rising ones of its tenant, over its GPUs."""
        rise, stays = [0.0] * len(frozen), frozen.tolist()
        for jobs, weight in zip(self.by_tenant, self.of_tenants, strict=True):
            mine = [each for each in jobs if not stays[each[0]]]
            if self.in_order:
                for job, _, _ in mine[:1]:
                    rise[job] = weight
            else:
                total = sum([of_all for _, _, of_all in mine])
                for job, own, _ in mine:
                    rise[job] = weight * own / total
        return np.array(rise) / self.gpus

    @cached_property
    def by_tenant(self) -> list[list[tuple[int, float, float]]]:
        """The jobs of each tenant, with weights, and the weights of all jobs each stands for."""
        jobs: list[list[tuple[int, float, float]]] = [[] for _ in self.of_tenants]
        weights, counts = self.weights.tolist(), self.division.counts.tolist()
        for job, code in enumerate(self.tenants):
            jobs[code].append((job, weights[job], weights[job] * counts[job]))
        return jobs

    def obtained(self, columns: Floats) -> Floats:
        """Share of each with these fractions, which rounding may have left a little below what was meant."""
        rows = self.rows
        values = rows.values * columns[rows.columns]
        total: Floats = np.add.reduceat(values, rows.starts[:-1]) / self.division.counts
        return total

    @cached_property
    def rows(self) -> SparseRows:
        """The shares, [job, fraction]."""
        return self.division.by_job(self.gains)

    def least(self, shares: Floats) -> Floats:
        """What the rows of the program must reach so that no job falls below its share."""
        return shares * self.division.counts * (1.0 - _ROUNDING)


def hierarchy(problem: GavelProblem) -> Shares:
    """The water-filled fractions.

    Each level is solved from the inside, whatever the tie: where that ends, a demand has a price if it cannot
    be exceeded without another falling, and something to spare if it can (strict complementarity).  Where
    enough shares are fixed that a further level is lost in rounding, or after `MOST_LEVELS`, the levels
    so far stand; what is left then is divided by the tie.
    """
    water = _water(problem)
    division, tie = water.division, problem.rules.tie
    shares, frozen = np.zeros(len(division.counts)), np.zeros(len(division.counts), dtype=bool)
    levels = WaterLevels(division, water.gains)
    inner: Answer | None = None
    for _ in range(MOST_LEVELS):
        slope = water.slope(frozen)
        least, rises = water.least(shares), slope * division.counts
        try:
            inner = optimal(levels.best(least, rises))
        except PolicyError:
            if inner is None:
                raise
            break  # the levels so far stand
        reached = DemandRows(water.gains, least, rises)
        slack, prices = inner.slack, inner.prices
        assert slack is not None  # of all jobs, from the inside
        assert prices is not None
        stuck = ~frozen & (slope > 0.0) & (prices > slack)
        risen = shares + max(inner.columns.item(division.size), 0.0) * slope
        shares = np.minimum(risen, water.obtained(inner.columns))
        frozen |= stuck
        if frozen.all() or not stuck.any():
            break
    assert inner is not None
    if tie is not Tie.INTERIOR:
        inner = optimal(best(division, Objective(np.zeros(division.size), 1.0), reached, tie))
    return problem.entries.shares(division.fractions(inner.columns))


def _water(problem: GavelProblem) -> _Water:
    codes: dict[str, int] = {}
    of_job = [codes.setdefault(name, len(codes)) for name in problem.tenants]
    if problem.pairs is not None:
        of_job = np.rint(problem.mean(np.array(of_job, dtype=np.float64))).astype(np.int64).tolist()
    tenants = problem.snapshot.cluster.tenants
    return _Water(
        problem.division,
        scaled(problem.division, 1.0 / problem.mean(problem.equal_share)),
        problem.mean(problem.gpus),
        problem.mean(problem.weights),
        of_job,
        [tenants.get(name).weight for name in codes],
        problem.rules.in_order_inside,
    )
