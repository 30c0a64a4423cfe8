"""Slurm accounting dumps: `sacct --allusers --duplicates --parsable2`, with the fields of `COMMAND`.

From      any Slurm site; no privileges needed beyond seeing other users' jobs
Columns   JobIDRaw | JobID, Submit, Start, End, State, ReqTRES | AllocTRES; optional: ElapsedRaw | Elapsed
          (else End - Start), Eligible, User, Account, Partition, QOS, Priority, NodeList, JobName, ExitCode,
          TimelimitRaw (min) | Timelimit, Restarts, Cluster, TotalCPU, TRESUsageInTot | TRESUsageInMax |
          TRESUsageInAve
Form      a header, fields joined by | (or by tabs or semicolons), with or without one at the end of a line
Times     local stamps without zone, stamps with an offset, or seconds since 1970; shifted: the first
          submission is at 0.  Run times show changes of a local clock (`sacct_clock`)
GPUs      from AllocTRES, or from ReqTRES for jobs that never started (see `tres`).  A type in ReqTRES is a
          constraint of the job; the type it ran on is the one in AllocTRES, else that of its nodes, else that
          of its partition, as other jobs show
Nodes     NodeList is where the job ran; its partition is a node set: a label of the nodes on which the
          partition's jobs ran
Priority  QOS are ordered by the priorities that the scheduler noted for their jobs (`sacct_priority`)
Eligible  seconds since Submit are `held_s`: dependencies, begin times, holds, limits of arrays
Rows      several rows of one job are its attempts (`sacct_attempts`), or the sizes that one attempt had,
          where they say RESIZING; steps are only read for what their job used
Arrays    a JobID such as 17_3 says which array a job is a task of
Clusters  with several in Cluster, names have it as a prefix: `east:17`, `east:gpu01`
Odd       steps; attempts; parts of heterogeneous jobs; CPU jobs; cancelled while waiting; jobs still waiting
          or running at the time of the dump; timeouts; jobs requeued in a dump without --duplicates
Handling  steps: their usage goes to `facts["usage"]`; the state of an earlier attempt says whether it failed,
          was preempted or was put back; after COMPLETED or CANCELLED the number was reused; cancelled
          while waiting: kept with duration 0; waiting: dropped; running: kept, with the time elapsed so far;
          TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, BOOT_FAIL, LAUNCH_FAILED and DEADLINE count as FAILED, REVOKED as
          CANCELLED, as does DEADLINE of a job that never started.  The tenant is `account/user`, the group
          the job name
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl

from rota.errors import brief
from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.jobs import Outcome, RecordedRun, Truth
from rota.model.trace import OddRows, Trace
from rota.traces.build import Oddities, finish, ids_of, type_masks
from rota.traces.node_list import nodes_in
from rota.traces.registry import trace_format
from rota.traces.runaways import drop_runaways
from rota.traces.sacct_attempts import FAILING, SacctAttempts
from rota.traces.sacct_clock import on_one_clock
from rota.traces.sacct_ends import arrays_of, exits_of, signatures_of
from rota.traces.sacct_moments import LOCAL, STAMPS, plain_moments, without_idle_starts
from rota.traces.sacct_priority import levels_of
from rota.traces.sacct_rows import COMMAND, FIELDS, ID, clusters_of, jobs_of, read_rows
from rota.traces.sacct_times import elapsed_of, limits_of
from rota.traces.source import TraceSource
from rota.traces.table import MOST, TextTable, encode
from rota.traces.tres import (
    cpus_in,
    gpu_types_in,
    gpus_in,
    has_parts_of_gpus,
    memory_gib_in,
    unread_in,
)

WAITING, RUNNING = -1, -2
"""Codes, in addition to those of `Outcome`, for jobs that had not ended at the time of the dump."""
STATES: dict[str, int] = {
    "COMPLETED": Outcome.COMPLETED,
    **dict.fromkeys(FAILING, Outcome.FAILED),
    **dict.fromkeys(("CANCELLED", "REVOKED"), Outcome.CANCELLED),
    "PREEMPTED": Outcome.PREEMPTED,
    **dict.fromkeys(("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"), WAITING),
    **dict.fromkeys(
        (
            "RUNNING",
            "SUSPENDED",
            "COMPLETING",
            "RESIZING",
            "CONFIGURING",
            "SIGNALING",
            "STAGE_OUT",
            "STOPPED",
        ),
        RUNNING,
    ),
}
_ENOUGH = 4
"""Number of known fields, with the job number, from which a file counts as a dump that lacks the state."""
_STAMPS = tuple(name for name in STAMPS if name != "Eligible")


def _matches(source: TraceSource) -> bool:
    """Whether this is a dump, or sacct's default output, for which a message names the right command."""
    if not source.opening:
        return False
    cells = [cell.strip() for cell in re.split(r"[|\t;,]| +", source.opening[0]) if cell.strip()]
    return bool(set(ID) & set(cells)) and ("State" in cells or len(set(FIELDS) & set(cells)) >= _ENOUGH)


