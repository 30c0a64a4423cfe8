"""The list of events of the authors' `ef`: planned changes of earlier plans stay in it.

Each decision notes for every job that has begun the next moment at which its plan changes, and never takes
one back.  A moment goes when it has come, or with the end of a job that was planned for it: whenever the end
of a job moves away from a moment, and no other ends then, whatever was noted for that moment goes too.
Ends move when a job is planned again, when it is raised, and once more when the standstill of the decision is
added to the end of each job that holds GPUs: the seconds of the round less those that the job could work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rota.published.artifacts.elasticflow.hand_out import Climbed
from rota.scheduler.decision import Memory
from rota.systems.elasticflow.asks import ShareAsk


class EventList:
    """Ends and noted changes while one decision is made.

    Memory    `noted`    moments of planned changes, ascending
              `planned`  per row, when it was planned to end, and whether it was given GPUs
              `began`    rows that have been given GPUs, in the order in which they first were
              `asked_s`  the moment of the last decision
    """

    def __init__(
        self,
        memory: Memory,
        now: float,
        asks: Sequence[ShareAsk],
        got: Climbed,
        worked_s: Callable[[int], float],
    ) -> None:
        """`got` is the result for `asks`, by deadline; `worked_s` as `Snapshot.worked_s`."""
        self._asks, self._got = asks, got
        live = {ask.row for ask in asks}
        self._noted = {at_s for at_s in memory.get("noted", ()) if at_s > now}
        self.began: list[int] = [row for row in memory.get("began", ()) if row in live]
        elapsed_s = now - memory.get("asked_s", now)
        self._ends = {
            row: end_s + (elapsed_s - worked_s(row) if held else 0.0)
            for row, (end_s, held) in memory.get("planned", {}).items()
            if row in live
        }
        for ask, end_s in zip(asks, got.first_ends, strict=True):
            self._move(ask.row, end_s)
        self._begin()
        for place, end_s in got.raised:
            row = asks[place].row
            self._move(row, end_s)
            if row not in self.began:
                self.began.append(row)

    def _begin(self) -> None:
        """Jobs planned to have GPUs now begin, by arrival; for the others it is noted when they will."""
        asks, got, began = self._asks, self._got, set(self.began)
        fresh = [place for place, ask in enumerate(asks) if ask.row not in began]
        for place in sorted(fresh, key=lambda place: (asks[place].submit_s, asks[place].row)):
            if got.first_gpus[place]:
                self.began.append(asks[place].row)
            elif got.begins[place] < math.inf:
                self._noted.add(got.begins[place])

    def close(self, memory: Memory) -> float:
        """Remember the list once all is given out; returns the next moment noted in it."""
        asks, got, began = self._asks, self._got, set(self.began)
        changes = zip(asks, got.changes, strict=True)
        self._noted.update(at_s for ask, at_s in changes if ask.row in began and at_s < math.inf)
        memory["planned"] = {
            ask.row: [end_s, gpus > 0] for ask, end_s, gpus in zip(asks, got.ends, got.gpus, strict=True)
        }
        holds = {ask.row for place, ask in enumerate(asks) if got.gpus[place]}
        for row in self.began:
            if row in holds:
                self._leave(row)
        memory["noted"], memory["began"] = sorted(self._noted), self.began
        return min(self._noted, default=math.inf)

    def _move(self, row: int, end_s: float) -> None:
        if self._ends.get(row) != end_s:
            self._leave(row)
            self._ends[row] = end_s

    def _leave(self, row: int) -> None:
        """Note that the end of `row` has moved; whatever is noted for the old moment goes too."""
        end_s = self._ends.pop(row, None)
        if end_s is not None and end_s not in self._ends.values():
            self._noted.discard(end_s)
