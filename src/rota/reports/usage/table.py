"""Usage as CSV."""

from __future__ import annotations

import csv
import io

from rota.wire.usage import UsageView

COLUMNS = (
    "jobs", "gpu_hours", "share", "failed_gpu_hours", "cancelled_gpu_hours", "preempted_gpu_hours",
    "measured_gpu_hours", "idle_gpu_hours", "wait_hours", "cost",
)  # fmt: skip
"""Behind what was counted by."""


def as_csv(usage: UsageView) -> str:
    """A line for each line, without the sum of all; what is unknown is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*usage.by, *COLUMNS])
    for line in usage.lines:
        values = [getattr(line, name) for name in COLUMNS]
        writer.writerow([*map(safe_cell, line.names), *("" if value is None else value for value in values)])
    return out.getvalue()


def safe_cell(name: str) -> str:
    """A cell that no spreadsheet takes for a formula; `-` alone is none."""
    return f"'{name}" if name[:1] in "=+@\t\r" or (name.startswith("-") and name != "-") else name
