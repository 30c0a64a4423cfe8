"""Why a job runs as it does, or waits: what its configurations are worth, and which one was chosen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.model.columns import Floats, Ints
from rota.model.reasons import Code, Constraint
from rota.scheduler.snapshot import Snapshot
from rota.stages.priority import ByPriority
from rota.systems.sia.menu import Menu
from rota.table.occupancy import Occupancy

_BY_SUBMISSION = ByPriority(lambda snapshot, row: row)
_MOST = 6
"""Configurations named in one answer."""


class ByConfiguration:
    """The configurations of one decision, as people ask for them."""

    spreads = False

    def __init__(
        self, rows: Ints, menu: Menu, value: Floats, cost: Floats, chosen: Ints, next_s: float
    ) -> None:
        self._rows = rows
        self._menu = menu
        self._value = value
        self._cost = cost
        self._chosen = chosen
        """By job, a place on the menu; -1 for nothing."""
        self._next_s = next_s

    def ahead(self, snapshot: Snapshot, row: int) -> Sequence[int]:
        """Nobody: all are weighed together."""
        return ()

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        return _BY_SUBMISSION.fits(snapshot, scratch, row)

    def turn(self, snapshot: Snapshot, row: int) -> Constraint | None:
        """What the program made of a job; None of one that it did not look at."""
        if snapshot.gpus_of[row] == 0:
            return None
        left_s = max(self._next_s - snapshot.now, 0.0)
        place = np.flatnonzero(self._rows == row)
        if not len(place):  # it came after the decision, or goes on as it is
            return None if row in snapshot.grants else Constraint(Code.ROUND, provided=left_s)
        job = int(place[0])
        runs = row in snapshot.grants
        if not runs and self._chosen[job] >= 0:
            return None  # it has been given GPUs, but there was no place for them: the cluster says why
        worth = self._worth(snapshot, job)
        if runs:
            return Constraint(Code.TURN, 1.0, left_s, f"weighed by goodput, {worth}")
        return Constraint(Code.POLICY, detail=f"others gain more from the GPUs; to this job {worth}")

    def _worth(self, snapshot: Snapshot, job: int) -> str:
        """`worth 3.6 with 4 A100, 2 with 2 A100, 1 with 1 T4`, the best first."""
        places = np.flatnonzero((self._menu.job == job) & (self._value > 0.0))
        best = places[np.lexsort((places, self._cost[places]))]
        names = snapshot.cluster.type_names
        words = [
            f"{self._value.item(place):.3g} with {self._menu.gpus.item(place)} "
            f"{names[self._menu.kind.item(place)]}" + " (chosen)" * int(place == self._chosen[job])
            for place in best[:_MOST].tolist()
        ]
        if len(best) > _MOST:
            words.append(f"{len(best) - _MOST} others")
        return f"they are worth {', '.join(words)}" if words else "no configuration is of any use"
