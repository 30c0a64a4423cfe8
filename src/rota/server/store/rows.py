"""Stored data, as plain frozen rows.

Moments (`…_s`) are seconds since the cluster's epoch, except in specifications, which stand as they were
submitted (Unix time).  None is no value; numbers are finite unless said.  Fields called JSON hold what
`json.dumps` writes, NaN and infinity included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rota.model.columns import Array, Bools
from rota.model.job_columns import Deadline
from rota.wire.job import JobSpec
from rota.wire.sync import NodeInfo
from rota.worlds.live.curves import Curves, Point

Json = Any
CAME_TO_NOTHING = frozenset({"failed", "lost"})
"""Ends of intervals of attempts that came to nothing."""
REAL, SHADOW = "real", "shadow"
"""Names of the two policies."""


@dataclass(frozen=True, slots=True)
class JobState:
    """The changing columns of a job: the scheduler's, and its outcome."""

    state: str = "PENDING"
    """Slurm's word, as people see it."""
    phase: int = 0
    """`rota.table.state.Phase`; above RUNNING the job is over."""
    reason: str = ""
    """Code of the dominant reason."""
    hold: Sequence[Json] = ()
    """What keeps it from its policy, JSON: holds of users, dependencies, begin, back-off, trial."""
    first_start_s: float | None = None
    since_s: float = 0.0
    """Start of the present stretch of running."""
    run_s: float = 0.0
    service: float = 0.0
    service_rate: float = 0.0
    placed_s: float = 0.0
    """Moment at which it last got other devices."""
    adjusted_s: float = 0.0
    """Moment at which its holdings were last adjusted in place."""
    starts: int = 0
    moves: int = 0
    preemptions: int = 0
    failures: int = 0
    user_failures: int = 0
    progress_base: float = 0.0
    progress_rate: float = 0.0
    progress_since: float = 0.0
    finish_s: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    """One sentence."""
    attempt: int = 0
    """Number of the newest attempt; 0 before the first."""
    capability: Json = None
    """`rota.wire.sync.Capability`, JSON; None if nothing is known."""
    measured: Json = None
    """Measurements of it, JSON."""


