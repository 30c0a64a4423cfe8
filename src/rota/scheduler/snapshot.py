"""Everything a policy may see at one moment, as read-only views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rota.errors import NeedError
from rota.knowledge.needs import Knowledge, Known, Provenance
from rota.model.cluster import Cluster
from rota.model.columns import Ints, Row
from rota.model.grants import Grant, Reservation
from rota.scheduler.live_columns import LiveColumns
from rota.scheduler.snapshot_jobs import SnapshotJobs
from rota.table.occupancy import Occupancy
from rota.table.state import State
from rota.table.view import View


class Cursor:
    """A cache's position in a log of changes; `Snapshot.changes` or `joined_or_left` moves it on."""

    __slots__ = ("_log", "_read")

    def __init__(self) -> None:
        self._log: list[Row] | None = None
        self._read = 0

    def read(self, log: list[Row]) -> list[Row] | None:
        """Rows in `log` since the last read, each once; None if that read another log, or there was none."""
        read, self._read = self._read, len(log)
        if self._log is not log:
            self._log = log
            return None
        rows = log[read:]
        return rows if len(rows) < 2 or len(set(rows)) == len(rows) else list(dict.fromkeys(rows))

    def follows(self, snapshot: Snapshot) -> bool:
        """True if it has read changes of the run that `snapshot` is a moment of."""
        return self._log is snapshot._log


class RunSeed:
    """The seed of a run, and whether its policy has read it: one that never does draws nothing."""

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self.is_asked = False


