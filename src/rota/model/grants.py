"""What a job holds, what is kept free for it, and why it waits."""

from __future__ import annotations

import math
from enum import IntEnum, StrEnum
from typing import NamedTuple


class Role(IntEnum):
    """How a job uses devices it may not have to itself."""

    ALONE = 0
    PACKED = 1  # beside others at the same time
    TURNS = 2  # time-sliced with others
    GUARANTEED = 3  # first claim on the device
    OPPORTUNISTIC = 4  # what the others leave; does not count against the device


class Purpose(IntEnum):
    """Why a job holds what it holds."""

    RUN = 0
    PROFILE = 1


class Leave(StrEnum):
    """How a job gives its devices back."""

    CHECKPOINT = "checkpoint"  # progress is saved
    IN_MEMORY = "in memory"  # suspended on the host; resumes fast
    ABANDON = "abandon"  # progress since the last start is given up


class Grant(NamedTuple):
    """The devices one job holds.  A share is a claim, not a speed."""

    job: int
    """Row of the job."""
    devices: tuple[int, ...]
    """Device ids, ascending; empty for a CPU job."""
    share: float = 1.0
    """Claim on each device, in [0, 1]; 0 is suspended in place (only memory is held)."""
    role: Role = Role.ALONE
    node: int = -1
    """Node of a CPU job; -1 if devices say it."""
    batch_size: float = math.nan
    """Batch size to use; NaN leaves it to the job."""
    power_limit_w: float = math.nan
    """Power cap per device; NaN for none."""
    purpose: Purpose = Purpose.RUN
    lease_s: float = math.inf
    """Moment at which the lease ends."""
    lease_work: float = math.inf
    """Work (in the job's unit) after which the lease ends."""


class Reservation(NamedTuple):
    """Devices kept free for a waiting job until a moment; nobody else is granted them."""

    job: int
    devices: tuple[int, ...]
    until_s: float


class Code(StrEnum):
    """Why a job waits, in Slurm's words where it has one."""

    RESOURCES = "Resources"
    FRAGMENTATION = "Fragmentation"
    GANG_TOO_LARGE = "GangTooLarge"
    GPU_TYPE = "GpuType"
    MEMORY = "Memory"
    HOST = "HostResources"
    PRIORITY = "Priority"
    QUOTA = "Quota"
    RESERVATION = "Reservation"
    DEPENDENCY = "Dependency"
    HELD = "Held"
    LOCALITY = "Locality"
    PREEMPTED = "Preempted"
    ROUND = "Round"
    REFUSED = "Refused"
    POLICY = "Policy"


class Constraint(NamedTuple):
    """One thing that keeps a job waiting: what it asked for, what there was."""

    code: Code
    requested: float = math.nan
    provided: float = math.nan
    detail: str = ""
    """Name of the tenant, node, type or job concerned."""

    def sentence(self) -> str:
        """The constraint in words."""
        return _SENTENCES[self.code].format(
            requested=_number(self.requested), provided=_number(self.provided), detail=self.detail
        )


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:g}"


_SENTENCES = {
    Code.RESOURCES: "needs {requested} GPUs; {provided} are free",
    Code.FRAGMENTATION: "needs {requested} GPUs in one {detail}; the most free in one is {provided}",
    Code.GANG_TOO_LARGE: "needs {requested} GPUs at once; the cluster has {provided} it could use",
    Code.GPU_TYPE: "needs {requested} GPUs of type {detail}; {provided} of that type are free",
    Code.MEMORY: "needs {requested} GiB of device memory; the most free on one device is {provided}",
    Code.HOST: "needs {requested} {detail} on one node; the most free on one is {provided}",
    Code.PRIORITY: "stands behind {provided} waiting jobs in the order of the policy",
    Code.QUOTA: "tenant {detail} would use {requested} GPUs; its quota is {provided}",
    Code.RESERVATION: "{requested} GPUs are needed, {provided} are free, the rest is reserved for {detail}",
    Code.DEPENDENCY: "waits for {detail} to end",
    Code.HELD: "is held by {detail}",
    Code.LOCALITY: "waits for {requested} GPUs closer together ({detail}); {provided} are free in all",
    Code.PREEMPTED: "gave up {requested} GPUs to {detail}",
    Code.ROUND: "is decided upon at the next round",
    Code.REFUSED: "was to start, but was refused: {detail}",
    Code.POLICY: "{detail}",
}