@dataclass(frozen=True, slots=True)
class JobAsked:
    """What a job asks for: `rota.model.job_columns.SUBMITTED`, with names for codes and None for NaN."""

    name: str
    tenant: str
    group: str
    workload: str
    node_set: str
    gpus: int
    gpus_min: int
    gpus_max: int
    counts: int
    gpus_step: int
    gpu_share: float
    gpu_memory_gib: float
    gpu_persistent_gib: float
    gpu_types: Sequence[str]
    cpus: float
    memory_gib: float
    kind: int
    priority: int
    weight: float
    deadline_s: float | None
    deadlines: Sequence[Deadline]
    limit_s: float | None
    batch_size: float | None
    batch_min: float | None
    batch_max: float | None
    group_rule: int


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job, without its specification (`Store.spec`)."""

    row: int
    """From 0, never renumbered, and given once; expired rows have left gaps."""
    id: str
    """`row + 1`, or `FIRST_INDEX` in an array."""
    user: str
    submit_s: float
    array_first: int | None
    """Row of the first job of its array."""
    array_index: int | None
    array_most: int
    """Jobs of the array that may run together; 0 if there is no limit, or no array."""
    asked: JobAsked
    now: JobState
    account: str = ""
    """The machines' account that it was submitted as; empty if an older version put it on record without."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """One job to add.  All jobs of an array are added together and carry the same `spec`."""

    spec: JobSpec
    array_index: int | None = None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One start of a job on devices: (row, number) names it."""

    row: int
    number: int
    """From 1."""
    state: str
    """`rota.wire.sync.PartStatus` of the whole, or the caller's own word."""
    grant: Json
    """As `rota.scheduler.moments.packing.pack_grant` writes it."""
    parts: Json
    """One entry for each node: devices, ranks, port, …"""
    wanted: str
    """`rota.wire.sync.Wanted`."""
    wanted_s: float
    """Moment at which it was decided."""
    start_s: float | None = None
    end_s: float | None = None
    """Moment at which it ended; None as long as it may live."""
    how: str = ""
    """`rota.scheduler.world.How` once it has ended."""
    exit: Json = None
    cause: str = ""
    notice: Json = None
    costs: Json = None
    progress: Json = None
    usage: Json = None
    mechanism: str = ""


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """A stretch of time in which the holdings of a job did not change."""

    row: int
    attempt: int
    start_s: float
    end_s: float
    devices: Sequence[int]
    nodes: Sequence[int]
    """Node of each device; of a job without devices its one node."""
    share: float
    role: str
    how: str
    overhead_s: float = 0.0
    lost_work_s: float = 0.0
    batch_size: float | None = None
    """Granted, else asked for; None if the job chose."""
    cpus: float | None = None
    """Granted in all; None for the number that it asked for, as in the fields below."""
    memory_gib: float | None = None
    gpu_memory_gib: float | None = None
    """Limit on each device."""
    power_limit_w: float | None = None
    """Cap on each device."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One machine.  Its devices are numbered `first_device`, … and keep those numbers."""

    position: int
    name: str
    info: NodeInfo
    state: str
    """up, drained, away, lost, forgotten (only the place and the numbers are kept)."""
    first_device: int
    joined_s: float
    token: str = ""
    """Hash of its agent's token."""
    reason: str = ""
    drained_by: str = ""


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One decision: its circumstances, not its content (attempts and intervals have that)."""

    now_s: float
    policy: str
    took_s: float
    grants: int = 0
    preempted: int = 0
    is_cut: bool = False
    is_late: bool = False
    note: str = ""
    seq: int = 0
    """Given by the store; ignored when written."""


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The policy in force under a name, and all that it receives next time."""

    name: str
    """`real` or `shadow`."""
    spec: str
    since_s: float
    by: str
    memory: bytes = b""
    """Sealed by the policy process, which alone reads it; empty is the empty memory."""
    providers: bytes = b""
    """State of the providers of knowledge, as JSON."""
    wake: Json = None
    reservations: Sequence[Json] = ()
    """Each as `rota.scheduler.moments.packing.pack_reservation` writes it."""


@dataclass(frozen=True, slots=True)
class CommandRow:
    """Something a user wants done; `done_s` is None until it is."""

    seq: int
    at_s: float
    user: str
    kind: str
    row: int | None
    node: str | None
    args: Json
    done_s: float | None = None
    outcome: Json = None


@dataclass(frozen=True, slots=True)
class CommandDone:
    """Outcome of a command."""

    seq: int
    done_s: float
    outcome: Json = None


