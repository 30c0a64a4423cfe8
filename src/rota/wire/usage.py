"""Where GPU-hours went, as the API answers and `rota usage` prints it."""

from __future__ import annotations

from pydantic import BaseModel

BY = (
    "tenant", "subtenant", "user", "group", "workload", "partition", "qos", "node", "type", "size", "month",
    "outcome",
)  # fmt: skip
"""Properties that GPU-hours may be grouped by.

`tenant` is the first part of a tenant's path, `subtenant` the whole path; `partition` the nodes that a job
asks for, by name or label.
"""
UNKNOWN = "-"
"""Name of a value that is unknown."""


class UsageLine(BaseModel):
    """GPU-hours of one group of jobs."""

    names: tuple[str, ...]
    """Values that the jobs have in common, in the order of `UsageView.by`."""
    jobs: int
    """Number of jobs that held something in this line; a job that spans two months counts in both."""
    gpu_hours: float
    share: float | None = None
    """Part of all GPU-hours; None if there are none."""
    failed_gpu_hours: float = 0.0
    """GPU-hours of attempts that failed, whether or not the job was tried again."""
    cancelled_gpu_hours: float = 0.0
    """GPU-hours of jobs that their users ended."""
    preempted_gpu_hours: float | None = None
    """GPU-hours of work done and lost when jobs were preempted or moved; None if it was not recorded."""
    measured_gpu_hours: float = 0.0
    """GPU-hours for which it is known how busy the GPUs were."""
    idle_gpu_hours: float | None = None
    """Measured GPU-hours that were held and idle; None if none were measured."""
    wait_hours: float | None = None
    """Mean hours from submission to start; None where no start is recorded."""
    cost: float | None = None
    """Cost; None without prices."""


class UsageView(BaseModel):
    """Lines, those with the most GPU-hours first, or by month."""

    source: str
    by: tuple[str, ...]
    lines: list[UsageLine]
    total: UsageLine
    without_duration: int = 0
    """Number of jobs of unknown running time: they count as jobs, with no hours."""
    from_submission: bool = False
    """True if no starts are recorded, so that hours count at the time of submission."""
    remarks: list[str] = []
    """Other remarks on the figures: rows of a file that were left out, and what the file does not record."""
    without_price: list[str] = []
    """GPU types without a price in the cluster's list: their hours are in no cost."""
    slice_hours: dict[str, float] = {}
    """By type of MIG slice: hours for which slices were held; each counts as a part of a GPU-hour."""
