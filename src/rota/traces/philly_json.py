"""Microsoft Philly, 2017, the original log: every job with all its attempts.

From      msr-fiddle/philly-traces, `cluster_job_log`, a JSON list
Fields    jobid, vc, user, status (Pass, Killed, Failed), submitted_time, attempts; an attempt has
          start_time, end_time and detail, a list of {ip, gpus: [...]}
Times     local stamps without zone; shifted: the first submission is at 0
Odd       jobs without attempts; attempts without start; a last attempt without end was still running
          when the log stopped; attempts of one job may have different numbers of GPUs
Handling  GPUs are those of the last attempt.  The run times of the attempts before the last are
          `Truth.failures`, the last is `duration_s`.  No attempt: dropped, since the log does not say
          what was asked for.  Still running: kept, with the time up to the last stamp of the log.
          An attempt without start is left out, an earlier one without end counts as 0 s; both counted.
          The tenant is `vc/user`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isnan, nan
from typing import Any

import numpy as np
import polars as pl

from rota.errors import InputError, brief
from rota.model.columns import Bools
from rota.model.jobs import Outcome, RecordedRun, Truth
from rota.model.trace import Trace
from rota.traces.bad_rows import BadEntryError, collected
from rota.traces.build import Oddities, finish, tenant_paths
from rota.traces.json_text import parsed
from rota.traces.registry import trace_format
from rota.traces.source import TraceSource
from rota.traces.table import BLANKS, TextTable

STATUSES = {"Pass": Outcome.COMPLETED, "Killed": Outcome.CANCELLED, "Failed": Outcome.FAILED}
_EPOCH = datetime(1970, 1, 1)
_OWN = re.compile(r'"(?:jobid|attempts|submitted_time)"\s*:')
_LONG = 60
"""Characters of an id that a message shows."""
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?", re.ASCII)
"""A stamp without an offset: the log has one clock, and a moment of another zone would be hours off."""


@dataclass(frozen=True)
class _Attempt:
    """One attempt to run a job; seconds since 1970, NaN if missing."""

    start: float
    end: float
    gpus: int

    @property
    def ended(self) -> bool:
        return not isnan(self.end)


@dataclass(frozen=True)
class _Job:
    """One entry of the log."""

    number: int
    """Its place in the list, from 1."""
    id: str
    vc: str
    user: str
    outcome: Outcome
    submitted: float
    attempts: tuple[_Attempt, ...]
    """Attempts that started."""
    unstarted: int
    """Number of attempts that did not start."""

    def runs(self, log_end: float) -> tuple[float, ...]:
        """Run time of each attempt; a last attempt without end ran until the log stopped."""
        ends = [attempt.end if attempt.ended else attempt.start for attempt in self.attempts]
        if self.attempts and not self.attempts[-1].ended:
            ends[-1] = max(log_end, self.attempts[-1].start)
        return tuple(end - attempt.start for end, attempt in zip(ends, self.attempts, strict=True))


@trace_format(
    "philly-json",
    description="Microsoft Philly 2017, the original cluster_job_log",
    recognised="a JSON list with jobid or attempts",
    matches=lambda source: source.begins_with("[") and bool(_OWN.search("\n".join(source.opening))),
    example='[{"jobid": "application_1", "vc": "vc1", "user": "u1", "status": "Pass",\n'
    '  "submitted_time": "2017-10-01 08:00:00", "attempts": [{"start_time": "2017-10-01 08:00:30",\n'
    '  "end_time": "2017-10-01 09:00:30", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}]}]\n',
)
def read(source: TraceSource) -> Trace:
    jobs = _jobs(source)
    table = _as_table(source, jobs)
    odd = Oddities(table, [job.id for job in jobs])
    _note(jobs, odd)
    log_end = _log_end(jobs)
    runs = [job.runs(log_end) for job in jobs]
    return finish(
        "philly-json",
        odd,
        jobs={
            "submit_s": [job.submitted for job in jobs],
            "gpus": [job.attempts[-1].gpus if job.attempts else 0 for job in jobs],
            **tenant_paths(table, "vc", "user"),
        },
        truth=Truth.build(
            [times[-1] if times else nan for times in runs],
            outcome=[job.outcome for job in jobs],
            failures={row: times[:-1] for row, times in enumerate(runs) if len(times) > 1},
        ),
        observed=RecordedRun(
            np.array([job.attempts[0].start if job.attempts else nan for job in jobs]),
            np.array([job.attempts[-1].end if job.attempts else nan for job in jobs]),
        ),
        facts={"duration": "seconds of the last attempt; earlier attempts are failures"},
        zone="local time of the cluster, zone not recorded",
    )


def _jobs(source: TraceSource) -> list[_Job]:
    """The entries that are not left out; BadRowsError names all invalid ones."""
    entries = _entries(source)
    places = [_Place(source, number, entry) for number, entry in enumerate(entries, 1)]
    kept = [place for place in places if place.number not in source.left_out]
    return collected(kept, _job, len(entries), "job")


def _log_end(jobs: list[_Job]) -> float:
    """The last stamp in the log."""
    ends = (max(a.start, a.end if a.ended else a.start) for job in jobs for a in job.attempts)
    return max(max(job.submitted for job in jobs), max(ends, default=0.0))


def _note(jobs: list[_Job], odd: Oddities) -> None:
    """Count the oddities that the docstring of this module lists."""
    odd.drop("no attempt", "the GPUs asked for are not recorded", _marks(not job.attempts for job in jobs))
    odd.note("attempt without start", "left out", _marks(job.unstarted > 0 for job in jobs))
    running = _marks(bool(job.attempts) and not job.attempts[-1].ended for job in jobs)
    odd.note("still running at the end of the log", "kept, ending with the log", running)
    endless = _marks(not all(attempt.ended for attempt in job.attempts[:-1]) for job in jobs)
    odd.note("earlier attempt without end", "kept, counted as 0 s", endless)
    uneven = _marks(len({attempt.gpus for attempt in job.attempts}) > 1 for job in jobs)
    odd.note("attempts with different GPU counts", "kept, with that of the last", uneven)


def _marks(rows: Iterable[bool]) -> Bools:
    return np.fromiter(rows, dtype=np.bool_)


def _as_table(source: TraceSource, jobs: list[_Job]) -> TextTable:
    """What distinguishes jobs, as a table whose `row` is the place in the list from 1."""
    rows = [(job.id, job.vc, job.user, str(job.submitted), repr(job.attempts)) for job in jobs]
    frame = pl.DataFrame(rows, schema=["jobid", "vc", "user", "submitted", "attempts"], orient="row")
    return TextTable(source.file, frame, np.array([job.number for job in jobs], dtype=np.int64))


def _entries(source: TraceSource) -> list[Any]:
    entries = parsed(source, "a JSON list of jobs")
    if not isinstance(entries, list) or not entries:
        raise InputError.at("holds no job", file=source.file, expected="a JSON list of jobs")
    return entries


def _job(place: _Place) -> _Job:
    """The entry at `place`, checked."""
    id, status = place.text("jobid"), place.text("status")
    if status not in STATUSES:
        raise place.error("status", f"{brief(status)} is not known here", "one of " + ", ".join(STATUSES))
    submitted = place.seconds(place.entry, "submitted_time")
    if isnan(submitted):
        raise place.error("submitted_time", "is missing", "YYYY-MM-DD HH:MM:SS")
    attempts = [_attempt(place, attempt) for attempt in place.attempts()]
    started = tuple(attempt for attempt in attempts if not isnan(attempt.start))
    unstarted = len(attempts) - len(started)
    return _Job(
        place.number,
        id,
        place.text("vc"),
        place.text("user"),
        STATUSES[status],
        submitted,
        started,
        unstarted,
    )


def _attempt(place: _Place, attempt: Any) -> _Attempt:
    if not isinstance(attempt, Mapping):
        raise place.error("attempts", f"{brief(attempt)} is not an attempt", "an object with start_time")
    start, end = place.seconds(attempt, "start_time"), place.seconds(attempt, "end_time")
    if end < start:
        raise place.error("end_time", f"{brief(attempt['end_time'])} is before start_time", "a later time")
    return _Attempt(start, end, place.gpus(attempt))


@dataclass(frozen=True)
class _Place:
    """One entry of the list, for reading its fields and naming it in errors."""

    source: TraceSource
    number: int
    entry: Any

    def error(self, field: str, problem: str, expected: str) -> BadEntryError:
        id = self.entry.get("jobid", "?") if isinstance(self.entry, Mapping) else "?"
        what = f"job {self.number} ({str(id)[:_LONG]}): {problem}"
        return BadEntryError.found(
            self.source.file, self.number, what, field=field, expected=expected, says_row=False
        )

    def text(self, field: str) -> str:
        if not isinstance(self.entry, Mapping):
            raise self.error(field, "the entry is not an object", "an object with jobid, status ...")
        value = self.entry.get(field)
        if not isinstance(value, str) or not value.strip():
            raise self.error(field, f"{brief(value)} is not a text", "a text")
        return value.strip()

    def attempts(self) -> list[Any]:
        """The list of attempts in the entry; empty if it has none."""
        listed = self.entry.get("attempts") or []
        if not isinstance(listed, list):
            raise self.error("attempts", f"{brief(listed)} is not a list", "[{start_time, end_time, detail}]")
        return listed

    def seconds(self, holder: Mapping[str, Any], field: str) -> float:
        """A stamp in seconds since 1970, NaN if missing."""
        value = holder.get(field)
        if value is None or str(value).lower() in BLANKS:
            return nan
        try:
            if not _STAMP.fullmatch(value):
                raise ValueError
            seconds = (datetime.fromisoformat(value) - _EPOCH).total_seconds()
        except (TypeError, ValueError):
            raise self.error(field, f"{brief(value)} is not a date and time", "YYYY-MM-DD HH:MM:SS") from None
        if seconds < 0:
            raise self.error(field, f"{brief(value)} is not a likely date", "a date since 1970")
        return seconds

    def gpus(self, attempt: Mapping[str, Any]) -> int:
        detail = attempt.get("detail") or ()
        try:
            lists = [machine["gpus"] for machine in detail]
        except (TypeError, KeyError):
            lists = [None]
        if not all(isinstance(listed, list) for listed in lists):
            raise self.error("detail", f"{brief(detail)} does not list GPUs", "[{ip, gpus: [...]}]")
        return sum(map(len, lists))
