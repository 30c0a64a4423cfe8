"""Jobs that may not start for a while: as the trace recorded (`Truth.held_s`), or between two attempts."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np

from rota.model.reasons import Code, Constraint
from rota.model.trace import Trace
from rota.scheduler.world import Batch
from rota.table.state import State


class Holds:
    """Who is held, and until when: after its submission by the trace, or after a failure by its retries.

    Jobs that start after others are held by those.
    """

    def __init__(self, trace: Trace, tick: Callable[[float], float]) -> None:
        held_s, submit_s, after = trace.truth.held_s, trace.jobs.submit_s, trace.jobs.after
        rows = [row for row in np.flatnonzero(held_s > 0.0).tolist() if not after.get(row)]
        self._tick = tick
        self._until = {row: tick(submit_s.item(row) + held_s.item(row)) for row in rows}
        self._order = [(until_s, row) for row, until_s in self._until.items()]
        heapify(self._order)
        self._paused: list[tuple[int, str]] = []
        """Rows whose pause begins now, and what they are told."""

    def __bool__(self) -> bool:
        return bool(self._order)

    @property
    def next_s(self) -> float:
        """When the next job comes free; infinite if none will."""
        return self._order[0][0] if self._order else math.inf

    def pause(self, row: int, until_s: float, why: str, now: float) -> None:
        """`row` ends an attempt now and is to wait before it is tried again, for what it failed of."""
        heappush(self._order, (self._tick(until_s), row))
        self._paused.append((row, Constraint(Code.BACK_OFF, until_s - now, detail=why).note()))

    def follow(self, batch: Batch, state: State) -> bool:
        """Hold in `batch` who arrives before its time, let go whose time has come; true if there is one.

        What the cluster could never hold is not held: it is refused as it arrives.
        """
        due = []
        while self._order and self._order[0][0] <= batch.now:
            due.append(heappop(self._order)[1])
            self._until.pop(due[-1], None)
        early = [row for row in batch.arrived if row in self._until and state.feasible[row]]
        batch.held = [*((row, _note(self._until[row])) for row in early), *self._paused]
        batch.released = sorted(row for row in due if row in state.held)
        self._paused = []
        return bool(batch.released)


def _note(until_s: float) -> str:
    """What a held job is told."""
    return Constraint(Code.BEGIN, detail=f"{until_s:g} s, when the trace has it eligible").note()
