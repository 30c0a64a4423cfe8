"""The API's answers to people: plain rows, with names and Unix times."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from rota.wire.job import JobSpec
from rota.wire.keeping import Disk
from rota.wire.scaling import AutoscaleView
from rota.wire.sync import Capability, DeviceInfo, ProgressReport, Usage


class ReasonView(BaseModel):
    """One condition that keeps a job waiting, or that affects how it runs."""

    code: str
    sentence: str
    requested: float | None = None
    provided: float | None = None
    detail: str = ""
    remedy: str = ""
    """What would have to change, as a sentence; empty if the user can do nothing."""


class JobView(BaseModel):
    """One job: a row of `rota ls`."""

    id: str
    row: int
    name: str
    user: str
    tenant: str
    state: str
    """Slurm's states, such as PENDING or OUT_OF_MEMORY, and OFFERED, SUSPENDED, COMPLETING (docs/jobs.md)."""
    reason: str = ""
    """Code of the dominant reason to wait, or the cause of the job's end."""
    gpus: int
    gpus_now: int = 0
    nodes: list[str] = []
    devices: list[str] = []
    """`node:index` of each device held."""
    share: float = 1.0
    priority: int = 0
    submit_s: float
    start_s: float | None = None
    """Unix time of the first start."""
    since_s: float | None = None
    """Unix time at which the present stretch of running began."""
    end_s: float | None = None
    run_s: float = 0.0
    gpu_s: float = 0.0
    """GPU-seconds granted to the job, starts and lost work included."""
    waiting_s: float = 0.0
    time_s: float | None = None
    deadline_s: float | None = None
    promised_s: float | None = None
    """Deadline that the policy has promised to keep."""
    expected_s: float | None = None
    """When the policy expects the job to be done, as of its last report on the promise; after `promised_s` if
    the promise is at risk."""
    offered_s: float | None = None
    """A later deadline that the policy offers."""
    offered_until_s: float | None = None
    """Unix time until which the offer may be accepted."""
    attempt: int = 0
    preemptions: int = 0
    failures: int = 0
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    """One sentence about how the job ended, or about its last attempt."""
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
    """finished failed cancelled preempted migrated resized lost; empty if the attempt has not ended."""
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    progress: ProgressReport | None = None
    usage: Usage | None = None
    """Resources used when last measured; None for an attempt that ended before it was measured."""
    cpu_s: float | None = None
    """CPU seconds of its processes, once it has ended."""
    peak_gib: float | None = None
    """Sum over its ranks of the most host memory each had, once it has ended."""
    costs: dict[str, float] = {}
    lost_s: float = 0.0
    """Work lost by preemption, in seconds at the requested allocation."""


class SizeView(BaseModel):
    """Speed of a job at one size."""

    gpu_type: str
    nodes: int
    gpus: int
    batch_size: float | None = None
    """Samples of a step; None where batches have no size."""
    speed: float
    """Samples per second, or steps where batches have no size."""
    goodput: float | None = None
    """Samples per second, weighted by how much they teach relative to the first batch's; None if unknown."""
    provenance: str
    """`measured`, or `predicted` by a fit to what was measured on this type."""


class JobDetail(BaseModel):
    """Answer of `rota show`."""

    job: JobView
    spec: JobSpec
    attempts: list[AttemptView]
    capability: Capability | None = None
    events: list[EventView] = []
    sizes: list[SizeView] = []
    """Speeds by size; empty until the program has reported its step times."""
    gone: str = ""
    """Which of its files are no longer kept, as a sentence; empty if all are."""


class EventView(BaseModel):
    seq: int
    at_s: float
    who: str
    kind: str
    job: str = ""
    text: str = ""


class CostView(BaseModel):
    """Time that one kind of operation on jobs took, as agents and programs measured it."""

    kind: str
    """Kind of operation: see `rota.wire.sync.Cost.kind`."""
    workload: str | None = None
    """The workload that was measured; None for all jobs together."""
    count: int
    """Number of measurements."""
    seconds: float
    """Median duration."""
    bytes: float = 0.0
    """Median bytes, over the operations that moved any."""


