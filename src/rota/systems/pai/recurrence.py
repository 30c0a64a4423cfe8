"""Durations of recurring jobs, predicted from those of the same series, user and size that have completed.

A regression tree on those categories (Weng et al., MLaaS in the Wild, NSDI 2022) predicts the mean of a
leaf; here each leaf is a key, and the most specific key with a past speaks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from heapq import heappush, heappushpop
from math import fsum

EVERYBODY = None
"""Stands for the key of a job none of whose keys has a past: all completed jobs speak for it."""


class Recurrence:
    """Past durations by key; independent of the order in which they were added."""

    def __init__(self) -> None:
        self._past: dict[Hashable, Mean] = {}
        self._all = Median()

    def add(self, keys: Sequence[Hashable], seconds: float) -> list[Hashable]:
        """A job with `keys` has completed after `seconds`; returns keys that had no past before."""
        new = [key for key in keys if key not in self._past]
        for key in keys:
            self._past.setdefault(key, Mean()).add(seconds)
        self._all.add(seconds)
        return new

    def speaker(self, keys: Sequence[Hashable]) -> Hashable:
        """The first of `keys` (most specific first) that has a past; `EVERYBODY` if none has."""
        return next((key for key in keys if key in self._past), EVERYBODY)

    def expected_s(self, speaker: Hashable) -> float:
        """Mean duration of the completed jobs of a key, in seconds; the median of all for `EVERYBODY`.

        0 while nothing has completed: unknown goes first.
        """
        return self._all.seconds if speaker is EVERYBODY else self._past[speaker].seconds


class Mean:
    """The mean of some numbers, the same to the last bit in whatever order they came."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[float] = []  # numbers no two of which overlap in a bit; their sum is exact

    def add(self, number: float) -> None:
        self.count += 1
        parts = []
        for part in self._parts:
            if abs(number) < abs(part):
                number, part = part, number
            total = number + part
            rest = part - (total - number)
            if rest:
                parts.append(rest)
            number = total
        self._parts = [*parts, number]

    @property
    def seconds(self) -> float:
        return fsum(self._parts) / self.count


class Median:
    """The median of some numbers, 0 of none."""

    def __init__(self) -> None:
        self._low: list[float] = []  # the smaller half, negative: a heap with the largest first
        self._high: list[float] = []  # the larger half, with the smallest first

    def add(self, number: float) -> None:
        if len(self._low) > len(self._high):
            heappush(self._high, -heappushpop(self._low, -number))
        else:
            heappush(self._low, -heappushpop(self._high, number))

    @property
    def seconds(self) -> float:
        if not self._low:
            return 0.0
        largest = -self._low[0]
        return largest if len(self._low) > len(self._high) else (largest + self._high[0]) / 2
