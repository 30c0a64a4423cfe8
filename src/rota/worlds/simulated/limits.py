"""Time limits in a simulation: a job that has run for the time stated at submission is ended.

As on a live cluster the seconds of all attempts count, including start-up and standstill; a job that is
ended this way has failed and is not tried again.  A job whose recorded run outlasts its limit (a site checks
now and then, and lets it end) may run as long as that record: only slower runs than the recorded one end.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.model.trace import Trace
from rota.model.units import format_duration
from rota.scheduler.world import Ended, How
from rota.table.state import Phase
from rota.worlds.simulated.world import SAME_S, SimulatedWorld


class TimeLimits(StrEnum):
    """What a simulation does with the run times stated at submission, besides showing them to policies."""

    IGNORE = "ignore"
    ENFORCE = "enforce"


def limits_of(text: str | TimeLimits) -> TimeLimits:
    """Parse `ignore` or `enforce`."""
    if text not in list(TimeLimits):
        raise InputError.at(
            f"{text!r} is not done with limits", field="--limits", expected=" or ".join(TimeLimits)
        )
    return TimeLimits(text)


class LimitedWorld(SimulatedWorld):
    """Replays a trace on a cluster that enforces time limits."""

    def __init__(self, trace: Trace, *args: Any, **options: Any) -> None:
        most_s = np.fmax(trace.jobs.limit_s, trace.truth.run_s())
        self._most_s: list[float] = np.where(np.isnan(trace.jobs.limit_s), math.inf, most_s).tolist()
        """Seconds that each job may run in all."""
        self.timed_out: dict[int, str] = {}
        """The message for each job that was ended."""
        super().__init__(trace, *args, **options)

    def _schedule(
        self,
        row: int,
        rate: float,
        since: float,
        until_work: float = math.inf,
        until_s: float = math.inf,
    ) -> None:
        now = self.state.now
        super()._schedule(row, rate, since, until_work, min(until_s, now + self._left_s(row, now)))

    def _left_s(self, row: int, now: float) -> float:
        """Seconds from `now` on for which `row`, which runs, may still run."""
        ran_s = self.state.run_s.item(row) + now - self.state.since_s.item(row)
        return max(self._most_s[row] - ran_s, 0.0)

    def _finished(self, now: float, entry: float) -> list[Ended]:
        ended = super()._finished(now, entry)
        running = self.state.running
        late = [row for row in self._dirty if row in running and self._left_s(row, now) <= SAME_S]
        self._dirty.difference_update(late)
        return sorted([*ended, *map(self._time_out, late)], key=lambda one: one.row)

    def _time_out(self, row: int) -> Ended:
        """End `row`, which has run for as long as it may."""
        self.timed_out[row] = f"reached its time limit of {format_duration(self._most_s[row])}"
        return Ended(row, How.FAILED, Phase.FAILED)
