"""Failures of gangs tried on fewer devices than they ask for: they come as soon as on all of them.

A program fails in the same step on any number of devices; only its work takes longer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rota.model.grants import Grant


class Strikes:
    """When jobs tried on fewer devices will fail; `failures`: seconds of each job's failing attempts."""

    def __init__(self, failures: Mapping[int, Sequence[float]]) -> None:
        self._failures = failures
        self._at_s: dict[int, float] = {}

    def at_s(self, row: int, grant: Grant, asked: int, failed: int, since: float) -> float:
        """When `row`, which starts to work at `since` after `failed` failures, fails on `grant`.

        Infinite if it is to succeed, or has what it asked for: then it fails at its work.
        """
        failures = self._failures.get(row, ())
        if len(grant.devices) >= asked or failed >= len(failures):
            return math.inf
        self._at_s[row] = since + failures[failed]
        return self._at_s[row]

    def have_come(self, row: int, now: float) -> bool:
        """True if the moment of `row` is over."""
        return bool(self._at_s) and now >= self._at_s.get(row, math.inf)

    def forget(self, row: int) -> None:
        """`row` has stopped."""
        if self._at_s:
            self._at_s.pop(row, None)
