"""What jobs held and when, job by job, and whether that of two runs is alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NEAR_S = 2e-5
"""Moments of two runs that round differently lie so near to each other."""

Stays = Sequence[Sequence[tuple[Any, ...]]]
"""Of each job its stretches: begin and end in seconds, then what was held."""


def merged(stays: Stays) -> list[list[tuple[Any, ...]]]:
    """Who goes on at once as it was has not stopped; nobody has held anything for no time."""
    whole: list[list[tuple[Any, ...]]] = []
    for of_job in stays:
        whole.append([])
        for begin_s, end_s, *what in of_job:
            last = whole[-1][-1] if whole[-1] else None
            if last is not None and list(last[2:]) == what and abs(last[1] - begin_s) <= NEAR_S:
                whole[-1][-1] = (last[0], end_s, *what)
            elif end_s - begin_s > NEAR_S:
                whole[-1].append((begin_s, end_s, *what))
    return whole


def are_alike(stays: Stays, others: Stays) -> bool:
    """Whether all jobs hold what, and about when, they do in the other run."""
    pairs = zip(merged(stays), merged(others), strict=True)
    return all(len(own) == len(other) and all(map(_is_near, own, other)) for own, other in pairs)


def _is_near(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return one[2:] == other[2:] and max(abs(one[0] - other[0]), abs(one[1] - other[1])) <= NEAR_S
