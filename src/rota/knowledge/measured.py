"""Scaling curves from what was measured: one for each class of jobs that was seen on two sizes or more."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from rota.knowledge.needs import Table
from rota.model.columns import Floats, Ints
from rota.model.jobs import JobTable


class MeasuredCurves:
    """The table of scaling curves as it grows; see `rota.knowledge.scaling` for its form.

    Class 0 is in proportion to GPUs: jobs belong to it until their own class was measured.
    """

    def __init__(self, jobs: JobTable) -> None:
        self.jobs = jobs
        self._curve = np.zeros(len(jobs), dtype=np.int64)
        self._unit = np.ones(len(jobs))
        self._codes: dict[Hashable, int] = {}
        self._measured: list[Mapping[int, float]] = [{1: 1.0}]
        """Speed by number of GPUs of each class."""
        self._most = 1
        """The most GPUs that a submitted job can use: curves end there."""
        self._table: Table | None = None

    def submitted(self, row: int, key: Hashable) -> None:
        """`row` belongs to the class `key`."""
        most = max(self.jobs.gpus.item(row), self.jobs.gpus_max.item(row))
        if most > self._most:
            self._most, self._table = most, None
        self._join(row, self._codes.get(key, 0))

    def measured(self, key: Hashable, rows: Ints, speeds: Mapping[int, float]) -> None:
        """The class `key`, whose jobs are `rows`, works this fast on so many GPUs, two sizes or more."""
        code = self._codes.setdefault(key, len(self._measured))
        if code == len(self._measured):
            self._measured.append({})
        self._measured[code] = dict(speeds)
        self._table = None
        for row in rows.tolist():
            self._join(row, code)

    def _join(self, row: int, code: int) -> None:
        self._curve[row] = code
        asked = np.array([max(1, self.jobs.gpus.item(row))])
        self._unit[row] = speed_on(asked, self._measured[code]).item()

    def table(self) -> Table:
        """The curves as they stand."""
        if self._table is None:
            sizes = np.arange(self._most + 1)
            rates = np.array([speed_on(sizes, speeds) for speeds in self._measured])
            self._table = Table({"curve": self._curve, "unit": self._unit}, {"rates": rates})
        return self._table


def speed_on(counts: Ints, measured: Mapping[int, float]) -> Floats:
    """Speed on so many devices: between measured numbers on a straight line, beyond them on the last one.

    More devices never make a job slower, nor more than in proportion faster than the most it was measured on.
    """
    sizes = [0, *sorted(measured)]
    speeds = np.maximum.accumulate([0.0, *(measured[size] for size in sizes[1:])])
    slope = (speeds[-1] - speeds[-2]) / (sizes[-1] - sizes[-2])
    beyond = np.maximum(counts - sizes[-1], 0) * min(slope, speeds[-1] / sizes[-1])
    on: Floats = np.interp(counts, sizes, speeds) + beyond
    return on
