"""Leases of equal length to come, and which of them each job takes: filled from the back.

Source    Gao et al., "Chronus", SoCC 2021: admission looks whether all jobs can be laid out, the latest
          leases first, so that near ones stay free for urgent jobs

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
    """The job has to be done when this lease begins: it can take earlier ones."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """The order in which demands are laid out: the largest, then the tightest."""
        return -self.gpus, self.last - self.need, -self.last


def latest_fit(free: Ints, demand: Demand) -> Ints | None:
    """The latest leases that are free for `demand`, ascending; None if there are too few."""
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
    """Leases of all of `demands`, or None if one of them finds too few; `free` stays as it is."""
    laid = lay_out(free.copy(), demands)
    fitting = [leases for leases in laid if leases is not None]
    return fitting if len(fitting) == len(laid) else None


MOST_LAID = 20_000
"""Demands that are laid out in all to look for a smaller `last` than the one found by halving."""


def soonest_last(free: Ints, left: Ints, others: Sequence[Demand], demand: Demand) -> int | None:
    """The smallest `last` with which `demand` can be had; None if there is none within `free`.

    It can be had on what is `left` of `free` as the `others` lie, or if all of them are laid out again.  That
    is a heuristic: where it finds room by one moment it may find none by a later one.  So halving gives a
    bound, and all smaller ones are tried from below, as long as at most `MOST_LAID` are laid out for it.
    """

    def fits(last: int) -> bool:
        return all_fit(free, [*others, demand._replace(last=last)]) is not None

    low, beside = _first_with(free, demand), _first_with(left, demand)
    if low is None or (beside is None and not fits(len(free))):
        return None
    bound = len(free) if beside is None else beside
    below, high = low, bound if fits(bound) else low
    while below < high:
        middle = (below + high) // 2
        if fits(middle):
            high = middle
        else:
            below = middle + 1
    if fits(high):
        bound = high
    tried = range(low, min(bound, low + MOST_LAID // (len(others) + 1)))
    return next(filter(fits, tried), bound)


def _first_with(free: Ints, demand: Demand) -> int | None:
    """The smallest `last` before which there are leases enough for `demand` alone."""
    if demand.need <= 0:
        return 1
    room = np.flatnonzero(free >= demand.gpus)
    return int(room[demand.need - 1]) + 1 if len(room) >= demand.need else None
