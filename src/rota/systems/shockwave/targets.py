"""When each job should be done if all are treated equally: a target that remembers all earlier ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from rota.model.columns import Floats, Ints
from rota.scheduler.decision import Memory

LATEST = 0.1
"""Weight of the latest fair finish; the rest is the average of all, by the rounds they were in force."""


class FinishTargets:
    """Fair finishes noted at arrivals and ends, and their average for each job.

    Memory    rows       jobs, ascending
              began      round of the first note
              area       sum of each earlier fair finish times the rounds it was in force
              latest     the latest fair finish
              noted      round of that note
              first      the first one
    """

    def __init__(self, memory: Memory) -> None:
        """Reads and writes `memory`, which is `{}` at first."""
        if not memory:
            memory["rows"] = np.zeros(0, dtype=np.int64)
            for name in _COLUMNS:
                memory[name] = np.zeros(0)
        self.memory: dict[str, Any] = memory

    def note(self, rows: Ints, fair_s: Floats, at: float) -> None:
        """Note the fair finishes `fair_s` of `rows`, which are all there are, from round `at` on."""
        own = self.memory
        known, place = self._places(rows)
        began, area, noted, latest, first = (np.zeros(len(rows)) for _ in range(5))
        began[:], noted[:], latest[:], first[:] = at, at, fair_s, fair_s
        old = place[known]
        began[known], first[known] = own["began"][old], own["first"][old]
        area[known] = own["area"][old] + own["latest"][old] * (at - own["noted"][old])
        self.memory.update(rows=rows.copy(), began=began, area=area, noted=noted, latest=latest, first=first)

    def target_s(self, rows: Ints, at: float) -> Floats:
        """The finishes that `rows`, all of them noted, are entitled to, as of round `at`."""
        own, (_, place) = self.memory, self._places(rows)
        began, latest = own["began"][place], own["latest"][place]
        passed = at - began
        area = own["area"][place] + latest * (at - own["noted"][place])
        average = np.divide(area, passed, out=own["first"][place].copy(), where=passed > 0.0)
        target: Floats = np.where(
            passed > 0.0, (1.0 - LATEST) * average + LATEST * latest, own["first"][place]
        )
        return target

    def _places(self, rows: Ints) -> tuple[Any, Ints]:
        """Which of `rows` were noted before, and at which place."""
        noted = self.memory["rows"]
        if not len(noted):
            return np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=np.int64)
        place = np.minimum(np.searchsorted(noted, rows), len(noted) - 1)
        return noted[place] == rows, place


_COLUMNS = ("began", "area", "latest", "noted", "first")
