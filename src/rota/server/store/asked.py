"""What a specification asks for: its jobs, and each of them as the columns of the scheduler's table."""

from __future__ import annotations

from typing import Any

from rota.errors import InputError
from rota.model.job_columns import SUBMITTED, Deadline, JobColumn, words_of
from rota.server.store.rows import JobAsked, NewJob
from rota.wire.job import JobSpec, array_indexes


def asked(spec: JobSpec, user: str, tenant: str, epoch_s: float) -> JobAsked:
    """`spec`, submitted by `user` whose own tenant is `tenant`; moments count from `epoch_s` (Unix)."""
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
