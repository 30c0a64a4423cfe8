"""Where GPU-hours went, as the API answers it and `rota usage` prints it."""

from __future__ import annotations

from pydantic import BaseModel

BY = (
    "tenant", "subtenant", "user", "group", "workload", "partition", "qos", "node", "type", "size", "month",
    "outcome",
)  # fmt: skip
"""What may be counted by.

`tenant` is the first part of a tenant's path, `subtenant` all of it; `partition` the nodes that a job asks
for, by name or label.
"""
UNKNOWN = "-"
"""Name of whatever nobody says."""


class UsageLine(BaseModel):
    """What some jobs have used."""

    names: tuple[str, ...]
    """What they have in common, in the order of `UsageView.by`."""
    jobs: int
    """That held something in this part; a job of two months counts in both."""
    gpu_hours: float
    share: float | None = None
    """Of all GPU-hours; None if there are none."""
    failed_gpu_hours: float = 0.0
    """Of attempts that failed, whether or not the job was tried again."""
    cancelled_gpu_hours: float = 0.0
    """Of jobs that their users ended."""
    preempted_gpu_hours: float | None = None
    """Work done and lost when jobs were preempted or moved; None where nobody recorded that."""
    measured_gpu_hours: float = 0.0
    """Of which it is known how busy the GPUs were."""
    idle_gpu_hours: float | None = None
    """Held and idle, of those measured; None if none were."""
    wait_hours: float | None = None
    """Mean hours from submission to start; None where no start is recorded."""
    cost: float | None = None
    """None without prices."""


class UsageView(BaseModel):
    """Lines, those with the most GPU-hours first, or by month."""

    source: str
    by: tuple[str, ...]
    lines: list[UsageLine]
    total: UsageLine
    without_duration: int = 0
    """Jobs of which nobody knows how long they ran: they count, with no hours."""
    from_submission: bool = False
    """True if no starts are recorded, so that hours stand where jobs were submitted."""
    remarks: list[str] = []
    """What else to know of the figures: rows of a file that were left out, and what it does not say."""
    without_price: list[str] = []
    """GPU types that the price list of the cluster leaves out: their hours are in no cost."""
    slice_hours: dict[str, float] = {}
    """By type of MIG slice: hours for which slices were held; each counts as a part of a GPU-hour."""
