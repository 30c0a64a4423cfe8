"""What a job holds, what is kept free for it, and (from `rota.model.reasons`) why it waits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum, IntFlag, StrEnum
from typing import NamedTuple

from rota.model.reasons import Code, Constraint

__all__ = ["Can", "Code", "Constraint", "Grant", "Leave", "Purpose", "Reservation", "Role"]


class Role(IntEnum):
    """How a job uses devices it may not have to itself."""

    ALONE = 0
    PACKED = 1  # beside others at the same time
    TURNS = 2  # time-sliced with others; what it does not keep between steps is in memory only in its turn
    GUARANTEED = 3  # first claim on the device
    OPPORTUNISTIC = 4  # what the others leave; does not count against the device


class Purpose(IntEnum):
    """Why a job holds what it holds."""

    RUN = 0
    PROFILE = 1  # to be measured: when it ends, policies are woken by `Event.PROFILE`, with the measurements


class Can(IntFlag):
    """What the program of a job bears without losing its work, as far as that is known."""

    NOTHING = 0
    SUSPEND = 1  # it gives its devices back, and goes on in memory where it was
    CHECKPOINT = 2  # it leaves, and goes on anywhere
    RESIZE = 4  # it goes on from its checkpoint on another number of devices
    BATCH = 8  # it changes its batch size while it runs
    ALL = 15


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
    """Node of a CPU job; -1 if the devices imply it."""
    batch_size: float = math.nan
    """Batch size to use; NaN leaves it to the job."""
    power_limit_w: float = math.nan
    """Power cap per device, for speed models that heed it; NaN for none.  Live worlds refuse to change it."""
    purpose: Purpose = Purpose.RUN
    cpus: float = math.nan
    """CPUs in all, spread as the devices are; NaN for as many as were asked for, in proportion to them."""
    memory_gib: float = math.nan
    """Host memory in all; NaN for as much as was asked for, in proportion to devices."""
    gpu_memory_gib: float = math.nan
    """Memory of each device; NaN for as much as was asked for."""


AS_ASKED = Grant(0, ())[5:]
"""The end of a grant that leaves everything but devices, share and role to the job."""
LIMITS = ("batch_size", "cpus", "memory_gib", "gpu_memory_gib", "power_limit_w")
"""Fields that say how a job is to run on what it holds; NaN for each that is left to the job."""
UNLIMITED = AS_ASKED[3:]
"""The end of a grant that leaves CPUs and memory as they were asked for."""
_WHOLE = Grant(0, ())[2:]
_PACKED = Grant(0, (), role=Role.PACKED)[3:]


# NaN equals nothing, but is one object here; compiled modules lose that, so they compare with these
# functions.


def is_whole(grant: Grant) -> bool:
    """True for whole devices, unshared, that the job uses as it asked to: most grants are like this."""
    return grant[2:] == _WHOLE


def is_packed(grant: Grant) -> bool:
    """True for a part of each device, beside other jobs, that the job uses as it asked to."""
    return grant[3:] == _PACKED


def is_unlimited(grant: Grant) -> bool:
    """True for a grant that leaves CPUs and memory as they were asked for."""
    return grant[8:] == UNLIMITED


def with_one_nan(grant: Grant) -> Grant:
    """`grant` with the default NaN in place of any other: two grants are equal only with the same NaN."""
    if grant[5:] == AS_ASKED:
        return grant
    job, devices, share, role, node, batch_size, power_w, purpose, cpus, memory_gib, gpu_memory_gib = grant
    limits = (_one_nan(cpus), _one_nan(memory_gib), _one_nan(gpu_memory_gib))
    return Grant(job, devices, share, role, node, _one_nan(batch_size), _one_nan(power_w), purpose, *limits)


def _one_nan(value: float) -> float:
    return math.nan if value != value else value


def is_adjustment(old: Grant, new: Grant) -> bool:
    """True if a job keeps its devices under `new` and only its claim, batch size or limits change."""
    return old.devices == new.devices and old.node == new.node and old != new


def is_same_claim(old: Grant, new: Grant) -> bool:
    """True if `new` claims as much of the same devices in the same role as `old`."""
    return old[:5] == new[:5]


def are_idle(grants: Mapping[int, Grant]) -> bool:
    """True if none of `grants`, by row, holds a device."""
    return not any(grant.devices for grant in grants.values())


class Reservation(NamedTuple):
    """Devices kept free for a waiting job until a moment; they are granted to no other job."""

    job: int
    devices: tuple[int, ...]
    until_s: float
