"""What is left of jobs, for every policy that knows durations, whatever unit the world counts work in."""

from __future__ import annotations

from typing import Any, Final

from rota.knowledge.needs import Knowledge
from rota.model.columns import Row
from rota.scheduler.snapshot import Snapshot

_DURATION: Final = Knowledge.DURATION


def remaining_s(snapshot: Snapshot, rows: Any) -> Any:
    """Run time left at the requested allocation, in seconds; one row or an array of rows.

    Below 0 for a job that has outrun its estimate.
    """
    row: Row = rows
    if isinstance(rows, int):
        return snapshot.know_of(_DURATION, row) - snapshot.work_s(row)
    return snapshot.know(_DURATION)[rows] - snapshot.jobs.work_s(rows)


def full_speed_finish_s(snapshot: Snapshot, row: Row) -> float:
    """Moment at which a job that works at full speed will be done."""
    return snapshot.finish_s(row, snapshot.know_of(_DURATION, row))