class PlannedSlotView(BaseModel):
    """A stretch of a plan in which a job has the same number of GPUs; Unix times."""

    from_s: float
    to_s: float
    gpus: int


class PlanView(BaseModel):
    """How the policy in force plans to meet a deadline, as of its last decision."""

    due_s: float
    slots: list[PlannedSlotView]
    """Stretches in order; empty if nothing is planned."""
    slack_s: float | None = None
    """Seconds from the planned end to the deadline, negative if it is missed; None if nothing is planned."""


class Why(BaseModel):
    """Answer of `rota why`."""

    job: str
    state: str
    reasons: list[ReasonView]
    """Binding reasons, the dominant one first."""
    start_s: float | None = None
    """Estimated start."""
    start_from_s: float | None = None
    start_to_s: float | None = None
    """Range of the estimate where durations are sampled."""
    basis: str = ""
    """Source of the estimate, or why there is none."""
    plan: PlanView | None = None
    """Plan of a job with a deadline, if its policy plans ahead."""
    policy: str = ""


class DryRun(BaseModel):
    """Answer of `rota submit --dry-run`."""

    feasible: bool
    position: int | None = None
    """Position among the waiting jobs; 1 starts next."""
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
    """Jobs suspended in place that still hold memory on this device."""
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
    """Rota's version, with the revision if known, as the agent reported when it joined."""
    disk: Disk | None = None
    """Last report of the agent on its disk; None before the first."""
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
    """Number of decisions that did not come in time."""
    trouble: str = ""
    """Why the last decision did not come in time, as a sentence; empty if it did."""
    shadow: str = ""
    shadow_would: list[str] = []
    """What the shadow policy would have done at the last moment that the real one did not, as sentences."""
    warnings: list[str] = []
    """Warnings as sentences, such as that its plans stop jobs earlier than the cluster does. Right after a
    policy is set they also say which properties of waiting jobs have no effect under it, and which cells of
    tenants it cannot give."""


class DecisionView(BaseModel):
    """One decision of the policy in force."""

    at_s: float
    policy: str
    took_ms: float
    started: int = 0
    preempted: int = 0
    late: bool = False
    """True if the decision failed or did not come in time, so that every job kept what it had."""
    note: str = ""


class ForecastRow(BaseModel):
    """One job under one policy, in Unix seconds; with low and high values where durations were sampled."""

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
    """Number of jobs by the source of their duration: user, predicted, history."""
    took_s: float
    note: str = ""
    """Remarks for the reader of the numbers, as sentences; empty if there are none."""


class ClusterStatus(BaseModel):
    """Answer of `rota status`."""

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
    """Problems for the operator, as sentences: database unreachable, node lost, policy late."""
    drained: list[str] = []
    """Drained nodes, by person and reason: `gpu-1, gpu-2 (by ann: new power supply)`."""


class RefusedJob(BaseModel):
    """A job that an operation was not applied to."""

    job: str
    error: str
    """Why it was not applied, as a clause: `it is not running`."""


class Updated(JobView):
    """A job after a change of its specification."""

    warnings: list[str] = []
    """Which parts of the change have no effect under the policy in force, as sentences."""


class ArrayDone(BaseModel):
    """Result of an operation on all jobs of an array that have not ended."""

    array: str
    jobs: list[JobView]
    """Jobs that the operation was applied to."""
    ended: int
    """Number of jobs that had ended before; nothing was done to them."""
    refused: list[RefusedJob] = []


class UserView(BaseModel):
    name: str
    admin: bool
    tenant: str
    account: str = ""
    """The machine's account that the user's commands run as; empty for the daemon's own."""
    viewer: bool = False
    """True if the user may only look and change nothing."""


JobDetail.model_rebuild()
