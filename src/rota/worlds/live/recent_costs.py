"""Durations that agents and programs have measured lately, by kind and workload."""

from __future__ import annotations

from collections import deque
from statistics import median

ENOUGH = 5
"""Measurements of a workload's own from which they count for it."""
LATELY = 101
"""So many of each kind are remembered."""


class RecentCosts:
    """Medians of what was measured last."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], deque[float]] = {}
        self._medians: dict[tuple[str, str], float] = {}

    def add(self, workload: str, kind: str, seconds: float) -> None:
        """Something of this kind took so long for a job of this workload."""
        for key in {(kind, workload), (kind, "")}:
            self._seen.setdefault(key, deque(maxlen=LATELY)).append(seconds)
            self._medians.pop(key, None)

    def seconds(self, workload: str, kind: str) -> float | None:
        """The median for this workload if it was measured often enough, else for all; None if never."""
        key = (kind, workload)
        if len(self._seen.get(key, ())) < ENOUGH:
            key = (kind, "")
        if key not in self._seen:
            return None
        if key not in self._medians:
            self._medians[key] = median(self._seen[key])
        return self._medians[key]
