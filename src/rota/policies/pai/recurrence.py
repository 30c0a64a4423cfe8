"""Durations of recurring jobs, predicted from those of the same series, user and size that have completed.

A regression tree on those categories (Weng et al., MLaaS in the Wild, NSDI 2022) predicts the mean of a
leaf; here each leaf is a key, and the most specific key with a past speaks.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Sequence


class Recurrence:
    """Past durations by key; what it knows does not depend on the order in which it learnt it."""

    def __init__(self) -> None:
        self._past: dict[Hashable, list[float]] = {}
        self._all: list[float] = []

    def add(self, keys: Sequence[Hashable], seconds: float) -> None:
        """A job with `keys` has completed after running `seconds`."""
        for key in keys:
            insort(self._past.setdefault(key, []), seconds)
        insort(self._all, seconds)

    def knows(self, keys: Sequence[Hashable]) -> bool:
        """True if a job with one of `keys` has completed."""
        return any(key in self._past for key in keys)

    def estimate(self, keys: Sequence[Hashable]) -> float:
        """Mean duration of the first of `keys` (most specific first) that has a past, in seconds.

        Failing that the median of all completed jobs; 0 while nothing has completed: unknown goes first.
        """
        for key in keys:
            past = self._past.get(key)
            if past:
                return sum(past) / len(past)
        return _median(self._all)


def _median(ordered: list[float]) -> float:
    if not ordered:
        return 0.0
    low, high = (len(ordered) - 1) // 2, len(ordered) // 2
    return (ordered[low] + ordered[high]) / 2
