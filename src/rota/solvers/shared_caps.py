"""Limits on what some jobs may have together, such as hard quotas of tenants, beside what there is for all.

A rule that hands things out one by one passes by whoever a limit keeps from its next step, and goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

_ROUNDING = 1e-6
"""Parts of GPUs that are taken for rounding."""


class SharedCaps:
    """What each limit leaves; a job may count in several of them."""

    def __init__(self, left: Sequence[float], of: Sequence[Sequence[int]], each: Sequence[float]) -> None:
        """`left` of each limit; `of[j]` are those that job j counts in, and `each[j]` what its GPU counts."""
        self.left = list(left)
        self.of = of
        self.each = each

    def admits(self, job: int, gpus: float) -> bool:
        """True if all limits leave so many further GPUs to `job`."""
        of = self.of[job]
        if not of:
            return True
        claim = gpus * self.each[job] - _ROUNDING
        return all(self.left[limit] >= claim for limit in of)

    def within(self, job: int, gpus: int) -> int:
        """The most further GPUs, up to so many, that all limits leave to `job`."""
        left = min((self.left[limit] for limit in self.of[job]), default=math.inf)
        return int(max(min(float(gpus), (left + _ROUNDING) / self.each[job]), 0.0))

    def take(self, job: int, gpus: float) -> None:
        """`job` has so many GPUs more."""
        claim = gpus * self.each[job]
        for limit in self.of[job]:
            self.left[limit] -= claim

    def beside(self, job: int) -> Iterator[int]:
        """Jobs that count in a limit in which `job` does, itself among them."""
        own = set(self.of[job])
        return (other for other, of in enumerate(self.of) if own.intersection(of)) if own else iter(())

    def among(self, jobs: Sequence[int]) -> SharedCaps:
        """The same limits, with what they leave now, for some of the jobs, numbered by their places."""
        return SharedCaps(self.left, [self.of[job] for job in jobs], [self.each[job] for job in jobs])
