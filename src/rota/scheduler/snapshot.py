"""Everything a policy may see at one moment, as read-only views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

from rota.errors import NeedError
from rota.knowledge.needs import Knowledge, Known, Provenance
from rota.model.cluster import Cluster
from rota.model.columns import Array, Floats, Ints, read_only
from rota.model.grants import Grant
from rota.model.jobs import JobTable
from rota.table.occupancy import Occupancy
from rota.table.state import State


class _Static:
    """A column of the job table, cut at the last submitted row."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, jobs: Jobs, owner: type) -> Array:
        column: Array = getattr(jobs.table, self.name)
        return column[: jobs.state.submitted]


class _Live:
    """A column of the loop's state, read-only and cut at the last submitted row."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, jobs: Jobs, owner: type) -> Array:
        return read_only(getattr(jobs.state, self.name)[: jobs.state.submitted])


class Jobs:
    """The submitted jobs as columns; `rows` below are row numbers, one or an array."""

    __slots__ = ("state", "table")

    submit_s = _Static()
    gpus = _Static()
    gpus_min = _Static()
    gpus_max = _Static()
    counts = _Static()
    gpu_share = _Static()
    gpu_memory_gib = _Static()
    gpu_types = _Static()
    cpus = _Static()
    memory_gib = _Static()
    gang = _Static()
    kind = _Static()
    priority = _Static()
    deadline_s = _Static()
    limit_s = _Static()
    batch_size = _Static()
    tenant = _Static()
    group = _Static()
    workload = _Static()
    phase = _Live()
    first_start_s = _Live()
    since_s = _Live()
    starts = _Live()
    preemptions = _Live()
    failures = _Live()

    def __init__(self, state: State) -> None:
        self.state = state
        self.table: JobTable = state.jobs

    def __len__(self) -> int:
        return self.state.submitted

    @overload
    def service_gpu_s(self, rows: int) -> float: ...
    @overload
    def service_gpu_s(self, rows: Ints) -> Floats: ...
    def service_gpu_s(self, rows: int | Ints) -> float | Floats:
        """GPU-seconds received."""
        return self.state.service_gpu_s(rows)

    @overload
    def ran_s(self, rows: int) -> float: ...
    @overload
    def ran_s(self, rows: Ints) -> Floats: ...
    def ran_s(self, rows: int | Ints) -> float | Floats:
        """Seconds run, on however many GPUs."""
        return self.state.ran_s(rows)

    @overload
    def work_done(self, rows: int) -> float: ...
    @overload
    def work_done(self, rows: Ints) -> Floats: ...
    def work_done(self, rows: int | Ints) -> float | Floats:
        """Work done: seconds at the requested allocation, or iterations."""
        return self.state.progress.done(rows, self.state.now)

    @overload
    def work_s(self, rows: int) -> float: ...
    @overload
    def work_s(self, rows: Ints) -> Floats: ...
    def work_s(self, rows: int | Ints) -> float | Floats:
        """Work done, as the seconds it takes at the requested allocation (on the fastest type)."""
        per_s = self.state.progress.per_s
        done: float | Floats = self.work_done(rows)
        return done if per_s is None else done / per_s[rows]

    @overload
    def rate(self, rows: int) -> float: ...
    @overload
    def rate(self, rows: Ints) -> Floats: ...
    def rate(self, rows: int | Ints) -> float | Floats:
        """Work per second, as a job reports it while it runs; 0 for those that do not run."""
        rates = self.state.progress.rate
        return rates.item(rows) if isinstance(rows, int) else rates[rows]

    @overload
    def waited_s(self, rows: int) -> float: ...
    @overload
    def waited_s(self, rows: Ints) -> Floats: ...
    def waited_s(self, rows: int | Ints) -> float | Floats:
        """Seconds since submission in which it did not run."""
        waited: float | Floats = self.state.now - self.table.submit_s[rows] - self.state.ran_s(rows)
        return waited


class Snapshot:
    """One moment, valid during the call of `decide` (`moments.frozen` stores one for later)."""

    __slots__ = ("_known", "_needs", "cause", "cluster", "jobs", "now", "seed", "state")

    def __init__(
        self,
        state: State,
        cause: int = 0,
        known: Mapping[Knowledge, Known] | None = None,
        needs: frozenset[Knowledge] = frozenset(),
        seed: int = 0,
    ) -> None:
        self.state = state
        self.now = state.now
        self.cause = cause
        """`Event` flags of what happened since the last moment."""
        self.seed = seed
        self.cluster: Cluster = state.cluster
        self.jobs = Jobs(state)
        self._known = known or {}
        self._needs = needs

    def seen_as(self, state: State) -> Snapshot:
        """The same moment with the same knowledge, seen through `state` (a part of the cluster)."""
        return Snapshot(state, self.cause, self._known, self._needs, self.seed)

    @property
    def waiting(self) -> Ints:
        """Rows that wait, in order of submission."""
        return self.state.waiting.sorted()

    @property
    def running(self) -> Ints:
        """Rows that hold something, in order of submission."""
        return self.state.running.sorted()

    @property
    def grants(self) -> Mapping[int, Grant]:
        """What each running job holds, by row; read only."""
        return self.state.grants

    @property
    def occupancy(self) -> Occupancy:
        """Claims in force; read only, `scratch()` gives a copy to try things on."""
        return self.state.occupancy

    @property
    def refused(self) -> Mapping[int, str]:
        """What the guard or the world refused of the last decision: job and reason."""
        return self.state.refused

    def scratch(self) -> Occupancy:
        """A copy of the occupancy that the policy may change."""
        return self.state.occupancy.copy()

    def know(self, kind: Knowledge) -> Any:
        """What is known of `kind`; columns, alone or in a table, run over the submitted rows as in `jobs`.

        Raises NeedError if the policy did not declare the need, or nobody provides it.
        """
        if kind not in self._needs:
            raise NeedError(f"the policy reads {kind.value}, which it does not list in `needs`")
        if kind not in self._known:
            raise NeedError(f"nobody provides {kind.value}; choose a provider with --knowledge")
        return self._known[kind].upto(self.state.submitted)

    def knows(self, kind: Knowledge) -> bool:
        """True if the policy declared `kind` and somebody provides it."""
        return kind in self._needs and kind in self._known

    def provenance(self, kind: Knowledge) -> Provenance:
        """Who told `kind`, which the snapshot `knows`."""
        return self._known[kind].provenance
