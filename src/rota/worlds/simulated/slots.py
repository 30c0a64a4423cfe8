"""Rounds of no fixed length: steps that end with an arrival, and events merged into slots.

The simulators of Tiresias (its Gandiva) and ElasticFlow look at the cluster at moments that depend on
events.  `RoundEnds` names their rules; `Charge` says which jobs pay for a decision in ElasticFlow's.
"""

from __future__ import annotations

import math

import numpy as np
from mypy_extensions import mypyc_attr

from rota.model.columns import Bools, Floats, Ints
from rota.scheduler.world import Batch
from rota.worlds.simulated.overheads import overhead_s
from rota.worlds.simulated.rounds import RoundWorld
from rota.worlds.simulated.semantics import Charge, RoundEnds


@mypyc_attr(allow_interpreted_subclasses=True)
class SlotWorld(RoundWorld):
    """Replays a trace on a cluster in rounds that end when something happens."""

    def _begin(self) -> None:
        super()._begin()
        self._loses_nothing = self._loses_nothing and self.semantics.charge is Charge.COSTS
        self._alarm = math.inf
        self._opened = 0
        """Rounds opened that count for restarts."""
        self._owed = np.zeros(len(self.trace))
        """Seconds each job will stand still when it runs next."""
        self._late: dict[int, float] = {}
        """Seconds to be taken off the work of a job when the round is over."""

    def next(self, until_s: float) -> Batch | None:
        self._alarm = until_s
        return super().next(until_s)

    def _open(self) -> None:
        if self._dirty:
            self._settle()
        self._charge()
        super()._open()

    # -- when rounds end ---------------------------------------------------------------------------

    def _length(self, begin: float) -> float:
        return self._end_after(begin) - begin

    def _end_after(self, begin: float) -> float:
        """When the round that opens at `begin` ends; infinite if nothing more happens."""
        if not self.state.submitted:
            return self._submit[0] if self._submit else math.inf
        rule = self.semantics.round_ends
        coming = self._next < len(self._submit)
        moment = min(self._earliest_finish(begin), self._alarm, max(self._holds.next_s, begin))
        moment = min(moment, self._next_fault())
        if rule is RoundEnds.SLOTS:
            if len(self.state.running):
                return begin + self.round_s
            arrival = self._submit[self._next] if coming else math.inf
            return self._on_grid(begin, min(arrival, moment))
        if rule is RoundEnds.ARRIVAL:
            arrival = self._submit[self._next] if coming else math.inf
            return min(arrival, self._on_grid(begin, moment))
        if rule is RoundEnds.MERGED:
            return min(self._merged_arrival(begin), max(begin + self.round_s, moment))
        return self._merged_arrival(begin) if coming else self._on_grid(begin, moment)

    def _idle_until(self, until_s: float) -> float:
        return self._end_after(self.state.now)

    def _on_grid(self, begin: float, moment: float) -> float:
        """The end of the round of fixed length that contains `moment`; earlier rounds pass unseen."""
        if moment == math.inf:
            return math.inf
        return begin + max(1, math.ceil((moment - begin) / self.round_s - 1e-9)) * self.round_s

    def _merged_arrival(self, begin: float) -> float:
        """The next arrival; if it is closer than a slot and not the last, the end of the slot."""
        submit, row = self._submit, self._next
        if row == len(submit):
            return math.inf
        is_close = submit[row] - begin <= self.round_s
        return begin + self.round_s if is_close and submit[-1] > submit[row] else submit[row]

    def _earliest_finish(self, begin: float) -> float:
        rows, progress = self.state.running.sorted(), self.progress
        ends = list[float]()
        if len(rows):
            rate = progress.rate[rows]
            steady = rate > 0.0
            if self._changing:
                changing = [row for row in rows.tolist() if row in self._changing]
                steady &= ~np.isin(rows, changing)
                ends = [self._end_through_changes(row, begin) for row in changing]
            since, left = (
                np.maximum(progress.since[rows], begin),
                self._targets.of(rows) - progress.base[rows],
            )
            if not steady.all():
                since, left, rate = since[steady], left[steady], rate[steady]
            if len(rate):
                ends.append(float((since + left / rate).min()))
        earliest = min(ends, default=math.inf)
        clock = self.semantics.clock_s
        return math.ceil(earliest / clock - 1e-9) * clock if clock and earliest < math.inf else earliest

    def _end_through_changes(self, row: int, begin: float) -> float:
        """When `row`, whose rate changes, will have done its work."""
        since = max(self.progress.since.item(row), begin)
        return self._walk(row, since, math.inf, self._target(row))[1]

    # -- what a decision costs ---------------------------------------------------------------------

    def _charge(self) -> None:
        """Let jobs pay for the decision that was just made."""
        charge, state = self.semantics.charge, self.state
        if charge is Charge.COSTS or not state.submitted:
            return
        running, now = state.running.sorted(), state.now
        if charge is Charge.EVERYONE:
            if self._next < len(self._submit):
                live = np.concatenate((running, state.waiting.sorted()))
                self._owed[live] = self._overhead_s(live, self._count())
            self._delay(running, now)
            return
        started = state.since_s[running] == now
        if self._count():
            self._owed[running] = self._overhead_s(running, True)
            self._delay(running, now)
        else:
            self._pay_late(running, started)

    def _count(self) -> bool:
        """Count a round; true if all trainers restart in it: every N rounds, for slots of N seconds."""
        restarts = self._opened > 0 and self._opened % self.round_s == 0
        self._opened += 1
        return restarts

    def _overhead_s(self, rows: Ints, restarts: bool) -> Floats:
        return overhead_s(self.jobs.gpus[rows], self.cluster.gpus, restarts)

    def _delay(self, rows: Ints, now: float) -> None:
        owing = rows[self._owed[rows] > 0.0]
        for row in owing.tolist():
            self._stall(row, now + self._owed.item(row))
        self._owed[owing] = 0.0

    def _pay_late(self, rows: Ints, started: Bools) -> None:
        rows = rows[started]
        self._late = dict(zip(rows.tolist(), self._overhead_s(rows, False).tolist(), strict=True))

    def _close(self, now: float) -> None:
        for place, row in enumerate(self._rows.tolist() if self._late else ()):
            if row in self._late:
                before, done = self.progress.base.item(row), self._work.item(place)
                self._work[place] = left = max(done - self._late[row], before)
                rate = self.progress.rate.item(row)
                if left < done and rate > 0.0:  # one that has stopped since holds nothing to stall
                    self._stalled[row] += (done - left) / rate
        self._late = {}
        super()._close(now)
        if self.semantics.charge is not Charge.COSTS:
            self._forgive(now)

    def _forgive(self, now: float) -> None:
        """Drop what is left of a standstill at the end of a round.

        ElasticFlow's simulator subtracts the overhead from the round's seconds, down to 0, and clears it.
        """
        running = self.state.running.sorted()
        for row in running[self.progress.since[running] > now].tolist():
            self._stall(row, now)
