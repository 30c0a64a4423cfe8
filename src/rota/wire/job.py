"""What a user submits: one job, or an array of them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rota.model.job_columns import LEAST_SHARE
from rota.wire.file_names import check_file_name
from rota.wire.numbers import Batch, Cores, Gib, Unix
from rota.wire.script import MOST_BYTES, check_script

MOST_GPUS = 1_000_000
MOST_ARRAY = 10_000
LAST_INDEX = 999_999_999
"""Largest index of an array."""
JOB_ID = re.compile(r"[0-9]{1,15}(_[0-9]{1,19})?")
"""Job ids as calls name them: `17`, or `17_3` in an array; recorded indexes may have up to 19 digits."""
NO_NUL: dict[str, Any] = {"pattern": r"^[^\x00]*$"}
"""Pattern for the API's description only; a request with a NUL is refused with a sentence."""
VARIABLE: dict[str, Any] = {"pattern": r"^[^=\x00]+$"}
"""Pattern for the name of a variable, for the API's description only."""
PROGRAM = {"type": "string", "minLength": 1, "maxLength": 131072, "pattern": r"^[^\x00]+$"}
"""First word of a command, for the API's description."""
SCRIPT: dict[str, Any] = {"pattern": r"^(#![^\x00]+)?$"}
"""Text of a script, for the API's description."""
Text = Annotated[str, Field(max_length=1024)]
Name = Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9_.@:+/-]*$")]
Seconds = Annotated[float, Field(gt=0, le=10 * 366 * 86400.0, allow_inf_nan=False)]
Gpus = Annotated[int, Field(ge=0, le=MOST_GPUS)]


