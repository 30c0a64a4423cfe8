"""Standard Workload Format 2.2, the form of the Parallel Workloads Archive.

From      any site or model that follows the definition at the Parallel Workloads Archive
Form      comment lines start with `;` and may hold `; Name: value`; then 18 fields, split by blanks:
          job, submit (s), wait (s), run (s), processors, CPU time, memory, processors asked for, time
          asked for (s), memory asked for (KiB per processor), status, user, group, executable, queue,
          partition, preceding job, think time; -1 means missing.  Fields that sites append are ignored,
          and `facts` says so
Units     **a processor is taken to be a GPU**; `facts["processor"]` says so
Times     kept as they are: seconds from the start of the log.  `UnixStartTime` dates it, in the zone that
          `TimeZoneString` names, else `TimeZone` seconds from UTC, else UTC
Status    1 completed, 0 failed, 5 cancelled, -1 unknown (taken as completed); 2, 3, 4 are parts of a job
          that was checkpointed and has a line of its own
Odd       parts; cancelled while waiting; run time unknown; processors only asked for
Handling  parts dropped; cancelled while waiting: kept with duration 0; other run times of -1 dropped;
          GPUs are the processors asked for (else those allocated; neither: dropped); the time asked for is
          `limit_s`; the tenant is `gGROUP/uUSER`, the group the executable; `after` is the preceding
          job, without its think time.  With several partitions, a job's node set is its
          `partition N`, else with several queues its `queue N`.  `MaxProcs` and `MaxNodes` are the
          size of the cluster `auto`
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from rota.model.calendar import stamp_of
from rota.model.columns import Bools, Floats, Ints
from rota.model.jobs import Outcome, RecordedRun, Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of
from rota.traces.registry import trace_format
from rota.traces.source import TraceSource
from rota.traces.table import TextTable, encode, read_table

FIELDS = (
    *("job", "submit", "wait", "run", "processors", "cpu_time", "memory"),
    *("processors_asked", "time_asked", "memory_asked", "status", "user", "group"),
    *("executable", "queue", "partition", "preceding", "think_time"),
)
COMPLETED, FAILED, CANCELLED, UNKNOWN = 1, 0, 5, -1
PARTS = (2, 3, 4)
STATUSES = {str(code): code for code in (COMPLETED, FAILED, CANCELLED, UNKNOWN, *PARTS)}
OUTCOMES = {FAILED: Outcome.FAILED, CANCELLED: Outcome.CANCELLED}
KIB_PER_GIB = 1024.0**2
_DAY_S = 86400.0


def _matches(source: TraceSource) -> bool:
    """Whether most of the first lines are in this format; one of them may be cut off."""
    lines = [line.split() for line in source.opening if not line.startswith(";")]
    fitting = [len(line) >= len(FIELDS) and all(map(_is_number, line[: len(FIELDS)])) for line in lines]
    return 2 * sum(fitting) > len(lines)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@trace_format(
    "swf",
    description="Standard Workload Format; a processor is read as a GPU",
    recognised="18 numbers or more split by blanks, after comments that start with ;",
    matches=_matches,
    example="; MaxProcs: 64\n1 0 10 600 4 -1 -1 4 3600 -1 1 3 1 -1 1 -1 -1 -1\n",
)
def read(source: TraceSource) -> Trace:
    table, comments, beyond = _table(source)
    odd = Oddities(table, ids_of(table, "job"))
    status = np.array(table.one_of("status", STATUSES))
    submit_s = table.floats("submit")
    wait_s, run_s = _known(table, "wait"), _known(table, "run")
    odd.drop("part of a checkpointed job", "the job has a line of its own", np.isin(status, PARTS))
    run_s = _cancelled_waiting(odd, status == CANCELLED, run_s)
    gpus = _gpus(table, odd)
    tenant, tenant_names = _tenants(table)
    group, group_names = _numbered_names(table, "executable", "executable ")
    node_set, node_set_names = _node_sets(table)
    return finish(
        "swf",
        odd,
        jobs={
            "submit_s": submit_s,
            "gpus": gpus,
            "memory_gib": np.nan_to_num(_known(table, "memory_asked")) * gpus / KIB_PER_GIB,
            "limit_s": _known(table, "time_asked"),
            "tenant": tenant,
            "tenant_names": tenant_names,
            "group": group,
            "group_names": group_names,
            "node_set": node_set,
            "node_set_names": node_set_names,
            "after": _after(table, odd),
        },
        truth=Truth.build(run_s, outcome=[OUTCOMES.get(code, Outcome.COMPLETED) for code in status.tolist()]),
        observed=RecordedRun(submit_s + wait_s, submit_s + wait_s + run_s),
        facts={
            "duration": "seconds of running as recorded",
            "processor": "one GPU",
            **_beyond(beyond),
            **comments,
            **_calendar(comments),
        },
    )


def _beyond(fields: int) -> dict[str, object]:
    """A remark on fields beyond those of the format."""
    if not fields:
        return {}
    first, last = len(FIELDS) + 1, len(FIELDS) + fields
    return {"fields beyond the 18": f"{first} to {last}, which are the site's own, are not read"}


def _calendar(comments: Mapping[str, object]) -> dict[str, object]:
    """The moment of second 0 on the site's wall clock, as far as the comments give it."""
    start_s = _number(comments.get("UnixStartTime"))
    if not start_s > 0:  # NaN, or a placeholder for unknown
        return {}
    zone = _zone(comments)
    try:
        local = datetime.fromtimestamp(start_s, zone)
    except (OverflowError, ValueError, OSError):
        return {}
    return {"epoch": stamp_of(local), "time_zone": str(zone)}


