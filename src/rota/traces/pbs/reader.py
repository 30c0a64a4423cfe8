"""PBS and Torque: accounting logs (`server_priv/accounting/20240301`), and `qstat -xf -F json` of PBS Pro.

From      any site with PBS Pro, OpenPBS or Torque
Log       lines `03/01/2024 10:05:00;E;11.server;user=ann queue=gpu qtime=... start=... end=...`; E is a job
          that ended, R an attempt that was put back, D and A a job that was deleted or aborted, Q and S its
          submission and start
JSON      an object `Jobs` of jobs by id, with `qtime`, `etime`, `stime`, `Resource_List`, `resources_used`
Units     seconds since 1970 in logs; JSON has local stamps (`Fri Mar  1 09:00:00 2024`) without zone
Times     shifted: the first submission is at 0
GPUs      ngpus of `exec_vnode`, else `exec_gpus`, else of `Resource_List` (ngpus, select, Torque's nodes)
Eligible  `etime`; seconds since `qtime` are `held_s`
Arrays    `11[3]` is a task of array 11; the record of `11[]` is the sum over its tasks, which have their own
Odd       jobs that have not ended; cancelled while waiting; several attempts; killed jobs; arrays as such
Handling  running: kept, with the wall time so far, in a log until its last record; waiting: dropped;
          cancelled while waiting: kept with duration 0; earlier attempts were put back, and did not fail;
          an R without time of end ends when it was written; put back for good: ends as its last attempt
          did; arrays as such: dropped; an exit status of 0 is COMPLETED, of 256 + 9 or + 15 (qdel)
          CANCELLED, others FAILED.  The tenant is `account or group/user`, the group the job name, the node
          set the queue
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl

from rota.errors import InputError
from rota.model.columns import Floats
from rota.model.jobs import REQUEUED, Interruption, Outcome, RecordedRun, Truth
from rota.model.trace import Trace
from rota.traces.bad_rows import BadEntryError
from rota.traces.build import Oddities, finish
from rota.traces.pbs.records import (
    ELIGIBLE,
    NAN,
    STARTED,
    SUBMITTED,
    PbsRecord,
    each_checked,
    is_json,
    is_pbs,
    moment,
    noted,
    read_records,
)
from rota.traces.pbs.resources import cpus_of, gpus_of, memory_gib, nodes_of, seconds
from rota.traces.registry import trace_format
from rota.traces.runaways import drop_runaways
from rota.traces.source import TraceSource
from rota.traces.table import TextTable, encode

_OF_ATTEMPT = ("start", "stime", "end", "exec_host", "exec_vnode", "exec_gpus", "resources_used.walltime")
"""Fields that describe an attempt rather than its job."""
_TASK = re.compile(r"(\d+)\[(\d*)\]")
_KILLED = (256 + 9, 256 + 15)


@trace_format(
    "pbs",
    description="PBS and Torque: accounting logs, and qstat -xf -F json of PBS Pro",
    recognised="lines of a date, a letter and a job id split by ;, or JSON with pbs_version and Jobs",
    matches=is_pbs,
    example="03/01/2024 10:05:00;E;11.srv;user=ann group=vision jobname=train queue=gpu ctime=1709283600 "
    "qtime=1709283600 etime=1709283600 start=1709283900 exec_host=n1/0*8 "
    "exec_vnode=(n1:ncpus=8:ngpus=2) Resource_List.ncpus=8 Resource_List.ngpus=2 Resource_List.mem=64gb "
    "Resource_List.walltime=02:00:00 end=1709287500 Exit_status=0 resources_used.walltime=01:00:00\n",
    command="cat $PBS_HOME/server_priv/accounting/202403* > pbs.txt   (or: qstat -xf -F json > pbs.json)",
)
def read(source: TraceSource) -> Trace:
    records = read_records(source)
    jobs = _by_job(source, records)
    ended = [record for attempts in jobs for record in attempts]
    each_checked(source, records, ended, lambda record: _run_s(source, record))
    odd = _oddities(source, jobs)
    ends = [attempts[-1] for attempts in jobs]
    submit_s = _earliest(source, jobs, *SUBMITTED)
    eligible_s = _earliest(source, jobs, *ELIGIBLE)
    start_s = _earliest(source, jobs, *STARTED)
    run_s = np.array([_run_s(source, job) for job in ends])
    submitted = ~np.isnan(submit_s)
    waiting = submitted & np.isnan(start_s) & np.array([job.kind in "DA" for job in ends]) & ~(run_s > 0)
    odd.note("cancelled while waiting", "kept with duration 0", waiting)
    run_s[waiting] = 0.0
    whole = np.array([task is not None and not task[2] for task in map(_TASK.match, odd.ids)])
    odd.drop("array as such", "its tasks are jobs", whole)
    odd.drop("no submission recorded", "nobody can say when it came", np.isnan(submit_s))
    running = np.array([job.kind == "S" for job in ends]) & ~np.isnan(start_s) & ~odd.dropped
    run_s[running] = _so_far(source, records, [ends[row] for row in np.flatnonzero(running)])
    asked, end_s = _asked(ends), np.array([moment(source, job, "end") for job in ends])
    last_start_s = np.array([moment(source, job, *STARTED) for job in ends])
    failures, interruptions = _earlier(source, jobs)
    observed = RecordedRun(
        start_s,
        np.where(np.isnan(end_s) & ~running, last_start_s + run_s, end_s),
        {row: names for row, job in enumerate(ends) if (names := _nodes(job))},
        {},
        {row: task[1] for row, job in enumerate(ends) if (task := _TASK.match(job.id)) and task[2]},
        interruptions=interruptions,
    )
    drop_runaways(odd, np.array(asked["gpus"]), run_s, np.array(asked["limit_s"]), observed)
    running &= ~odd.dropped
    odd.note("still running at the end of the log", "kept, with the time until then", running)
    odd.drop("no end recorded", "how long it runs is not known", np.isnan(run_s))
    again = np.array([job.kind == "R" for job in ends]) & ~odd.dropped
    odd.note("waiting again at the end of the log", "kept, ending as its last attempt did", again)
    _note_earlier(source, jobs, odd)
    return finish(
        "pbs",
        odd,
        jobs={"submit_s": np.nan_to_num(submit_s), **asked},
        truth=Truth.build(
            run_s,
            outcome=[_outcome(job, bool(waits)) for job, waits in zip(ends, waiting, strict=True)],
            held_s=np.maximum(eligible_s - submit_s, 0.0),
            failures=failures,
        ),
        observed=observed,
        facts={"duration": "seconds of running as recorded"},
        zone="UTC" if not is_json(source) else "local time of the site, zone not recorded",
    )


# --- attempts


def _by_job(source: TraceSource, records: list[PbsRecord]) -> list[list[PbsRecord]]:
    """The attempts of each job, in order; an attempt without end has its latest record.

    Fields that only earlier records of a job have are copied to the later ones.
    """
    known: dict[str, dict[str, str]] = {}
    attempts: dict[str, list[PbsRecord]] = {}
    latest: dict[str, PbsRecord] = {}
    for record in records:
        said = known.setdefault(record.id, {})
        if record.kind == "R":
            said.update(_put_back(source, record, latest.get(record.id)))
        said.update(record.said)
        latest[record.id] = record._replace(said=dict(said))
        own = attempts.setdefault(record.id, [])
        if record.kind in "ERDA":
            own.append(latest[record.id])
        if record.kind == "R":
            for key in _OF_ATTEMPT:
                said.pop(key, None)
    return [_attempts(own, latest[id]) for id, own in attempts.items()]


def _put_back(source: TraceSource, record: PbsRecord, start: PbsRecord | None) -> dict[str, str]:
    """End of the attempt that `record` puts back: its `start` plus the time between the two log entries."""
    if start is None or start.kind != "S" or not re.fullmatch(r"\d+(\.\d+)?", start.said.get("start", "")):
        return {}
    began, ended = (noted(source, one) for one in (start, record))
    ran_s = max((ended - began).total_seconds(), 0.0)  # the clock may have been set back
    return {"end": f"{float(start.said['start']) + ran_s:.0f}"}


def _attempts(own: list[PbsRecord], latest: PbsRecord) -> list[PbsRecord]:
    """A job's records that end an attempt, and the latest record if its attempt may still run.

    A notice of deletion is left out if the job's end has a record of its own.
    """
    ran = max((place for place, job in enumerate(own, 1) if job.kind == "R"), default=0)
    back, since = [job for job in own[:ran] if job.kind in "ER"], own[ran:]
    ended = [job for job in since if job.kind == "E"] or since[-1:]
    if ended and back and ended[-1].kind in "DA" and "start" not in ended[-1].said:
        return [*back[:-1], back[-1]._replace(kind=ended[-1].kind)]  # deleted while it waited again
    if not ended and (not back or latest.kind == "S"):
        ended = [latest]
    return [*back, *ended]


# --- what a record says


def _earliest(source: TraceSource, jobs: list[list[PbsRecord]], *names: str) -> Floats:
    """For each job the first of these moments that its first attempt with any of them has."""
    moments = ([moment(source, job, *names) for job in attempts] for attempts in jobs)
    return np.array([next((moment for moment in of if moment == moment), NAN) for of in moments])


def _run_s(source: TraceSource, job: PbsRecord) -> float:
    """Seconds that the attempt ran: from start to end, else the wall time used; NaN if it has not ended."""
    if job.kind in "QS":
        return NAN
    start_s, end_s = moment(source, job, *STARTED), moment(source, job, "end")
    if end_s < start_s:
        what = f"job {job.id} ends before it starts"
        raise BadEntryError.found(source.file, job.row, what, field="end", expected="a later time")
    used_s = seconds(job.under("resources_used").get("walltime", ""))
    return end_s - start_s if end_s >= start_s else used_s


def _earlier(
    source: TraceSource, jobs: list[list[PbsRecord]]
) -> tuple[dict[int, tuple[float, ...]], dict[int, tuple[Interruption, ...]]]:
    """By row: seconds of the earlier attempts that failed, and of those that were put back.

    Attempts of unknown run time are in neither.
    """
    failures: dict[int, tuple[float, ...]] = {}
    interruptions: dict[int, tuple[Interruption, ...]] = {}
    for row, attempts in enumerate(jobs):
        timed = [(job, run_s) for job in attempts[:-1] if (run_s := _run_s(source, job)) == run_s]
        failed = tuple(run_s for job, run_s in timed if _has_failed(job))
        put_back = tuple(Interruption(run_s, REQUEUED) for job, run_s in timed if not _has_failed(job))
        failures |= {row: failed} if failed else {}
        interruptions |= {row: put_back} if put_back else {}
    return failures, interruptions


def _note_earlier(source: TraceSource, jobs: list[list[PbsRecord]], odd: Oddities) -> None:
    """Count jobs of several attempts, and jobs with an attempt of unknown run time."""
    several = np.array([len(attempts) > 1 for attempts in jobs], dtype=np.bool_)
    odd.note("several attempts", "kept as one job; those put back did not fail", several & ~odd.dropped)
    endless = [any(np.isnan(_run_s(source, job)) for job in attempts[:-1]) for attempts in jobs]
    done = "that attempt is left out: how long it ran is not known"
    odd.note("attempt without an end", done, np.array(endless, dtype=np.bool_) & ~odd.dropped)


def _has_failed(job: PbsRecord) -> bool:
    """Whether an earlier attempt failed: one that was put back (R) did not, whatever its exit status."""
    return job.kind == "E" and _outcome(job, False) == Outcome.FAILED


def _so_far(source: TraceSource, records: list[PbsRecord], running: list[PbsRecord]) -> list[float]:
    """Seconds that jobs without an end have run: as recorded, else until the last moment in the log."""
    if not running:
        return []
    last_s = np.nanmax([moment(source, job, "end", "start", "stime", "qtime") for job in records])
    used_s = [seconds(job.under("resources_used").get("walltime", "")) for job in running]
    began_s = [moment(source, job, *STARTED) for job in running]
    return [used if used == used else last_s - began for used, began in zip(used_s, began_s, strict=True)]


def _outcome(job: PbsRecord, waits: bool) -> Outcome:
    status = job.said.get("Exit_status", "")
    if waits or job.kind in "DA" or status in map(str, _KILLED):
        return Outcome.CANCELLED
    return Outcome.COMPLETED if status in ("0", "") else Outcome.FAILED


def _nodes(job: PbsRecord) -> tuple[str, ...]:
    return nodes_of(job.said.get("exec_vnode", ""), job.said.get("exec_host", ""))


def _asked(jobs: list[PbsRecord]) -> dict[str, Any]:
    """The columns that do not depend on time."""
    lists = [job.under("Resource_List") for job in jobs]
    pairs = list(zip(jobs, lists, strict=True))
    gpus = [gpus_of(a, j.said.get("exec_vnode", ""), j.said.get("exec_gpus", "")) for j, a in pairs]
    names: dict[str, Any] = {}
    for column, texts in (
        ("tenant", [_tenant(job) for job in jobs]),
        ("group", [job.said.get("jobname", "") for job in jobs]),
        ("node_set", [job.said.get("queue", "") for job in jobs]),
    ):
        names[column], names[f"{column}_names"] = encode(pl.Series(column, texts, dtype=pl.String))
    return {
        "gpus": gpus,
        "cpus": [cpus_of(asked) for asked in lists],
        "memory_gib": [memory_gib(asked.get("mem", "")) for asked in lists],
        "limit_s": [seconds(asked.get("walltime", "")) for asked in lists],
        **names,
    }


def _tenant(job: PbsRecord) -> str:
    said = job.said
    widest = said.get("account", said.get("Account_Name", "")) or said.get("group", said.get("egroup", ""))
    return "/".join(part for part in (widest, said.get("user", "")) if part) or "default"


def _oddities(source: TraceSource, jobs: list[list[PbsRecord]]) -> Oddities:
    """A new collection of oddities, by the rows of the jobs' last records."""
    if not jobs:
        raise InputError.at("there is no job in it", file=source.file, expected="records of type E")
    ids = [attempts[-1].id for attempts in jobs]
    rows = np.array([attempts[-1].row for attempts in jobs], dtype=np.int64)
    return Oddities(TextTable(source.file, pl.DataFrame({"id": ids}), rows), ids)