class After(BaseModel):
    """Another job that has to end before this one starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    job: Name
    """Id of the other job, or number of an array: all of its jobs."""
    when: Literal["ok", "any", "failed"] = "ok"
    """How the other job has to end; if it ends otherwise, this job is cancelled."""


class Due(BaseModel):
    """A deadline, and what it is worth to meet it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_s: Unix
    value: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class JobSpec(BaseModel):
    """What a job asks for. Every field except the command has a default."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "dependentRequired": {"batch_min": ["batch_max"], "batch_max": ["batch_min"]},
            "if": {"properties": {"gpu_share": {"exclusiveMaximum": 1}}, "required": ["gpu_share"]},
            "then": {"properties": {key: {"const": 1} for key in ("gpus", "gpus_min", "gpus_max")}},
        },
    )

    command: Annotated[
        list[Annotated[str, Field(max_length=131072, json_schema_extra=NO_NUL)]],
        Field(min_length=1, max_length=4096, json_schema_extra={"prefixItems": [PROGRAM]}),
    ]
    """Program and arguments; no shell is involved unless the program is one."""
    script: Annotated[str, Field(max_length=MOST_BYTES, json_schema_extra=SCRIPT)] = ""
    """Text of a script to run. It replaces the first word of `command`, which names it; the other words are
    its arguments. Each attempt gets it as a file of its own and runs it with the program of its `#!` line."""
    name: Name = ""
    tenant: Name = ""
    """Path such as `vision/alice`; the submitting user's own tenant if empty."""
    gpus: Gpus = 1
    """Devices; 0 is a job without any."""
    gpus_min: Gpus | None = None
    gpus_max: Gpus | None = None
    counts: Literal["any", "powers of two"] = "any"
    """Which sizes between `gpus_min` and `gpus_max` the program can use."""
    gpus_step: Annotated[int, Field(ge=1, le=MOST_GPUS)] = 1
    """Difference between neighbouring sizes that the program can use, counted from the smallest."""
    gpu_types: Annotated[list[Name], Field(max_length=16)] = []
    node_set: Annotated[
        str, Field(max_length=1024, pattern=r"^(!?[A-Za-z0-9_.@:+/-]+(\|!?[A-Za-z0-9_.@:+/-]+)*)?$")
    ] = ""
    """Nodes that are allowed, by name or label: `n1|n2`; `!n3` excludes one; any node if empty."""
    exclude_nodes: Annotated[list[Annotated[Name, Field(min_length=1)]], Field(max_length=1000)] = []
    """Nodes on which the job must not run, in addition to what `node_set` says."""
    gpu_memory_gib: Gib = 0.0
    """Device memory needed on each device; 0 if unknown."""
    gpu_persistent_gib: Gib = 0.0
    """Part of that memory that stays allocated between two steps; 0 if unknown."""
    gpu_share: Annotated[float, Field(gt=0, le=1, json_schema_extra={"minimum": LEAST_SHARE})] = 1.0
    """Part of a device, at least 0.001, for a job on a single device."""
    cpus: Cores = 0.0
    memory_gib: Gib = 0.0
    """Host memory needed in all; 0 if unknown."""
    kind: Literal["train", "opportunistic", "service"] = "train"
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] = 0
    """Priority; higher goes first."""
    weight: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0
    """Share relative to other jobs, under policies that give shares."""
    time_s: Seconds | None = None
    """Run time limit; also what `user` knowledge takes for the duration."""
    deadline_s: Unix | None = None
    """When the job should be done; the first of `deadlines` if those are given and this is not."""
    deadlines: Annotated[list[Due], Field(max_length=100)] = []
    """Deadlines and what each is worth, the earliest first."""
    begin_s: Unix | None = None
    """The job does not start before this moment."""
    after: Annotated[list[After], Field(max_length=1000)] = []
    array: Annotated[
        str, Field(max_length=256, pattern=r"^(\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?)?$")
    ] = ""
    """`1-20`, `1,3,7`, `0-100:10`, `1-20%4` (at most 4 at once): one job for each index."""
    group: Name = ""
    """Recurring series that this job belongs to; user and name if empty."""
    group_rule: Literal["all", "first"] = "all"
    """`first`: the job is cancelled once another job of its group with `first` has completed."""
    workload: Name = ""
    """Name of the program in profiles; the group if empty."""
    batch_size: Batch | None = None
    batch_min: Batch | None = None
    batch_max: Batch | None = None
    """Fewest (`batch_min`) and most samples of a step, for a program whose batch size may be changed."""
    ranks: Literal["gpu", "node"] = "gpu"
    """One process for each device (as `torchrun` starts them), or one for each node."""
    terminal: bool = False
    """Rank 0 has a terminal, to which `rota shell` attaches; the job then has one process for each node."""
    workdir: Annotated[str, Field(max_length=4096, json_schema_extra={"pattern": r"^(/[^\x00]*)?$"})] = ""
    """Working directory, an absolute path; the home of its user if empty."""
    output: Annotated[str, Field(max_length=4096, json_schema_extra=NO_NUL)] = ""
    """File that also receives what the ranks write. A relative name starts at `workdir`; the file is appended
    to, as the user. %j is the job, %A and %a its array and index, %x its name, %u the user, %t the rank, %N
    the node, %% a percent sign; `%4a` is filled with zeros to 4 digits."""
    error: Annotated[str, Field(max_length=4096, json_schema_extra=NO_NUL)] = ""
    """File for the ranks' standard error; the same file as `output` if empty."""
    output_limit_gib: Gib = 0.0
    """Limit for each output file; of a longer one the beginning and the end are kept. 0 is no limit."""
    env: Annotated[
        dict[
            Annotated[str, Field(json_schema_extra=VARIABLE)],
            Annotated[str, Field(max_length=131072, json_schema_extra=NO_NUL)],
        ],
        Field(max_length=4096, json_schema_extra={"propertyNames": VARIABLE}),
    ] = {}
    grace_s: Annotated[float, Field(ge=0, le=86400)] = 120.0
    """Seconds between SIGTERM and SIGKILL."""
    notice_signal: Annotated[str, Field(pattern=r"^(SIG)?(USR1|USR2|HUP|INT|WINCH|URG|CONT)?$")] = ""
    """Signal that announces the stop, sent with the notice file, before SIGTERM; none if empty."""
    notice_s: Annotated[float, Field(ge=0, le=86400)] = 0.0
    """Seconds between notice and SIGTERM; a time limit's notice comes this many seconds before the limit."""
    notice_to: Literal["auto", "rank", "children"] = "auto"
    """Which processes get the signal: each rank (`rank`); every process below it that handles the signal
    (`children`); or the rank if it handles the signal, else the processes below it that do (`auto`)."""
    requeue_code: Annotated[int, Field(ge=1, le=255)] = 85
    """Exit code that means: the program has written a checkpoint and should run again."""
    retries: Annotated[int, Field(ge=0, le=1000)] = 3
    """Attempts after a failure of the infrastructure."""
    user_retries: Annotated[int, Field(ge=0, le=1000)] = 0
    """Attempts after a failure of the program itself."""
    trial: bool = False
    """First run the job on one device for a minute, to catch programs that fail at once."""
    accept_later_deadline: bool = False
    """Accept any later deadline that a policy offers if it cannot keep the one asked for."""
    idle_after_s: Annotated[float, Field(ge=0, le=10 * 366 * 86400.0, allow_inf_nan=False)] | None = None
    """Seconds for which the job may hold devices and do nothing before its user is notified; 0 is no limit,
    None is the cluster's setting."""
    preemptible: bool = True
    checkpoint: Literal["auto", "own", "none"] = "auto"
    """`own`: the program saves and restores its state itself when it gets SIGTERM; `none`: progress is lost
    when the job is stopped; `auto`: as `rota.training` reports, otherwise suspended in place where
    possible."""
    self_fence: bool = False
    """Stop the job on a node that has lost its controller, before another attempt may start."""
    hold: bool = False
    comment: Text = ""

    @model_validator(mode="after")
    def _check(self) -> JobSpec:
        low = self.gpus if self.gpus_min is None else self.gpus_min
        high = self.gpus if self.gpus_max is None else self.gpus_max
        if not low <= self.gpus <= high:
            raise ValueError(f"gpus={self.gpus} is outside the range {low}:{high}")
        if self.gpu_share < 1.0 and not 1 <= low == high:
            raise ValueError(
                f"gpu_share={self.gpu_share:g} goes with one number of GPUs, 1 or more; got {low}:{high}"
            )
        if 0 < self.gpu_memory_gib < self.gpu_persistent_gib:
            raise ValueError(
                f"gpu_persistent={self.gpu_persistent_gib:g} GiB is more than "
                f"gpu_memory={self.gpu_memory_gib:g} GiB"
            )
        if any(late.at_s <= early.at_s for early, late in pairwise(self.deadlines)):
            raise ValueError("the deadlines are not in the order of their moments, each of them once")
        self._check_batch()
        if self.script:
            try:
                check_script(self.script)
            except ValueError as error:
                raise ValueError(f"script {error}") from None
        paths = self.workdir, self.output, self.error
        if not self.command[0]:
            raise ValueError("the command is empty")
        if (odd := next((name for name in self.env if not name or "=" in name), None)) is not None:
            raise ValueError(f"env: {odd!r} is no name of a variable; expected one without `=`")
        if any("\0" in text for text in (*self.command, *self.env, *self.env.values(), *paths)):
            raise ValueError(
                "command, environment, workdir, output and error must not contain a NUL character"
            )
        return self

    def _check_batch(self) -> None:
        low, high = self.batch_min, self.batch_max
        if (low is None) != (high is None):
            raise ValueError("batch_min and batch_max go together")
        if low is None or high is None:
            return
        inside = low if self.batch_size is None else self.batch_size
        if not low <= inside <= high:
            raise ValueError(f"batch_size={inside:g} is outside the range {low:g}:{high:g}")

    @property
    def nodes(self) -> str:
        """`node_set` without the nodes in `exclude_nodes`."""
        return "|".join(
            [part for part in (self.node_set,) if part] + [f"!{name}" for name in self.exclude_nodes]
        )

    @property
    def most_run_s(self) -> float | None:
        """Seconds of running after which the job gets SIGTERM: its time limit, or the length of its notice if
        that is longer; None if it has no time limit."""
        return None if self.time_s is None else max(self.time_s, self.notice_s)

    @property
    def ranks_by(self) -> Literal["gpu", "node"]:
        """Whether each GPU or each node has a process; a job with a terminal has one for each node."""
        return "node" if self.terminal else self.ranks

    @property
    def range(self) -> tuple[int, int]:
        """Fewest and most devices that the job can use."""
        low = self.gpus if self.gpus_min is None else self.gpus_min
        high = self.gpus if self.gpus_max is None else self.gpus_max
        return low, high


