"""The live jobs with their attempts and holds: the small table that all of this room reads and changes.

Functions that take the table do what happens to jobs: `reports`, `commands` and `due` change it and add to a
`BatchBuilder`; `execution` changes it after a decision.  The table also holds what a change has to reach: the
loop's table (`state`), the directives for agents, timers, recent costs, and what is not stored yet.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from statistics import median

from rota.knowledge.needs import Observation
from rota.model.failures import RetryHistory
from rota.model.growing import GrowingTable
from rota.model.jobs import PlainJob
from rota.scheduler.moments.replica import TracedState
from rota.table.progress import Progress
from rota.table.state import State
from rota.wire.job import array_of
from rota.wire.sync import Cost
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.curves import Point
from rota.worlds.live.directives import Directives
from rota.worlds.live.holds import OFFERED
from rota.worlds.live.inbox import CommandAsked
from rota.worlds.live.machines import Machines
from rota.worlds.live.settings import LiveSettings
from rota.worlds.live.wanted_nodes import Scaling


@dataclass
class Unsaved:
    """Changes for the next step; `LiveJobs.take_unsaved` starts the following one."""

    jobs: dict[int, LiveJob] = field(default_factory=dict)
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    nodes: set[int] = field(default_factory=set)
    done: list[tuple[int, dict[str, object]]] = field(default_factory=list)
    """Commands, with their outcomes."""
    events: list[tuple[str, str, str, str]] = field(default_factory=list)
    """User, kind, job, text."""
    points: list[Point] = field(default_factory=list)
    """Of the curves of jobs."""
    thinned: set[int] = field(default_factory=set)
    """Rows of jobs to merge neighbouring points of, after the points above are on record."""
    costs: list[tuple[int, Cost]] = field(default_factory=list)
    asked: list[CommandAsked] = field(default_factory=list)
    """Commands that are the controller's to carry out: policies, changes of what jobs ask for."""
    started: list[tuple[float, float]] = field(default_factory=list)
    """Moments of submission and of the first process, of jobs that have just begun."""
    idle: list[tuple[int, str]] = field(default_factory=list)
    """Rows of jobs that hold devices and are idle, with a sentence for each."""
    risks: list[tuple[int, str]] = field(default_factory=list)
    """Rows of jobs with a promise at risk from now on, or safe again, with a sentence about it."""
    scaling: bool = False
    """How many nodes are wanted, or which of them may go, has changed."""
    rebuild: str = ""
    """Why the loop has to be built again; empty if it need not."""

    def job(self, job: LiveJob) -> None:
        """Something about `job` has changed."""
        self.jobs[job.row] = job

    def attempt(self, attempt: Attempt) -> None:
        """Something about `attempt` has changed."""
        self.attempts[attempt.row, attempt.number] = attempt

    def event(self, kind: str, job: str, text: str, who: str = "rota") -> None:
        """A line for the audit; `job` is an id, or empty."""
        self.events.append((who, kind, job, text))


AFTERWARDS_S = 1e-3
"""Seconds after which the loop has taken a moment in."""
NODES = -1
"""Stands for a row in the entry that looks at all nodes."""
SCALING = -2
"""Stands for a row in the entry that looks at the number of nodes wanted."""


class Timers:
    """Moments at which a job, or the nodes, are to be looked at; an extra look does no harm."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []

    @property
    def next_s(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def set(self, row: int, at_s: float) -> None:
        """Look at `row` at that moment, or as soon as can be after it."""
        heapq.heappush(self._heap, (at_s, row))

    def due(self, now: float) -> list[int]:
        """Rows to look at now, each once."""
        rows: dict[int, None] = {}
        while self._heap and self._heap[0][0] <= now:
            rows[heapq.heappop(self._heap)[1]] = None
        return list(rows)


ENOUGH = 5
"""Least measurements of a workload for its own median to be used."""
LATELY = 101
"""Most measurements kept of each kind."""


class RecentCosts:
    """Medians of the durations that agents and programs measured last, by kind and workload."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], deque[float]] = {}
        self._medians: dict[tuple[str, str], float] = {}

    def add(self, workload: str, kind: str, seconds: float) -> None:
        """Add a measurement of this kind for a job of this workload."""
        for key in {(kind, workload), (kind, "")}:
            self._seen.setdefault(key, deque(maxlen=LATELY)).append(seconds)
            self._medians.pop(key, None)

    def seconds(self, workload: str, kind: str) -> float | None:
        """The median for this workload if it was measured often enough, else for all; None if never."""
        key = (kind, workload)
        if len(self._seen.get(key, ())) < ENOUGH:
            key = (kind, "")
        if key not in self._seen:
            return None
        if key not in self._medians:
            self._medians[key] = median(self._seen[key])
        return self._medians[key]


