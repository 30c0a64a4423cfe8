"""Moments at which a job, or the nodes, are to be looked at; looking once too often does no harm."""

from __future__ import annotations

import heapq
import math

AFTERWARDS_S = 1e-3
"""So long after a moment the loop has taken it in."""
NODES = -1
"""Stands for a row in the entry that looks at all nodes."""
SCALING = -2
"""Likewise in the entry that looks at how many there are to be."""


class Timers:
    """A heap of moments and rows."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []

    @property
    def next_s(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def set(self, row: int, at_s: float) -> None:
        """Look at `row` at that moment, or as soon as can be after it."""
        heapq.heappush(self._heap, (at_s, row))

    def due(self, now: float) -> list[int]:
        """Rows to look at now, each once."""
        rows: dict[int, None] = {}
        while self._heap and self._heap[0][0] <= now:
            rows[heapq.heappop(self._heap)[1]] = None
        return list(rows)
