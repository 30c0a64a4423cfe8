"""Ended jobs in the columns that users see: lists of them are long and often asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select, tuple_

from rota.server.store import tables as t
from rota.server.store.forms import bounded
from rota.server.store.past_columns import PIECE
from rota.server.store.queries import within
from rota.wire.text import clean


class EndedRow(NamedTuple):
    """One job that is over; fields as in `JobRow`, `JobAsked` and `JobState`, JSON as text."""

    row: int
    id: str
    name: str
    user: str
    tenant: str
    group: str
    workload: str
    state: str
    reason: str
    gpus: int
    gpu_share: float
    priority: int
    limit_s: float | None
    deadline_s: float | None
    submit_s: float
    first_start_s: float | None
    finish_s: float
    run_s: float
    service: float
    attempt: int
    preemptions: int
    failures: int
    exit_code: int | None
    signal: int | None
    cause: str
    hold: str
    measured: str | None


@dataclass(frozen=True, slots=True)
class EndedQuery:
    """Which jobs, of those that ended between two moments, both included; None and () for all."""

    since_s: float
    until_s: float
    states: tuple[str, ...] = ()
    tenant: str | None = None
    """The tenant and those below it."""
    user: str | None = None
    after: EndedRow | None = None
    """Only those behind this one."""


_ENDED = select(*(t.jobs.c[name] for name in EndedRow._fields))
_ORDER = t.jobs.c.finish_s, t.jobs.c.row


def ended_jobs(
    connection: Connection, which: EndedQuery, limit: int, *, newest: bool = False
) -> list[EndedRow]:
    """See `Store.ended_jobs`."""
    order = [column.desc() for column in _ORDER] if newest else _ORDER
    asked = _ENDED.where(*_conditions(which)).order_by(*order).limit(bounded(limit))
    parts = connection.execute(asked).partitions(PIECE)
    return [EndedRow._make(values) for part in parts for values in part]


def ended_job(connection: Connection, job_id: str) -> EndedRow | None:
    """The job with the id that people see, if it is over."""
    c = t.jobs.c
    values = connection.execute(_ENDED.where(c.id == clean(job_id), c.finish_s.is_not(None))).first()
    return None if values is None else EndedRow._make(values)


def count_ended(connection: Connection, which: EndedQuery) -> int:
    """See `Store.count_ended`."""
    counted = select(func.count()).select_from(t.jobs).where(*_conditions(which))
    number: int = connection.execute(counted).scalar_one()
    return number


def _conditions(which: EndedQuery) -> list[ColumnElement[bool]]:
    c = t.jobs.c
    # One bound below, from where the index is read: of two SQLite takes the first.
    since_s = which.since_s if which.after is None else max(which.since_s, which.after.finish_s)
    wanted = [c.finish_s >= since_s, c.finish_s <= which.until_s]
    if which.states:
        wanted.append(c.state.in_([clean(state) for state in which.states]))
    if which.tenant is not None:
        wanted.append(within(which.tenant))
    if which.user is not None:
        wanted.append(c.user == clean(which.user))
    if which.after is not None:
        wanted.append(tuple_(*_ORDER) > (which.after.finish_s, which.after.row))
    return wanted
