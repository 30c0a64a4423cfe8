"""Fronts of members that have two values each, both to be large: the sorting of NSGA-II."""

from __future__ import annotations

import math
from bisect import bisect_right

import numpy as np

from rota.model.columns import Floats, Ints


def fronts(values: Floats) -> tuple[Ints, Ints]:
    """Members by front, and on it by fitness, largest first; and the front of each in that order.

    No member of a front is better in both than another there; each is worse than one of the front before.
    """
    order = np.lexsort((-values[:, 1], -values[:, 0]))
    lowest: list[float] = []  # the best second value of each front so far, negative
    rank: list[int] = []
    place, first_before, second_before = 0, math.nan, math.nan
    firsts, seconds = (-values[order]).T.tolist()
    for first, second in zip(firsts, seconds, strict=True):
        if second != second_before or first != first_before:  # of equals neither is the better one
            first_before, second_before = first, second
            place = bisect_right(lowest, second)
            if place < len(lowest):
                lowest[place] = second
            else:
                lowest.append(second)
        rank.append(place)
    ranks = np.array(rank)
    by_front = np.argsort(ranks, kind="stable")
    return order[by_front], ranks[by_front]


def crowding(values: Floats, rank: Ints) -> Floats:
    """How far the neighbours of each are apart, in parts of its front; infinite at the ends of fronts.

    `values` and `rank` are in the order of `fronts`, with no front missing.
    """
    gaps = np.full(len(rank), math.inf)
    ends = np.append(np.flatnonzero(rank[1:] != rank[:-1]), len(rank) - 1)
    starts = np.concatenate(([0], ends[:-1] + 1))
    span = np.abs(values[starts] - values[ends])
    span[span == 0.0] = 1.0
    if len(rank) > 2:
        between = np.abs(values[2:] - values[:-2]) / span[rank[1:-1]]
        gaps[1:-1] = between[:, 0] + between[:, 1]
    gaps[starts] = gaps[ends] = math.inf
    return gaps
