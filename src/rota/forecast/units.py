"""Work in a fork is counted as the moment counted it.

What a policy remembers of work, and what it receives in units of work (rates, epochs, phases of goodput),
then means in the fork what it meant before.  Durations are in seconds at the request: this room changes one
into the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rota.forecast.known_speed import KnownGoodput
from rota.knowledge.needs import Known
from rota.model.columns import Floats, Ints
from rota.model.grants import Grant
from rota.model.trace import Trace
from rota.table.state import State
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.speed import SpeedModel


class WorkUnits:
    """What a second at the request is worth, of each job of a moment."""

    def __init__(self, state: State, goodput: Known | None) -> None:
        """`goodput` is what the moment knows of jobs whose rate at the request varies."""
        self.per_s = state.progress.per_s
        """Work in a second at the request, by the moment; None if all work is counted in such seconds."""
        self._each, self._told = np.ones(len(state.jobs)), None
        self._phased = frozenset[int]()
        if self.per_s is None:
            return
        uncounted = np.flatnonzero(np.isnan(self.per_s))
        self._each = self.per_s.copy()
        self._each[uncounted] = _so_far(state, uncounted)
        if goodput is not None and len(uncounted):
            self._told = told = KnownGoodput(goodput, state.jobs, state.cluster)
            self._phased = frozenset(row for row in uncounted.tolist() if told.knows(row))

    def seconds(self, row: int, work: float) -> float:
        """`work` in seconds at the request."""
        if self._told is not None and row in self._phased:
            return self._told.seconds(row, work)
        return work / self._each.item(row)

    def work(self, row: int, seconds: float) -> float:
        """The work of `seconds` at the request."""
        if self._told is not None and row in self._phased:
            return self._told.examples(row, seconds)
        return seconds * self._each.item(row)

    def done_s(self, state: State, rows: Ints) -> Floats:
        """Work that `rows` have done, in seconds at the request."""
        done: Floats = state.progress.done(rows, state.now)
        return np.array(
            [self.seconds(row, work) for row, work in zip(rows.tolist(), done.tolist(), strict=True)]
        )

    def pace(self, row: int, work: float, pace: Pace) -> Pace:
        """`pace`, in seconds at the request, in the own unit of `row` after `work`."""
        if self._told is not None and row in self._phased:
            rate, end = self._told.at_request(row, work)
            return Pace(pace.rate * rate, end if pace.until_work < math.inf else math.inf, pace.until_s)
        each = self._each.item(row)
        return Pace(pace.rate * each, pace.until_work * each, pace.until_s)


def _so_far(state: State, rows: Ints) -> Floats:
    """Work of each of `rows` per second that it has run; for one that has done nothing, its rate."""
    done, ran_s = state.progress.done(rows, state.now), state.ran_s(rows)
    rate = state.progress.rate[rows]
    now: Floats = np.where(rate > 0.0, rate, 1.0)
    return np.divide(done, ran_s, out=now, where=(done > 0.0) & (ran_s > 0.0))


class InOwnUnits:
    """Speeds that count seconds at the request, for a world that counts in the units of a moment."""

    def __init__(self, speed: SpeedModel, units: WorkUnits) -> None:
        self.speed, self.units = speed, units
        self.per_s = units.per_s

    def total(self, trace: Trace) -> Floats:
        total_s = self.speed.total(trace).tolist()
        return np.array([self.units.work(row, seconds) for row, seconds in enumerate(total_s)])

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        in_seconds = at._replace(done=self.units.seconds(row, at.done))
        return self.units.pace(row, at.done, self.speed.pace(row, grant, beside, in_seconds))