def array_of(job_id: str) -> str:
    """Number of the array that a job belongs to: `17` of `17_3`."""
    return job_id.partition("_")[0]


def check_new(spec: JobSpec) -> None:
    """Raise ValueError if `spec`, which is not on record yet, asks for what no new job may have.

    These checks are not part of `JobSpec`, because specifications already on record have to stay readable.
    """
    check_tenant(spec.tenant)
    check_output(spec)
    if spec.array:
        array_indexes(spec.array)
    if spec.gpu_share < LEAST_SHARE:
        raise ValueError(f"gpu_share={spec.gpu_share:g} is too small; expected at least {LEAST_SHARE:g}")


def check_tenant(path: str) -> None:
    """Raise ValueError unless the path is empty or like `vision/alice`: names with single slashes between."""
    if path and any(name in ("", ".", "..") for name in path.split("/")):
        raise ValueError(
            f"tenant {path!r} is no path; expected names with single slashes between: vision/alice"
        )


def check_output(spec: JobSpec) -> None:
    """Raise ValueError if the name of an output file has a `%` without meaning."""
    for field, name in (("output", spec.output), ("error", spec.error)):
        try:
            check_file_name(name)
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from None


def array_indexes(text: str) -> tuple[list[int], int]:
    """Indexes of `1-20`, `1,3`, `0-100:10`, and how many of them may run at once (`%4`; 0 is no limit).

    Raises ValueError for an empty range, for more than MOST_ARRAY jobs and for numbers above LAST_INDEX.
    """
    body, limit, most = text.partition("%")
    if limit and not int(most):
        raise ValueError(f"array {text!r} lets none of its jobs run; expected at least %1")
    if limit and int(most) > LAST_INDEX:
        raise ValueError(f"array {text!r}: %{most} is too large; expected at most %{LAST_INDEX}")
    indexes: dict[int, None] = {}
    for part in body.split(","):
        span, _, step = part.partition(":")
        low, dash, high = span.partition("-")
        first, last = int(low), int(high) if dash else int(low)
        if max(first, last) > LAST_INDEX:
            raise ValueError(f"array {text!r}: {part!r} goes beyond the last index, {LAST_INDEX}")
        if last < first or (step and not int(step)) or (last - first) // int(step or 1) >= MOST_ARRAY:
            raise ValueError(
                f"array {text!r}: {part!r} is no range; expected FIRST-LAST[:STEP], at most {MOST_ARRAY}"
            )
        indexes.update(dict.fromkeys(range(first, last + 1, int(step or 1))))
    if len(indexes) > MOST_ARRAY:
        raise ValueError(f"array {text!r} has {len(indexes)} jobs; expected at most {MOST_ARRAY}")
    return list(indexes), int(most or 0)
