"""Jobs that have not ended in few words: what a list of thousands is sifted and sorted by."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, select

from rota.server.store import tables as t
from rota.server.store.forms import bounded
from rota.server.store.reading import LIVE_ROWS, SOME


class JobLine(NamedTuple):
    """One job."""

    row: int
    id: str
    name: str
    user: str
    tenant: str
    state: str
    reason: str
    """What the store knows of why it waits: `Held`, or nothing."""


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
