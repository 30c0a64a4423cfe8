"""What the API answers to people: plain rows, with names and Unix times."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from rota.wire.job import JobSpec
from rota.wire.keeping import Disk
from rota.wire.scaling import AutoscaleView
from rota.wire.sync import Capability, DeviceInfo, ProgressReport, Usage


class ReasonView(BaseModel):
    """One thing that keeps a job waiting, or that shapes how it runs."""

    code: str
    sentence: str
    requested: float | None = None
    provided: float | None = None
    detail: str = ""
    remedy: str = ""
    """What would have to change, as a sentence; empty if nothing the user can do."""


class JobView(BaseModel):
    """One job, one row of `rota ls`."""

    id: str
    row: int
    name: str
    user: str
    tenant: str
    state: str
    """Slurm's words, such as PENDING or OUT_OF_MEMORY, with OFFERED, SUSPENDED, COMPLETING (docs/jobs.md)."""
    reason: str = ""
    """Code of the dominant reason, or the cause of its end."""
    gpus: int
    gpus_now: int = 0
    nodes: list[str] = []
    devices: list[str] = []
    """`node:index` of each device held."""
    share: float = 1.0
    priority: int = 0
    submit_s: float
    start_s: float | None = None
    """First start."""
    since_s: float | None = None
    """Start of the present stretch of running."""
    end_s: float | None = None
    run_s: float = 0.0
    gpu_s: float = 0.0
    """GPU-seconds that it has been granted, starts and lost work included."""
    waiting_s: float = 0.0
    time_s: float | None = None
    deadline_s: float | None = None
    promised_s: float | None = None
    """Deadline that the policy has undertaken to keep."""
    expected_s: float | None = None
    """When the policy expected it to be done, when it last said something of its promise; after `promised_s`
    if that is at risk."""
    offered_s: float | None = None
    """A later deadline that it may have."""
    offered_until_s: float | None = None
    """Until when that may be accepted."""
    attempt: int = 0
    preemptions: int = 0
    failures: int = 0
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    """One sentence about how it ended, or about the last attempt."""
    group: str = ""
    workload: str = ""
    idle_since_s: float | None = None
    """Since when it has held devices and done nothing, once that is too long; None while it works."""


class AttemptView(BaseModel):
    number: int
    state: str
    nodes: list[str]
    devices: list[str]
    share: float = 1.0
    wanted_s: float
    start_s: float | None = None
    end_s: float | None = None
    end: str = ""
    """finished failed cancelled preempted migrated resized lost, or empty while it lives."""
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    progress: ProgressReport | None = None
    usage: Usage | None = None
    """When last looked at: nothing of one that was over before."""
    cpu_s: float | None = None
    """CPU seconds of its processes, once it has ended."""
    peak_gib: float | None = None
    """Most host memory that each of its ranks had, in all, once it has ended."""
    costs: dict[str, float] = {}
    lost_s: float = 0.0
    """Work that it lost by preemption, in seconds at the requested allocation."""


class SizeView(BaseModel):
    """How fast a job works on one size."""

    gpu_type: str
    nodes: int
    gpus: int
    batch_size: float | None = None
    """Samples of a step; None where batches have no size."""
    speed: float
    """Samples per second, or steps where batches have no size."""
    goodput: float | None = None
    """Samples per second that teach as much as those of the first batch; None where nobody knows."""
    provenance: str
    """`measured`, or `predicted` by a fit through what was measured on this type."""


class JobDetail(BaseModel):
    """`rota show`."""

    job: JobView
    spec: JobSpec
    attempts: list[AttemptView]
    capability: Capability | None = None
    events: list[EventView] = []
    sizes: list[SizeView] = []
    """Empty until its program has told how long its steps take."""
    gone: str = ""
    """Which of its files are kept no longer, as a sentence; empty while all are."""


class EventView(BaseModel):
    seq: int
    at_s: float
    who: str
    kind: str
    job: str = ""
    text: str = ""


class CostView(BaseModel):
    """What something done to jobs took, as agents and programs measured it."""

    kind: str
    """`rota.wire.sync.Cost.kind`."""
    workload: str | None = None
    """Jobs of this workload only; None for all jobs together."""
    count: int
    """How often it was measured."""
    seconds: float
    """Median."""
    bytes: float = 0.0
    """Median, of those that moved any."""


class PlannedSlotView(BaseModel):
    """A stretch of a plan in which a job has the same number of GPUs; Unix times."""

    from_s: float
    to_s: float
    gpus: int


class PlanView(BaseModel):
    """How the policy in force means to keep a deadline, as of its last decision."""

    due_s: float
    slots: list[PlannedSlotView]
    """In order; empty if nothing is planned."""
    slack_s: float | None = None
    """From the planned end to the deadline, below 0 if it is missed; None if nothing is planned."""


