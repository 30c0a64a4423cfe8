"""How long turns last: longer for jobs that made no progress in their turns.

Where a start takes as long as a turn, or a job that is stopped loses what it did in its turn, jobs would take
turns for ever, and none would be done.  A job that has no more work to show at the end of a turn than at the
end of its last one has turns twice as long from then on.  So one that loses everything each time comes to its
end after about twice log2(its length / a turn) losses, and delays others no longer than it was set back
itself; the turns of other jobs do not change.  What failures and lost nodes undo does not count.

Memory    `turns`   per job whose turn has ended: the work it had to show then, and how often it had begun by
                    then without having been preempted before
          `longer`  how many times as long its turns are, of each job that has longer ones
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final

from rota.model.columns import Row
from rota.model.grants import Grant
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot

_LEAST: Final = 0.01
"""Part of the work of a whole turn that counts as more to show."""
_NEARLY: Final = 1e-6
"""Part of a usual turn that may be missing from a whole one: moments are rounded."""


class TurnLengths:
    """The present lengths of turns according to `memory`; a usual one is `turn_s` seconds."""

    def __init__(self, snapshot: Snapshot, memory: Memory, turn_s: float) -> None:
        self.snapshot = snapshot
        self.turn_s = turn_s
        self.turns: dict[Row, list[float]] = memory.setdefault("turns", {})
        self.longer: dict[Row, float] = memory.setdefault("longer", {})

    def usual_s(self, row: Row) -> float:
        """How long a turn of `row` usually lasts."""
        return self.turn_s

    def times(self, row: Row) -> float:
        """How many times as long as usual the turns of `row` are."""
        return self.longer.get(row, 1.0)

    def goes_on(self, row: Row) -> bool:
        """True if `row` runs in a turn of more than usual length that is not over."""
        return row in self.longer and row in self.snapshot.grants and not self._is_whole(row)

    def until_s(self, row: Row) -> float:
        """When the turn of `row`, which runs, may end."""
        return self.snapshot.by_row.since_s.item(row) + self.times(row) * self.usual_s(row)

    def ends_s(self, row: Row, end_s: float) -> float:
        """When the turn of `row`, which runs, is over: at `end_s`, or some usual turns later."""
        more_s = self.until_s(row) - end_s if self.goes_on(row) else 0.0
        return end_s + self.turn_s * max(math.ceil(more_s / self.turn_s - _NEARLY), 0)

    def end_all(self, leaving: Iterable[Row], grants: Iterable[Grant]) -> None:
        """End the turns of jobs that leave, and of running jobs that move to other devices."""
        held = self.snapshot.grants
        moved = [row for row, devices, *_ in grants if row in held and devices != held[row].devices]
        for row in (*leaving, *moved):
            if self._is_whole(row):
                self._end(row)

    def _end(self, row: Row) -> None:
        """A whole turn of `row` is over."""
        by_row = self.snapshot.by_row
        begun = float(by_row.starts.item(row) - by_row.preemptions.item(row))
        (work, per_s), (before, begun_before) = to_show(self.snapshot, row), self.turns.get(row, (0.0, begun))
        least = _LEAST * per_s * self.times(row) * self.usual_s(row)
        self.turns[row] = [work, begun]
        if begun == begun_before and work <= before + least:
            self.longer[row] = 2.0 * self.times(row)

    def forget(self, live: Collection[Row]) -> None:
        """Drop the turns of all jobs but those of `live`."""
        for row in [row for row in self.turns if row not in live]:
            self.drop(row)

    def drop(self, row: Row) -> None:
        """Drop the turns of `row`, which has ended."""
        self.turns.pop(row, None)
        self.longer.pop(row, None)

    def _is_whole(self, row: Row) -> bool:
        return self.snapshot.now >= self.until_s(row) - _NEARLY * self.usual_s(row)


def to_show(snapshot: Snapshot, row: Row) -> tuple[float, float]:
    """The work that `row` has to show, and its increase each second.

    In seconds at its request, as those are the same in a fork, which counts no iterations; where those do not
    measure its work, in the unit that it reports.
    """
    jobs, speed = snapshot.jobs, snapshot.jobs.speed(row)
    return (jobs.work_s(row), speed) if speed == speed else (jobs.work_done(row), jobs.rate(row))