@trace_format(
    "sacct",
    description="Slurm accounting: sacct --allusers --duplicates --parsable2",
    recognised="a header joined by | with JobIDRaw or JobID, and State or three others of sacct's fields",
    matches=_matches,
    command=COMMAND,
    example="JobIDRaw|User|Account|Partition|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|State|NodeList|"
    "ReqTRES|AllocTRES\n"
    "11|ann|vision|gpu|2024-03-01T09:00:00|2024-03-01T09:00:00|2024-03-01T09:05:00|2024-03-01T10:05:00|3600|"
    "120|COMPLETED|n[1-2]|cpu=8,gres/gpu=2,mem=64G|cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G\n",
)
def read(source: TraceSource) -> Trace:
    rows = read_rows(source)
    table, noted, usage = jobs_of(rows)
    if not (table.has("ReqTRES") or table.has("AllocTRES")):
        table.require("AllocTRES")
    _check_amounts(table)
    table, zone = plain_moments(table)
    table = _of_sense(_even(without_idle_starts(table), zone, noted), noted)
    submit_s, start_s, end_s = (table.stamps(name, blank=True) for name in _STAMPS)
    words = _state_words(table)
    states = np.array(words.one_of("State", STATES))
    elapsed_s, said = elapsed_of(table, start_s, end_s), words.text("State").to_list()
    attempts = SacctAttempts.of(table, submit_s, start_s, end_s, elapsed_s, said)
    jobs, ran = table.take(attempts.is_last), table.rows(attempts.ran)
    odd = Oddities(jobs, ids_of(jobs, jobs.first_of(*ID)), noted=noted)
    ended_as, states = states[attempts.ran], states[attempts.is_last]
    states[_expired(jobs, attempts)] = Outcome.CANCELLED
    limit_s, observed = limits_of(jobs), _observed(ran, attempts)
    drop_runaways(odd, _gpus(jobs, ran), attempts.elapsed_s, limit_s, observed)
    duration_s = _durations(jobs, odd, states, attempts)
    return finish(
        "sacct",
        odd,
        jobs={
            "submit_s": submit_s[attempts.first],
            "limit_s": limit_s,
            **_resources(jobs, ran, odd),
            **_names(jobs),
            **_node_sets(jobs),
            **levels_of(jobs),
        },
        truth=Truth.build(
            duration_s,
            outcome=np.maximum(np.where(states == WAITING, ended_as, states), int(Outcome.COMPLETED)),
            held_s=_held(table, odd, attempts, submit_s),
            failures=attempts.failures,
            signatures=signatures_of(words, attempts, states == Outcome.FAILED),
        ),
        observed=observed,
        facts={"duration": "seconds elapsed, time suspended included", **_facts(jobs, odd, usage)},
        zone=zone,
    )


