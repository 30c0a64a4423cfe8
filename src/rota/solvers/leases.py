"""Leases of equal length to come, and which of them each job takes: filled from the back.

Source    Gao et al., "Chronus", SoCC 2021: admission looks whether all jobs can be laid out, the latest
          leases first, so that near ones stay free for whoever is urgent

Leases are counted from 0, the first that can still be taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rota.model.columns import Ints


class Demand(NamedTuple):
    """What one job needs to be done in time."""

    gpus: int
    """GPUs in each lease."""
    need: int
    """Number of leases."""
    last: int
    """It has to be done when this lease begins: those before it can be taken."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """The order in which demands are laid out: the largest, then the tightest."""
        return -self.gpus, self.last - self.need, -self.last


def latest_fit(free: Ints, demand: Demand) -> Ints | None:
    """The latest leases that `demand` can have, ascending; None if there are too few."""
    if demand.need <= 0:
        return np.zeros(0, dtype=np.int64)
    room = np.flatnonzero(free[: max(demand.last, 0)] >= demand.gpus)
    return room[-demand.need :] if len(room) >= demand.need else None


def lay_out(free: Ints, demands: Sequence[Demand]) -> list[Ints | None]:
    """Leases of each of `demands`, laid out by rank; None for those that find too few.

    `free`, the GPUs free in each lease, becomes what they leave.
    """
    laid: list[Ints | None] = [None] * len(demands)
    for place in sorted(range(len(demands)), key=lambda place: (demands[place].rank, place)):
        leases = laid[place] = latest_fit(free, demands[place])
        if leases is not None:
            free[leases] -= demands[place].gpus
    return laid


def all_fit(free: Ints, demands: Sequence[Demand]) -> list[Ints] | None:
    """Leases of all of `demands`, or None if somebody finds too few; `free` stays as it is."""
    laid = lay_out(free.copy(), demands)
    fitting = [leases for leases in laid if leases is not None]
    return fitting if len(fitting) == len(laid) else None


def soonest_last(free: Ints, others: Sequence[Demand], demand: Demand) -> int | None:
    """The smallest `last` with which `demand` fits beside `others`; None if there is none within `free`.

    Found by halving: laying out is a heuristic, so that a smaller one may fit too.
    """
    low, high = max(demand.need, 1), len(free)
    if low > high or all_fit(free, [*others, demand._replace(last=high)]) is None:
        return None
    while low < high:
        middle = (low + high) // 2
        if all_fit(free, [*others, demand._replace(last=middle)]) is None:
            low = middle + 1
        else:
            high = middle
    return high
