"""Problems with the header of a plain table: unknown names, and what they probably stand for."""

from __future__ import annotations

import re
from collections.abc import Collection

import polars as pl

from rota.errors import InputError, brief
from rota.traces.near_names import near_names, quoted
from rota.traces.table import TextTable

INDEX = ("", "Unnamed: 0", "__index_level_0__", "index")
"""Names that pandas gives to a column of row numbers."""
_OTHER_UNIT = re.compile(r"(?:^|_)(?:h|hrs?|hours?|m|mins?|minutes?|ms|days?)$")
_RESULTS = {
    frozenset({"job", "job_id", "waiting_s", "service_gpu_s"}): "the jobs of a simulation",
    frozenset({"job", "start_s", "end_s", "role", "devices"}): "the intervals of a simulation",
}
"""Columns that occur together only in tables of `rota simulate --out`, and what such a table holds."""


def check_header(table: TextTable, known: Collection[str], required: Collection[str]) -> None:
    """Raise for columns that are not `known`, or if one of `required` is missing."""
    columns = table.frame.columns
    if result := result_of_simulation(table.file, columns):
        raise result
    unknown = [name for name in columns if name not in known]
    if not unknown:
        table.require(*required)
        return
    if len(unknown) == 1 and unknown[0] in INDEX:
        what = f"the header names {brief(unknown[0])}, as pandas calls the index of its rows"
        raise InputError.at(what, file=table.file, expected="the table without it (index=False)")
    what = f"the header names {quoted(unknown)}, which this format does not have"
    near = near_names(unknown, set(known) - set(columns))
    if near:
        meant = ", ".join(f"{column!r} by {brief(name)}" for name, column in near.items())
        meant = meant if len(unknown) > 1 else repr(near[unknown[0]])
        unit = ", in seconds" if any(_OTHER_UNIT.search(name.lower()) for name in near) else ""
        raise InputError.at(f"{what}; did you mean {meant}{unit}?", file=table.file)
    missing = [name for name in required if name not in columns]
    expected = "columns that docs/traces.md lists, such as tenant or deadline_s"
    expected += f" ({quoted(missing)} missing)" if missing else ""
    raise InputError.at(what, file=table.file, expected=expected)


def result_of_simulation(file: str, columns: Collection[str]) -> InputError | None:
    """The error for a file whose `columns` are those of a simulation's result; None for any other."""
    held = next((what for names, what in _RESULTS.items() if names <= set(columns)), "")
    what = f"is a table that `rota simulate --out` wrote, with {held}"
    return InputError.at(what, file=file, expected="the trace that was replayed") if held else None


def check_kinds(file: str, frame: pl.DataFrame) -> None:
    """Raise for a column of Parquet that holds neither numbers nor texts."""
    for name, kind in frame.schema.items():
        if kind.is_nested() or kind in (pl.Duration, pl.Binary, pl.Object):
            raise InputError.at(
                f"it holds values of type {brief(kind).lower()}",
                file=file,
                field=name,
                expected="numbers (of seconds, for times) or texts",
            )
