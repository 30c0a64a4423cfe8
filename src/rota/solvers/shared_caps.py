"""Limits on what some jobs may have together, such as hard quotas of tenants.

A rule that hands out GPUs one by one passes over a job that a limit keeps from its next step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
        """True if all limits leave `gpus` further GPUs to `job`."""
        of = self.of[job]
        if not of:
            return True
        claim = gpus * self.each[job] - _ROUNDING
        for limit in of:  # noqa: SIM110 (mypyc is slow with generator expressions)
            if self.left[limit] < claim:
                return False
        return True

    def within(self, job: int, gpus: int) -> int:
        """The most further GPUs, up to `gpus`, that all limits leave to `job`."""
        left = min((self.left[limit] for limit in self.of[job]), default=math.inf)
        return int(max(min(float(gpus), (left + _ROUNDING) / self.each[job]), 0.0))

    def take(self, job: int, gpus: float) -> None:
        """`job` receives `gpus` more GPUs."""
        claim = gpus * self.each[job]
        for limit in self.of[job]:
            self.left[limit] -= claim

    def among(self, jobs: Sequence[int]) -> SharedCaps:
        """These limits, with what they leave now, for some of the jobs, numbered by place in `jobs`."""
        return SharedCaps(self.left, [self.of[job] for job in jobs], [self.each[job] for job in jobs])
