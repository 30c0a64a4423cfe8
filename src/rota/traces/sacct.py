"""Slurm accounting dumps: `sacct --allusers --allocations --parsable2` with at least the fields below.

From      any Slurm site; no privileges needed beyond seeing other users' jobs
Columns   JobIDRaw | JobID, Submit, Start, End, State, and ElapsedRaw (s; else End - Start); optional:
          User, Account, Partition, JobName, TimelimitRaw (min) | Timelimit, ReqTRES, AllocTRES,
          Restarts
Form      a header, fields joined by |, with or without a | at the end of the line
Times     local stamps without zone; shifted: the first submission is at 0
GPUs      from AllocTRES, or from ReqTRES for jobs that never started (see `tres`).  A type in ReqTRES is
          a constraint of the job; a type only in AllocTRES is what it happened to get
Odd       job steps; CPU jobs; cancelled while waiting; jobs still waiting or running at the time of the
          dump; timeouts; requeued jobs, whose earlier attempts a dump without duplicates leaves out
Handling  steps dropped; CPU jobs kept; cancelled while waiting: kept with duration 0; waiting: dropped;
          running: kept, with the time elapsed so far; TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, BOOT_FAIL and
          DEADLINE count as FAILED, PREEMPTED and REVOKED as CANCELLED; requeued: kept as one attempt.
          The tenant is `account/user`, the group the job name
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl

from rota.errors import InputError
from rota.model.columns import Array, Floats, Ints
from rota.model.jobs import Outcome, RecordedRun, Truth
from rota.model.trace import OddRows, Trace
from rota.traces.build import Oddities, finish, ids_of, type_masks
from rota.traces.registry import trace_format
from rota.traces.source import TraceSource
from rota.traces.table import MOST, Table, encode, is_blank, read_table
from rota.traces.tres import cpus_in, gpu_types_in, gpus_in, memory_gib_in

MINUTE_S = 60.0
WAITING, RUNNING = -1, -2
"""Codes beside those of `Outcome` for jobs that had not ended when the dump was made."""
STATES: dict[str, int] = {
    "COMPLETED": Outcome.COMPLETED,
    **dict.fromkeys(
        ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"), Outcome.FAILED
    ),
    **dict.fromkeys(("CANCELLED", "PREEMPTED", "REVOKED"), Outcome.CANCELLED),
    **dict.fromkeys(("PENDING", "REQUEUED"), WAITING),
    **dict.fromkeys(("RUNNING", "SUSPENDED", "COMPLETING", "RESIZING"), RUNNING),
}
NO_LIMIT = ("unlimited", "partition_limit")
_LIMIT = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d)(?:\.\d+)?")


def _matches(source: TraceSource) -> bool:
    header = set(source.header("|"))
    return bool({"JobIDRaw", "JobID"} & header) and {"Submit", "State"} <= header


@trace_format(
    "sacct",
    description="Slurm accounting: sacct --allocations --parsable2",
    recognised="a header joined by | with JobIDRaw or JobID, Submit and State",
    matches=_matches,
    example="JobIDRaw|User|Account|Submit|Start|End|ElapsedRaw|TimelimitRaw|State|ReqTRES|AllocTRES\n"
    "11|ann|vision|2024-03-01T09:00:00|2024-03-01T09:05:00|2024-03-01T10:05:00|3600|120|COMPLETED|"
    "cpu=8,gres/gpu=2,mem=64G|cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G\n",
)
def read(source: TraceSource) -> Trace:
    table = _without_last_bar(read_table(source, separator="|", quoted=False))
    table.require(table.first_of("JobIDRaw", "JobID"), "Submit", "Start", "End", "State")
    table, steps = _without_steps(table)
    odd = Oddities(table, ids_of(table, table.first_of("JobIDRaw", "JobID")), noted=steps)
    states = _states(table)
    start, end = (table.stamps(name, blank=True) for name in ("Start", "End"))
    duration_s = _durations(table, odd, states, start, end)
    return finish(
        "sacct",
        odd,
        jobs={
            "submit_s": table.stamps("Submit"),
            "limit_s": _limits(table),
            **_resources(table),
            **_names(table),
        },
        truth=Truth.build(duration_s, outcome=np.where(states < 0, Outcome.COMPLETED, states)),
        observed=RecordedRun(start, end),
        facts={"duration": "seconds elapsed, time suspended included"},
        zone="local time of the site, zone not recorded",
    )


def _without_last_bar(table: Table) -> Table:
    """The table without the nameless last column that `--parsable` makes."""
    return Table(table.file, table.frame.drop(""), table.row) if table.has("") else table


def _without_steps(table: Table) -> tuple[Table, list[OddRows]]:
    """The table without job steps (`11.batch`, `11.0`), and the oddity that counts them."""
    ids = table.text(table.first_of("JobIDRaw", "JobID"))
    step = ids.str.contains(".", literal=True).to_numpy()
    odd = Oddities(table, ids.to_list())
    odd.drop("job step", "its job has a line of its own", step)
    jobs = table.take(~step)
    if not len(jobs):
        raise InputError.at("there are only job steps", file=table.file, expected="sacct --allocations")
    return jobs, odd.noted


def _states(table: Table) -> Array:
    """`Outcome`, WAITING or RUNNING of each job; `CANCELLED by 123` is CANCELLED."""
    words = table.text("State").str.strip_chars().str.split(" ").list.first()
    single = Table(table.file, table.frame.with_columns(words.alias("State")), table.row)
    return np.array(single.one_of("State", STATES))


def _durations(table: Table, odd: Oddities, states: Array, start: Floats, end: Floats) -> Floats:
    """Seconds run by each job, and the notes and drops that go with the states."""
    table.reject(end < start, "End", "{!r} is before Start", "a later time")
    has_elapsed = table.has("ElapsedRaw")
    duration_s = table.floats("ElapsedRaw", blank=np.nan) if has_elapsed else end - start
    unstarted = (states == Outcome.CANCELLED) & np.isnan(start)
    duration_s[unstarted] = 0.0
    odd.note("cancelled while waiting", "kept with duration 0", unstarted)
    odd.drop("still waiting at the time of the dump", "how long it runs is not known", states == WAITING)
    odd.drop("no run time recorded", "how long it ran is not known", np.isnan(duration_s))
    running = (states == RUNNING) & ~odd.dropped
    odd.note("still running at the time of the dump", "kept, ending after the time elapsed", running)
    odd.note("ended as TIMEOUT", "kept as failed", (table.text("State") == "TIMEOUT").to_numpy())
    if table.has("Restarts"):
        requeued = table.whole("Restarts", blank=0) > 0
        odd.note("requeued", "kept as one attempt; earlier ones are not in the dump", requeued)
    return duration_s


def _resources(table: Table) -> dict[str, Any]:
    """GPUs, CPU cores, memory and accepted GPU types from the TRES columns."""
    if not table.has("ReqTRES"):
        table.require("AllocTRES")
    empty = pl.Series([""] * len(table), dtype=pl.String)
    asked, given = (table.text(name) if table.has(name) else empty for name in ("ReqTRES", "AllocTRES"))
    tres = [alloc or req for alloc, req in zip(given, asked, strict=True)]
    return {
        "gpus": _gpus(table, tres),
        "cpus": np.array([cpus_in(text) for text in tres]),
        "memory_gib": np.array([memory_gib_in(text) for text in tres]),
        **type_masks(pl.Series(["|".join(gpu_types_in(text)) for text in asked], dtype=pl.String)),
    }


def _gpus(table: Table, tres: list[str]) -> Ints:
    """GPUs in each TRES text, refused if no machine could have so many."""
    gpus = [gpus_in(text) for text in tres]
    column = table.first_of("AllocTRES", "ReqTRES")
    huge = np.array([count > MOST for count in gpus], dtype=np.bool_)
    table.reject(huge, column, "{!r} has too many GPUs", f"at most {MOST}")
    return np.array(gpus, dtype=np.int64)


def _limits(table: Table) -> Any:
    """Run time stated at submission, in seconds; NaN if none or without limit."""
    name = next((name for name in ("TimelimitRaw", "Timelimit") if table.has(name)), None)
    if name is None:
        return np.nan
    cells = table.text(name).str.strip_chars()
    free = is_blank(cells) | cells.str.to_lowercase().is_in(list(NO_LIMIT)).to_numpy()
    seconds = np.array([_clock(cell) for cell in cells])
    expected = "minutes" if name == "TimelimitRaw" else "days-hours:minutes:seconds"
    table.reject(np.isnan(seconds) & ~free, name, "{!r} is not a time limit", expected)
    return seconds


def _clock(text: str) -> float:
    """Seconds of `1-12:00:00`, `02:30:00`, `30:00`, or of a bare number of minutes; else NaN."""
    if text.isdecimal():
        return int(text) * MINUTE_S
    match = _LIMIT.fullmatch(text)
    if not match:
        return np.nan
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(days * 86400 + hours * 3600 + minutes * 60 + seconds)


def _names(table: Table) -> dict[str, Any]:
    """Tenant `account/user` and group (job name), as far as the columns are there."""
    names: dict[str, Any] = {}
    levels = [table.text(name) for name in ("Account", "User") if table.has(name)]
    if levels:
        paths = ["/".join(part for part in parts if part) or "default" for parts in zip(*levels, strict=True)]
        names["tenant"], names["tenant_names"] = encode(pl.Series("tenant", paths))
    if table.has("JobName"):
        names["group"], names["group_names"] = table.codes("JobName")
    return names