class Why(BaseModel):
    """`rota why`."""

    job: str
    state: str
    reasons: list[ReasonView]
    """Binding ones, dominant first."""
    start_s: float | None = None
    """Estimated start."""
    start_from_s: float | None = None
    start_to_s: float | None = None
    """Range of the estimate where durations are sampled."""
    basis: str = ""
    """Where the estimate comes from, or why there is none."""
    plan: PlanView | None = None
    """Of a job with a deadline, where its policy plans ahead."""
    policy: str = ""


class DryRun(BaseModel):
    """`rota submit --dry-run`."""

    feasible: bool
    position: int | None = None
    """Among the waiting jobs, 1 is the next to start."""
    reasons: list[ReasonView] = []
    start_s: float | None = None
    basis: str = ""
    warnings: list[str] = []


class DeviceView(BaseModel):
    device: str
    info: DeviceInfo
    jobs: list[str] = []
    granted: float = 0.0
    suspended: list[str] = []
    """Jobs suspended in place that still hold memory there."""
    utilisation: float | None = None
    memory_used_gib: float | None = None


class NodeView(BaseModel):
    name: str
    state: str
    """up, drained, draining, away (its agent was stopped), lost, joining."""
    reason: str = ""
    kind: str = ""
    gpus: int
    gpus_used: float = 0.0
    cpus: float = 0.0
    memory_gib: float = 0.0
    suspended_gib: float = 0.0
    seen_s: float | None = None
    version: str = ""
    """Of Rota, with the revision where that is known, as its agent said when it joined."""
    disk: Disk | None = None
    """What its agent said last of its disk; None if it has not yet."""
    devices: list[DeviceView] = []
    capabilities: dict[str, str] = {}


class PolicyView(BaseModel):
    policy: str
    since_s: float
    by: str
    knowledge: dict[str, str] = {}
    decisions: int = 0
    last_ms: float | None = None
    late: int = 0
    """Decisions that did not come in time."""
    trouble: str = ""
    """Why the last one did not, as a sentence; empty if it came."""
    shadow: str = ""
    shadow_would: list[str] = []
    """What the shadow would do at the last moment that the real one would not, as sentences."""
    warnings: list[str] = []
    """As sentences: that its plans stop jobs earlier than the cluster does.  Of one that was just set also
    what of the waiting jobs has no effect under it, and which cells of tenants it cannot give."""


class DecisionView(BaseModel):
    """One decision of the policy in force."""

    at_s: float
    policy: str
    took_ms: float
    started: int = 0
    preempted: int = 0
    late: bool = False
    """It did not come in time, or failed: everything kept what it had."""
    note: str = ""


class ForecastRow(BaseModel):
    """One job under one policy: times are Unix seconds; low and high where durations were sampled."""

    job: str
    policy: str
    start_s: float | None
    finish_s: float | None
    start_low_s: float | None = None
    start_high_s: float | None = None
    finish_low_s: float | None = None
    finish_high_s: float | None = None


class WhatIf(BaseModel):
    rows: list[ForecastRow]
    summary: list[dict[str, Any]]
    """Per policy: mean wait and completion time of the live jobs, makespan, preemptions."""
    basis: dict[str, int]
    """How many jobs got their duration from where: user, predicted, history."""
    took_s: float
    note: str = ""
    """What a reader of the numbers should know, as sentences; empty if nothing."""


class ClusterStatus(BaseModel):
    """`rota status`."""

    name: str
    version: str
    started_s: float
    policy: str
    nodes: int
    gpus: int
    gpus_used: float
    pending: int
    running: int
    suspended: int
    finished: int
    store: str
    autoscale: AutoscaleView | None = None
    troubles: list[str] = []
    """What an operator should know now, as sentences: database away, node lost, policy late."""
    drained: list[str] = []
    """Nodes that were drained, by person and reason: `gpu-1, gpu-2 (by ann: new power supply)`."""


class RefusedJob(BaseModel):
    """A job to which something was not done."""

    job: str
    error: str
    """Why not, as a clause: `it is not running`."""


class Updated(JobView):
    """A job that asks for something else from now on."""

    warnings: list[str] = []
    """What of the change has no effect under the policy that decides, as sentences."""


class ArrayDone(BaseModel):
    """What was done to all jobs of an array that are not over."""

    array: str
    jobs: list[JobView]
    """Those to which it was done."""
    ended: int
    """How many were over before; nothing was done to them."""
    refused: list[RefusedJob] = []


class UserView(BaseModel):
    name: str
    admin: bool
    tenant: str
    account: str = ""
    """The machine's account that the user's commands run as; empty for the daemon's own."""
    viewer: bool = False
    """May look, and change nothing."""


JobDetail.model_rebuild()
