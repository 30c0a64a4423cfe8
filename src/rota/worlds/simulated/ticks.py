"""The simulated world by ticks: jobs go from event to event, policies are called at fixed intervals.

Between two ticks jobs pass their epochs, and end, at whole seconds (`Semantics.epoch_clock_s`); no policy is
called.  At a tick the policy sees which jobs have come and what has become free since the last.  A tick
without news that no policy asked for is skipped, so that idle hours cost nothing; a policy that wants to
look at each of them asks to be woken.
"""

from __future__ import annotations

import math
from typing import Any

from rota.scheduler.decision import Event
from rota.scheduler.world import Batch
from rota.table.state import Phase
from rota.worlds.simulated.semantics import round_s_of
from rota.worlds.simulated.world import SimulatedWorld


class TickWorld(SimulatedWorld):
    """Replays a trace on a cluster, tick by tick (Pollux, Sia)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tick_s = round_s_of(self.semantics)
        self._news = Event.NONE
        """What has happened since the last tick."""
        self._news_s = math.inf
        """The moment of the first of it, as the heap has it."""

    def next(self, until_s: float) -> Batch | None:
        if self._dirty:
            self._settle()
        end, tick = self._next_finish(), self._next_tick(until_s)
        if end <= tick and end < math.inf:
            return self._between(end)
        is_last = end == math.inf and self._next == len(self._submit)
        if tick == math.inf or (is_last and self._is_over()):
            return None
        return self._look(tick, until_s)

    def _settle(self) -> None:
        """As in the event world; a model whose jobs learn first receives all of them."""
        hear = getattr(self.speed, "hear", None)
        if hear is not None:
            now, done = self.state.now, self.progress.done
            hear([(row, done(row, now)) for row in sorted(self._dirty) if row in self.state.grants], now)
        super()._settle()

    def _next_tick(self, until_s: float) -> float:
        """The next tick at which there is something to see, or that was asked for."""
        moment = min(until_s, self._holds.next_s, self._news_s)
        if self._next < len(self._submit):
            moment = min(moment, self._submit[self._next])
        lives = self._next < len(self._submit) or self.state.running.n or self.state.waiting.n
        if lives and self._fault < len(self._faults):
            moment = min(moment, self._faults[self._fault][0])
        if moment == math.inf:
            return math.inf
        tick = math.ceil(moment / self.tick_s) * self.tick_s
        return tick if tick >= moment else tick + self.tick_s

    def _between(self, end: float) -> Batch:
        """Epochs and jobs that end between two ticks, or just before one; the policy is not called."""
        batch = Batch(self._clean(end), Event.NONE)
        batch.ended = self._finished(batch.now, end)
        if not batch.ended:
            return batch
        for ended in batch.ended:
            self._news |= Event.FAILURE if ended.phase is Phase.PENDING else Event.END
        self._news_s = min(self._news_s, end)
        if self._groups.members:
            self._groups.end_others(batch, self.state)
        if self._holds and self._holds.follow(batch, self.state):
            self._news |= Event.ARRIVAL
        return batch

    def _look(self, tick: float, until_s: float) -> Batch:
        batch = Batch(tick, Event.ROUND | self._news)
        self._news, self._news_s = Event.NONE, math.inf
        if self._fault < len(self._faults) and self._faults[self._fault][0] <= tick:
            self._add_faults(batch)
        batch.arrived = self._come(tick)
        is_let_go = bool(self._holds) and self._holds.follow(batch, self.state)
        if len(batch.arrived) or is_let_go:
            batch.cause |= Event.ARRIVAL
        if until_s <= tick:
            batch.cause |= Event.TIMER
        return batch

    def _come(self, tick: float) -> range:
        first = last = self._next
        while last < len(self._submit) and self._submit[last] <= tick:
            last += 1
        self._next = last
        return range(first, last)

    # -- the clock of the epochs -------------------------------------------------------------------

    def _nearest(self, row: int, since: float, rate: float, work: float) -> float:
        """As in the event world, but an end that rounding moves beyond a tick comes after the tick.

        The authors' loop resumes where a tick ended, and sees ends less than half a second after it only
        then: in the same second, but after the policy has decided.
        """
        self._goal[row] = work
        clock, now = self.semantics.epoch_clock_s, self.state.now
        exact = since + (work - self.progress.base.item(row)) / rate
        moment = max(now, round(exact / clock) * clock if clock else exact)
        if clock and exact > moment and moment % self.tick_s == 0.0:
            return math.nextafter(moment, math.inf)
        return moment

    def _clean(self, moment: float) -> float:
        """The moment at which something of the heap happens."""
        clock = self.semantics.epoch_clock_s
        return round(moment / clock) * clock if clock else moment
