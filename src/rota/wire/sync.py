"""The messages between controller and agents: what should run, and what does.

An agent calls `POST /v1/agents/NODE/sync` in a loop. The controller answers at once if it has a new order,
otherwise as soon as it has one, and after `wait_s` at the latest. Both sides may repeat every message: (row,
attempt) identifies an attempt, orders carry a version, and a report about an attempt replaces the earlier
one.

One `Part` is what one node does for one attempt of a job; most jobs have a single part.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from rota.wire import numbers as n
from rota.wire.protocol import FIRST_PROTOCOL, PROTOCOL, Ours
from rota.wire.terminal import TerminalCall
from rota.wire.text import Printed, Told

SAME_S = 0.001
"""Submission times that differ by less than this are equal: a database may have rounded them."""


_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"
Line = Annotated[str, Field(max_length=256, pattern=_LINE)]
"""Text of a machine, for people, that fits on one line of a terminal."""
Remark = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$")]
"""Longer text, such as a driver's error."""


def are_two(submit_s: float, other_s: float) -> bool:
    """Whether the times belong to two submissions; 0.0, from older versions, may be any submission."""
    return bool(submit_s and other_s) and abs(submit_s - other_s) >= SAME_S


class Wanted(StrEnum):
    """What the controller wants of a part."""

    RUN = "run"
    SUSPEND = "suspend"  # stay in host memory, give the devices back
    LEAVE = "leave"  # checkpoint and exit; a program that cannot is stopped
    STOP = "stop"  # notice, SIGTERM, grace, SIGKILL
    KILL = "kill"  # SIGKILL now: void, or the user does not want to wait
    FORGET = "forget"  # the controller has recorded its end: the agent may clean up


class PartStatus(StrEnum):
    """State of a part, as its agent reports it."""

    WAITING = "waiting"  # known; its devices, or the port of its master, are not available yet
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    HELD = "held"  # to be suspended before any of it had started: it has no process and holds nothing
    LEAVING = "leaving"  # ordered to leave or stop, still running
    ENDED = "ended"  # by itself or on order: `end` says how
    LOST = "lost"  # the shim or its record is gone, or it could not be started: `why` says so


class Mechanism(StrEnum):
    """How a part gives back its devices."""

    COOPERATIVE = "cooperative"  # rota.training moves its state to host memory, or checkpoints
    CUDA = "cuda checkpoint"
    SIGNAL = "signal"  # SIGSTOP: frees CPU slots only
    RESTART = "restart"  # stop, and start again from the program's own checkpoint


class Notice(BaseModel):
    """Why a job has to stop, and when; written to its notice file before any signal."""

    reason: str
    """`preempted`, `timeout`, `cancelled`, `drained`, `resized`, `suspended`, `fenced`."""
    text: str = ""
    """One sentence that names the job it makes room for."""
    deadline_s: float = 0.0
    """Unix time at which SIGKILL follows."""


class Rank(BaseModel):
    """One process of a part."""

    rank: int
    local_rank: int
    devices: list[int]
    """Local indexes of the devices that the process sees."""


class Part(BaseModel):
    """What the controller wants one node to do for one attempt of a job."""

    row: int
    job: str
    submit_s: float = 0.0
    """Unix time of the submission; distinguishes two jobs with one row after a store was restored."""
    attempt: int
    version: int
    """Version of the last change; versions grow over all parts of the controller."""
    wanted: Wanted
    devices: list[int] = []
    """Local indexes of its devices, ascending."""
    share: float = 1.0
    """Claim on each device; parts whose shares sum to at most 1.0 run side by side."""
    opportunistic: bool = False
    """Uses only what other parts leave idle: does not count against its devices."""
    ranks: list[Rank] = []
    world_size: int = 1
    node_rank: int = 0
    nodes: list[str] = []
    """Names of all nodes of the attempt, by node rank."""
    master: str = "127.0.0.1"
    """Address of node rank 0."""
    port: int | None = None
    """Port for MASTER_PORT; with None node rank 0 chooses and reports one, and the other nodes wait for
    it."""
    command: list[str] = []
    script: str = ""
    """Text of the file that runs in place of the first word of `command`; empty if that word is a program."""
    workdir: str = ""
    env: dict[str, str] = {}
    """Variables as submitted, with the controller's ROTA_* (see docs/jobs.md)."""
    output: str = ""
    """File that also receives what the ranks write, with the marks that the node fills in; none if empty."""
    error: str = ""
    """File for the ranks' standard error; the same as `output` if empty."""
    output_limit: int = 0
    """Most bytes of each output file; 0 is no limit."""
    log_limit: int = 0
    """Most bytes of each rank's log; 0 is no limit."""
    terminal: bool = False
    """Rank 0, the only process on its node, has a terminal; others have none."""
    user: str = ""
    """Account that the command runs as if the agent is root, or a word of `accounts`; empty is none."""
    grace_s: float = 120.0
    notice_signal: str = ""
    notice_s: float = 0.0
    notice_to: str = "auto"
    """Which processes get the signal: see `JobSpec.notice_to`."""
    checkpoint: str = "auto"
    self_fence: bool = False
    memory_gib: float = 0.0
    """Host memory that the job states, its part on this node; 0.0 if it states none."""
    cpus: float = 0.0
    """CPU cores that the job states, on all its nodes together; 0.0 if it states none."""
    own_cpus: float | None = None
    """CPU cores that the policy gives the job on this node; may change while it runs; None sets no limit."""
    own_gib: float | None = None
    """Host memory that the policy gives the job on this node, in GiB; may change; None sets no limit."""
    notice: Notice | None = None
    restore: list[int] = []
    """Earlier attempts whose checkpoints may be restored, newest first."""
    void: list[int] = []
    """Earlier attempts that must not publish checkpoints any more."""
    batch_size: float | None = None