def _check_amounts(table: TextTable) -> None:
    """Raise BadRowsError for each TRES whose GPUs, cores or memory are invalid."""
    for name in ("ReqTRES", "AllocTRES"):
        cells = table.text(name) if table.has(name) else pl.Series([], dtype=pl.String)
        wrong = {cell: entry for cell in cells.unique(maintain_order=True) if (entry := unread_in(cell))}
        if wrong:
            bad = cells.is_in(list(wrong))
            entry = wrong[cells.filter(bad)[0]]
            problem = f"{brief(entry)} is no amount".replace("{", "{{").replace("}", "}}")
            table.reject(bad.to_numpy(), name, problem, "cpu=8,mem=64G,gres/gpu=2")


def _even(table: TextTable, zone: str, noted: list[OddRows]) -> TextTable:
    """`table` on one clock, even if the site's clock was set forward or back; changes are counted."""
    if zone != LOCAL:
        return table
    _, start_s, end_s = (table.stamps(name, blank=True) for name in _STAMPS)
    return on_one_clock(table, elapsed_of(table, start_s, end_s), noted)


def _of_sense(table: TextTable, noted: list[OddRows]) -> TextTable:
    """`table` without rows whose moments contradict each other, as after a crash of the database; counted."""
    submit_s, start_s, end_s = (table.stamps(name, blank=True) for name in _STAMPS)
    odd = Oddities(table, table.text(table.first_of(*ID)).to_list(), repeats=True)
    odd.drop("no submission recorded", "nobody can say when it came", np.isnan(submit_s))
    odd.drop("ended before it started", "how long it ran is not known", end_s < start_s)
    odd.drop("started before its submission", "how long it waited is not known", start_s < submit_s)
    noted += odd.noted
    odd.check_left()
    return table.take(~odd.dropped)


def _state_words(table: TextTable) -> TextTable:
    """`table` with the first word of each state: `CANCELLED by 123` is CANCELLED."""
    words = table.text("State").str.strip_chars().str.split(" ").list.first().str.strip_chars_end("+")
    return TextTable(table.file, table.frame.with_columns(words.alias("State")), table.row)


def _durations(jobs: TextTable, odd: Oddities, states: Array, attempts: SacctAttempts) -> Floats:
    """Seconds run by the last attempt of each job; also notes and drops rows by their states."""
    duration_s = attempts.elapsed_s.copy()
    started = np.isfinite(attempts.start_s) | (duration_s > 0)
    states[(states == Outcome.PREEMPTED) & ~started] = Outcome.CANCELLED
    unstarted = (states == Outcome.CANCELLED) & ~started
    duration_s[unstarted] = 0.0
    expired = _expired(jobs, attempts)
    odd.note("cancelled while waiting", "kept with duration 0", unstarted & ~expired)
    odd.note("past its deadline while waiting", "kept as cancelled, with duration 0", expired)
    waiting = (states == WAITING) & ~started
    odd.drop("still waiting at the time of the dump", "how long it runs is not known", waiting)
    odd.drop("no run time recorded", "how long it ran is not known", np.isnan(duration_s))
    again = (states == WAITING) & ~odd.dropped
    odd.note("waiting again at the time of the dump", "kept, ending as its last attempt did", again)
    running = (states == RUNNING) & ~odd.dropped
    odd.note("still running at the time of the dump", "kept, ending after the time elapsed", running)
    odd.note("ended as TIMEOUT", "kept as failed", (jobs.text("State") == "TIMEOUT").to_numpy())
    odd.note("ended as PREEMPTED", "kept as preempted", (states == Outcome.PREEMPTED) & ~odd.dropped)
    several = np.isin(np.arange(len(jobs)), list(attempts.several)) & ~odd.dropped
    odd.note("several attempts", "kept as one job; each attempt ended as its state says", several)
    sizes = "kept as one run, at the size that it had longest"
    odd.note("changed its size while it ran", sizes, attempts.resized & ~odd.dropped)
    if jobs.has("Restarts"):
        requeued = (jobs.whole("Restarts", blank=0) > 0) & ~several & ~odd.dropped
        odd.note("requeued", "kept as one attempt; sacct --duplicates gives the earlier ones", requeued)
    if jobs.has("JobID"):
        parts = jobs.text("JobID").str.contains("+", literal=True).to_numpy()
        odd.note("part of a heterogeneous job", "kept as a job of its own", parts & ~odd.dropped)
    return duration_s


