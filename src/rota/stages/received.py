"""Which part of the time since it was submitted a job has run, for reports."""

from __future__ import annotations

from rota.scheduler.snapshot import Snapshot


def has_run(snapshot: Snapshot, row: int, of: str = "of the time") -> str:
    """`has run 40% of the time since it came`; nothing of a job that has just come."""
    jobs = snapshot.jobs
    lived_s = snapshot.now - jobs.submit_s.item(row)
    if lived_s <= 0.0:
        return ""
    return f"has run {100 * min(jobs.ran_s(row) / lived_s, 1.0):.0f}% {of} since it came"
