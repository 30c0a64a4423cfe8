"""The form of every row, and the statements that write it, each built and compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Insert, Select, Table, Update, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from rota.server.store import tables
from rota.server.store.forms import Params, RowForm
from rota.server.store.rows import (
    AttemptRow,
    CommandRow,
    CostRow,
    DecisionRow,
    EventRow,
    IntervalRow,
    JobAsked,
    JobRow,
    JobState,
    NodeRow,
    PolicyRow,
    ShadowRow,
    TokenRow,
    UserRow,
)
from rota.worlds.live.curves import Point

WHO = RowForm(JobRow, without=("asked", "now"))
ASKED = RowForm(JobAsked)
NOW = RowForm(JobState)
ATTEMPT, INTERVAL, NODE, POLICY = (
    RowForm(AttemptRow),
    RowForm(IntervalRow),
    RowForm(NodeRow),
    RowForm(PolicyRow),
)
COMMAND, POINT, COST = RowForm(CommandRow), RowForm(Point), RowForm(CostRow)
USER, TOKEN = RowForm(UserRow), RowForm(TokenRow)
DECISION, EVENT, SHADOW = RowForm(DecisionRow), RowForm(EventRow), RowForm(ShadowRow)

JOB_NAMES = (*WHO.names, *ASKED.names, *NOW.names)
_ASKED_AT, _NOW_AT = len(WHO.names), len(WHO.names) + len(ASKED.names)


def job_row(values: Sequence[Any]) -> JobRow:
    """The job with `values` in its columns, in the order of JOB_NAMES."""
    row, job_id, user, submit_s, first, index, most, account = values[:_ASKED_AT]
    asked, now = ASKED.row(values[_ASKED_AT:_NOW_AT]), NOW.row(values[_NOW_AT:])
    return JobRow(row, job_id, user, submit_s, first, index, most, asked, now, account)


def mended_job(values: Sequence[Any]) -> tuple[JobRow, list[str]]:
    """As `job_row`, as far as it can be read, with a clause for each field that cannot be."""
    row, job_id, user, submit_s, first, index, most, account = values[:_ASKED_AT]
    asked, in_asked = ASKED.mended(values[_ASKED_AT:_NOW_AT])
    now, in_now = NOW.mended(values[_NOW_AT:])
    return JobRow(row, job_id, user, submit_s, first, index, most, asked, now, account), in_asked + in_now


def job_params(job: JobRow, spec: int) -> Params:
    """All columns of a new job that has specification number `spec`."""
    return {**WHO.params(job), **ASKED.params(job.asked), **NOW.params(job.now), "spec": spec}


@cache
def columns(table: Table, names: tuple[str, ...]) -> Select[Any]:
    """SELECT of these columns, in this order."""
    return select(*(table.c[name] for name in names))


def selected(table: Table, form: RowForm[Any]) -> Select[Any]:
    """SELECT of what `form` reads."""
    return columns(table, form.names)


@cache
def update(table: Table, key: str) -> Update:
    """UPDATE of the row whose `key` is the parameter `at`; the other parameters are the columns to set."""
    return table.update().where(table.c[key] == bindparam("at"))


@cache
def upsert(table: Table, dialect: str, names: tuple[str, ...]) -> Insert:
    """INSERT that replaces a row with an equal primary key."""
    keys = [column.name for column in table.primary_key]
    insert = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(table)
    changed = {name: insert.excluded[name] for name in names if name not in keys}
    return insert.on_conflict_do_update(index_elements=keys, set_=changed)


INSERT = {table.name: table.insert().inline() for table in tables.metadata.sorted_tables}