class Exit(BaseModel):
    """How a part ended."""

    ended_s: n.Unix
    code: n.Code | None = None
    """Exit code of the first rank that failed, or of rank 0; None if a signal ended it."""
    signal: n.Code | None = None
    rank: n.Count = 0
    """The rank that `code` and `signal` belong to."""
    error: Told = ""
    """Why the command could not be started; counts as a fault of the machine only with `infrastructure`."""
    infrastructure: bool = False
    tail: Told = ""
    """Last lines of that rank's log, for the classifier: at most 4,000 characters."""
    oom: bool = False
    """True if the kernel killed the rank for memory, as far as that can be detected."""
    cpu_s: n.Duration | None = None
    """CPU seconds of its ranks and of the children that they waited for; None if unknown."""
    peak_gib: n.Gib | None = None
    """Sum over its ranks of the most host memory of the rank's largest process, each at its own time."""
    by_itself: bool = False
    """True if that rank ended before the part got any signal or directive to stop."""


class ProgressReport(BaseModel):
    """Last report of a program that imports `rota.training`."""

    steps: n.Count = 0
    samples: n.Samples = 0.0
    total_steps: n.Count | None = None
    loss: n.Finite | None = None
    step_s: n.StepTime | None = None
    """Mean seconds of a step over the last steps."""
    batch_size: n.Batch | None = None
    checkpoint_step: n.Count | None = None
    """Step of the newest complete checkpoint."""
    gradient_noise: n.Finite | None = None
    """Gradient noise scale, in samples."""
    gradient_s: n.StepTime | None = None
    """Seconds of one forward and backward pass, without waiting for other ranks."""
    local_most: n.Batch | None = None
    """Most samples that fit in one pass of one rank, as the user has set."""
    at_s: n.Unix = 0.0


class Capability(BaseModel):
    """What a job's program can do, as far as it is known."""

    training: Told = ""
    """Version of the `rota.training` protocol that the program speaks; empty if none."""
    suspend: Mechanism | None = None
    checkpoint: bool = False
    resize: bool = False
    batch_size: bool = False
    to_host: bool = False
    """True if the program can move its device state to host memory and back."""
    attempt: n.Count = 0
    """Attempt whose program reported this, except for `suspend`; 0 if none has. Set by the controller."""


class Cost(BaseModel):
    """Measured duration of one operation on a job."""

    kind: Told
    """`start` (from the moment the agent begins until its ranks run), `ready` (from there to the end of the
    first step, as the program measured it), `step` (one step, as last reported), `suspend`, `resume`,
    `checkpoint`, `leave`, `restore`, `stop`."""
    seconds: n.Duration
    bytes: n.Bytes = 0.0


class Usage(BaseModel):
    """Resources that a part used when it was last measured."""

    at_s: n.Unix
    cpu_cores: n.Cores = 0.0
    """CPU seconds per second since the previous measurement."""
    memory_gib: n.Gib = 0.0
    gpu_utilisation: n.Part | None = None
    """0..1, mean over its devices."""
    gpu_memory_gib: n.Gib | None = None
    """Memory held on all its devices of this machine; by all processes if the driver does not separate
    them."""
    idle_s: n.Duration | None = None
    """Seconds without any work, by a monotonic clock; None if that is unknown."""


