"""A job table that grows: where jobs arrive while the cluster runs.

The columns have room for `capacity` jobs from the start, so that every view of them stays valid while rows
are filled in.  A full table is replaced by a larger one, and its users have to be rebuilt on that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rota.errors import RotaError
from rota.model.columns import Array, read_only
from rota.model.job_columns import CODED, EVEN, Deadline
from rota.model.jobs import JOB_COLUMNS, JobTable, PlainJob


class TableFullError(RotaError):
    """The table has no room for another job; build a larger one."""


class GrowingTable:
    """Fills the rows of `jobs`, one after the other."""

    def __init__(self, capacity: int, type_names: tuple[str, ...] = ()) -> None:
        self.capacity = capacity
        self.filled = 0
        self._ids: list[str] = []
        self._names: dict[str, list[str]] = {name: [] for name in CODED}
        self._types: list[str] = list(type_names)
        self._codes: dict[tuple[str, str], int] = {}
        self._columns: dict[str, Array] = {
            column.name: np.full(capacity, _empty(column.default), dtype=column.dtype) for column in EVEN
        }
        self._deadlines: dict[int, tuple[Deadline, ...]] = {}
        columns: dict[str, Any] = {name: read_only(column) for name, column in self._columns.items()}
        self.jobs = JobTable(
            ids=self._ids,
            tenant_names=self._names["tenant"],
            group_names=self._names["group"],
            workload_names=self._names["workload"],
            node_set_names=self._names["node_set"],
            type_names=self._types,
            deadlines=self._deadlines,
            **columns,
        )

    def append(self, job: PlainJob, types: tuple[str, ...] = ()) -> int:
        """Fill the next row with `job` (whose `row` and `gpu_types` are ignored); returns the row.

        `types` are the acceptable GPU types, none for any.  Raises TableFullError if there is no room.
        """
        row = self.filled
        if row == self.capacity:
            raise TableFullError(f"the job table is full at {row} jobs")
        for name in JOB_COLUMNS:
            if name in CODED:
                self._columns[name][row] = self._code(name, getattr(job, name))
            elif name != "gpu_types":
                self._columns[name][row] = getattr(job, name)
        self._columns["gpu_types"][row] = self._mask(types)
        if job.deadlines:
            self._deadlines[row] = job.deadlines
        self._ids.append(job.id)
        self.filled += 1
        return row

    def load(self, jobs: JobTable) -> None:
        """Fill the first rows of an empty table with those of `jobs`, its codes included."""
        n = len(jobs)
        for name, column in self._columns.items():
            column[:n] = getattr(jobs, name)
        for name, known in self._names.items():
            known[:] = getattr(jobs, f"{name}_names")
            self._codes.update({(name, value): code for code, value in enumerate(known)})
        self._ids[:] = jobs.ids
        self._types[:] = jobs.type_names
        self._deadlines |= jobs.deadlines
        self.filled = n

    def extend(
        self,
        ids: Sequence[str],
        numbers: Mapping[str, Array],
        names: Mapping[str, Sequence[str]],
        types: Sequence[tuple[str, ...]],
        deadlines: Sequence[tuple[Deadline, ...]],
    ) -> None:
        """Fill the next rows at once: columns of numbers, of names, and of tuples, each as long as `ids`."""
        first, last = self.filled, self.filled + len(ids)
        if last > self.capacity:
            raise TableFullError(f"the job table has no room for {len(ids)} jobs after {first}")
        for name, column in numbers.items():
            self._columns[name][first:last] = column
        for name, values in names.items():
            self._columns[name][first:last] = [self._code(name, value) for value in values]
        self._columns["gpu_types"][first:last] = [self._mask(accepted) for accepted in types]
        self._deadlines |= {first + i: several for i, several in enumerate(deadlines) if several}
        self._ids.extend(ids)
        self.filled = last

    def update(self, row: int, **values: Any) -> None:
        """Change columns of `row` after its submission (its limit, its priority)."""
        for name, value in values.items():
            self._columns[name][row] = self._code(name, value) if name in CODED else value

    def _code(self, column: str, name: str) -> int:
        if not name:
            return -1
        key = (column, name)
        if key not in self._codes:
            self._codes[key] = len(self._names[column])
            self._names[column].append(name)
        return self._codes[key]

    def _mask(self, types: tuple[str, ...]) -> int:
        mask = 0
        for name in types:
            if name not in self._types:
                self._types.append(name)
            mask |= 1 << self._types.index(name)
        return mask


def _empty(default: Any) -> Any:
    """The value in a row that has not been filled in yet."""
    return 0 if default is None or isinstance(default, str) else default