class Names:
    """Rows by what `after` may name: a job by its id, all jobs of an array by its number."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._rows: dict[str, int] = {}
        self._arrays: dict[str, list[int]] = {}
        for row, job_id in enumerate(ids):
            self.add(job_id, row)

    def add(self, job_id: str, row: int) -> None:
        """The job of `row` has this id."""
        self._rows[job_id] = row
        if "_" in job_id:
            self._arrays.setdefault(array_of(job_id), []).append(row)

    def rows(self, name: str) -> Sequence[int]:
        """Rows of the jobs that `name` refers to; none if there are no such jobs."""
        if name in self._arrays:
            return self._arrays[name]
        return (self._rows[name],) if name in self._rows else ()


class LiveJobs(Mapping[int, LiveJob]):
    """Jobs by row that are not over, or may still have processes."""

    state: State
    """The loop's table, from `attach` on."""

    def __init__(
        self,
        table: GrowingTable,
        machines: Machines,
        jobs: Iterable[LiveJob],
        directives: Directives,
        epoch_unix_s: float,
        settings: LiveSettings,
    ) -> None:
        self.table = table
        self.machines = machines
        self.directives = directives
        self.epoch_unix_s = epoch_unix_s
        self.settings = settings
        self.names = Names(table.jobs.ids)
        self.dependents: dict[int, set[int]] = {}
        """Row -> rows of the jobs that are to run after it."""
        self.timers = Timers()
        self.costs = RecentCosts()
        self.history = RetryHistory()
        """What trying again was good for, since this controller began."""
        self.seen: list[Observation] | None = None
        """Observations of running jobs since they were last read; None while no policy reads them."""
        self.unsaved = Unsaved()
        self.scaling: Scaling | None = None
        """How many nodes are wanted; None without an operator's hook."""
        self._jobs = {job.row: job for job in jobs}
        self._gone: set[int] = set()

    # -- a mapping -------------------------------------------------------------------------------

    def __getitem__(self, row: int) -> LiveJob:
        return self._jobs[row]

    def __iter__(self) -> Iterator[int]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def values(self) -> ValuesView[LiveJob]:
        """The dictionary's own: other threads copy them while jobs come and go."""
        return self._jobs.values()

    def items(self) -> ItemsView[int, LiveJob]:
        """The dictionary's own: other threads copy them while jobs come and go."""
        return self._jobs.items()

    # -- rows come and go ------------------------------------------------------------------------

    def enter(self, job: LiveJob, asked: PlainJob) -> None:
        """Append a job to the growing table, which has room for it."""
        types = tuple(job.spec.gpu_types)
        row = self.table.append(asked, types)
        if isinstance(self.state, TracedState):
            self.state.entered(asked, types)
        else:
            self.state.enter(row)
        self._jobs[row] = job
        self.names.add(job.id, row)
        self.note_program(job)

    def drop_if_gone(self, job: LiveJob) -> None:
        """Forget, once it is on record, a job that is over and has no process left."""
        if job.is_over and not job.living:
            self._gone.add(job.row)

    def take_unsaved(self) -> Unsaved:
        """Everything to be stored now; ended jobs that are on record are forgotten."""
        unsaved, self.unsaved = self.unsaved, Unsaved()
        for row in self._gone:
            self._jobs.pop(row, None)
        self._gone.clear()
        return unsaved

    # -- facts about a row -----------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The moment of the loop's table."""
        return self.state.now

    @property
    def progress(self) -> Progress:
        """How far all jobs are."""
        return self.state.progress

    def is_running(self, job: LiveJob) -> bool:
        """True if it holds devices in the loop's table."""
        return job.row in self.state.running

    def submit_s(self, row: int) -> float:
        """When it was submitted, in seconds since the epoch."""
        return self.table.jobs.submit_s.item(row)

    def workload(self, row: int) -> str:
        """Its program, by the name that tables of speeds and costs use."""
        return self.table.jobs.name_of("workload", row)

    def members(self, first: int | None) -> list[LiveJob]:
        """The live jobs of the array that begins at this row."""
        return [job for job in self.values() if first is not None and job.array_first == first]

    # -- time ------------------------------------------------------------------------------------

    def set_timers(self, job: LiveJob) -> None:
        """Everything that time will bring to `job` as it stands."""
        for hold in job.holds.values():
            if hold.until_s is not None:
                self.timers.set(job.row, hold.until_s)
                if hold.kind == OFFERED and job.spec.accept_later_deadline:
                    self.timers.set(job.row, self.now + AFTERWARDS_S)
        end_s = self._limit_s(job)
        if end_s < math.inf:
            self.timers.set(job.row, end_s)

    def _limit_s(self, job: LiveJob) -> float:
        """Moment at which a running job gets the notice of its limit, or its limit or trial ends."""
        if job.is_over or not self.is_running(job):
            return math.inf
        attempt, ends_s = job.attempt, math.inf
        if job.spec.most_run_s is not None:
            ends_s = self.now + job.spec.most_run_s - self.state.ran_s(job.row)
            if attempt is not None and attempt.awaits_notice:
                ends_s -= job.spec.notice_s
        if attempt is not None and attempt.is_trial:
            began_s = self.now if attempt.ready_s is None else attempt.ready_s
            ends_s = min(ends_s, began_s + self.settings.trial_s)
        return ends_s

    def note_program(self, job: LiveJob) -> None:
        """Pass what the program of `job` supports and works with to policies, where it has changed."""
        row, can, batch = job.row, int(job.can), job.batch_size
        then = self.progress.batch.item(row)
        if self.progress.can.item(row) != can or (then != batch and (then == then or batch == batch)):
            self.progress.can[row], self.progress.batch[row] = can, batch
            self.note_progress(row)

    def note_progress(self, row: int) -> None:
        """Note for replicas that the progress or the speed of `row` has changed."""
        if isinstance(self.state, TracedState):
            self.state.paced.add(row)
