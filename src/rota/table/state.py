"""The loop's table: the phase of every job, what it holds, what it has received.

Only the loop changes it, through the verbs below; a policy reads it through a `Snapshot`.
Rows are jobs in order of submission; rows that have not been submitted yet are absent from every view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from enum import IntEnum
from typing import Any, Final, overload

import numpy as np
from mypy_extensions import mypyc_attr

from rota.model.cluster import Cluster
from rota.model.columns import Cells, Floats, Ints, Row, cells, read_only
from rota.model.feasible import feasible_rows
from rota.model.grants import Grant, Reservation
from rota.model.jobs import JobTable
from rota.table.occupancy import Occupancy
from rota.table.plain import RequestKinds, bare_rows, plain_rows
from rota.table.progress import Progress
from rota.table.rows import RowSet


class Phase(IntEnum):
    """The phase of a job; the names follow Slurm's states."""

    ABSENT = 0  # not submitted yet
    HELD = 1  # submitted, but waits for a dependency or a person
    PENDING = 2
    RUNNING = 3
    COMPLETED = 4
    FAILED = 5
    CANCELLED = 6
    REJECTED = 7


COLUMNS = (
    "phase", "first_start_s", "since_s", "run_s", "service", "service_rate", "placed_s", "adjusted_s",
    "starts", "moves", "preemptions", "failures",
)  # fmt: skip
"""What a `State` notes about each job: arrays of these names."""

# Looking a member up on its class costs more than the comparison it is for.
_PENDING: Final = int(Phase.PENDING)
_RUNNING: Final = int(Phase.RUNNING)


