"""One option for each item of a kind, so that the sum of their values is largest within some capacities.

The multiple-choice knapsack with several capacities, as an integer program for HiGHS.  Items of a kind are
interchangeable, so the program counts them: it has a column for each kind and option, however many items
there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csc_array

from rota.errors import PolicyError
from rota.model.columns import Floats, Ints

_TIE = 1e-6
"""Value of all capacities together: among options of equal value the one that uses less is taken."""


class ItemKind(NamedTuple):
    """A group of interchangeable items."""

    items: int
    values: Floats
    """Value of each option, [option]."""
    costs: Floats
    """What an item takes under each option, [option, capacity]."""


class Choice(NamedTuple):
    """How many items of each kind take which option."""

    counts: list[Ints]
    """By kind, [option]."""
    value: float
    """Sum of the values."""
    bound: float
    """No choice has a larger sum."""
    is_cut: bool
    """True if the search ended at its limit."""


def choose(kinds: Sequence[ItemKind], capacities: Floats, max_nodes: int) -> Choice:
    """The best choice, or the best that is found with `max_nodes` nodes of the search tree.

    Infinite capacities do not bind.  Option 0 of every kind has to be possible for all items together, as it
    is taken if the search finds nothing; PolicyError if there is no choice at all.
    """
    if not kinds:
        return Choice([], 0.0, 0.0, False)
    values = np.concatenate([kind.values for kind in kinds])
    costs = np.concatenate([kind.costs for kind in kinds])
    sizes = [len(kind.values) for kind in kinds]
    limited = np.isfinite(capacities)
    used = costs[:, limited] / np.maximum(capacities[limited], 1e-9)
    kind_of = np.repeat(np.arange(len(kinds)), sizes)
    counts = np.array([kind.items for kind in kinds], dtype=np.float64)
    each = csc_array((np.ones(len(values)), (kind_of, np.arange(len(values)))))
    rows = [LinearConstraint(each, counts, counts)]
    if limited.any():
        rows.append(LinearConstraint(used.T, -np.inf, 1.0 + 1e-9))
    solution = milp(
        -(values - _TIE * used.sum(axis=1)),
        constraints=rows,
        bounds=Bounds(0.0, counts[kind_of]),
        integrality=np.ones(len(values)),
        options={"node_limit": max_nodes, "mip_rel_gap": 0.0},
    )
    if solution.status not in (0, 1):
        raise PolicyError(f"no choice of options fits the capacities: HiGHS says {solution.message!r}")
    is_cut = solution.status == 1
    chosen = _first_options(sizes, counts) if solution.x is None else np.rint(solution.x).astype(np.int64)
    bound = (
        -float(solution.mip_dual_bound)
        if is_cut and solution.mip_dual_bound is not None
        else float(values @ chosen)
    )
    return Choice(np.split(chosen, np.cumsum(sizes)[:-1]), float(values @ chosen), bound, is_cut)


def _first_options(sizes: Sequence[int], counts: Floats) -> Ints:
    """Option 0 for every item."""
    chosen = np.zeros(sum(sizes), dtype=np.int64)
    chosen[np.cumsum([0, *sizes[:-1]])] = counts.astype(np.int64)
    return chosen
