"""One device shared by jobs with first claim and jobs that get what is left, in closed form.

The systems that guard the first against the others control kernels every few seconds.  This module has the
rates at which their loops settle and how long that takes, as simulations of the loops give them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rota.model.grants import Role
from rota.worlds.simulated.pace import At, Pace


class Neighbour(NamedTuple):
    """Another job on the same device."""

    role: Role
    use: float
    """Part of the device that it keeps busy when it is alone."""


class DeviceSharing(Protocol):
    """Rates on one device, each relative to the job alone on it."""

    def pace(self, role: Role, beside: Sequence[Neighbour], at: At) -> Pace:
        """Rate of a job in `role` with these neighbours."""
        ...


def _company(beside: Sequence[Neighbour]) -> tuple[float, int]:
    """Part of the device kept busy by those with a claim, and how many have none."""
    use = sum(other.use for other in beside if other.role is not Role.OPPORTUNISTIC)
    return use, sum(other.role is Role.OPPORTUNISTIC for other in beside)


@dataclass(frozen=True)
class LeftOver:
    """Sharing without a control loop's delay: opportunistic jobs at once take what the others leave idle."""

    def pace(self, role: Role, beside: Sequence[Neighbour], at: At) -> Pace:
        use, opportunistic = _company(beside)
        if role is not Role.OPPORTUNISTIC:
            return Pace(1.0)
        return Pace(max(0.0, 1.0 - use) / (1 + opportunistic))


@dataclass(frozen=True)
class Tgs:
    """TGS (NSDI 2023): opportunistic jobs stop while the other's rate is measured, then speed up slowly."""

    profile_s: float = 25.0
    """Five samples of 5 s, in which opportunistic jobs stand still."""
    ramp_s: float = 50.0
    """Ten samples, in which the limit grows by half each."""
    ramp_part: float = 0.3
    """Part of what is left that they use meanwhile."""
    loss: float = 0.01
    """What the job with the claim loses."""

    def pace(self, role: Role, beside: Sequence[Neighbour], at: At) -> Pace:
        use, opportunistic = _company(beside)
        if role is not Role.OPPORTUNISTIC:
            return Pace(1.0 - self.loss if opportunistic else 1.0)
        each = max(0.0, 1.0 - use) / (1 + opportunistic)
        profiled_s = at.company_s + self.profile_s
        if not use:
            return Pace(each)
        if at.now < profiled_s:
            return Pace(0.0, until_s=profiled_s)
        if at.now < profiled_s + self.ramp_s:
            return Pace(self.ramp_part * each, until_s=profiled_s + self.ramp_s)
        return Pace(each)


@dataclass(frozen=True)
class AntMan:
    """AntMan (OSDI 2020): a coordinator throttles opportunistic jobs until they hardly slow the other."""

    settle_s: float = 10.0
    """Seconds for which newcomers slow the job with the claim."""
    first_loss: float = 0.15
    """Part of its rate that it loses meanwhile."""
    loss: float = 0.02
    """Part that each opportunistic job costs it from then on, ..."""
    most_loss: float = 0.05
    """... and all of them together."""
    overlap: float = 0.1
    """Part of the device that fits into its pauses, besides what it leaves."""

    def pace(self, role: Role, beside: Sequence[Neighbour], at: At) -> Pace:
        use, opportunistic = _company(beside)
        if role is Role.OPPORTUNISTIC:
            left = min(1.0, max(0.0, 1.0 - use) + self.overlap) if use else 1.0
            return Pace(left / (1 + opportunistic))
        if not opportunistic:
            return Pace(1.0)
        settled_s = at.company_s + self.settle_s
        if at.now < settled_s:
            return Pace(1.0 - self.first_loss, until_s=settled_s)
        return Pace(1.0 - min(self.most_loss, self.loss * opportunistic))


SHARINGS: dict[str, DeviceSharing] = {"tgs": Tgs(), "antman": AntMan()}
"""Sharing models by their names on the command line."""
