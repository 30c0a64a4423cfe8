"""Lists that the API reads, cut to a limit, by the indexes of `tables`."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    not_,
    null,
    or_,
    select,
    type_coerce,
)

from rota.model.columns import Floats
from rota.server.store import tables as t
from rota.server.store.forms import RowForm, bounded
from rota.server.store.past_columns import PIECE, HistoryWindow, lived
from rota.server.store.rows import (
    CAME_TO_NOTHING,
    CompletedJob,
    HeldSpan,
    JobQuery,
    JobRow,
    PastJob,
)
from rota.server.store.start_state import parsed
from rota.server.store.stored import INTERVAL, JOB_NAMES, columns, job_row, selected
from rota.table.state import Phase
from rota.wire.job import JobSpec
from rota.wire.numbers import MOST_S
from rota.wire.text import clean

R = TypeVar("R")
_JOBS = columns(t.jobs, JOB_NAMES)
_LEFT_OUT = {"hold": literal_column("'[]'"), "capability": null(), "measured": null()}
_LEAN = select(*(_LEFT_OUT.get(name, t.jobs.c[name]) for name in JOB_NAMES))
"""As `_JOBS`, without JSON columns that are of no use when a job is over."""
_AT_ROW = _JOBS.where(t.jobs.c.row == bindparam("key"))
_OF_ID = _JOBS.where(t.jobs.c.id == bindparam("key"))
_RUNNING: ColumnElement[int] = literal_column(
    str(int(Phase.RUNNING))
)  # as a parameter it would not match the index
_OTHER = t.jobs.alias()
LIVE_ROWS = select(_OTHER.c.row).where(_OTHER.c.phase <= _RUNNING)
"""By their own index: a list in the order of rows would look at all jobs otherwise."""
MOST_HELD = 200_000
"""Newest intervals that sums of recent holdings read: intervals are not indexed by time."""
SOME = 500
"""Parameters in one statement; databases have limits."""


def job_at(connection: Connection, row: int) -> JobRow | None:
    """The job of `row`, if there is one."""
    return _one_job(connection, _AT_ROW, bounded(row))


def job_of_id(connection: Connection, job_id: str) -> JobRow | None:
    """The job with the id that people see."""
    return _one_job(connection, _OF_ID, clean(job_id))


def _one_job(connection: Connection, statement: Select[Any], key: object) -> JobRow | None:
    values = connection.execute(statement, {"key": key}).first()
    return None if values is None else job_row(values)


def jobs(connection: Connection, which: JobQuery) -> list[JobRow]:
    """See `Store.jobs`."""
    limit = None if which.limit is None else bounded(which.limit)
    newest = _JOBS.where(*_conditions(which)).order_by(t.jobs.c.row.desc()).limit(limit)
    return [job_row(values) for values in connection.execute(newest)][::-1]


def count_jobs(connection: Connection, which: JobQuery) -> int:
    """See `Store.count_jobs`."""
    counted = select(func.count()).select_from(t.jobs).where(*_conditions(which))
    number: int = connection.execute(counted).scalar_one()
    return number


def _conditions(which: JobQuery) -> list[ColumnElement[bool]]:
    c = t.jobs.c
    wanted: list[ColumnElement[bool]] = []
    if which.states:
        wanted.append(c.state.in_([clean(state) for state in which.states]))
    if which.tenant is not None:
        wanted.append(within(which.tenant))
    if which.user is not None:
        wanted.append(c.user == clean(which.user))
    if which.name is not None:
        wanted.append(c.name == clean(which.name))
    if which.since_s is not None:
        wanted.append(or_(c.submit_s >= which.since_s, c.finish_s >= which.since_s))
    if which.live is not None:
        wanted.append(c.row.in_(LIVE_ROWS) if which.live else c.phase > _RUNNING)
    if which.array_first is not None:
        wanted.append(c.array_first == bounded(which.array_first))
    if which.rows is not None:
        wanted.append(c.row.in_([bounded(row) for row in which.rows]))
    if which.before_row is not None:
        wanted.append(c.row < bounded(which.before_row))
    if which.from_row:
        wanted.append(c.row >= bounded(which.from_row))
    return wanted


def within(tenant: str) -> ColumnElement[bool]:
    """Jobs of the tenant and of those below it."""
    c, path = t.jobs.c, clean(tenant)
    return or_(c.tenant == path, c.tenant.startswith(f"{path}/", autoescape=True))


def phases(connection: Connection, name: str) -> dict[int, int]:
    """See `Store.phases`."""
    c = t.jobs.c
    meant = c.id == clean(name)
    if name.isascii() and name.isdecimal() and not name.startswith("0"):
        meant = or_(meant, c.array_first == bounded(int(name) - 1))
    counted = select(c.phase, func.count()).where(meant).group_by(c.phase)
    return {row[0]: row[1] for row in connection.execute(counted)}


def specs(connection: Connection, rows: Sequence[int]) -> dict[int, JobSpec]:
    """See `Store.specs`."""
    joined = select(t.jobs.c.row, t.jobs.c.spec, t.specs.c.text).join_from(t.jobs, t.specs)
    texts: list[Any] = []
    for i in range(0, len(rows), SOME):
        texts += connection.execute(
            joined.where(t.jobs.c.row.in_([bounded(int(r)) for r in rows[i : i + SOME]]))
        )
    return parsed(texts)


def listed(
    connection: Connection, table: Table, form: RowForm[R], *where: ColumnElement[bool], order: str = "seq"
) -> list[R]:
    """All rows of `table` for which `where` holds, ascending by `order`."""
    rows = connection.execute(selected(table, form).where(*where).order_by(table.c[order]))
    return [form.row(values) for values in rows]


def newest(
    connection: Connection, table: Table, form: RowForm[R], limit: int, *where: ColumnElement[bool]
) -> list[R]:
    """The newest `limit` rows of a numbered table, oldest first."""
    statement = selected(table, form).where(*where).order_by(table.c.seq.desc()).limit(bounded(limit))
    return [form.row(values) for values in connection.execute(statement)][::-1]


def history(connection: Connection, since_s: float, until_s: float) -> HistoryWindow:
    """See `Store.history`."""
    c, then = t.intervals.c, lived(since_s, until_s)
    parts = connection.execute(_LEAN.where(then).order_by(t.jobs.c.row)).partitions(PIECE)
    jobs = [job_row(values) for part in parts for values in part]
    attempts = t.intervals.alias()
    failed = select(attempts.c.row).where(attempts.c.how.in_(CAME_TO_NOTHING))
    held = selected(t.intervals, INTERVAL).join_from(t.intervals, t.jobs).where(then, c.row.in_(failed))
    intervals = [INTERVAL.row(values) for values in connection.execute(held.order_by(c.row, c.seq))]
    return HistoryWindow(jobs, intervals, _said_more(connection, then))


def _said_more(connection: Connection, then: ColumnElement[bool]) -> dict[int, JobSpec]:
    """Specifications of jobs that were not to begin at once; quotes inside a text are escaped."""
    text = t.specs.c.text
    at_once = and_(
        text.contains('"after":[]', autoescape=True), text.contains('"begin_s":null', autoescape=True)
    )
    said = select(t.jobs.c.row, t.specs.c.number, text).join_from(t.jobs, t.specs)
    return parsed(connection.execute(said.where(then, not_(at_once))))


def busy(connection: Connection, since_s: float, until_s: float) -> dict[int, float]:
    """See `Store.busy`."""
    text = t.points.c.curves
    # SQLite takes text as JSON without a cast; PostgreSQL needs one.
    curves = type_coerce(text, JSON) if connection.dialect.name == "sqlite" else cast(text, JSON)
    mean, count = curves["utilisation", 0].as_float(), curves["utilisation", 3].as_float()
    begins, ends = t.points.c.at_s, t.points.c.until_s
    inside = case((ends < until_s, ends), else_=until_s) - case((begins > since_s, begins), else_=since_s)
    # Of a point that reaches beyond an edge counts the part inside; one that is a moment is in or out.
    weight = count * case((ends > begins, inside / (ends - begins)), else_=1.0)
    inside_it = and_(begins < until_s, or_(ends > since_s, and_(ends == begins, begins >= since_s)))
    seen = select(t.points.c.row, func.sum(mean * weight), func.sum(weight)).join_from(t.points, t.jobs)
    sums = connection.execute(seen.where(lived(since_s, until_s), inside_it).group_by(t.points.c.row))
    return {row: min(max(total / of, 0.0), 1.0) for row, total, of in sums if of}


def past(connection: Connection, limit: int) -> dict[tuple[str, str], Floats]:
    """See `Store.past`."""
    c = t.jobs.c
    statement = select(c.tenant, c.group, c.run_s).where(c.phase == int(Phase.COMPLETED))
    runs: dict[tuple[str, str], list[float]] = {}
    newest = connection.execute(statement.order_by(c.row.desc()).limit(bounded(limit))).fetchall()
    for tenant, group, run_s in reversed(newest):
        runs.setdefault((tenant, group), []).append(run_s)
    return {key: np.array(seconds, dtype=np.float64) for key, seconds in runs.items()}


def past_jobs(connection: Connection, limit: int) -> list[PastJob]:
    """See `Store.past_jobs`."""
    c = t.jobs.c
    wanted = select(c.tenant, c.group, c.run_s, c.gpus, c.limit_s).where(c.phase == int(Phase.COMPLETED))
    newest = connection.execute(wanted.order_by(c.row.desc()).limit(bounded(limit))).fetchall()
    return [
        PastJob(tenant, group, run_s, gpus, math.nan if limit_s is None else limit_s)
        for tenant, group, run_s, gpus, limit_s in reversed(newest)
    ]


def last_moment(connection: Connection) -> float:
    """See `Store.last_moment`."""
    newest = (
        select(t.jobs.c.submit_s).order_by(t.jobs.c.row.desc()).limit(1),
        select(t.decisions.c.now_s).order_by(t.decisions.c.seq.desc()).limit(1),
        select(t.events.c.at_s).order_by(t.events.c.seq.desc()).limit(1),
    )
    said = [connection.execute(statement).scalar() for statement in newest]
    return max((at_s for at_s in said if isinstance(at_s, float) and 0.0 < at_s < MOST_S), default=0.0)


def live_requests(connection: Connection) -> dict[tuple[str, str], tuple[int, float]]:
    """See `Store.live_requests`."""
    c = t.jobs.c
    counted = select(c.state, c.tenant, func.count(), func.sum(c.gpus * c.gpu_share))
    live = counted.where(c.phase <= _RUNNING).group_by(c.state, c.tenant)
    return {(row[0], row[1]): (row[2], float(row[3])) for row in connection.execute(live)}


def held(connection: Connection, since_s: float) -> list[HeldSpan]:
    """See `Store.held`."""
    c, newest = t.intervals.c, select(func.max(t.intervals.c.seq)).scalar_subquery()
    lately = select(t.jobs.c.tenant, c.start_s, c.end_s, c.share, c.devices).join_from(t.intervals, t.jobs)
    lately = lately.where(c.seq > newest - MOST_HELD, c.end_s >= since_s).order_by(c.seq)
    return [
        HeldSpan(tenant, start_s, end_s, share * (devices.count(",") + 1 if len(devices) > len("[]") else 0))
        for tenant, start_s, end_s, share, devices in connection.execute(lately)
    ]


def completed(connection: Connection, since_s: float, limit: int) -> list[CompletedJob]:
    """See `Store.completed`."""
    c = t.jobs.c
    asked = select(c.tenant, c.submit_s, c.finish_s, c.run_s, c.gpus * c.gpu_share)
    lately = asked.where(c.finish_s >= since_s, c.phase == int(Phase.COMPLETED))
    return [CompletedJob(*row) for row in connection.execute(lately.order_by(c.finish_s.desc()).limit(limit))]


def totals(connection: Connection) -> dict[str, int]:
    """Number of jobs by state."""
    counted = select(t.jobs.c.state, func.count()).group_by(t.jobs.c.state)
    return {row[0]: row[1] for row in connection.execute(counted)}


def live_totals(connection: Connection) -> dict[tuple[str, str], int]:
    """Number of jobs that are not over, by state and tenant."""
    c = t.jobs.c
    counted = select(c.state, c.tenant, func.count()).where(c.phase <= _RUNNING).group_by(c.state, c.tenant)
    return {(row[0], row[1]): row[2] for row in connection.execute(counted)}


class JobLine(NamedTuple):
    """One job."""

    row: int
    id: str
    name: str
    user: str
    tenant: str
    state: str
    reason: str
    """The reason for waiting that the store knows: `Held`, or None."""


_LINES = select(*(t.jobs.c[name] for name in JobLine._fields))


def lines(connection: Connection, also: Collection[int]) -> list[JobLine]:
    """See `Store.lines`."""
    lines_read = [
        JobLine(*values) for values in connection.execute(_LINES.where(t.jobs.c.row.in_(LIVE_ROWS)))
    ]
    more = sorted(set(also) - {one.row for one in lines_read})
    for i in range(0, len(more), SOME):
        rows = [bounded(row) for row in more[i : i + SOME]]
        lines_read += [
            JobLine(*values) for values in connection.execute(_LINES.where(t.jobs.c.row.in_(rows)))
        ]
    return sorted(lines_read)