class Report(BaseModel):
    """State of one part; fields that are None report nothing new."""

    row: n.Count
    submit_s: n.Unix = 0.0
    """As in the order with which it started: its row may belong to another job by now."""
    attempt: n.Count
    status: PartStatus
    since_s: n.Unix
    """Unix time of the last change of status."""
    started_s: n.Unix | None = None
    """Unix time at which the first rank ran."""
    port: n.Port | None = None
    pids: list[n.Count] = []
    end: Exit | None = None
    why: Told = ""
    suspended_gib: n.Gib = 0.0
    """Host memory that a suspended part holds."""
    progress: ProgressReport | None = None
    capability: Capability | None = None
    usage: Usage | None = None
    costs: list[Cost] = []


class DeviceInfo(BaseModel):
    """One device of a node."""

    index: n.Device
    type: Line
    memory_gib: n.Gib = 0.0
    uuid: Line = ""
    healthy: bool = True
    why: Remark = ""


_IN_ORDER: list[Any] = [
    {"allOf": [{"$ref": "#/components/schemas/DeviceInfo"}, {"properties": {"index": {"const": index}}}]}
    for index in range(32)
]
"""The first devices of a machine, for the API's description."""


class NodeInfo(BaseModel):
    """What an agent reports of its machine when it joins."""

    name: str
    address: Line
    cpus: n.Cores
    memory_gib: n.Gib
    boot_id: Line
    devices: Annotated[
        list[DeviceInfo], Field(max_length=n.MOST_DEVICES, json_schema_extra={"prefixItems": _IN_ORDER})
    ]
    """Devices in the order of their indexes, from 0."""
    kind: Line
    """`nvidia` or `cpu`."""
    version: Line = ""
    protocol: int = PROTOCOL
    capabilities: Annotated[
        dict[Line, Remark],
        Field(max_length=100, json_schema_extra={"propertyNames": {"pattern": _LINE, "maxLength": 256}}),
    ] = {}
    """Tested mechanisms, and why missing ones are missing: `cuda checkpoint` -> `driver 535: needs 570`."""
    trouble: Remark = ""  # why nothing new can start on the machine, with devices or without

    @model_validator(mode="after")
    def _check(self) -> NodeInfo:
        indexes = [device.index for device in self.devices]
        if indexes != list(range(len(indexes))):
            raise ValueError(f"devices: their indexes are {indexes[:20]}; expected 0, 1, 2, … in this order")
        return self


class Joining(NodeInfo):
    """What an agent reports of its machine when it joins, once its protocol is known to be ours."""

    protocol: Ours = FIRST_PROTOCOL


class Joined(BaseModel):
    node: str
    token: str
    """Token for all further calls of this agent."""


class Fetch(BaseModel):
    """A piece of a log to send to a reader."""

    id: str
    row: int
    attempt: int
    rank: int
    offset: int
    """Counted from the end if negative."""
    limit: int


class Piece(BaseModel):
    id: str
    offset: n.Count
    text: Printed
    size: n.Count
    """Bytes of the whole file now."""
    error: Told = ""


class SyncRequest(BaseModel):
    incarnation: str
    """Another value after each start of the agent."""
    seen: n.Count
    """Highest version of parts received from the controller `controller`."""
    controller: str
    """Incarnation of the controller that `seen` refers to; empty at first."""
    wait_s: float = 20.0
    sent_s: n.Unix | None = None
    """Unix time on the agent's clock, by which its other moments are given as well."""
    steady_s: n.Finite | None = None
    """Monotonic clock of the agent's machine at that moment."""
    boot_id: str = ""
    """Boot id of the agent's machine; if the controller's is equal, both have one monotonic clock."""
    protocol: Ours = FIRST_PROTOCOL
    reports: list[Report] = []
    complete: bool = False
    """True if `reports` has every part that the agent knows, as in the first call to each controller."""
    devices: list[DeviceInfo] | None = None
    """Present whenever the health of a device has changed."""
    trouble: Remark = ""  # sent with `devices`; as in `NodeInfo`
    leaving: bool = False
    """The agent shuts down in order and reports nothing more: its node takes no new jobs until it is back."""
    pieces: list[Piece] = []


class SyncReply(BaseModel):
    controller: str
    """Incarnation of the controller; after a change the next request must be complete, with `seen` 0."""
    version: int
    now_s: float
    parts: list[Part] = []
    """Parts that changed after `seen`."""
    whole: bool = False
    """With `seen` 0: `parts` is the full list, so any other part is void and may be killed. False while the
    controller has not yet read its store; it may then name void parts one by one (`kill`)."""
    fetch: list[Fetch] = []
    terminals: list[TerminalCall] = []
    """Sessions in which a person waits for the agent."""
    lost_after_s: float = 60.0
    stop: bool = False
    """The agent should exit; its jobs go on."""
