"""What a policy reports about deadlines: later ones it could keep, those it means to keep, and how."""

from __future__ import annotations

import math
from typing import NamedTuple


class Offer(NamedTuple):
    """A later deadline for a job whose own cannot be kept; nothing is set aside for it until it is taken."""

    deadline_s: float
    """Moment by which the job could be done, if nothing else is promised first."""
    until_s: float
    """Moment after which the offer is void, and the job refused."""
    why: str
    """Why the requested deadline cannot be kept."""


class Promise(NamedTuple):
    """A deadline that a policy has undertaken to keep, and when it expects the job to be done."""

    due_s: float
    expected_s: float
    """Moment of the planned end; after `due_s` if the promise is at risk, infinite if there is no plan."""

    @property
    def is_at_risk(self) -> bool:
        return self.expected_s > self.due_s + TOLERANCE_S


class PlannedSlot(NamedTuple):
    """A stretch of a plan in which a job has the same number of GPUs."""

    from_s: float
    to_s: float
    gpus: int


class DeadlinePlan(NamedTuple):
    """How a policy means to keep a deadline, as it stood at its last decision."""

    due_s: float
    """The deadline it plans for; infinite for work that has none."""
    slots: tuple[PlannedSlot, ...]
    """Stretches in order, without those in which the job has nothing."""

    @property
    def end_s(self) -> float:
        """When it is done; infinite if nothing is planned."""
        return self.slots[-1].to_s if self.slots else math.inf

    @property
    def slack_s(self) -> float:
        """Seconds from the planned end to the deadline; negative if it is missed."""
        return self.due_s - self.end_s


TOLERANCE_S = 1e-6
"""A planned end this many seconds after a deadline is in time: sums of seconds are not exact."""