@mypyc_attr(allow_interpreted_subclasses=True)
class State:
    """Everything the loop knows at one moment."""

    def __init__(
        self, jobs: JobTable, cluster: Cluster, progress: Progress, whole: State | None = None
    ) -> None:
        self.jobs = jobs
        self.progress = progress
        self._stand_on(cluster)
        self.grants: dict[Row, Grant] = {}
        self.reservations: tuple[Reservation, ...] = ()
        self.ends: Mapping[int, float] | None = None  # when jobs are to be done, by the last decision
        self.waiting, self.running = RowSet(), RowSet()
        self.waiting_gpus = 0
        """GPUs requested by all waiting jobs together."""
        self.special = 0
        """Live jobs that ask for more than whole GPUs of any type."""
        self.log: list[Row] = []
        """Rows in the order in which their phase or grant changed; caches keep a position in it."""
        self.membership: list[Row] = []
        """Rows in the order in which they joined or left the waiting and running jobs; read like `log`."""
        if whole is not None:
            self._share(whole)
            return
        self._begin(len(jobs))
        self._unfinished_before = {row: len(rows) for row, rows in jobs.after.items()}
        self._dependents: dict[int, list[int]] = {}
        for row, rows in jobs.after.items():
            for before in rows:
                self._dependents.setdefault(before, []).append(row)

    def _stand_on(self, cluster: Cluster) -> None:
        """Set up what depends on the cluster; no job holds anything on it yet."""
        self.cluster = cluster
        self._has_tenants = bool(cluster.tenants)
        self.occupancy = Occupancy(cluster, self.jobs)
        self._plain: list[bool] = plain_rows(self.jobs, cluster).tolist()
        self.bare: list[bool] = bare_rows(self.jobs, cluster).tolist()
        """True for each row that asks for GPUs or parts of them, of whatever type, and for nothing else."""
        self.takes_any: list[bool] = (self.jobs.gpu_types == 0).tolist()
        """True for each row that asks for no type of GPU."""
        self._kinds = RequestKinds(cluster)
        self._accepting: dict[int, list[bool]] = {}
        self._type_of: list[int] = cluster.device_type.tolist()
        self.feasible: list[bool] = feasible_rows(self.jobs, cluster).tolist()
        """True for each row that the empty cluster could hold."""

    def _begin(self, rows: int) -> None:
        """Set up the columns about jobs, with nothing known yet."""
        self.now = 0.0
        self.submitted = 0
        """Rows below this one have been submitted."""
        self.held: dict[int, str] = {}
        """Submitted jobs that no policy sees yet, with what they wait for: a word, or `Constraint.note`."""
        self.refused: dict[int, str] = {}
        """Jobs whose part of the last decision the guard or the world refused, with the reason."""
        self.gpus_of: list[int] = self.jobs.gpus.tolist()
        """GPUs requested, as plain integers for the hot paths."""
        self.phase = np.zeros(rows, dtype=np.int8)
        self.first_start_s = np.full(rows, np.nan)
        self.since_s = np.zeros(rows)
        """Start of the present stretch of running."""
        self.run_s = np.zeros(rows)
        """Seconds run before the present stretch."""
        self.service = np.zeros(rows)
        """GPU-seconds received before the present stretch."""
        self.service_rate = np.zeros(rows)
        """GPUs x share held now."""
        self.placed_s = np.zeros(rows)
        """Moment at which it last came to other devices."""
        self.adjusted_s = np.zeros(rows)
        """Moment at which what it holds was last adjusted where it is; 0 if it never was."""
        self.starts = np.zeros(rows, dtype=np.int64)
        self.moves = np.zeros(rows, dtype=np.int64)
        """How often it came to other devices after its first start: by a start, a move or a resize."""
        self.preemptions = np.zeros(rows, dtype=np.int64)
        self.failures = np.zeros(rows, dtype=np.int64)
        self.failed_start: dict[int, int] = {}
        """For each row with a failed start, the number of the start that failed last."""
        self.bind()

    def bind(self) -> None:
        """Write to the present columns: for code that has replaced them by others."""
        self._phase_of: Cells[int] = cells(self.phase)
        self._since_of: Cells[float] = cells(self.since_s)
        self._run_of: Cells[float] = cells(self.run_s)
        self._service_of: Cells[float] = cells(self.service)
        self._rate_of: Cells[float] = cells(self.service_rate)
        self._placed_of: Cells[float] = cells(self.placed_s)
        self._adjusted_of: Cells[float] = cells(self.adjusted_s)
        self._first_of: Cells[float] = cells(self.first_start_s)
        self._starts_of: Cells[int] = cells(self.starts)
        self._moves_of: Cells[int] = cells(self.moves)
        self._preemptions_of: Cells[int] = cells(self.preemptions)

    def _share(self, whole: State) -> None:
        """Share the columns about jobs with `whole`, as they are now."""
        self.now, self.submitted = whole.now, whole.submitted
        self.held, self.refused, self.gpus_of = whole.held, whole.refused, whole.gpus_of
        self.phase, self.first_start_s = whole.phase, whole.first_start_s
        self.since_s, self.run_s = whole.since_s, whole.run_s
        self.service, self.service_rate = whole.service, whole.service_rate
        self.placed_s, self.adjusted_s = whole.placed_s, whole.adjusted_s
        self.starts, self.moves = whole.starts, whole.moves
        self.preemptions, self.failures = whole.preemptions, whole.failures

    # -- verbs of the loop ---------------------------------------------------------------------

    def enter(self, row: int) -> None:
        """Update what is derived from the request of `row`, which was written into a growing table.

        Also after a change of the request, but what a running job holds (GPUs, CPU, memory) stays.
        """
        waits, runs = row in self.waiting, row in self.running
        before = self.gpus_of[row], self._plain[row]
        self.gpus_of[row] = self.jobs.gpus.item(row)
        self._plain[row], self.bare[row], self.feasible[row] = self._kinds.of(self.jobs, row)
        self.takes_any[row] = not self.jobs.gpu_types[row]
        self.occupancy.enter(row)
        self.jobs = copy(self.jobs)  # another object: whatever was derived from all rows is derived again
        if waits or runs:
            self.waiting_gpus += (self.gpus_of[row] - before[0]) * waits
            self.special += before[1] - self._plain[row]
            self.log.append(row)  # its key may have changed: caches place it again

    def submit(self, row: int) -> bool:
        """`row` becomes visible: pending, or held while it waits for others.

        False if it is refused at once because the whole cluster could not hold it.
        """
        self.submitted = row + 1
        if not self.feasible[row]:
            self.phase[row] = Phase.REJECTED
            self._release_dependents(row)
            return False
        if self._unfinished_before.get(row):
            self.phase[row] = Phase.HELD
            self.held[row] = "dependency"
            return True
        if not self._plain[row]:
            self.special += 1
        self._join(row)
        return True

    def submit_held(self, row: int, why: str) -> None:
        """`row` has been submitted, but no policy sees it until it is released."""
        self.submitted = row + 1
        self.phase[row] = Phase.HELD
        self.held[row] = why

    def hold(self, row: int, why: str) -> None:
        """`row`, which waits or is held already, is hidden from the policy because of `why`."""
        if row not in self.held:
            self.waiting.remove(row)
            self.waiting_gpus -= self.gpus_of[row]
            self.special -= not self._plain[row]
            self.phase[row] = Phase.HELD
            self.log.append(row)
            self.membership.append(row)
        self.held[row] = why

    def release(self, row: int) -> None:
        """`row`, which was held, waits for devices from now on."""
        del self.held[row]
        self.special += not self._plain[row]
        self._join(row)

    def accept(self, row: int, deadline_s: float) -> None:
        """The user of `row`, which is held for an offer, has taken `deadline_s`: it waits for devices."""
        due_s = self.jobs.deadline_s.copy()
        due_s[row] = deadline_s
        others = {other: due for other, due in self.jobs.deadlines.items() if other != row}
        self.jobs = replace(self.jobs, deadline_s=read_only(due_s), deadlines=others)
        self.release(row)

    def lose(self, node: int) -> None:
        """`node` takes no new grants: it is lost, or drained while what runs on it ends."""
        self.occupancy.lose(node)

    def regain(self, node: int) -> None:
        """`node` is back."""
        self.occupancy.regain(node)

    def close(self, devices: Sequence[int]) -> None:
        """`devices` take no new grants."""
        self.occupancy.close(devices)

    def open(self, devices: Sequence[int]) -> None:
        """`devices` are healthy again."""
        self.occupancy.open(devices)

    def _join(self, row: Row) -> None:
        """`row`, which no policy saw so far, waits from now on."""
        self._wait(row)
        self.membership.append(row)

    def _wait(self, row: Row) -> None:
        self._phase_of[row] = _PENDING
        self.waiting.add(row)
        self.waiting_gpus += self.gpus_of[row]
        self.log.append(row)

    def start(self, grant: Grant) -> None:
        """Begin `grant`, which fits, now; its job was waiting."""
        fields: tuple[Any, ...] = grant
        row, now = fields[0], self.now
        self.waiting.remove(row)
        self.waiting_gpus -= self.gpus_of[grant[0]]
        self.running.add(row)
        self._phase_of[row] = _RUNNING
        starts: int = self._starts_of[row]
        starts += 1
        self._starts_of[row] = starts
        if starts == 1:
            self._first_of[row] = now
        else:
            self._moves_of[row] += 1
        self._placed_of[row] = now
        self.log.append(row)
        self._take(grant)
        self.occupancy.hold(grant)

    def change(self, grant: Grant) -> Grant:
        """A running job holds `grant` from now on; returns what it held.  Release all old ones first."""
        row, old = grant.job, self.grants[grant.job]
        if old.devices == grant.devices and old.node == grant.node:
            self.log.append(row)
            self._claim(grant)
            return old
        self.log.append(row)
        self._accrue(row, self.now)
        self._placed_of[row] = self.now
        self._moves_of[row] += 1
        self._take(grant)
        self.occupancy.hold(grant)
        return old

    def _claim(self, grant: Grant) -> None:
        """A job has another claim on its devices from now on: the present stretch of running goes on."""
        row, rate = grant.job, len(grant.devices) * grant.share
        elapsed = self.now - self.since_s.item(row)
        self.service[row] = self.service.item(row) + (self.service_rate.item(row) - rate) * elapsed
        self.service_rate[row] = rate
        self.adjusted_s[row] = self.now
        self.grants[row] = grant
        self.occupancy.hold(grant)

    def adjust(self, grant: Grant, at_s: float) -> None:
        """A running job goes on where it is with the same claim, by another batch size or other limits.

        It holds `grant` since `at_s`: now, or earlier if it goes on as it was.
        """
        self.adjusted_s[grant.job] = at_s
        self.occupancy.adjust(self.grants[grant.job], grant)
        self.grants[grant.job] = grant
        self.log.append(grant.job)

    def free(self, row: Row) -> None:
        """The devices of `row` are free for others, its next grant or its stop follows."""
        self.occupancy.release(self.grants[row])

    def _take(self, grant: Grant) -> None:
        fields: tuple[Any, ...] = grant
        row = fields[0]
        self.grants[row] = grant
        self._since_of[row] = self.now
        self._rate_of[row] = len(grant[1]) * grant[2]

    def has_started(self, row: Row) -> bool:
        """True if `row` has run, if only for a moment."""
        starts: int = self._starts_of[row]
        return starts > 0

    def held_since_s(self, row: Row) -> float:
        """Moment from which the running `row` has held exactly what it holds."""
        since: float = self._since_of[row]
        adjusted: float = self._adjusted_of[row]
        return since if since >= adjusted else adjusted

    def _accrue(self, row: Row, until_s: float) -> None:
        elapsed: float = until_s - self._since_of[row]
        ran: float = self._run_of[row]
        served: float = self._service_of[row]
        rate: float = self._rate_of[row]
        self._run_of[row] = ran + elapsed
        self._service_of[row] = served + rate * elapsed

    def count_preemption(self, row: Row) -> None:
        """`row` is preempted now: its stop follows."""
        self._preemptions_of[row] += 1

    def stop(self, row: Row, phase: Phase = Phase.PENDING, at_s: float | None = None) -> Grant:
        """`row`, whose devices are free already, holds nothing from now on; it ran until `at_s`, or now."""
        grant = self.grants.pop(row)
        self._accrue(row, self.now if at_s is None else at_s)
        self._rate_of[row] = 0.0
        self.running.remove(row)
        if phase == _PENDING:
            self._wait(row)
        else:
            self._leave(row, phase)
        return grant

    def take_back(self, row: int, *, has_run: bool) -> None:
        """The grant that `row` got at this moment never took effect; `has_run` if it held another before."""
        self.free(row)
        self.stop(row)
        if self.placed_s.item(row) == self.now and (has_run or self.starts.item(row) > 1):
            self.moves[row] -= 1
        if has_run:
            return
        self.starts[row] -= 1
        if not self.starts[row]:
            self.first_start_s[row] = np.nan

    def withdraw(self, row: int, phase: Phase) -> None:
        """`row`, which waits or is held, ends without running (again)."""
        if row in self.held:
            del self.held[row]
            self.special += not self._plain[row]
        else:
            self.waiting.remove(row)
            self.waiting_gpus -= self.gpus_of[row]
        self._leave(row, phase)

    def _leave(self, row: Row, phase: Phase) -> None:
        self._phase_of[row] = phase
        self.log.append(row)
        self.membership.append(row)
        if not self._plain[row]:
            self.special -= 1
        self._release_dependents(row)

    def _release_dependents(self, row: int) -> None:
        """`row` has ended, in whatever way: jobs that waited for nothing else now wait for devices."""
        for dependent in self._dependents.get(row, ()) if self._dependents else ():
            self._unfinished_before[dependent] -= 1
            if not self._unfinished_before[dependent] and dependent in self.held:
                del self.held[dependent]
                self.special += not self._plain[dependent]
                self._join(dependent)

    def count_special(self) -> None:
        """Recount the live jobs that ask for more than whole GPUs, after the table was refilled."""
        live = (*self.waiting.rows.tolist(), *self.running.rows.tolist())
        self.special = sum(not self._plain[row] for row in live)

    # -- what grows with time ------------------------------------------------------------------

    @overload
    def service_gpu_s(self, rows: int) -> float: ...
    @overload
    def service_gpu_s(self, rows: Ints) -> Floats: ...
    def service_gpu_s(self, rows: int | Ints) -> float | Floats:
        """GPU-seconds received until now."""
        if isinstance(rows, int):
            elapsed = self.now - self.since_s.item(rows)
            return self.service.item(rows) + self.service_rate.item(rows) * elapsed
        served: Floats = self.service[rows] + self.service_rate[rows] * (self.now - self.since_s[rows])
        return served

    @overload
    def ran_s(self, rows: int) -> float: ...
    @overload
    def ran_s(self, rows: Ints) -> Floats: ...
    def ran_s(self, rows: int | Ints) -> float | Floats:
        """Seconds run until now."""
        if isinstance(rows, int):
            running = self.phase.item(rows) == _RUNNING
            return self.run_s.item(rows) + (self.now - self.since_s.item(rows) if running else 0.0)
        running_rows = self.phase[rows] == _RUNNING
        ran: Floats = self.run_s[rows] + np.where(running_rows, self.now - self.since_s[rows], 0.0)
        return ran

    @overload
    def work_s(self, rows: int) -> float: ...
    @overload
    def work_s(self, rows: Ints) -> Floats: ...
    def work_s(self, rows: int | Ints) -> float | Floats:
        """Work done, as seconds at the requested allocation; seconds run, if those do not count it (NaN)."""
        per_s = self.progress.per_s
        if per_s is None:
            return self.progress.done(rows, self.now)
        if isinstance(rows, int):
            each = per_s.item(rows)
            return self.progress.done(rows, self.now) / each if each == each else self.ran_s(rows)
        own = per_s[rows]
        work: Floats = np.where(np.isnan(own), self.ran_s(rows), self.progress.done(rows, self.now) / own)
        return work

    @property
    def plain(self) -> bool:
        """True if counting GPUs decides whether a job fits: whole GPUs, one type, no quotas or reserves."""
        return self.uniform and not self.reservations

    @property
    def uniform(self) -> bool:
        """As `plain`, but ignoring reservations: for the policy that made them."""
        return not self.special and self.is_bare

    @property
    def is_bare(self) -> bool:
        """True if there is no quota, no device is shared and none is down."""
        return self.is_open and not self.occupancy.sharers

    @property
    def is_open(self) -> bool:
        """True if there is no quota and no device is down."""
        return not self._has_tenants and not self.occupancy.down

    def asks_only_gpus(self, row: int) -> bool:
        """True if `row` asks for GPUs or parts of them, of whatever type, and for nothing else."""
        return self.bare[row]

    def accepts(self, row: int, devices: tuple[int, ...]) -> bool:
        """True if `row` takes GPUs of the types that `devices` have."""
        if self.takes_any[row]:
            return True
        wanted = self.jobs.gpu_types.item(row)
        accepting = self._accepting.get(wanted)
        if accepting is None:
            names = self.jobs.types_in(wanted)
            accepting = self._accepting[wanted] = [name in names for name in self.cluster.type_names]
        return all(accepting[self._type_of[device]] for device in devices)
