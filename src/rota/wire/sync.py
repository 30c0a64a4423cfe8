"""Between controller and agents: what shall be, and what is.

An agent asks `POST /v1/agents/NODE/sync` again and again; the controller answers at once if it wants
something new, otherwise when it does or after `wait_s`.  Both sides may say everything twice: an attempt is
known by (row, attempt), orders carry a version, and what an agent reports about an attempt replaces what it
said before.

One `Part` is what one node does for one attempt of a job: all of it for most jobs.
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
"""Moments of submission that differ by less are one: they have been through a database."""


_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"
Line = Annotated[str, Field(max_length=256, pattern=_LINE)]
"""Text of a machine that people read, on one line of their terminals."""
Remark = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$")]
"""Longer text, such as a driver's error."""


def are_two(submit_s: float, other_s: float) -> bool:
    """Whether these are moments of two submissions; 0.0, as older versions say it, is anybody's."""
    return bool(submit_s and other_s) and abs(submit_s - other_s) >= SAME_S


class Wanted(StrEnum):
    """What shall become of a part."""

    RUN = "run"
    SUSPEND = "suspend"  # stay in host memory, give the devices back
    LEAVE = "leave"  # checkpoint and exit; a program that cannot is stopped
    STOP = "stop"  # notice, SIGTERM, grace, SIGKILL
    KILL = "kill"  # SIGKILL now: void, or the user has no patience
    FORGET = "forget"  # its end is on record here: the agent may clean up


class PartStatus(StrEnum):
    """What has become of a part."""

    WAITING = "waiting"  # known; its devices (or its master's port) are not there yet
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    HELD = "held"  # wanted suspended before any of it had begun: it holds nothing, and nothing of it is there
    LEAVING = "leaving"  # told to leave or stop, still there
    ENDED = "ended"  # by itself or as told: `end` says how
    LOST = "lost"  # the shim or its record is gone, or it could not be started: `why` says so


class Mechanism(StrEnum):
    """How a part gives its devices back."""

    COOPERATIVE = "cooperative"  # rota.training moves its state to host memory, or checkpoints
    CUDA = "cuda checkpoint"
    SIGNAL = "signal"  # SIGSTOP: only CPU slots come free by it
    RESTART = "restart"  # stop, and start again from the program's own checkpoint


class Notice(BaseModel):
    """Why a job has to go, and when: written to its notice file before any signal."""

    reason: str
    """`preempted`, `timeout`, `cancelled`, `drained`, `resized`, `suspended`, `fenced`."""
    text: str = ""
    """One sentence, with the job it makes room for."""
    deadline_s: float = 0.0
    """SIGKILL comes at this Unix time."""


class Rank(BaseModel):
    """One process."""

    rank: int
    local_rank: int
    devices: list[int]
    """Local indexes of the devices it sees."""


