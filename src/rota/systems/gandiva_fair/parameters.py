"""Parameters of Gandiva_fair."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rota.errors import InputError


class Tickets(StrEnum):
    """How a tenant's share is divided among its jobs."""

    JOB = "job"  # equally
    GPU = "gpu"  # in proportion to the GPUs they ask for


@dataclass(frozen=True)
class GandivaFairParameters:
    """Parameters of `gandiva_fair`."""

    quantum: float = 60.0
    """Length of a turn in seconds."""
    tickets: Tickets = Tickets.JOB
    """How a tenant's share is divided among its jobs: each the same, or each of its GPUs the same."""
    theta: float = 0.2
    """Excess of the server with the most tickets per GPU over the one with the fewest, as a part of the
    latter, from which on a job migrates."""
    spacing: float = 600.0
    """Least time between two migrations of a job, in seconds."""
    trade: bool = True
    """Let tenants trade GPUs of different types."""
    reserve: bool = False
    """Keep to the second price even where it leaves one side without a gain."""

    def __post_init__(self) -> None:
        for name, least in (("quantum", 1e-3), ("theta", 0.0), ("spacing", 0.0)):
            if not least <= getattr(self, name) < float("inf"):
                raise InputError(
                    f"policy 'gandiva_fair': {name}={getattr(self, name):g}; expected {least:g} or more"
                )
