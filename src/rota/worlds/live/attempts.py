"""A live job and its attempts: each start on new devices is an attempt; resuming one is not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rota.knowledge.seen import JobObservations
from rota.model.grants import Can, Grant
from rota.model.promises import Promise
from rota.scheduler.world import How
from rota.wire.accounts import NO_ACCOUNT
from rota.wire.job import JobSpec
from rota.wire.sync import Capability, Exit, Notice, PartStatus, ProgressReport, Rank, Usage, Wanted
from rota.worlds.live.curves import Curves
from rota.worlds.live.holds import Hold

WITHDRAWN = "withdrawn"
"""`Attempt.how` of an attempt that reached no agent: its job continues with the previous or another one."""


@dataclass(slots=True)
class NodePart:
    """What one node does for an attempt."""

    node: int
    """Position of the node in the cluster."""
    name: str
    devices: tuple[int, ...]
    """Local indexes."""
    ranks: list[Rank] = field(default_factory=list)
    status: PartStatus | None = None
    """As its agent last said; None before it said anything."""
    end: Exit | None = None
    why: str = ""
    has_told: bool = False
    """Its agent has said of a trouble with it, which is an event by now."""
    has_started: bool = False
    """Its agent has said when its processes began."""
    over_s: float | None = None
    """When its last process was gone, as its agent said; seconds since the epoch."""
    suspended_gib: float = 0.0
    looked_s: float | None = None
    """When its agent last reported what it uses."""
    busy: float | None = None
    """Part of the devices that was in use then; None if not known."""
    idle_s: float | None = None
    """Seconds for which it had done nothing then; None if not known."""

    @property
    def is_over(self) -> bool:
        return self.status in (PartStatus.ENDED, PartStatus.LOST)

    @property
    def has_begun(self) -> bool:
        """True if a process may be there, or was."""
        return self.status not in (None, PartStatus.WAITING, PartStatus.HELD)

    @property
    def is_suspended(self) -> bool:
        """True if it stands still, in host memory or because nothing of it has begun."""
        return self.status in (PartStatus.SUSPENDED, PartStatus.HELD)

    @property
    def has_finished(self) -> bool:
        """True if its program came to its end."""
        return self.end is not None and self.end.code == 0 and self.end.signal is None


@dataclass(slots=True)
class Attempt:
    """One start of a job on devices."""

    row: int
    number: int
    grant: Grant
    places: list[NodePart]
    wanted: Wanted
    wanted_s: float
    """Moment at which it was decided, seconds since the epoch, as all moments here."""
    is_ordered: bool = False
    """False while an earlier attempt of the job has not gone: no agent knows of this one."""
    told: How | None = None
    """Why it was ordered to stop; None while it is to run."""
    is_for_others: bool = False
    """True if a decision stopped it, so that other jobs get its devices or its memory."""
    notice: Notice | None = None
    port: int | None = None
    start_s: float | None = None
    ready_s: float | None = None
    """Start of the present stretch of real running: its first, or the last resume."""
    end_s: float | None = None
    how: str = ""
    exit: Exit | None = None
    cause: str = ""
    mechanism: str = ""
    costs: dict[str, float] = field(default_factory=dict)
    progress: ProgressReport | None = None
    usage: Usage | None = None
    is_trial: bool = False
    saved_base: float = 0.0
    """Work that was saved before this attempt began."""
    lost_s: float = 0.0
    """Work that it lost for others, in seconds at the requested allocation."""

    @property
    def is_over(self) -> bool:
        return self.end_s is not None

    @property
    def awaits_notice(self) -> bool:
        """True while its processes run without an order to stop: they can be warned of a limit."""
        return self.told is None and self.ready_s is not None

    def until_s(self, now: float) -> float:
        """The moment up to which it has existed."""
        return now if self.end_s is None else self.end_s

    def gone_s(self, now: float) -> float:
        """When the last of its processes was gone, as agents say: not before it began, not after `now`.

        A clock that went wrong makes no times below zero.
        """
        began_s = self.wanted_s if self.start_s is None else max(self.wanted_s, self.start_s)
        said_s = [place.over_s for place in self.places if place.over_s is not None]
        return min(now, max([began_s, *said_s]))

    @property
    def steady_s(self) -> float:
        """Since when it works with its present devices and claim; infinite if it does not work yet."""
        return math.inf if self.ready_s is None else max(self.ready_s, self.wanted_s)

    @property
    def is_suspended(self) -> bool:
        """True if all of it that has not finished stands still."""
        held = [place.is_suspended for place in self.places if not place.has_finished]
        return not self.is_over and bool(held) and all(held)

    @property
    def has_begun(self) -> bool:
        return any(place.has_begun for place in self.places)


@dataclass(slots=True)
class LiveJob:
    """A job that is not over, or may still have processes."""

    row: int
    id: str
    user: str
    spec: JobSpec
    account: str = NO_ACCOUNT
    """The machines' account that it runs as, as `Part.user` says it."""
    barred: str = ""
    """Why it may begin no attempt, and go on with none that is suspended, as a clause; empty if it may."""
    array_index: int | None = None
    array_first: int | None = None
    array_most: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    holds: dict[str, Hold] = field(default_factory=dict)
    promise: Promise | None = None
    """The deadline that a policy has undertaken to keep."""
    capability: Capability | None = None
    infrastructure_failures: int = 0
    user_failures: int = 0
    refusals: int = 0
    """Number of attempts in a row that could begin no process, by the fault of a machine."""
    passed_trial: bool = False
    observed: JobObservations = field(default_factory=JobObservations)
    curves: Curves = field(default_factory=Curves)
    state: str = "PENDING"
    """Slurm's word once it is over or on its way; the table says the rest."""
    cause: str = ""
    exit: Exit | None = None
    finish_s: float | None = None
    """When it ended; of one that was made to, when its last process left."""
    leaving_s: float = 0.0
    """How long before that its devices were taken from it: it neither ran nor waited."""
    is_over: bool = False
    preempted_for: str = ""
    """The jobs that got its devices when it was last preempted."""
    idle_since_s: float | None = None
    """Since when it has done nothing, if its user was warned; None while it works."""
    needless: str = ""
    """Why it is to be cancelled at the next moment; empty if it is not."""

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt, whatever became of it, except those that were withdrawn before they began."""
        return next((a for a in reversed(self.attempts) if a.how != WITHDRAWN), None)

    @property
    def living(self) -> list[Attempt]:
        """Attempts that may have processes, oldest first."""
        return [attempt for attempt in self.attempts if not attempt.is_over]

    @property
    def restorable(self) -> list[int]:
        """Numbers of the attempts with restorable checkpoints, newest first."""
        return [a.number for a in reversed(self.attempts) if a.is_over and a.start_s is not None]

    @property
    def can(self) -> Can:
        """Acts that its program supports, as far as known; no stop for a job that must not be stopped."""
        said, own = self.capability or Capability(), self.spec.checkpoint == "own"
        flags = Can.BATCH if said.batch_size else Can.NOTHING
        if not self.spec.preemptible:
            return flags
        if said.suspend is not None and self.spec.checkpoint == "auto":
            flags |= Can.SUSPEND
        if own or said.checkpoint:
            flags |= Can.CHECKPOINT
        if own or said.resize:
            flags |= Can.RESIZE
        return flags

    @property
    def batch_size(self) -> float:
        """The batch size that its program, since it last began, has said it works with; NaN if it has not."""
        said = None if self.attempt is None else self.attempt.progress
        return math.nan if said is None or said.batch_size is None else said.batch_size

    @property
    def lost_s(self) -> float:
        """Work that all attempts lost for others, in seconds at the requested allocation."""
        return sum(attempt.lost_s for attempt in self.attempts)

    @property
    def needs_trial(self) -> bool:
        return self.spec.trial and not self.passed_trial and self.spec.gpus > 1