class Part(BaseModel):
    """What the controller wants of one node for one attempt."""

    row: int
    job: str
    submit_s: float = 0.0
    """Unix time of the submission: tells two jobs of one row apart, where a store was restored."""
    attempt: int
    version: int
    """Version of the last change; grows over all parts of the controller."""
    wanted: Wanted
    devices: list[int] = []
    """Local indexes, ascending."""
    share: float = 1.0
    """Claim on each device; parts whose shares sum to at most 1.0 run side by side."""
    opportunistic: bool = False
    """Takes what others leave: does not count against its devices."""
    ranks: list[Rank] = []
    world_size: int = 1
    node_rank: int = 0
    nodes: list[str] = []
    """Names of all nodes of the attempt, by node rank."""
    master: str = "127.0.0.1"
    """Address of node rank 0."""
    port: int | None = None
    """Port for MASTER_PORT; None lets node rank 0 choose one and report it, the others wait for it."""
    command: list[str] = []
    script: str = ""
    """Text of the file that runs in place of the first word of `command`; empty if that word is a program."""
    workdir: str = ""
    env: dict[str, str] = {}
    """As submitted, with ROTA_* of the controller (see docs/jobs.md)."""
    output: str = ""
    """File that takes what ranks write as well, with the marks that the node fills in; none if empty."""
    error: str = ""
    """Of their standard error; the same if empty."""
    output_limit: int = 0
    """Bytes of each such file; 0 is no limit."""
    log_limit: int = 0
    """Bytes of each rank's log; 0 is no limit."""
    terminal: bool = False
    """Rank 0, the only process on its node, has a terminal; others have none."""
    user: str = ""
    """Account that the command runs as if the agent is root, or a word of `accounts`; empty is none."""
    grace_s: float = 120.0
    notice_signal: str = ""
    notice_s: float = 0.0
    notice_to: str = "auto"
    """Who gets the signal: `JobSpec.notice_to`."""
    checkpoint: str = "auto"
    self_fence: bool = False
    memory_gib: float = 0.0
    """Host memory that the job states, as much of it as falls to this node; 0.0 if it states none."""
    cpus: float = 0.0
    """CPU cores that the job states, on all its nodes together; 0.0 if it states none."""
    own_cpus: float | None = None
    """CPU cores that the policy gives it on this node, which may change while it runs; None sets no limit."""
    own_gib: float | None = None
    """Host memory, likewise."""
    notice: Notice | None = None
    restore: list[int] = []
    """Earlier attempts whose checkpoints may be restored, newest first."""
    void: list[int] = []
    """Earlier attempts that must not publish anything any more."""
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
    """Why the command could not be started; the infrastructure's fault only if `infrastructure`."""
    infrastructure: bool = False
    tail: Told = ""
    """Last lines of that rank's log, for the classifier: at most 4,000 characters."""
    oom: bool = False
    """The kernel killed it for memory, as far as can be told."""
    cpu_s: n.Duration | None = None
    """CPU seconds of its ranks, and of their children that they waited for; None if nobody knows."""
    peak_gib: n.Gib | None = None
    """Most host memory that its ranks had, each at its time; of a rank its largest process counts."""
    by_itself: bool = False
    """That rank had ended before anything was done to the part: no signal, no directive to go."""


class ProgressReport(BaseModel):
    """What a program that imports `rota.training` last said."""

    steps: n.Count = 0
    samples: n.Samples = 0.0
    total_steps: n.Count | None = None
    loss: n.Finite | None = None
    step_s: n.StepTime | None = None
    """Mean seconds of a step, lately."""
    batch_size: n.Batch | None = None
    checkpoint_step: n.Count | None = None
    """Step of the newest complete checkpoint."""
    gradient_noise: n.Finite | None = None
    """Its scale, in samples."""
    gradient_s: n.StepTime | None = None
    """Seconds of one pass, forward and backward, without waiting for other ranks."""
    local_most: n.Batch | None = None
    """Most samples that one rank bears in one pass, as its user has said."""
    at_s: n.Unix = 0.0


class Capability(BaseModel):
    """What a job's program can do, as far as known."""

    training: Told = ""
    """Version of the `rota.training` protocol it speaks; empty if it does not."""
    suspend: Mechanism | None = None
    checkpoint: bool = False
    resize: bool = False
    batch_size: bool = False
    to_host: bool = False
    """Can move its device state to host memory and back."""
    attempt: n.Count = 0
    """Attempt whose program said so, `suspend` aside; 0 if none has. Filled in by the controller."""


class Cost(BaseModel):
    """A measured duration of something done to a job."""

    kind: Told
    """`start` (from the agent's beginning to start it until its ranks run), `ready` (from there to the end of
    the first step, as the program measured it), `step` (one of its steps, as it last said), `suspend`,
    `resume`, `checkpoint`, `leave`, `restore`, `stop`."""
    seconds: n.Duration
    bytes: n.Bytes = 0.0