class Snapshot:
    """One moment, valid during the call of `decide` (`moments.frozen` stores one for later)."""

    __slots__ = (
        "_known",
        "_log",
        "_needs",
        "_seed",
        "_state",
        "by_row",
        "cause",
        "cluster",
        "gpus_of",
        "grants",
        "jobs",
        "now",
        "occupancy",
        "waiting_count",
        "waiting_gpus",
    )

    def __init__(
        self,
        state: State,
        cause: int = 0,
        known: Mapping[Knowledge, Known] | None = None,
        needs: frozenset[Knowledge] = frozenset(),
        seed: RunSeed | None = None,
        jobs: SnapshotJobs | None = None,
    ) -> None:
        self._state = state
        self._log: list[Row] = state.log
        self.now = state.now
        self.cause = cause
        """`Event` flags of what happened since the last moment."""
        self._seed = seed or RunSeed()
        self.cluster: Cluster = state.cluster
        self.jobs = SnapshotJobs(state) if jobs is None else jobs
        self.by_row: LiveColumns = self.jobs.live
        """What the loop notes about each job, for single rows in hot paths; `jobs` has it as columns."""
        self.gpus_of: list[int] = state.gpus_of
        """GPUs that each row asks for, as plain integers."""
        self.grants: Mapping[int, Grant] = state.grants
        """What each running job holds, by row."""
        self.occupancy: Occupancy = state.occupancy
        """Claims in force; `scratch()` gives a copy to try things on."""
        self.waiting_count = len(state.waiting)
        self.waiting_gpus = state.waiting_gpus
        """GPUs that all waiting jobs ask for together."""
        self._known = known or {}
        self._needs = needs

    @property
    def seed(self) -> int:
        """The seed for everything random in a decision."""
        self._seed.is_asked = True
        return self._seed.value

    def view(self, cluster: Cluster, nodes: Sequence[int], *, idle: bool = False) -> View:
        """Some nodes as if they were the whole cluster, for a wrapper to keep, update and show.

        With `idle` no job runs on these nodes: jobs that do are shown as waiting.
        """
        return View(self._state, cluster, nodes, idle=idle)

    def seen_as(self, view: View) -> Snapshot:
        """This snapshot restricted to the nodes and jobs of `view`, with the same knowledge."""
        jobs = SnapshotJobs(view) if view.idle else SnapshotJobs(view, self.by_row)
        return Snapshot(view, self.cause, self._known, self._needs, self._seed, jobs)

    # -- waiting and running jobs ------------------------------------------------------------------

    @property
    def waiting(self) -> Ints:
        """Rows that wait, in order of submission."""
        return self._state.waiting.sorted()

    @property
    def running(self) -> Ints:
        """Rows that hold something, in order of submission."""
        return self._state.running.sorted()

    @property
    def running_unsorted(self) -> Ints:
        """Rows that hold something, in no particular (but repeatable) order, which saves a sort."""
        rows = self._state.running.rows
        rows.flags.writeable = False
        return rows

    def waits(self, row: Row) -> bool:
        """True if `row` waits for devices; one that runs is in `grants`."""
        return row in self._state.waiting

    @property
    def held(self) -> Mapping[int, str]:
        """Submitted jobs that wait for something other than devices, and for what."""
        return self._state.held

    @property
    def refused(self) -> Mapping[int, str]:
        """What the guard or the world refused of the last decision: job and reason."""
        return self._state.refused

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """Devices kept free for waiting jobs."""
        return self._state.reservations

    def changes(self, cursor: Cursor) -> list[Row] | None:
        """Rows whose phase or grant has changed since `cursor` was last passed in, each once.

        None if that is unknown: the cursor is new or comes from another run.  Then look at every row.
        """
        return cursor.read(self._log)

    def joined_or_left(self, cursor: Cursor) -> list[Row] | None:
        """Rows that came, ended, were held or released since `cursor`; starts and stops do not count."""
        return cursor.read(self._state.membership)

    # -- what is decided by counting ---------------------------------------------------------------

    @property
    def plain(self) -> bool:
        """True if counting GPUs decides whether a job fits: whole GPUs, one type, no quotas or reserves."""
        return self._state.plain

    @property
    def is_bare(self) -> bool:
        """True if there is no quota and no reservation, no device is shared and none is down."""
        return self._state.is_bare and not self._state.reservations

    @property
    def uniform(self) -> bool:
        """As `plain`, but ignoring reservations: for the policy that made them."""
        return self._state.uniform

    @property
    def is_steady(self) -> bool:
        """True as long as every job has worked at full speed from the moment it started."""
        return self._state.progress.steady

    def rate(self, row: int) -> float:
        """As `jobs.rate`, for single rows in hot paths."""
        return self._state.progress.rate_of(row)

    def work_s(self, row: Row) -> float:
        """As `jobs.work_s`, for one row."""
        progress = self._state.progress
        return progress.done(row, self._state.now) if progress.per_s is None else self._state.work_s(row)

    def finish_s(self, row: Row, duration_s: float) -> float:
        """When `row`, with `duration_s` of work in all, is done at full speed since its rate was last set.

        The moment does not change as long as the job does work at full speed (`is_steady`).
        """
        return self._state.progress.finish_s(row, duration_s)

    def work_done(self, row: int) -> float:
        """As `jobs.work_done`, for one row."""
        return self._state.progress.done(row, self._state.now)

    def ran_s(self, row: int) -> float:
        """As `jobs.ran_s`, for one row."""
        return self._state.ran_s(row)

    def worked_s(self, row: int) -> float:
        """As `jobs.worked_s`, for one row."""
        worked: float = self._state.progress.worked.item(row)
        return worked

    def scratch(self) -> Occupancy:
        """A copy of the occupancy that the policy may change; valid as long as the snapshot."""
        return self.occupancy.scratch()

    # -- what is known -----------------------------------------------------------------------------

    def know(self, kind: Knowledge) -> Any:
        """What is known of `kind`; columns, alone or in a table, run over the submitted rows as in `jobs`.

        Raises NeedError if the policy did not declare the need, or nothing provides it.
        """
        if kind not in self._needs:
            raise NeedError(f"the policy reads {kind.value}, which it does not list in `needs`")
        if kind not in self._known:
            raise NeedError(f"nobody provides {kind.value}; choose a provider with --knowledge")
        return self._known[kind].upto(self._state.submitted)

    def know_of(self, kind: Knowledge, row: Row) -> float:
        """As `know(kind)[row]` of a column, for single rows in hot paths."""
        if kind not in self._needs or kind not in self._known or row >= self._state.submitted:
            return float(self.know(kind)[row])  # which says what is wrong
        known: float = self._known[kind].cells[row]
        return known

    def knows(self, kind: Knowledge) -> bool:
        """True if the policy declared `kind` and there is a provider of it."""
        return kind in self._needs and kind in self._known

    def known(self, kind: Knowledge) -> Known:
        """The object behind `know`: the same one until there can be something new to learn."""
        if kind not in self._needs or kind not in self._known:
            self.know(kind)  # which says what is wrong
        return self._known[kind]

    def provenance(self, kind: Knowledge) -> Provenance:
        """Where `kind`, which the snapshot `knows`, comes from."""
        return self._known[kind].provenance


def table_of(snapshot: Snapshot) -> State:
    """The loop's own table behind `snapshot`.

    For the loop, stored moments and code that carries out decisions; a layer test keeps policies from it.
    """
    return snapshot._state
