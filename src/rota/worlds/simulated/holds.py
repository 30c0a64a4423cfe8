"""Jobs that may not start for a while: as the trace recorded, between two attempts, or for an offer."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np

from rota.model.promises import Offer
from rota.model.reasons import Code, Constraint
from rota.model.trace import Trace
from rota.scheduler.decision import Event
from rota.scheduler.world import Batch
from rota.table.attempt_ends import phase_of_refused
from rota.table.state import State
from rota.worlds.simulated.answers import UserAnswers

_END = int(Event.END)


class Holds:
    """Which jobs are held, and until when: after submission by the trace, after a failure by the retries.

    Jobs that are offered a later deadline are held until their users have answered.

    Jobs that start after others are held by that dependency instead.
    """

    def __init__(self, trace: Trace, tick: Callable[[float], float], answers: UserAnswers) -> None:
        held_s, submit_s, after = trace.truth.held_s, trace.jobs.submit_s, trace.jobs.after
        rows = [row for row in np.flatnonzero(held_s > 0.0).tolist() if not after.get(row)]
        self._tick, self._answers = tick, answers
        self._asked: dict[int, float] = {}
        """The deadline that each job with an offer asked for, or took last."""
        self._taken: dict[int, float | None] = {}
        """Deadline that the user of each job held for an offer will take; None if none."""
        self._until = {row: tick(submit_s.item(row) + held_s.item(row)) for row in rows}
        self._order = [(until_s, row) for row, until_s in self._until.items()]
        heapify(self._order)
        self._paused: list[tuple[int, str]] = []
        """Rows whose pause begins now, and the message of each."""

    def __bool__(self) -> bool:
        return bool(self._order)

    @property
    def next_s(self) -> float:
        """When the next job comes free; infinite if none will."""
        return self._order[0][0] if self._order else math.inf

    def pause(self, row: int, until_s: float, why: str, now: float) -> None:
        """`row` ends an attempt now and waits until `until_s` before the next, because of `why` it failed."""
        heappush(self._order, (self._tick(until_s), row))
        self._paused.append((row, Constraint(Code.BACK_OFF, until_s - now, detail=why).note()))

    def offer(self, row: int, offer: Offer, state: State) -> None:
        """Make `offer` to the user of `row`."""
        asked_s = self._asked.setdefault(row, state.jobs.deadline_s.item(row))
        submit_s = state.jobs.submit_s.item(row)
        answer_s, takes = self._answers.to(offer, state.now, submit_s, asked_s)
        self._taken[row] = offer.deadline_s if takes else None
        heappush(self._order, (self._tick(answer_s), row))

    def follow(self, batch: Batch, state: State) -> bool:
        """Hold jobs of `batch` that arrive before their time, release those whose time has come; true if any.

        A job that could never fit the cluster is not held but refused as it arrives; a withdrawn one neither.
        """
        due, gone = [], set(batch.withdrawn)
        while self._order and self._order[0][0] <= batch.now:
            due.append(heappop(self._order)[1])
            self._until.pop(due[-1], None)
        early = [row for row in batch.arrived if row in self._until and state.feasible[row]]
        paused = [(row, why) for row, why in self._paused if row not in gone]
        batch.held = [*((row, _note(self._until[row])) for row in early), *paused]
        free = sorted(row for row in due if row in state.held and row not in gone)
        if self._taken:
            free = self._answered(batch, free, state)
        batch.released = free
        self._paused = []
        return bool(free or batch.accepted)

    def _answered(self, batch: Batch, due: list[int], state: State) -> list[int]:
        """Note in `batch` what users have answered; returns the rows of `due` held for another reason."""
        answered = [(row, self._taken.pop(row)) for row in due if row in self._taken]
        batch.accepted = [(row, taken) for row, taken in answered if taken is not None]
        declined = [(row, phase_of_refused(state, row)) for row, taken in answered if taken is None]
        batch.settled = [*batch.settled, *declined]
        if declined:
            batch.cause |= _END
        rows = {row for row, _ in answered}
        return [row for row in due if row not in rows]


def _note(until_s: float) -> str:
    """The message shown for a held job."""
    return Constraint(Code.BEGIN, detail=f"{until_s:g} s, when the trace has it eligible").note()
