"""Parameters of Philly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PhillyParameters:
    """Parameters of `philly`."""

    acquire_timeout_s: float = 180.0
    """How long an attempt holds GPUs (section 2.3: 2 to 3 minutes)."""
    backoff_s: float = 120.0
    """Pause between two attempts."""
    relax_after: int = 2
    """Failed attempts at a level of locality before the next one."""
    reclaim_util: float = 0.9
    """Share of the GPUs in use from which a quota is enforced by preemption."""
    patience_per_h: float = 0.0
    """Guideline 1: further failed attempts per hour of run time, as expected when the wait begins, before
    locality is relaxed."""
    dedicated: bool = False
    """Guideline 2: a job of several GPUs shares its nodes with no other job."""
    migrate: bool = False
    """Guideline 1, the other way: start as close together as is possible at once, and move onto the fewest
    nodes when they fall free; with `dedicated`, small jobs are moved off nodes that a gang needs."""
    domain: str = "rack"
    """Level of the cluster within which nodes are close (RDMA); without it all nodes are."""
