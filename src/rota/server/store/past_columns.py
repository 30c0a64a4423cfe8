"""The whole past as columns: hundreds of thousands of jobs without an object for each.

It is read in pieces, each of them released before the next, so that neither the garbage collector nor the
interpreter's lock keeps other threads waiting for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Select, and_, or_, select

from rota.model.columns import Array, Floats
from rota.server.store import tables as t
from rota.server.store.rows import IntervalRow, JobRow
from rota.wire.job import JobSpec

PIECE = 1000
"""Rows read together."""


@dataclass(frozen=True)
class PastJobColumns:
    """Jobs, ascending by row: columns of one length."""

    row: Array
    user: Sequence[str]
    tenant: Sequence[str]
    group: Sequence[str]
    workload: Sequence[str]
    node_set: Sequence[str]
    state: Sequence[str]
    phase: Array
    gpus: Array
    gpu_share: Floats
    submit_s: Floats
    first_start_s: Floats
    """NaN before the first start."""
    since_s: Floats
    adjusted_s: Floats
    finish_s: Floats
    """NaN while it is not over."""


@dataclass(frozen=True)
class PastIntervalColumns:
    """Stretches in which holdings did not change, ascending by row and time: columns of one length."""

    row: Array
    attempt: Array
    start_s: Floats
    end_s: Floats
    share: Floats
    lost_work_s: Floats
    devices: Sequence[str]
    """Their numbers as JSON; equal texts are one object."""
    how: Sequence[str]


@dataclass(frozen=True)
class PastColumns:
    """The holdings of jobs in a stretch of time, as of one moment."""

    jobs: PastJobColumns
    intervals: PastIntervalColumns


@dataclass(frozen=True, slots=True)
class HistoryWindow:
    """The jobs that lived in a window of time, for their export."""

    jobs: Sequence[JobRow]
    """Without their holds, capabilities and measurements."""
    intervals: Sequence[IntervalRow]
    """All intervals of jobs with an attempt that came to nothing."""
    specs: Mapping[int, JobSpec]
    """Of those that were to run after others, or not before a moment, by row."""


_JOB_NAMES = tuple(PastJobColumns.__dataclass_fields__)
_INTERVAL_NAMES = tuple(PastIntervalColumns.__dataclass_fields__)
_TEXTS = frozenset({"user", "tenant", "group", "workload", "node_set", "state", "devices", "how"})
_NUMBERS = frozenset({"row", "attempt", "phase", "gpus"})


def lived(since_s: float, until_s: float) -> ColumnElement[bool]:
    """Jobs that were submitted before `until_s` and not over before `since_s`."""
    c = t.jobs.c
    return and_(c.submit_s < until_s, or_(c.finish_s.is_(None), c.finish_s >= since_s))


def past_columns(connection: Connection, since_s: float, until_s: float) -> PastColumns:
    """See `Store.past_columns`."""
    jobs, intervals, then = t.jobs, t.intervals, lived(since_s, until_s)
    asked = select(*(jobs.c[name] for name in _JOB_NAMES)).where(then).order_by(jobs.c.row)
    held = select(*(intervals.c[name] for name in _INTERVAL_NAMES)).join_from(intervals, jobs).where(then)
    return PastColumns(
        PastJobColumns(**_columns(connection, asked, _JOB_NAMES)),
        PastIntervalColumns(
            **_columns(connection, held.order_by(intervals.c.row, intervals.c.seq), _INTERVAL_NAMES)
        ),
    )


def _columns(connection: Connection, statement: Select[Any], names: Sequence[str]) -> dict[str, Any]:
    """What `statement` finds, by column."""
    pieces: dict[str, list[Any]] = {name: [] for name in names}
    same: dict[str, str] = {}
    for part in connection.execute(statement).partitions(PIECE):
        for name, values in zip(names, zip(*part, strict=True), strict=True):
            pieces[name].append(_piece(name, values, same))
    return {name: _joined(name, pieces[name]) for name in names}


def _piece(name: str, values: Iterable[Any], same: dict[str, str]) -> Any:
    if name in _TEXTS:
        return [same.setdefault(text, text) for text in values]
    return np.array(values, dtype=np.int64 if name in _NUMBERS else np.float64)


def _joined(name: str, pieces: Sequence[Any]) -> Any:
    if name in _TEXTS:
        return [text for piece in pieces for text in piece]
    return np.concatenate([np.empty(0, np.int64 if name in _NUMBERS else np.float64), *pieces])
