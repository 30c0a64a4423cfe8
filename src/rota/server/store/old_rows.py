"""Deletes expired rows, a few in each transaction.

A job is deleted with all its rows once it is over, nothing of it lives, all of its array is over, its key is
forgotten, and no waiting job names it or its array (`after`).  The newest job is never deleted, nor is the
newest line of each numbered table: the next number is counted from them, and no number is given twice.

Candidates are looked for on a reading connection; a transaction deletes some hundred rows at most.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    Table,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
    text,
    tuple_,
)

from rota.server.store import tables as t
from rota.server.store.database import Writing
from rota.server.store.forms import bounded
from rota.table.state import Phase
from rota.wire.job import array_of

MOST_JOBS = 10
"""In one transaction."""
MOST_LINES = 200
"""Lines of one table in one transaction."""
_ROWS: BindParameter[Any] = bindparam("rows", expanding=True)
_LAST = select(func.coalesce(func.max(t.jobs.c.row), -1))
_LIVES = exists().where(t.attempts.c.row == t.jobs.c.row, t.attempts.c.end_s.is_(None))
_IS_OVER = and_(t.jobs.c.phase > int(Phase.RUNNING), t.jobs.c.finish_s.is_not(None), ~_LIVES)
_OTHER = t.jobs.alias()
_LIVE_ARRAYS = select(_OTHER.c.array_first).where(
    _OTHER.c.phase <= literal_column(str(int(Phase.RUNNING))),  # not a parameter: it has to match the index
    _OTHER.c.array_first.is_not(None),
)
_PAGE = 500
"""Number of candidates read together."""
_OLD = (
    select(t.jobs.c.row, t.jobs.c.id, t.jobs.c.spec)
    .where(
        t.jobs.c.finish_s < bindparam("before_s"),
        t.jobs.c.submit_s < bindparam("keys_s"),
        t.jobs.c.row < _LAST.scalar_subquery(),
        _IS_OVER,
        or_(t.jobs.c.array_first.is_(None), t.jobs.c.array_first.not_in(_LIVE_ARRAYS)),
    )
    .order_by(t.jobs.c.finish_s, t.jobs.c.row)
    .limit(_PAGE)
    .offset(bindparam("first"))
)
_NAMES_OTHERS = t.specs.c.text.like('%"after":[{%')
_WAIT_FOR = select(t.specs.c.text).join_from(t.jobs, t.specs).where(text(t.LIVE), _NAMES_OTHERS).distinct()
_NEW_WAIT_FOR = (
    select(t.specs.c.text).join_from(t.jobs, t.specs).where(t.jobs.c.row > bindparam("last"), _NAMES_OTHERS)
)
_UNUSED = t.specs.delete().where(
    t.specs.c.number.in_(bindparam("specs", expanding=True)),
    ~exists().where(t.jobs.c.spec == t.specs.c.number),
)
_JOBS = t.jobs.delete().where(t.jobs.c.row.in_(_ROWS))
_SUBMITTED_BEFORE = (
    select(t.jobs.c.row)
    .where(t.jobs.c.submit_s < bindparam("before_s"))
    .order_by(t.jobs.c.row.desc())
    .limit(1)
)


class Old(NamedTuple):
    """Jobs that may go."""

    rows: list[int]
    specs: list[int]
    last: int
    """The newest job there was when they were found."""


def _some(table: Table, condition: Any) -> Any:
    """DELETE of some lines of `table` for which `condition` holds."""
    keys = tuple_(*table.primary_key.columns)
    return table.delete().where(
        keys.in_(select(*table.primary_key.columns).where(condition).limit(MOST_LINES))
    )


_OF_JOBS = {table.name: _some(table, table.c.row.in_(_ROWS)) for table in (t.points, t.intervals, t.attempts)}
_OLD_POINTS = t.points.delete().where(
    t.points.c.seq.in_(
        select(t.points.c.seq)
        .join_from(t.points, t.jobs)
        .where(t.jobs.c.phase > int(Phase.RUNNING))
        .order_by(t.points.c.seq)
        .limit(MOST_LINES)
    )
)
_KEYS = _some(t.submissions, t.submissions.c.first_row <= bindparam("row"))


def _oldest(table: Table, moment: str) -> Any:
    """DELETE of the oldest lines of a numbered table, with `moment` before `before_s`."""
    first = select(table.c.seq, table.c[moment].label("at_s")).order_by(table.c.seq).limit(MOST_LINES)
    oldest = first.subquery()
    return table.delete().where(
        table.c.seq.in_(select(oldest.c.seq).where(oldest.c.at_s < bindparam("before_s"))),
        table.c.seq < select(func.max(table.c.seq)).scalar_subquery(),
    )


_LINES = {"events": _oldest(t.events, "at_s"), "commands": _oldest(t.commands, "done_s")}


def old_jobs(connection: Connection, before_s: float, keys_s: float) -> Old:
    """Some jobs that ended before `before_s` and were submitted before `keys_s`, and that nothing needs."""
    last = connection.execute(_LAST).scalar_one()
    needed = _named(connection.execute(_WAIT_FOR).scalars())
    candidates = _candidates(connection, {"before_s": before_s, "keys_s": keys_s})
    free = (job for job in candidates if not needed & {job.id, array_of(job.id)})
    jobs = list(islice(free, MOST_JOBS))
    return Old([job.row for job in jobs], sorted({job.spec for job in jobs}), last)


def _candidates(connection: Connection, limits: dict[str, float]) -> Iterator[Any]:
    """Rows, ids and specifications of jobs that are old enough, read page by page."""
    for first in count(0, _PAGE):
        page = connection.execute(_OLD, limits | {"first": first}).all()
        yield from page
        if len(page) < _PAGE:
            return


def drop_jobs(writing: Writing, old: Old) -> bool:
    """Delete some stored rows of these jobs; True once nothing of them is left."""
    rows = {"rows": old.rows}
    new = writing.run("named", _NEW_WAIT_FOR, {"last": old.last}).scalars()
    if _named(new):
        return False  # a new job names one of them: look again
    for name, statement in _OF_JOBS.items():
        if writing.run(f"old {name}", statement, rows).rowcount >= MOST_LINES:
            return False
    writing.run("old jobs", _JOBS, rows)
    writing.run("old specs", _UNUSED, {"specs": old.specs})
    return True


def drop_lines(writing: Writing, name: str, before_s: float) -> int:
    """Delete some of the oldest `events`, or of the oldest `commands` that were done before that moment."""
    return writing.run(f"old {name}", _LINES[name], {"before_s": before_s}).rowcount


def drop_keys(writing: Writing, before_s: float) -> int:
    """Forget some keys of submissions before that moment."""
    row = writing.run("last", _SUBMITTED_BEFORE, {"before_s": before_s}).scalar()
    return 0 if row is None else writing.run("old keys", _KEYS, {"row": row}).rowcount


def count_points(connection: Connection) -> int:
    """Of the curves of all jobs."""
    count: int = connection.execute(select(func.count()).select_from(t.points)).scalar_one()
    return count


def drop_points(writing: Writing) -> int:
    """Delete some of the oldest points of curves of ended jobs; returns their number."""
    return writing.run("old points", _OLD_POINTS).rowcount


def ended(
    connection: Connection, rows: Sequence[int], submit_s: Mapping[int, float], within_s: float
) -> dict[int, float]:
    """See `Store.ended`."""
    last = connection.execute(_LAST).scalar_one()
    asked = [row for row in map(bounded, rows) if 0 <= row <= last]
    c = t.jobs.c
    is_over = _IS_OVER.label("is_over")
    jobs = {
        job.row: job
        for job in connection.execute(select(c.row, c.submit_s, c.finish_s, is_over).where(c.row.in_(asked)))
    }
    over = {
        row: float(job.finish_s)
        for row, job in jobs.items()
        if job.is_over and abs(submit_s.get(row, job.submit_s) - job.submit_s) <= within_s
    }
    return over | dict.fromkeys((row for row in asked if row not in jobs), float("-inf"))


def last_row(connection: Connection) -> int:
    """Row of the newest job; -1 before the first."""
    number: int = connection.execute(_LAST).scalar_one()
    return number


def _named(specs: Iterable[str]) -> set[str]:
    """Ids of the jobs, and numbers of the arrays, that these specifications wait for."""
    return {before["job"] for said in specs for before in json.loads(said)["after"]}