def _expired(jobs: TextTable, attempts: SacctAttempts) -> Bools:
    """Jobs that Slurm gave up because they could no longer meet their deadline."""
    given_up: Bools = (jobs.text("State") == "DEADLINE").to_numpy() & ~np.isfinite(attempts.start_s)
    return given_up


def _held(table: TextTable, odd: Oddities, attempts: SacctAttempts, submit_s: Floats) -> Floats | float:
    """Seconds from the first submission until the job was first eligible."""
    if not table.has("Eligible"):
        return np.nan
    held_s = (table.stamps("Eligible", blank=True) - submit_s)[attempts.first]
    odd.note("eligible before submission", "kept, eligible at once", held_s < 0)
    # A job that started was eligible by then, even if a later `scontrol update` has changed the field.
    return np.minimum(np.maximum(held_s, 0.0), np.nan_to_num(attempts.wait_s, nan=np.inf))


def _tres(jobs: TextTable) -> tuple[list[str], list[str]]:
    """What each job asked for and what it was given, as texts."""
    empty = [""] * len(jobs)
    asked, given = (jobs.text(n).to_list() if jobs.has(n) else empty for n in ("ReqTRES", "AllocTRES"))
    return asked, given


def _resources(jobs: TextTable, ran: TextTable, odd: Oddities) -> dict[str, Any]:
    """GPUs, CPU cores, memory and accepted GPU types from the TRES columns; `ran` as in `_observed`."""
    asked, given = _tres(jobs)[0], _tres(ran)[1]
    gpus = _gpus(jobs, ran)
    types = [gpu_types_in(text) for text in asked]
    several = np.array([len(names) > 1 for names in types], dtype=np.bool_)
    odd.note("asks for GPUs of several types", "kept, as GPUs of any one of them", several & ~odd.dropped)
    pairs = list(zip(given, asked, strict=True))
    parts = np.array([has_parts_of_gpus(a or r) for a, r in pairs], dtype=np.bool_) & (gpus == 0)
    how = "kept without GPUs: the dump does not say how many make a GPU"
    odd.note("has shards or MPS of a GPU", how, parts & ~odd.dropped)
    return {
        "gpus": gpus,
        # What a site does not allocate is in the request only.
        "cpus": np.array([cpus_in(a) or cpus_in(r) for a, r in pairs]),
        "memory_gib": np.array([memory_gib_in(a) or memory_gib_in(r) for a, r in pairs]),
        **type_masks(jobs, "ReqTRES", pl.Series(["|".join(names) for names in types], dtype=pl.String)),
    }


def _gpus(jobs: TextTable, ran: TextTable) -> Ints:
    """GPUs that each job was given, else asked for; BadRowsError if the number is impossibly large."""
    gpus = [gpus_in(given or asked) for given, asked in zip(_tres(ran)[1], _tres(jobs)[0], strict=True)]
    column = jobs.first_of("AllocTRES", "ReqTRES")
    huge = np.array([count > MOST for count in gpus], dtype=np.bool_)
    jobs.reject(huge, column, "{} has too many GPUs", f"at most {MOST}")
    return np.array(gpus, dtype=np.int64)


def _names(jobs: TextTable) -> dict[str, Any]:
    """Tenant `account/user` and group (job name), if the columns exist."""
    names: dict[str, Any] = {}
    levels = [jobs.text(name).str.strip_chars() for name in ("Account", "User") if jobs.has(name)]
    if levels:
        paths = ["/".join(part for part in parts if part) or "default" for parts in zip(*levels, strict=True)]
        names["tenant"], names["tenant_names"] = encode(pl.Series("tenant", paths))
    if jobs.has("JobName"):
        names["group"], names["group_names"] = jobs.codes("JobName")
    return names


