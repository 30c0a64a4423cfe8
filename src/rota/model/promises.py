"""What a policy tells users of deadlines: later ones that it could keep, and those that it means to keep."""

from __future__ import annotations

from typing import NamedTuple


class Offer(NamedTuple):
    """A later deadline for a job whose own cannot be kept; until it is taken nothing is set aside for it."""

    deadline_s: float
    """Moment by which the job could be done, if nothing else is promised first."""
    until_s: float
    """Moment after which the offer is void, and the job refused."""
    why: str
    """Why the deadline that was asked for cannot be kept."""


class Promise(NamedTuple):
    """A deadline that a policy has undertaken to keep, and when it expects the job to be done."""

    due_s: float
    expected_s: float
    """Moment of the planned end; after `due_s` if the promise is at risk, infinite if there is no plan."""

    @property
    def is_at_risk(self) -> bool:
        return self.expected_s > self.due_s + TOLERANCE_S


TOLERANCE_S = 1e-6
"""A planned end so much after a deadline is in time: sums of seconds are not exact."""
