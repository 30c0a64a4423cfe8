"""The history of the cluster as a trace that `rota simulate` reads.

One line for each job that has run, in the columns of `rota.traces.plain`.  Jobs that never ran (cancelled
while they waited, held to the end) are left out: a replay would give them GPUs that they never took.  A live
job has no `end_s`, and as its duration the work done so far: the rest is not known.

submit_s    seconds since the first submission in the file; a job that was not to begin before a moment
            counts as submitted then
duration_s  the time to run the job again: its work, in seconds at the GPUs it asked for, without starts,
            preemptions and lost work; if that is not known, its run time without failed attempts
failures_s  run time of each attempt that failed before
after       jobs it was to run after, as far as they are in the file
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any

from rota.model.job_columns import SUBMITTED, Deadline, JobColumn, deadlines_text
from rota.server.store.past_columns import HistoryWindow
from rota.server.store.rows import CAME_TO_NOTHING, IntervalRow, JobRow
from rota.table.state import Phase
from rota.wire.job import JobSpec, array_of

COLUMNS = (
    "job_id", "submit_s", "duration_s", *(column.name for column in SUBMITTED),
    "after", "failures_s", "start_s", "end_s", "outcome",
)  # fmt: skip
OUTCOMES = {"COMPLETED": "COMPLETED", "CANCELLED": "CANCELLED"}
"""Of an ended job by its state; every other state is a failure."""


def history_csv(history: HistoryWindow, epoch_s: float, now: float) -> str:
    """The trace; `epoch_s` is the Unix time of moment 0.

    `now`, in seconds since then, is the moment up to which running jobs have run.
    """
    specs = history.specs
    jobs = [job for job in history.jobs if _run_s(job, now) > 0]
    begun = {job.row: _submit_s(job, specs.get(job.row), epoch_s) for job in jobs}
    zero_s = min(begun.values(), default=0.0)
    intervals: dict[int, list[IntervalRow]] = {}
    for interval in history.intervals:
        intervals.setdefault(interval.row, []).append(interval)
    named: dict[str, list[str]] = {}
    for job in jobs:
        for name in {job.id, array_of(job.id)}:
            named.setdefault(name, []).append(job.id)
    out = StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for job in sorted(jobs, key=lambda job: (begun[job.row], job.row)):
        spec = specs.get(job.row)
        befores = spec.after if spec is not None else ()
        after = [id for before in befores for id in named.get(before.job, ())]
        line = _line(job, intervals.get(job.row, ()), zero_s, now)
        writer.writerow({**line, "submit_s": _rounded(begun[job.row] - zero_s), "after": ";".join(after)})
    return out.getvalue()


def _stretch_s(job: JobRow, now: float) -> float:
    """How long it runs already since it last began to; 0 if it does not."""
    return max(0.0, now - job.now.since_s) if job.now.phase == Phase.RUNNING else 0.0


def _run_s(job: JobRow, now: float) -> float:
    return job.now.run_s + _stretch_s(job, now)


def _submit_s(job: JobRow, spec: JobSpec | None, epoch_s: float) -> float:
    """When it could have started at the earliest."""
    if spec is None or spec.begin_s is None:
        return job.submit_s
    return max(job.submit_s, spec.begin_s - epoch_s)


def _line(job: JobRow, intervals: Sequence[IntervalRow], zero_s: float, now: float) -> dict[str, object]:
    asked, state = job.asked, job.now
    failures = failures_s(job, intervals)

    def moment(at_s: float | None) -> object:
        return "" if at_s is None else _rounded(at_s - zero_s)

    return {
        "job_id": job.id,
        "duration_s": _rounded(_duration_s(job, failures, now)),
        **{column.name: _cell(getattr(asked, column.name), column) for column in SUBMITTED},
        "gpu_types": "|".join(asked.gpu_types),
        "deadline_s": moment(asked.deadline_s),
        "deadlines": deadlines_text(
            Deadline(_rounded(at_s - zero_s), worth) for at_s, worth in asked.deadlines
        ),
        "failures_s": ";".join(str(_rounded(seconds)) for seconds in failures),
        "start_s": moment(state.first_start_s),
        "end_s": moment(state.finish_s),
        "outcome": "COMPLETED" if state.finish_s is None else OUTCOMES.get(state.state, "FAILED"),
    }


def failures_s(job: JobRow, intervals: Sequence[IntervalRow]) -> list[float]:
    """How long the attempts ran that failed before the last one did, or succeeded."""
    ran: dict[int, float] = {}
    failed = set()
    for interval in intervals:
        ran[interval.attempt] = ran.get(interval.attempt, 0.0) + interval.end_s - interval.start_s
        if interval.how in CAME_TO_NOTHING:
            failed.add(interval.attempt)
    if job.now.finish_s is not None and job.now.state not in OUTCOMES and failed:
        failed.remove(max(failed))  # its last end is how the job ended
    return [ran[attempt] for attempt in sorted(failed)]


def _duration_s(job: JobRow, failures: Sequence[float], now: float) -> float:
    state = job.now
    done = state.progress_base
    if state.phase == Phase.RUNNING:
        done += state.progress_rate * max(0.0, now - state.progress_since)
    if done > 0:
        return done / job.asked.gpu_share
    return max(_run_s(job, now) - sum(failures), 0.001)


def _cell(value: Any, column: JobColumn) -> object:
    """A number as it is, the member behind it, or nothing."""
    if value is None:
        return ""
    return column.words(value).name if column.words else value


def _rounded(seconds: float) -> float:
    """To the millisecond: what processes do is not more exact."""
    return round(seconds, 3)
