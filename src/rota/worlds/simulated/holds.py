"""Jobs that nobody could have started for a while, as the trace recorded (`Truth.held_s`)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rota.model.reasons import Code, Constraint
from rota.model.trace import Trace
from rota.scheduler.world import Batch
from rota.table.state import State


class RecordedHolds:
    """Who is held after its submission, and until when.  Jobs that start after others are held by those."""

    def __init__(self, trace: Trace, tick: Callable[[float], float]) -> None:
        held_s, submit_s, after = trace.truth.held_s, trace.jobs.submit_s, trace.jobs.after
        rows = [row for row in np.flatnonzero(held_s > 0.0).tolist() if not after.get(row)]
        self._until = {row: tick(submit_s.item(row) + held_s.item(row)) for row in rows}
        self._order = sorted(((until_s, row) for row, until_s in self._until.items()), reverse=True)

    def __bool__(self) -> bool:
        return bool(self._order)

    @property
    def next_s(self) -> float:
        """When the next job comes free; infinite if none will."""
        return self._order[-1][0] if self._order else math.inf

    def follow(self, batch: Batch, state: State) -> bool:
        """Hold in `batch` who arrives before its time, let go whose time has come; true if there is one.

        What the cluster could never hold is not held: it is refused as it arrives.
        """
        due = []
        while self._order and self._order[-1][0] <= batch.now:
            due.append(self._order.pop()[1])
            del self._until[due[-1]]
        early = [row for row in batch.arrived if row in self._until and state.feasible[row]]
        batch.held = [(row, _note(self._until[row])) for row in early]
        batch.released = sorted(row for row in due if row in state.held)
        return bool(batch.released)


def _note(until_s: float) -> str:
    """What a held job is told."""
    return Constraint(Code.BEGIN, detail=f"{until_s:g} s, when the trace has it eligible").note()
