"""The table of `rota ls`.  Standard library only."""

from __future__ import annotations

from collections.abc import Sequence

from rota.cli.live.tables import now_s, signal_name, table_text
from rota.model.words import count, duration

TYPE_CHECKING = False  # `typing` would cost more time to load than the table takes
if TYPE_CHECKING:
    from types import SimpleNamespace

    from rota.wire.views import JobView

    Row = JobView | SimpleNamespace

RISK = "deadline at risk"
TOLERANCE_S = 1e-3
"""Moments come in whole milliseconds."""
LIVE_STATES = "PENDING,OFFERED,RUNNING,SUSPENDED,COMPLETING,REQUEUED"


def jobs_text(jobs: Sequence[Row], columns: int | None = None) -> str:
    """One line for each job."""
    heads = "JOB ~NAME ~USER ?~TENANT STATE >GPUS >RUN >WAIT ?>LIMIT ~WHERE_OR_WHY"
    return table_text(heads, (_row(job) for job in jobs), columns)


def _row(job: Row) -> tuple[str, ...]:
    limit = duration(job.time_s)
    times = duration(job.run_s), duration(job.waiting_s), limit
    return (job.id, job.name, job.user, job.tenant, job.state, gpus(job), *times, where_or_why(job))


def is_at_risk(job: Row) -> bool:
    """True if it has been promised a deadline that its policy does not expect to keep."""
    if job.promised_s is None or job.end_s is not None:
        return False
    return job.expected_s is None or job.expected_s > job.promised_s + TOLERANCE_S


def _idle(job: Row) -> str:
    """` (idle 40m)` of a job that holds devices and does nothing."""
    return "" if job.idle_since_s is None else f" (idle {duration(now_s() - job.idle_since_s)})"


def gpus(job: Row) -> str:
    """`2`, `0.5` of a GPU, or `1/2`: running on 1 where 2 were asked for."""
    if job.gpus_now and job.gpus_now != job.gpus:
        return f"{job.gpus_now}/{job.gpus}"
    return count(job.gpus * job.share)


def where_or_why(job: Row) -> str:
    """Nodes of a running job; in parentheses the reason for waiting, or the end of a job.

    A promised deadline that is at risk is added.
    """
    if job.state in ("RUNNING", "COMPLETING") and job.nodes:
        return ",".join(job.nodes) + _idle(job) + (f" ({RISK})" if is_at_risk(job) else "")
    reason = job.reason if job.reason != job.state else ""
    if said := ", ".join(filter(None, (reason, RISK if is_at_risk(job) else ""))):
        return f"({said})"
    if job.end_s is None or job.state == "COMPLETED":
        return ""
    if job.signal is not None:
        return f"({signal_name(job.signal)})"
    return f"(exit {job.exit_code})" if job.exit_code is not None else ""