def _node_sets(jobs: TextTable) -> dict[str, Any]:
    """The partition of each job, or all partitions that it accepts."""
    if not jobs.has("Partition"):
        return {}
    cells = jobs.text("Partition").str.strip_chars().str.replace_all(",", "|", literal=True)
    codes, names = encode(cells)
    return {"node_set": codes, "node_set_names": names}


def _observed(ran: TextTable, attempts: SacctAttempts) -> RecordedRun:
    """Starts and ends, nodes, and the type of GPUs that each job got, as far as it is known.

    `ran` holds the row of each job's last attempt that ran.
    """
    nodes, given = _nodes(ran), _tres(ran)[1]
    types = {row: names[0] for row, text in enumerate(given) if len(names := gpu_types_in(text)) == 1}
    named = {row for row, text in enumerate(given) if gpu_types_in(text)}
    untyped = [row for row, text in enumerate(given) if gpus_in(text) and row not in named]
    of_node = _only({(node, types[row]) for row in types for node in nodes.get(row, ())})
    partitions = ran.text("Partition").to_list() if ran.has("Partition") else []
    of_partition = _only({(partitions[row], name) for row, name in types.items()} if partitions else set())
    for row in untyped:
        kinds = {of_node.get(node, "") for node in nodes.get(row, ())}
        kind = kinds.pop() if len(kinds) == 1 else ""
        kind = kind or (of_partition.get(partitions[row], "") if partitions else "")
        if kind:
            types[row] = kind
    moments, ends = (attempts.start_s, attempts.end_s), (arrays_of(ran), exits_of(ran))
    return RecordedRun(*moments, nodes, types, *ends, _qos(ran), attempts.interruptions)


def _qos(ran: TextTable) -> dict[int, str]:
    """The QOS of each job, by row, if it is recorded."""
    said = ran.text("QOS").str.strip_chars().to_list() if ran.has("QOS") else []
    return {row: name for row, name in enumerate(said) if name}


def _only(pairs: set[tuple[str, str]]) -> dict[str, str]:
    """For each first text in `pairs` the second one, if it is always the same."""
    kinds: dict[str, set[str]] = {}
    for name, kind in pairs:
        kinds.setdefault(name, set()).add(kind)
    return {name: next(iter(of)) for name, of in kinds.items() if len(of) == 1}


def _nodes(jobs: TextTable) -> dict[int, tuple[str, ...]]:
    """Names of the nodes that each job ran on, for jobs that ran."""
    if not jobs.has("NodeList"):
        return {}
    cells = jobs.text("NodeList")
    known: dict[str, tuple[str, ...]] = {}
    wrong: dict[str, str] = {}
    for cell in cells.unique(maintain_order=True):
        try:
            known[cell] = nodes_in(cell)
        except ValueError as error:
            wrong[cell] = str(error)
    if wrong:
        bad = cells.is_in(list(wrong))
        problem = "{} " + wrong[cells.filter(bad)[0]].replace("{", "{{").replace("}", "}}")
        jobs.reject(bad.to_numpy(), "NodeList", problem, "names such as gpu[01-04,07],login1")
    rows = zip(clusters_of(jobs), cells, strict=True)
    return {
        row: tuple(cluster + name for name in known[cell])
        for row, (cluster, cell) in enumerate(rows)
        if known[cell]
    }


def _facts(jobs: TextTable, odd: Oddities, usage: dict[str, dict[str, float]]) -> dict[str, object]:
    """What the steps used, and a remark if the site does not record GPUs."""
    facts: dict[str, object] = {}
    ids = jobs.text(jobs.first_of(*ID)).str.strip_chars().to_list()
    names = dict(zip(ids, odd.ids, strict=True))
    used = {names[id]: said for id, said in usage.items() if id in names}
    if used:
        facts["usage"] = used
    if not any(gpus_in(text) for texts in _tres(jobs) for text in texts):
        facts["GPUs"] = "no job has any: the site may not count them (AccountingStorageTRES=gres/gpu)"
    return facts