class Usage(BaseModel):
    """What a part used when last looked at."""

    at_s: n.Unix
    cpu_cores: n.Cores = 0.0
    """CPU seconds per second since the look before."""
    memory_gib: n.Gib = 0.0
    gpu_utilisation: n.Part | None = None
    """0..1, mean over its devices."""
    gpu_memory_gib: n.Gib | None = None
    """What it holds of all its devices on this machine; what everybody does, where that cannot be told."""
    idle_s: n.Duration | None = None
    """Seconds for which it has done nothing, by a clock that nobody sets; None if that cannot be told."""


class Report(BaseModel):
    """What is known of one part; fields that are None say nothing new."""

    row: n.Count
    submit_s: n.Unix = 0.0
    """As in the order that it was begun with: the row may be another job's by now."""
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
    """Host memory a suspended part holds."""
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
"""The first devices of a machine, as the API's description has them."""


class NodeInfo(BaseModel):
    """What an agent says of its machine when it joins."""

    name: str
    address: Line
    cpus: n.Cores
    memory_gib: n.Gib
    boot_id: Line
    devices: Annotated[
        list[DeviceInfo], Field(max_length=n.MOST_DEVICES, json_schema_extra={"prefixItems": _IN_ORDER})
    ]
    """Numbered from 0, in their order."""
    kind: Line
    """`nvidia` or `cpu`."""
    version: Line = ""
    protocol: int = PROTOCOL
    capabilities: Annotated[
        dict[Line, Remark],
        Field(max_length=100, json_schema_extra={"propertyNames": {"pattern": _LINE, "maxLength": 256}}),
    ] = {}
    """Probed mechanisms; why the missing ones are missing: `cuda checkpoint` -> `driver 535: needs 570`."""
    trouble: Remark = ""  # why nothing new can begin on the machine, with devices or without

    @model_validator(mode="after")
    def _check(self) -> NodeInfo:
        indexes = [device.index for device in self.devices]
        if indexes != list(range(len(indexes))):
            raise ValueError(f"devices: their indexes are {indexes[:20]}; expected 0, 1, 2, … in this order")
        return self


class Joining(NodeInfo):
    """The same from an agent that we understand."""

    protocol: Ours = FIRST_PROTOCOL


class Joined(BaseModel):
    node: str
    token: str
    """For all further calls of this agent."""


class Fetch(BaseModel):
    """A piece of a log that somebody wants to read."""

    id: str
    row: int
    attempt: int
    rank: int
    offset: int
    """From the end if negative."""
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
    """Another value each time the agent starts."""
    seen: n.Count
    """Version up to which parts have been received from the controller `controller`."""
    controller: str
    """Incarnation of the controller that `seen` is about; empty at first."""
    wait_s: float = 20.0
    sent_s: n.Unix | None = None
    """Unix time on the agent's clock; what else it says of moments is told by the same clock."""
    steady_s: n.Finite | None = None
    """The monotonic clock of the agent's machine at that moment."""
    boot_id: str = ""
    """Boot of the agent's machine: where it is the controller's as well, so is the monotonic clock."""
    protocol: Ours = FIRST_PROTOCOL
    reports: list[Report] = []
    complete: bool = False
    """True if `reports` names every part the agent knows: said in the first call to each controller."""
    devices: list[DeviceInfo] | None = None
    """Whenever the health of one has changed."""
    trouble: Remark = ""  # with `devices`; as in `NodeInfo`
    leaving: bool = False
    """The agent ends in good order and says nothing more: its node takes no new jobs until it is back."""
    pieces: list[Piece] = []


class SyncReply(BaseModel):
    controller: str
    """Incarnation of the controller; if it is new, the next request must be complete and `seen` 0."""
    version: int
    now_s: float
    parts: list[Part] = []
    """Those that changed after `seen`."""
    whole: bool = False
    """With `seen` 0: `parts` is all there is, so whatever else runs there is void and may be killed.  False
    while the controller has not yet read its store; it may then name what is void one by one (`kill`)."""
    fetch: list[Fetch] = []
    terminals: list[TerminalCall] = []
    """People wait for the agent there."""
    lost_after_s: float = 60.0
    stop: bool = False
    """The agent should end; its jobs go on."""
