"""All that the scheduler needs to start, read as of one moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, or_, select, text

from rota.model.columns import Array
from rota.model.job_columns import STORED_NAMES, SUBMITTED
from rota.server.store import tables as t
from rota.server.store.forms import deadlines_of
from rota.server.store.repairs import UNREADABLE, array_of, mend_numbers, mended_nodes, spec_of
from rota.server.store.rows import AttemptRow, Everything, JobColumns, JobRow
from rota.server.store.stored import (
    ATTEMPT,
    COMMAND,
    JOB_NAMES,
    NODE,
    NOW,
    POLICY,
    columns,
    mended_job,
    selected,
)
from rota.table.state import Phase
from rota.wire.job import JobSpec
from rota.worlds.live.curves import Curves

LOADED = "loaded_unix_s"
"""Fact: Unix time at which the scheduler last read the whole store; written before that reading.

So no decision is made that could not be stored, or about jobs that are over already, as on a standby that
lags and is promoted later.  And a writer that succeeded had the lock: it knows that no transaction of a
broken connection is still under way.
"""
_FLOATS = (
    "submit_s", "first_start_s", "since_s", "run_s", "service", "service_rate", "placed_s", "adjusted_s",
    "progress_base", "progress_rate", "progress_since", "finish_s",
)  # fmt: skip
_INTS = ("starts", "moves", "preemptions", "failures")
_TEXTS = ("id", "gpu_types", "deadlines", *STORED_NAMES)
NUMBERS = {column.name: column.dtype for column in SUBMITTED if column.name not in _TEXTS}
"""What jobs ask for in numbers."""
_TYPES: Mapping[str, str] = (
    NUMBERS | dict.fromkeys(_FLOATS, "float64") | dict.fromkeys(_INTS, "int64") | {"phase": "int8"}
)
_READ = ("row", *_TEXTS, *_TYPES)
_LIVED = dict.fromkeys(NOW.names, 0) | {
    "phase": int(Phase.CANCELLED),
    "first_start_s": np.nan,
    "finish_s": np.nan,
}
"""The work of a job that is no longer on record, as far as columns say it."""
_AT_ONCE = 2000
_COLUMNS = columns(t.jobs, _READ).order_by(t.jobs.c.row)

_MAY_LIVE = or_(text(t.LIVE), t.jobs.c.row.in_(select(t.attempts.c.row).where(text(t.UNENDED))))
_LIVE = columns(t.jobs, JOB_NAMES).where(_MAY_LIVE)  # to sort in the database would read all jobs
_OF_LIVE = select(t.jobs.c.row).where(_MAY_LIVE)
_SPECS = select(t.jobs.c.row, t.jobs.c.spec, t.specs.c.text).join_from(t.jobs, t.specs).where(_MAY_LIVE)
_ATTEMPTS = (
    selected(t.attempts, ATTEMPT)
    .where(t.attempts.c.row.in_(_OF_LIVE))
    .order_by(t.attempts.c.row, t.attempts.c.number)
)
_CURVES = (
    select(t.points.c.row, func.count(), func.max(t.points.c.spacing_s))
    .where(t.points.c.row.in_(_OF_LIVE))
    .group_by(t.points.c.row)
)
_NODES = selected(t.nodes, NODE).order_by(t.nodes.c.position)
_POLICIES = selected(t.policies, POLICY)
OPEN_COMMANDS = selected(t.commands, COMMAND).where(text(t.UNDONE)).order_by(t.commands.c.seq)
_FACTS = select(t.facts.c.key, t.facts.c.value)
_LAST_DECISION = select(func.coalesce(func.max(t.decisions.c.seq), 0))


def load(connection: Connection) -> Everything:
    """See `Store.load`; `connection` must be reading one moment."""
    aside: dict[int, str] = {}
    live = _live(connection, aside)
    nodes, problems = mended_nodes([NODE.row(values) for values in connection.execute(_NODES)])
    policies = [POLICY.mended(values) for values in connection.execute(_POLICIES)]
    commands = [COMMAND.mended(values) for values in connection.execute(OPEN_COMMANDS)]
    problems += [f"policy {row.name}: {problem}" for row, several in policies for problem in several]
    problems += [f"command {row.seq}: {problem}" for row, several in commands for problem in several]
    return Everything(
        facts={key: json.loads(value) for key, value in connection.execute(_FACTS)},
        columns=_columns(connection, live, aside, problems),
        jobs=live,
        specs=parsed(connection.execute(_SPECS), aside),
        attempts=_by_job(connection, aside),
        nodes=nodes,
        policies={row.name: row for row, _ in policies},
        commands=[row for row, several in commands if not several],
        decisions=connection.execute(_LAST_DECISION).scalar_one(),
        curves={row: Curves(count, most_s) for row, count, most_s in connection.execute(_CURVES)},
        aside=aside,
        problems=problems,
    )


def _live(connection: Connection, aside: dict[int, str]) -> dict[int, JobRow]:
    """Jobs that are not over, or have an attempt that may live, by row."""
    live = {}
    for values in connection.execute(_LIVE):
        job, problems = mended_job(values)
        live[job.row] = job
        if problems:
            aside[job.row] = problems[0]
    return dict(sorted(live.items()))


def parsed(texts: Iterable[Any], aside: dict[int, str] | None = None) -> dict[int, JobSpec]:
    """Specifications by row, from (row, number, text); an array has one object for all its jobs.

    A specification that cannot be read is `NO_SPEC`, and its row is in `aside` with the reason.
    """
    known: dict[int, JobSpec] = {}
    specs: dict[int, JobSpec] = {}
    why: dict[int, str] = {}
    for row, number, said in texts:
        if number not in known:
            known[number], problem = spec_of(said)
            if problem:
                why[number] = problem
        specs[row] = known[number]
        if aside is not None and number in why:
            aside[row] = why[number]
    return specs


def _by_job(connection: Connection, aside: dict[int, str]) -> dict[int, list[AttemptRow]]:
    attempts: dict[int, list[AttemptRow]] = {}
    for values in connection.execute(_ATTEMPTS):
        attempt, problems = ATTEMPT.mended(values)
        attempts.setdefault(values[0], []).append(attempt)
        if problems:
            aside[values[0]] = f"{problems[0]} (attempt {attempt.number})"
    return attempts


def _columns(
    connection: Connection, live: Mapping[int, JobRow], aside: dict[int, str], problems: list[str]
) -> JobColumns:
    """All jobs.  A few thousand at a time become arrays, so that few Python objects exist together.

    A job that is no longer on record still has a place, since a row stands for one job for ever: it is
    cancelled, has the request of the next job and received no service.
    """
    numbers: dict[str, list[Array]] = {name: [np.array([], dtype=kind)] for name, kind in _TYPES.items()}
    texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
    rows: list[int] = []
    for some in connection.execute(_COLUMNS).partitions(_AT_ONCE):
        cut = dict(zip(_READ, zip(*some, strict=True), strict=True))
        rows.extend(cut["row"])

        def wrong(place: int, problem: str, here: Sequence[int] = cut["row"]) -> None:
            if here[place] in live:
                aside[here[place]] = problem
            else:
                problems.append(f"job {here[place] + 1}: {problem}")

        for name, kind in _TYPES.items():
            numbers[name].append(array_of(cut[name], kind, name, wrong))
        for name in _TEXTS:
            texts[name].extend(cut[name])
    joined = {name: np.concatenate(pieces) for name, pieces in numbers.items()}
    if rows and len(rows) <= rows[-1]:
        _fill_gaps(rows, joined, texts)
    problems += mend_numbers(joined, texts["id"])
    types = {said: _listed(said, lambda text: tuple(json.loads(text))) for said in set(texts["gpu_types"])}
    deadlines = {said: _listed(said, deadlines_of) for said in set(texts["deadlines"])}
    is_live = np.zeros(len(texts["id"]), dtype=np.bool_)
    is_live[list(live)] = True
    return JobColumns(
        ids=texts["id"],
        submit_s=joined.pop("submit_s"),
        numbers=joined,
        names={name: texts[name] for name in STORED_NAMES},
        gpu_types=[types[said] for said in texts["gpu_types"]],
        deadlines=[deadlines[said] for said in texts["deadlines"]],
        live=is_live,
    )


def _listed(text: str, read: Callable[[str], tuple[Any, ...]]) -> tuple[Any, ...]:
    """A list of a job's; empty if it cannot be read, which is said of the job where it lives."""
    try:
        return read(text)
    except UNREADABLE:
        return ()


def _fill_gaps(rows: list[int], numbers: dict[str, Array], texts: dict[str, list[str]]) -> None:
    """Give every row up to the last one a place in these columns."""
    every = np.arange(rows[-1] + 1)
    source = np.searchsorted(rows, every)
    gaps = np.flatnonzero(np.array(rows)[source] != every)
    for name, column in numbers.items():
        numbers[name] = column[source]
        if name in _LIVED:
            numbers[name][gaps] = _LIVED[name]
    for name, values in texts.items():
        texts[name] = [values[i] for i in source.tolist()]
    for row in gaps.tolist():
        texts["id"][row] = str(row + 1)
