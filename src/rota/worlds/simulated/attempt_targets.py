"""The work at which the attempts of running jobs end, recomputed when other jobs run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rota.model.columns import Floats, Ints


class AttemptTargets:
    """Keeps the targets for the last array of rows; running jobs are a new array whenever they change."""

    def __init__(self, target: Callable[[int], float]) -> None:
        self._target = target
        self._rows: Ints | None = None
        self._work: Floats = np.zeros(0)

    def of(self, rows: Ints) -> Floats:
        """The work at which the present attempt of each of `rows`, which run, ends."""
        if rows is not self._rows:
            self._rows, self._work = rows, np.array([self._target(row) for row in rows.tolist()])
        return self._work

    def forget(self) -> None:
        """Drop the kept targets: they may have changed."""
        self._rows = None
