"""The interface of a world, where decisions are carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from rota.knowledge.needs import Observation
from rota.model.cluster import Cluster
from rota.model.grants import Grant, Leave
from rota.model.jobs import JobTable
from rota.model.promises import Offer
from rota.scheduler.guard.host_memory import Resident
from rota.table.progress import Progress
from rota.table.state import Phase, State


class How(StrEnum):
    """Why an interval of holding, or an attempt, ended."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    MIGRATED = "migrated"
    RESIZED = "resized"
    ADJUSTED = "adjusted"  # it goes on where it is, by another claim, batch size or limit
    LOST = "lost"
    TIMEOUT = "timeout"  # of attempts: their job has failed, and so their interval's word is `failed`
    RUNNING = "running"  # the run ended before the job did


# One or more of these three are made at each event.  Written out, `__init__` is compiled; that of a dataclass
# never is, nor is a named tuple's.


@dataclass(slots=True, init=False)
class Ended:
    """A job, or one attempt of it, stopped by itself."""

    row: int
    how: How
    phase: Phase
    """PENDING if it is to be tried again."""
    at_s: float | None
    """When it stopped, if that became known later: it made no use of what it held since then."""

    def __init__(self, row: int, how: How, phase: Phase, at_s: float | None = None) -> None:
        self.row, self.how, self.phase, self.at_s = row, how, phase, at_s


@dataclass(slots=True, init=False)
class Batch:
    """Everything that happened at one moment."""

    now: float
    cause: int
    """`Event` flags, as a plain integer."""
    arrived: Sequence[int]
    """Rows submitted, ascending."""
    ended: Sequence[Ended]
    lost: Sequence[int]
    """Nodes lost."""
    back: Sequence[int]
    """Nodes that returned."""
    withdrawn: Sequence[int]
    """Waiting or held jobs that are cancelled: by their users, or with their group."""
    settled: Sequence[tuple[int, Phase]]
    """Waiting or held jobs that are over: they ended by themselves while they were being stopped."""
    held: Sequence[tuple[int, str]]
    """Jobs, waiting or just arrived, to hide from policies for now, with what they wait for."""
    released: Sequence[int]
    """Held jobs that wait for devices again."""
    accepted: Sequence[tuple[int, float]]
    """Jobs held for an offer whose users have accepted it, with the deadline they have from now on."""
    drained: Sequence[int]
    """Nodes that take no new jobs; those on them run on."""
    closed: Sequence[int]
    """Devices that are not healthy."""
    opened: Sequence[int]
    """Devices that are healthy again."""

    def __init__(
        self,
        now: float,
        cause: int,
        arrived: Sequence[int] = (),
        ended: Sequence[Ended] = (),
        lost: Sequence[int] = (),
        back: Sequence[int] = (),
        withdrawn: Sequence[int] = (),
        settled: Sequence[tuple[int, Phase]] = (),
        held: Sequence[tuple[int, str]] = (),
        released: Sequence[int] = (),
        drained: Sequence[int] = (),
        closed: Sequence[int] = (),
        opened: Sequence[int] = (),
        accepted: Sequence[tuple[int, float]] = (),
    ) -> None:
        self.now, self.cause, self.arrived, self.ended = now, cause, arrived, ended
        self.lost, self.back, self.withdrawn, self.settled = lost, back, withdrawn, settled
        self.held, self.released = held, released
        self.drained, self.closed, self.opened = drained, closed, opened
        self.accepted = accepted


@dataclass(slots=True, init=False)
class Change:
    """One step of carrying out a decision; stops come before starts."""

    row: int
    old: Grant | None
    new: Grant | None
    leave: Leave
    stays: bool
    """False if nothing of the job may stay in host memory: others need it.  With neither `old` nor `new` the
    job is suspended already, and leaves memory."""

    def __init__(
        self,
        row: int,
        old: Grant | None,
        new: Grant | None,
        leave: Leave = Leave.CHECKPOINT,
        stays: bool = True,
    ) -> None:
        self.row, self.old, self.new, self.leave, self.stays = row, old, new, leave, stays


class Refusal(NamedTuple):
    """A start or a move that the world could not make; the job holds nothing and waits again."""

    row: int
    why: str


class Lost(NamedTuple):
    """What a stop cost: seconds of granted time without work, and work given up."""

    overhead_s: float = 0.0
    work_s: float = 0.0


class World(Protocol):
    """A place where jobs run.  The loop owns the state; the world owns time and progress."""

    cluster: Cluster
    jobs: JobTable
    progress: Progress

    def attach(self, state: State) -> None:
        """The loop will drive this world with `state`."""
        ...

    def next(self, until_s: float) -> Batch | None:
        """The next things that happen, or an empty TIMER batch at `until_s`; None if nothing ever will."""
        ...

    def apply(self, changes: Sequence[Change]) -> Sequence[Refusal]:
        """Carry out the changes, which the guard has passed and the state already shows."""
        ...

    def offer(self, offers: Mapping[int, Offer]) -> None:
        """Pass `offers` to the users of jobs that are held for them: each is answered, or lapses."""
        ...

    def scale(self, nodes: int) -> None:
        """Scale the cluster to `nodes` nodes, as far and as soon as this world can."""
        ...

    def stopped(self, row: int, how: How) -> Lost:
        """The attempt of `row` is over: settle its progress; it goes on if it is only adjusted."""
        ...

    def observed(self) -> Sequence[Observation]:
        """What was observed of running jobs since the last call.

        The first call returns what is known from before; a world records nothing until the first call.
        """
        ...

    def suspended(self) -> Iterable[Resident]:
        """Waiting jobs that stay in host memory, and what they keep there."""
        ...

    def would_keep(self, row: int, leave: Leave) -> Resident | None:
        """What `row`, which runs, would keep in host memory if it were preempted by `leave`."""
        ...


@dataclass
class LoopCounts:
    """What the loop counts while it runs."""

    events: int = 0
    decisions: int = 0
    refused: int = 0
    by_rule: dict[str, int] = field(default_factory=dict)