@dataclass(frozen=True, slots=True)
class EventRow:
    """One line of the audit."""

    at_s: float
    who: str
    kind: str
    job: str = ""
    """Id of the job; empty if it is about none."""
    text: str = ""
    seq: int = 0
    """Given by the store; ignored when written."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """A measured duration of something done to a job of this workload."""

    workload: str
    tenant: str
    kind: str
    """`rota.wire.sync.Cost.kind`."""
    seconds: float
    bytes: float
    at_s: float


@dataclass(frozen=True, slots=True)
class ShadowRow:
    """Decisions of the shadow policy."""

    at_s: float
    text: str
    seq: int = 0
    """Given by the store; ignored when written."""


@dataclass(frozen=True, slots=True)
class UserRow:
    """A token that is valid: its salted hash only, never the token itself."""

    name: str
    token_hash: str
    salt: str
    admin: bool = False
    tenant: str = ""
    account: str = ""
    viewer: bool = False
    """May look, and change nothing."""


@dataclass(frozen=True, slots=True)
class TokenRow:
    """What lets an agent join (`join`), or one that has joined call (`agent`)."""

    hash: str
    kind: str
    node: str = ""
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """All changes of one turn of the scheduler.  They are stored together or not at all."""

    jobs: Mapping[int, JobState] = field(default_factory=dict)
    """New state of each row that changed."""
    specs: Mapping[int, JobSpec] = field(default_factory=dict)
    """New specification of each row, if its user changed it."""
    attempts: Sequence[AttemptRow] = ()
    """Attempts begun or changed; each replaces its earlier version."""
    intervals: Sequence[IntervalRow] = ()
    decision: DecisionRow | None = None
    policies: Sequence[PolicyRow] = ()
    """Each replaces the row of its name."""
    without: Sequence[str] = ()
    """Names of policies that are no more (`shadow`)."""
    nodes: Sequence[NodeRow] = ()
    """Known nodes with a changed info, state, reason or `drained_by`; `Store.join` adds nodes."""
    done: Sequence[CommandDone] = ()
    events: Sequence[EventRow] = ()
    points: Sequence[Point] = ()
    thinned: Sequence[int] = ()
    """Rows of jobs to merge neighbouring points of, the points above among them."""
    costs: Sequence[CostRow] = ()
    shadow: Sequence[ShadowRow] = ()
    facts: Mapping[str, Json] = field(default_factory=dict)
    """Facts about the cluster as a whole; each replaces the value stored before."""


class PastJob(NamedTuple):
    """What a completed job shows about similar jobs."""

    tenant: str
    group: str
    run_s: float
    gpus: int
    limit_s: float
    """NaN without a time limit."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs to list; fields left alone let everything pass."""

    states: Sequence[str] = ()
    tenant: str | None = None
    """This tenant and those below it."""
    user: str | None = None
    name: str | None = None
    since_s: float | None = None
    """Submitted or ended at this moment or later."""
    live: bool | None = None
    """Only those that are not over yet (True), or only those that are (False)."""
    array_first: int | None = None
    from_row: int = 0
    """Rows from this one on."""
    rows: Sequence[int] | None = None
    """These rows, a few hundred at most."""
    before_row: int | None = None
    """Rows before this one."""
    limit: int | None = None
    """The newest ones, if there are more."""


@dataclass(frozen=True, slots=True)
class JobColumns:
    """All jobs as columns, rows ascending from 0 without gaps: what a table and a state are rebuilt from.

    `numbers` and `names` go by the fields of `JobAsked` and `JobState`: NaN where a value is None.
    """

    ids: list[str]
    submit_s: Array
    numbers: dict[str, Array]
    """`gpus`, `phase`, `run_s`, …: float64, int64, or int8."""
    names: dict[str, list[str]]
    """`tenant`, `group`, `workload`."""
    gpu_types: list[tuple[str, ...]]
    deadlines: list[tuple[Deadline, ...]]
    live: Bools
    """True for rows of `Everything.jobs`."""


@dataclass(frozen=True, slots=True)
class Everything:
    """All that the scheduler needs to start, as of one moment."""

    facts: Mapping[str, Json]
    columns: JobColumns
    jobs: Mapping[int, JobRow]
    """Jobs that are not over, or have an attempt that may live."""
    specs: Mapping[int, JobSpec]
    """Of these rows."""
    attempts: Mapping[int, Sequence[AttemptRow]]
    """All attempts of these rows, oldest first; rows that never started are missing."""
    nodes: Sequence[NodeRow]
    """By position."""
    policies: Mapping[str, PolicyRow]
    commands: Sequence[CommandRow]
    """Not done yet, oldest first."""
    decisions: int
    """Number of the newest decision."""
    curves: Mapping[int, Curves] = field(default_factory=dict)
    """Of live jobs that have points: how many, how far apart."""
    aside: dict[int, str] = field(default_factory=dict)
    """Rows of live jobs with unreadable records, with the reason; later readers add to it."""
    problems: list[str] = field(default_factory=list)
    """What else on record cannot be read, as sentences."""


class HeldSpan(NamedTuple):
    """GPUs that a job of a tenant held between two moments."""

    tenant: str
    start_s: float
    end_s: float
    gpus: float


class CompletedJob(NamedTuple):
    """A job that completed."""

    tenant: str
    submit_s: float
    finish_s: float
    run_s: float
    gpus: float
    """That it asked for."""
