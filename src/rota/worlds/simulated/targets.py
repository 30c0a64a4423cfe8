"""The work at which the attempts of those who run end, worked out when others run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rota.model.columns import Floats, Ints


class Targets:
    """Keeps them for the array of rows that was last asked for: who runs is another array when it changes."""

    def __init__(self, target: Callable[[int], float]) -> None:
        self._target = target
        self._rows: Ints | None = None
        self._work: Floats = np.zeros(0)

    def of(self, rows: Ints) -> Floats:
        """The work at which the present attempt of each of `rows`, who run, ends."""
        if rows is not self._rows:
            self._rows, self._work = rows, np.array([self._target(row) for row in rows.tolist()])
        return self._work

    def forget(self) -> None:
        """They may be others now."""
        self._rows = None
