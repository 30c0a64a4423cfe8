"""What is left of jobs, for every policy that knows durations, whatever unit the world counts work in."""

from __future__ import annotations

from typing import Any

from rota.knowledge.needs import Knowledge
from rota.scheduler.snapshot import Snapshot


def remaining_s(snapshot: Snapshot, rows: Any) -> Any:
    """Run time left at the requested allocation, in seconds; one row or an array of rows.

    Below 0 for a job that has outrun its estimate.
    """
    known = snapshot.know(Knowledge.DURATION)
    duration_s = known.item(rows) if isinstance(rows, int) else known[rows]
    return duration_s - snapshot.jobs.work_s(rows)


def full_speed_finish_s(snapshot: Snapshot, row: int) -> float:
    """Moment at which a job that works at full speed will be done."""
    return snapshot.jobs.finish_s(row, snapshot.know(Knowledge.DURATION).item(row))