def _zone(comments: Mapping[str, object]) -> tzinfo:
    named, offset_s = str(comments.get("TimeZoneString", "")), _number(comments.get("TimeZone"))
    try:
        return ZoneInfo(named)
    except (KeyError, ValueError, OSError):  # no zone, or one that this machine does not know
        return timezone(timedelta(seconds=offset_s)) if abs(offset_s) < _DAY_S else UTC


def _number(said: object) -> float:
    """The number at the beginning of a header line; NaN if there is none."""
    try:
        return float(str(said).split()[0])
    except (IndexError, ValueError):
        return math.nan


def _table(source: TraceSource) -> tuple[TextTable, dict[str, object], int]:
    """The fields with tabs for blanks, the comments, and the number of fields beyond the 18.

    Sites append fields of their own; the number of fields is the one that most lines have.
    """
    lines = [line.split() for line in source.data.decode().split("\n")]
    comments = [" ".join(line).lstrip("; ") for line in lines if line and line[0].startswith(";")]
    pairs = [comment.partition(":") for comment in comments if ":" in comment]
    data = ["" if line and line[0].startswith(";") else "\t".join(line) for line in lines]
    counts = Counter(line.count("\t") + 1 for line in data if line)
    fields = max(counts, key=lambda count: (count >= len(FIELDS), counts[count]), default=len(FIELDS))
    beyond = max(fields - len(FIELDS), 0)
    names = (*FIELDS, *(f"field {number}" for number in range(len(FIELDS) + 1, len(FIELDS) + beyond + 1)))
    table = read_table(replace(source, data="\n".join(data).encode()), names, separator="\t", quoted=False)
    return table, {name.strip(): value.strip() for name, _, value in pairs}, beyond


def _known(table: TextTable, name: str) -> Floats:
    """A field whose -1 (any negative, in practice) means missing, as NaN."""
    values = table.floats(name, low=-np.inf)
    return np.where(values < 0, np.nan, values)


def _cancelled_waiting(odd: Oddities, cancelled: Bools, run_s: Floats) -> Floats:
    """Run times with 0 for jobs cancelled while waiting; jobs whose run time is unknown are dropped."""
    waiting = cancelled & ~(run_s > 0)
    odd.note("cancelled while waiting", "kept with duration 0", waiting & ~odd.dropped)
    odd.drop("no run time recorded", "how long it ran is not known", np.isnan(run_s) & ~waiting)
    return np.where(waiting, 0.0, run_s)


def _gpus(table: TextTable, odd: Oddities) -> Ints:
    asked, allocated = (table.whole(name, low=-1) for name in ("processors_asked", "processors"))
    gpus = np.where(asked > 0, asked, allocated)
    odd.drop("no processors recorded", "its size is not known", gpus < 0)
    return np.maximum(gpus, 0)


def _tenants(table: TextTable) -> tuple[Any, tuple[str, ...]]:
    """Tenants `gGROUP/uUSER`, without the part that the log does not give."""
    groups, users = table.whole("group", low=-1), table.whole("user", low=-1)
    paths = [
        "/".join(([f"g{g}"] if g >= 0 else []) + ([f"u{u}"] if u >= 0 else [])) or "default"
        for g, u in zip(groups.tolist(), users.tolist(), strict=True)
    ]
    return encode(pl.Series("tenant", paths))


def _numbered_names(table: TextTable, column: str, prefix: str) -> tuple[Any, tuple[str, ...]]:
    numbers = table.whole(column, low=-1).tolist()
    return encode(pl.Series(column, [f"{prefix}{n}" if n >= 0 else "" for n in numbers]))


def _node_sets(table: TextTable) -> tuple[Any, tuple[str, ...]]:
    """Partitions, or else queues, if there are several: a single one would not distinguish nodes."""
    for column in ("partition", "queue"):
        numbers = table.whole(column, low=-1)
        if len(np.unique(numbers[numbers >= 0])) > 1:
            return _numbered_names(table, column, f"{column} ")
    return np.full(len(table), -1), ()


def _after(table: TextTable, odd: Oddities) -> dict[int, tuple[int, ...]]:
    """Row of the preceding job for each row that names one in the file."""
    jobs, preceding = table.whole("job").tolist(), table.whole("preceding", low=-1).tolist()
    last = {job: row for row, job in enumerate(jobs) if not odd.dropped[row]}
    before: dict[int, int] = {}
    after: dict[int, tuple[int, ...]] = {}
    for row, (job, named) in enumerate(zip(jobs, preceding, strict=True)):
        place = before.get(named, last.get(named, row))  # a number used twice means the job before
        if place != row:
            after[row] = (place,)
        if not odd.dropped[row]:
            before[job] = row
    return after
