"""A twin of the loop's table in another process, kept in step by a trace of the changes to the table.

The loop changes its table through a handful of verbs only.  `TracedState` notes each of them; a `Replica`
repeats them in order and arrives at the same table, caches of the policy included, at the cost of what has
changed: ten thousand waiting jobs cost nothing as long as nothing happens to them.

A trace is a list of tuples `(verb, ...)` of plain values.  What is no verb (the time, what was refused,
what is reserved, how fast jobs work) travels in the `Frame` that closes each trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota.model.cluster import Cluster
from rota.model.grants import Grant, Reservation, with_one_nan
from rota.model.growing import GrowingTable
from rota.model.jobs import PlainJob
from rota.scheduler.moments.packing import Packed, pack_jobs, unpack_jobs
from rota.scheduler.moments.restore import Stored, fresh_state, refill, stored
from rota.table.progress import COLUMNS as PROGRESS
from rota.table.progress import Progress
from rota.table.state import Phase, State

Trace = list[tuple[Any, ...]]


class TracedState(State):
    """A table that records its changes; `take_trace` returns the record and starts a new one."""

    def __init__(self, *args: Any) -> None:
        self.trace: Trace = []
        self.paced: set[int] = set()
        """Rows whose progress the world has changed since the last frame."""
        self.inside = False
        super().__init__(*args)

    def take_trace(self) -> Trace:
        trace, self.trace = self.trace, []
        return trace

    def _note(self, *said: Any) -> None:
        if not self.inside:
            self.trace.append(said)

    def entered(self, job: PlainJob, types: tuple[str, ...]) -> None:
        """`job` has been appended to the table as the next row."""
        self._note("enter", job, types)
        super().enter(job.row)

    def updated(self, row: int, values: dict[str, Any]) -> None:
        """Columns of `row` in the growing table have changed."""
        self._note("update", row, values)
        super().enter(row)

    def submit(self, row: int) -> bool:
        self._note("submit", row)
        return super().submit(row)

    def submit_held(self, row: int, why: str) -> None:
        self._note("submit_held", row, why)
        super().submit_held(row, why)

    def hold(self, row: int, why: str) -> None:
        self._note("hold", row, why)
        super().hold(row, why)

    def release(self, row: int) -> None:
        self._note("release", row)
        super().release(row)

    def lose(self, node: int) -> None:
        self._note("lose", node)
        super().lose(node)

    def regain(self, node: int) -> None:
        self._note("regain", node)
        super().regain(node)

    def close(self, devices: Sequence[int]) -> None:
        self._note("close", tuple(devices))
        super().close(devices)

    def open(self, devices: Sequence[int]) -> None:
        self._note("open", tuple(devices))
        super().open(devices)

    def start(self, grant: Grant) -> None:
        self._note("start", self.now, grant)
        super().start(grant)

    def change(self, grant: Grant) -> Grant:
        self._note("change", self.now, grant)
        return super().change(grant)

    def adjust(self, grant: Grant, at_s: float) -> None:
        self._note("adjust", at_s, grant)
        super().adjust(grant, at_s)

    def free(self, row: int) -> None:
        self._note("free", row)
        super().free(row)

    def stop(self, row: int, phase: Phase = Phase.PENDING, at_s: float | None = None) -> Grant:
        self._note("stop", self.now, row, int(phase), at_s)
        return super().stop(row, phase, at_s)

    def withdraw(self, row: int, phase: Phase) -> None:
        self._note("withdraw", row, int(phase))
        super().withdraw(row, phase)

    def take_back(self, row: int, *, has_run: bool) -> None:
        self._note("take_back", self.now, row, has_run)
        self.inside = True  # the verb itself frees and stops
        try:
            super().take_back(row, has_run=has_run)
        finally:
            self.inside = False


@dataclass
class Frame:
    """The end of a trace: the part of the moment that no verb changes."""

    now: float
    refused: dict[int, str]
    reservations: tuple[Reservation, ...]
    progress: list[tuple[int, tuple[float, ...]]]
    """Row and `PROGRESS` of the jobs whose progress was changed."""
    counters: list[tuple[int, int, int]]
    """Row, preemptions and failures of the jobs in the trace."""
    steady: bool = False
    """The value of `Progress.steady`."""
    trace: Trace = field(default_factory=list)


@dataclass
class Whole:
    """Everything a replica begins with."""

    capacity: int
    cluster: Cluster
    jobs: Packed
    """Every job of the table, packed by `rota.scheduler.moments.packing.pack_jobs`."""
    kept: Stored


def take_frame(state: TracedState) -> Frame:
    """All news for a replica; a new trace starts."""
    trace = state.take_trace()
    progress = state.progress
    columns = [getattr(progress, name) for name in PROGRESS]
    rows = sorted({said[-1].job if said[0] in _GRANTED else _row(said) for said in trace} | state.paced)
    touched = [row for row in rows if row >= 0]
    state.paced = set()
    return Frame(
        now=state.now,
        refused=dict(state.refused),
        reservations=state.reservations,
        progress=[(row, tuple(column.item(row) for column in columns)) for row in touched],
        counters=[(r, state.preemptions.item(r), state.failures.item(r)) for r in touched],
        steady=progress.steady,
        trace=trace,
    )


_GRANTED = {"start", "change", "adjust"}
_ROW_AT = {"submit": 1, "submit_held": 1, "hold": 1, "release": 1, "stop": 2, "withdraw": 1, "take_back": 2}


def _row(said: tuple[Any, ...]) -> int:
    """The row that a verb concerns; -1 if there is none."""
    place = _ROW_AT.get(said[0])
    return -1 if place is None else int(said[place])


def take_whole(state: State, table: GrowingTable) -> Whole:
    """The whole table, for a new replica."""
    return Whole(table.capacity, state.cluster, pack_jobs(table.jobs, table.filled), stored(state))


class Replica:
    """The twin: `state` is as the traced one was when the last frame was taken."""

    def __init__(self, whole: Whole) -> None:
        self.table = GrowingTable(whole.capacity)
        self.table.load(unpack_jobs(whole.jobs))
        self.state = fresh_state(self.table, whole.cluster)
        refill(self.state, whole.kept)

    def follow(self, frame: Frame) -> None:
        """Repeat the changes to the original."""
        state, progress = self.state, self.state.progress
        for verb, *said in frame.trace:
            _REPEAT[verb](self, *said)
        columns = [getattr(progress, name) for name in PROGRESS]
        for row, values in frame.progress:
            for column, value in zip(columns, values, strict=True):
                column[row] = value
        for row, preemptions, failures in frame.counters:
            state.preemptions[row], state.failures[row] = preemptions, failures
        state.now, progress.steady = frame.now, frame.steady
        state.refused, state.reservations = dict(frame.refused), frame.reservations

    def enter(self, job: PlainJob, types: tuple[str, ...]) -> None:
        self.state.enter(self.table.append(job, types))

    def update(self, row: int, values: dict[str, Any]) -> None:
        self.table.update(row, **values)
        self.state.enter(row)

    def start(self, now: float, grant: Grant) -> None:
        self.state.now = now
        self.state.start(with_one_nan(grant))

    def change(self, now: float, grant: Grant) -> None:
        self.state.now = now
        self.state.change(with_one_nan(grant))

    def adjust(self, at_s: float, grant: Grant) -> None:
        self.state.adjust(with_one_nan(grant), at_s)

    def stop(self, now: float, row: int, phase: int, at_s: float | None) -> None:
        self.state.now = now
        self.state.stop(row, Phase(phase), at_s)

    def take_back(self, now: float, row: int, has_run: bool) -> None:
        self.state.now = now
        self.state.take_back(row, has_run=has_run)


def _plain(verb: str) -> Callable[..., None]:
    """Repeats a verb of the table with its recorded arguments."""

    def repeat(replica: Replica, *said: Any) -> None:
        getattr(replica.state, verb)(*said)

    return repeat


_REPEAT: dict[str, Callable[..., None]] = {
    "enter": Replica.enter,
    "update": Replica.update,
    "start": Replica.start,
    "change": Replica.change,
    "adjust": Replica.adjust,
    "stop": Replica.stop,
    "take_back": Replica.take_back,
    "withdraw": lambda replica, row, phase: replica.state.withdraw(row, Phase(phase)),
    **{
        verb: _plain(verb)
        for verb in ("submit", "submit_held", "hold", "release", "lose", "regain", "close", "open", "free")
    },
}


def traced_state(table: GrowingTable, cluster: Cluster) -> TracedState:
    """A traced state for the jobs in `table`, none of them submitted."""
    return TracedState(table.jobs, cluster, Progress(table.capacity))
