"""Moments in a Slurm accounting dump: in one zone, and with starts only for jobs that ran."""

from __future__ import annotations

import polars as pl

from rota.traces.node_list import NOBODY
from rota.traces.table import TextTable, is_blank

STAMPS = ("Submit", "Eligible", "Start", "End")
LOCAL, UTC_ZONE = "local time of the site, zone not recorded", "UTC, from the offsets in the dump"
_OFFSET = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)$"
_UNIX = r"^\d{9,11}$"
_NEVER = r"^(?:1970-01-0[12]|1969-12-31)[T ]"
"""Second 0 in any zone, which some databases write for an unknown moment."""
_ENDED_WAITING = ("CANCELLED", "DEADLINE", "PREEMPTED", "REVOKED")
"""States of jobs that may have ended in the queue; Slurm then records the end as their start as well."""


def plain_moments(table: TextTable) -> tuple[TextTable, str]:
    """`table` with stamps that `TextTable.stamps` reads, all of one zone, and that zone.

    Stamps with an offset (`SLURM_TIME_FORMAT=%FT%T%z`) become UTC. If only some have an offset, BadRowsError
    names those of the rarer kind.
    """
    names = [name for name in STAMPS if table.has(name)]
    cells = {name: table.text(name).str.strip_chars() for name in names}
    cells = {name: cells[name].set(cells[name].str.contains(_NEVER), "") for name in names}
    zoned = {name: cells[name].str.contains(_OFFSET) for name in names}
    in_utc = {name: zoned[name] | cells[name].str.contains(_UNIX) for name in names}
    local = {name: ~in_utc[name].to_numpy() & ~is_blank(cells[name]) for name in names}
    with_offset, without = (sum(int(marks.sum()) for marks in of.values()) for of in (in_utc, local))
    if with_offset >= without:
        for name in names:
            table.reject(local[name], name, "{} has no offset, other moments have", _expected(zoned))
    for name in names if without else ():
        table.reject(
            in_utc[name].to_numpy(), name, "{} has an offset, other moments have none", "local time as there"
        )
    columns = [_utc(cells[name], zoned[name]).alias(name) for name in names]
    plain = TextTable(table.file, table.frame.with_columns(columns), table.row)
    return plain, UTC_ZONE if with_offset and not without else LOCAL


def _expected(zoned: dict[str, pl.Series]) -> str:
    with_offset = any(marks.any() for marks in zoned.values())
    return (
        "YYYY-MM-DDTHH:MM:SS+HH:MM as in the others" if with_offset else "seconds since 1970 as in the others"
    )


def _utc(cells: pl.Series, zoned: pl.Series) -> pl.Series:
    """`cells` with those marked in `zoned` in UTC; invalid dates stay, so that the reader can name them."""
    if not zoned.any():
        return cells
    texts = cells.str.replace("Z$", "+0000").str.replace(r"([+-]\d\d):(\d\d)$", "$1$2").str.replace("T", " ")
    moments = texts.str.to_datetime("%Y-%m-%d %H:%M:%S%z", strict=False, time_zone="UTC")
    utc = moments.dt.strftime("%Y-%m-%d %H:%M:%S")
    return pl.select(pl.when(zoned & utc.is_not_null()).then(utc).otherwise(cells)).to_series()


def without_idle_starts(table: TextTable) -> TextTable:
    """`table` without the starts of jobs that ended while they waited: these have no length and no node."""
    nowhere = pl.Series([True] * len(table))
    for name, nobody in (("NodeList", NOBODY), ("AllocTRES", ("",))):
        if table.has(name):
            nowhere &= table.text(name).str.strip_chars().str.to_lowercase().is_in(list(nobody))
    if not (table.has("NodeList") or table.has("AllocTRES")):
        return table
    states, starts = table.text("State"), table.text("Start")
    words = states.str.strip_chars().str.split(" ").list.first()
    idle = nowhere & words.is_in(list(_ENDED_WAITING)) & (starts == table.text("End"))
    return TextTable(table.file, table.frame.with_columns(starts.set(idle, "")), table.row)
