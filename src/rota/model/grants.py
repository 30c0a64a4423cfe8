"""What a job holds, what is kept free for it, and (from `rota.model.reasons`) why it waits."""

from __future__ import annotations

import math
from enum import IntEnum, StrEnum
from typing import NamedTuple

from rota.model.reasons import Code, Constraint

__all__ = ["Code", "Constraint", "Grant", "Leave", "Purpose", "Reservation", "Role"]


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
