"""New jobs: the request in a specification, and their rows, ids and specifications."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select

from rota.errors import InputError
from rota.model.job_columns import SUBMITTED, Deadline, JobColumn, words_of
from rota.server.store import tables as t
from rota.server.store.database import Writing
from rota.server.store.rows import JobAsked, JobRow, JobState, NewJob
from rota.server.store.stored import INSERT, JOB_NAMES, columns, job_params, job_row
from rota.wire.job import JobSpec, array_indexes
from rota.wire.text import clean

_LAST = select(
    func.coalesce(select(func.max(t.jobs.c.row)).scalar_subquery(), -1).label("job"),
    func.coalesce(select(func.max(t.specs.c.number)).scalar_subquery(), -1).label("spec"),
)
_KNOWN = select(t.submissions.c.digest, t.submissions.c.first_row, t.submissions.c.count).where(
    t.submissions.c.user == bindparam("u"), t.submissions.c.key == bindparam("k")
)
_ROWS = (
    columns(t.jobs, JOB_NAMES)
    .where(t.jobs.c.row >= bindparam("low"), t.jobs.c.row < bindparam("high"))
    .order_by(t.jobs.c.row)
)


def add_jobs(
    writing: Writing,
    epoch_s: float,
    user: str,
    tenant: str,
    jobs: Sequence[NewJob],
    submit_s: float,
    key: str | None,
    account: str,
) -> list[JobRow]:
    """See `Store.add_jobs`."""
    if not jobs:
        return []
    texts = _Texts(jobs)
    user, key = clean(user), None if key is None else clean(key)
    if key is not None and (known := writing.run("known", _KNOWN, {"u": user, "k": key}).first()):
        return _again(writing, known, key, texts.digest)
    last = writing.run("last", _LAST).one()
    first, spec = last.job + 1, last.spec + 1
    rows = _rows(jobs, first, epoch_s, user, tenant, submit_s, account)
    specs = [{"number": spec + i, "text": text} for i, text in enumerate(texts.distinct)]
    writing.run("specs", INSERT["specs"], specs)
    params = [job_params(row, spec + own) for row, own in zip(rows, texts.own, strict=True)]
    writing.run("jobs", INSERT["jobs"], params)
    writing.run("events", INSERT["events"], _event(rows, submit_s))
    if key is not None:
        done = {"user": user, "key": key, "digest": texts.digest, "first_row": first, "count": len(rows)}
        writing.run("submissions", INSERT["submissions"], done)
    return rows


def is_known(connection: Connection, user: str, key: str) -> bool:
    """See `Store.has_submitted`."""
    return connection.execute(_KNOWN, {"u": clean(user), "k": clean(key)}).first() is not None


class _Texts:
    """The specifications as text, each different one once."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        known: dict[int, int] = {}  # by identity: the jobs of an array share one specification
        self.distinct: list[str] = []
        self.own: list[int] = []
        for job in jobs:
            if id(job.spec) not in known:
                known[id(job.spec)] = len(self.distinct)
                self.distinct.append(job.spec.model_dump_json())
            self.own.append(known[id(job.spec)])
        said = repr((self.distinct, self.own, [job.array_index for job in jobs]))
        self.digest = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _rows(
    jobs: Sequence[NewJob], first: int, epoch_s: float, user: str, tenant: str, submit_s: float, account: str
) -> list[JobRow]:
    rows: list[JobRow] = []
    now = JobState()
    wants, of, array_first, most = None, None, 0, 0
    for row, job in enumerate(jobs, start=first):
        if job.spec is not of or wants is None:
            of, wants = job.spec, asked(job.spec, user, tenant, epoch_s)
            array_first, most = row, array_indexes(job.spec.array)[1] if job.spec.array else 0
        if job.array_index is None:
            rows.append(JobRow(row, str(row + 1), user, submit_s, None, None, 0, wants, now, account))
        else:
            name = f"{array_first + 1}_{job.array_index}"
            of_array = array_first, job.array_index, most
            rows.append(JobRow(row, name, user, submit_s, *of_array, wants, now, account))
    return rows


def _again(writing: Writing, known: Row[Any], key: str, digest: str) -> list[JobRow]:
    """The rows that were made when this was asked for the first time."""
    known_digest, first, count = tuple(known)
    if known_digest != digest:
        raise InputError(
            f"key {key!r} was used to submit something else; expected another key for each submission, "
            "or the same submission again"
        )
    between = {"low": first, "high": first + count}
    return [job_row(values) for values in writing.run("again", _ROWS, between)]


def _event(rows: Sequence[JobRow], submit_s: float) -> dict[str, Any]:
    head = rows[0]
    text = f"{len(rows)} jobs" if len(rows) > 1 else head.asked.name
    return {"at_s": submit_s, "who": head.user, "kind": "submit", "job": head.id, "text": text}


def asked(spec: JobSpec, user: str, tenant: str, epoch_s: float) -> JobAsked:
    """`spec`, submitted by `user` of the tenant `tenant`; moments count from `epoch_s` (Unix)."""
    said = {column.name: _value(column, spec) for column in SUBMITTED}
    said["gpus_min"], said["gpus_max"] = spec.range
    said["tenant"] = spec.tenant or tenant
    said["group"] = spec.group or (f"{user}/{spec.name}" if spec.name else user)
    said["workload"] = spec.workload or said["group"]
    said["node_set"] = spec.nodes
    said["gpu_types"] = tuple(spec.gpu_types)
    said["deadlines"] = tuple(Deadline(due.at_s - epoch_s, due.value) for due in spec.deadlines)
    due_s = spec.deadlines[0].at_s if spec.deadline_s is None and spec.deadlines else spec.deadline_s
    said["deadline_s"] = None if due_s is None else due_s - epoch_s
    return JobAsked(name=spec.name, **said)


def _value(column: JobColumn, spec: JobSpec) -> Any:
    """What `spec` says for `column`, with the number of a word."""
    value = getattr(spec, column.spec_field)
    return int(words_of(column.words)[value]) if column.words else value


def jobs_of(spec: JobSpec) -> list[NewJob]:
    """One job, or one for each index of an array; InputError for indexes that make no sense."""
    if not spec.array:
        return [NewJob(spec)]
    try:
        indexes, _ = array_indexes(spec.array)
    except ValueError as error:
        raise InputError(str(error)) from None
    return [NewJob(spec, index) for index in indexes]
