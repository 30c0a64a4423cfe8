"""Why a job waits, or runs, under a plan: how many rounds it has, when the next is, which jobs are ahead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.model.columns import Bools, Floats, Ints
from rota.model.reasons import Code, Constraint, names_of
from rota.model.units import format_duration, plural
from rota.scheduler.snapshot import Snapshot
from rota.stages.priority import ByPriority
from rota.stages.received import has_run
from rota.table.occupancy import Occupancy

_BY_SUBMISSION = ByPriority(lambda snapshot, row: row)


class PlanTurns:
    """The turns of one round and those planned after it, as users see them."""

    spreads = _BY_SUBMISSION.spreads

    def __init__(
        self, rows: Ints, later: Bools, left_s: Floats, now_run: Sequence[int], end_s: float, round_s: float
    ) -> None:
        self._rows = rows
        self._later = later
        """[job, round] planned for the rounds after this one."""
        self._left_s = left_s
        self._now_run = now_run
        """Jobs that run in this round, ..."""
        self._end_s = end_s
        """... which ends at this moment."""
        self._round_s = round_s

    def ahead(self, snapshot: Snapshot, row: int) -> Sequence[int]:
        """Waiting jobs whose next round is earlier; of jobs without one, those that have more time left."""
        rounds = self._later.shape[1]
        first = np.where(self._later.any(axis=1), self._later.argmax(axis=1) if rounds else 0, rounds)
        order = self._rows[np.lexsort((self._rows, -self._left_s, first))]
        place = np.flatnonzero(order == row)
        before = order[: place[0]] if len(place) else order[:0]
        return [other for other in before.tolist() if snapshot.waits(other)]

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        return _BY_SUBMISSION.fits(snapshot, scratch, row)

    def turn(self, snapshot: Snapshot, row: int) -> Constraint | None:
        """The plan for a job; None if it takes no turns."""
        if snapshot.gpus_of[row] == 0:
            return None
        left_s = max(self._end_s - snapshot.now, 0.0)
        place = np.flatnonzero(self._rows == row)
        if not len(place):  # it came after the plan was made
            return Constraint(Code.ROUND, provided=left_s)
        runs = row in self._now_run
        words = [self._planned(int(place[0]), left_s, runs=runs), has_run(snapshot, row)]
        if not runs:
            ids = snapshot.jobs.table.ids
            before = names_of([ids[other] for other in self._now_run])
            words.append(f"before it in this round: {before}" if before else "nobody runs in this round")
        return Constraint(Code.TURN, float(runs), left_s, "; ".join(filter(None, words)))

    def _planned(self, place: int, left_s: float, *, runs: bool) -> str:
        """`is planned for 6 of the next 19 rounds, from 4m on`."""
        mine = self._later[place]
        window = plural(len(mine), "round")
        if not mine.any():
            also = "runs in this round and " if runs else ""
            return f"{also}is planned for none of the next {window}, which others gain more from"
        from_s = left_s + int(mine.argmax()) * self._round_s
        begins = format_duration(from_s) if from_s > 0.0 else "now"
        return f"is planned for {int(mine.sum())} of the next {window}, from {begins} on"
