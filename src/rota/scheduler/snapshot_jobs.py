"""The submitted jobs as a policy sees them: one read-only column per attribute."""

from __future__ import annotations

import math
from typing import overload

import numpy as np

from rota.model.columns import Array, Floats, Ints
from rota.model.job_columns import Deadline
from rota.model.jobs import JobTable
from rota.scheduler.live_columns import LiveColumns
from rota.table.state import Phase, State


class _Static:
    """A column of the job table, cut at the last submitted row."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, jobs: SnapshotJobs, owner: type) -> Array:
        column: Array = getattr(jobs.table, self.name)
        return column[: len(jobs)]


class _Live:
    """A column of what the loop notes, cut at the last submitted row."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, jobs: SnapshotJobs, owner: type) -> Array:
        column: Array = getattr(jobs.live, self.name)
        return column[: len(jobs)]


class SnapshotJobs:
    """The submitted jobs as columns; `rows` below are row numbers, one or an array."""

    __slots__ = ("_state", "live", "table")

    submit_s = _Static()
    gpus = _Static()
    gpus_min = _Static()
    gpus_max = _Static()
    counts = _Static()
    gpus_step = _Static()
    gpu_share = _Static()
    gpu_memory_gib = _Static()
    gpu_persistent_gib = _Static()
    gpu_types = _Static()
    cpus = _Static()
    memory_gib = _Static()
    gang = _Static()
    kind = _Static()
    priority = _Static()
    weight = _Static()
    deadline_s = _Static()
    limit_s = _Static()
    batch_size = _Static()
    batch_min = _Static()
    batch_max = _Static()
    tenant = _Static()
    group = _Static()
    group_rule = _Static()
    workload = _Static()
    node_set = _Static()
    phase = _Live()
    first_start_s = _Live()
    since_s = _Live()
    service_rate = _Live()
    placed_s = _Live()
    adjusted_s = _Live()
    starts = _Live()
    moves = _Live()
    preemptions = _Live()
    failures = _Live()

    def __init__(self, state: State, live: LiveColumns | None = None) -> None:
        self._state = state
        self.live = LiveColumns(state) if live is None else live
        self.table: JobTable = state.jobs
        """All requests, including those submitted later in a simulation: for what is derived once per table.

        It is another object whenever a request in it has changed.
        """

    def __len__(self) -> int:
        return self._state.submitted

    def deadlines(self, row: int) -> tuple[Deadline, ...]:
        """The deadlines of `row`, each with the value of finishing by it, the earliest first."""
        return self.table.deadlines.get(row, ())

    @overload
    def service_gpu_s(self, rows: int) -> float: ...
    @overload
    def service_gpu_s(self, rows: Ints) -> Floats: ...
    def service_gpu_s(self, rows: int | Ints) -> float | Floats:
        """GPU-seconds received."""
        return self._state.service_gpu_s(rows)

    @overload
    def ran_s(self, rows: int) -> float: ...
    @overload
    def ran_s(self, rows: Ints) -> Floats: ...
    def ran_s(self, rows: int | Ints) -> float | Floats:
        """Seconds run, on however many GPUs."""
        return self._state.ran_s(rows)

    @overload
    def work_done(self, rows: int) -> float: ...
    @overload
    def work_done(self, rows: Ints) -> Floats: ...
    def work_done(self, rows: int | Ints) -> float | Floats:
        """Work done: seconds at the requested allocation, or iterations."""
        return self._state.progress.done(rows, self._state.now)

    @overload
    def work_s(self, rows: int) -> float: ...
    @overload
    def work_s(self, rows: Ints) -> Floats: ...
    def work_s(self, rows: int | Ints) -> float | Floats:
        """Work done, as the seconds it takes at the requested allocation (on the fastest type).

        For a job whose rate there varies: the seconds it has run.
        """
        return self._state.work_s(rows)

    def worked_s(self, rows: Ints) -> Floats:
        """Seconds worked in the last round in which each ran; NaN in a world without rounds.

        Below 0 where a standstill outlasts the round (`RoundEnds.PLANNED`).
        """
        worked: Floats = self._state.progress.worked[rows]
        return worked

    @overload
    def rate(self, rows: int) -> float: ...
    @overload
    def rate(self, rows: Ints) -> Floats: ...
    def rate(self, rows: int | Ints) -> float | Floats:
        """Work per second, as a job reports it while it runs; 0 for one that does not run."""
        rates = self._state.progress.rate
        return rates.item(rows) if isinstance(rows, int) else rates[rows]

    def speed(self, row: int) -> float:
        """Work per second as a part of what the requested allocation gives; 0 for one that does not run."""
        per_s = self._state.progress.per_s
        return self.rate(row) / (1.0 if per_s is None else per_s.item(row))

    @overload
    def ready_s(self, rows: int) -> float: ...
    @overload
    def ready_s(self, rows: Ints) -> Floats: ...
    def ready_s(self, rows: int | Ints) -> float | Floats:
        """Moment from which a running job works: in the future while it starts, restores or moves.

        Infinite if it stands still until an unknown moment; NaN for one that does not run.
        """
        if isinstance(rows, int):
            return self.ready_s(np.array([rows])).item(0)
        state, progress = self._state, self._state.progress
        ready = np.where(progress.rate[rows] > 0.0, progress.since[rows], math.inf)
        ready_s: Floats = np.where(state.phase[rows] == Phase.RUNNING, ready, math.nan)
        return ready_s

    @overload
    def batch_now(self, rows: int) -> float: ...
    @overload
    def batch_now(self, rows: Ints) -> Floats: ...
    def batch_now(self, rows: int | Ints) -> float | Floats:
        """Batch size in force: what its program says, else what its grant names, else what the job asks for.

        NaN if the job chooses, and has not reported what.
        """
        if isinstance(rows, int):
            return self.batch_now(np.array([rows])).item(0)
        state = self._state
        asked, said = self.table.batch_size[rows], state.progress.batch[rows]
        grants = [state.grants.get(row) for row in rows.tolist()]
        runs = np.array([grant is not None for grant in grants], dtype=bool)
        named = np.array([math.nan if grant is None else grant.batch_size for grant in grants])
        granted = np.where(np.isnan(named), asked, named)
        batch: Floats = np.where(runs & ~np.isnan(said), said, granted)
        return batch

    @overload
    def can(self, rows: int) -> int: ...
    @overload
    def can(self, rows: Ints) -> Ints: ...
    def can(self, rows: int | Ints) -> int | Ints:
        """What each can do without losing its work, as far as is known: flags of `Can`."""
        can = self._state.progress.can
        return can.item(rows) if isinstance(rows, int) else can[rows]

    @overload
    def waited_s(self, rows: int) -> float: ...
    @overload
    def waited_s(self, rows: Ints) -> Floats: ...
    def waited_s(self, rows: int | Ints) -> float | Floats:
        """Seconds since submission in which it did not run."""
        waited: float | Floats = self._state.now - self.table.submit_s[rows] - self._state.ran_s(rows)
        return waited
