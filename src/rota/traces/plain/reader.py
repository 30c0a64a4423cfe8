"""Rota's own format: one row per job, CSV or Parquet, columns named as in `JobTable` and `Truth`.

Columns   required: submit_s, gpus, duration_s (s alone at the requested GPUs; empty if a table gives it)
          optional: every other column of a job (`rota.model.job_columns`; tenant, group and workload by
          name, gpu_types or gpu_type as A100|V100, deadlines as 3600=10;7200=4, members by name),
          job_id, iterations, outcome (COMPLETED, FAILED, CANCELLED, PREEMPTED), failures_s (run times of
          failed attempts, joined by ;), interrupted_s (of attempts that the site ended, as
          3600=preempted;60=requeued), signatures (what they failed of, joined by ;), held_s (from submission
          until it was eligible to start, under any scheduler),
          start_s and end_s (observed; where there is no end_s: start_s + duration_s), ran_on (names of
          its nodes, joined by |), ran_type (of its GPUs),
          array (it is a task of) and exit (how it ended: exit 1, signal 9)
Units     as the names say
Times     kept as they are: seconds from any origin; where all have ten digits they are Unix time, so that
          their dates are known
Beside    what has no column (facts, oddities, names not in use) is in `FILE.rota.json` next to a CSV,
          with the digest of the rows it belongs to, or under the key `rota` in the metadata of a Parquet
          file; both may be absent.  Older files have it in a first line `#rota {...}`
Odd       a column that is not listed here is an error, so that a typing error is noticed
Handling  zero durations, zero GPUs, duplicates and disorder are counted and kept
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import IntEnum
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rota.errors import InputError
from rota.model.calendar import epoch_of, stamp_of
from rota.model.columns import Array, Floats
from rota.model.job_columns import CODED, COLUMN, EVEN, Deadline, JobColumn
from rota.model.jobs import JobPart, Outcome, Truth
from rota.model.once import json_once
from rota.model.parquet import DamagedParquet, damage_told
from rota.model.trace import OddRows, Trace
from rota.traces.build import Oddities, finish, ids_of, numbered, type_masks
from rota.traces.plain.after import after_of
from rota.traces.plain.header import check_header, check_kinds
from rota.traces.plain.recorded import filled, recorded
from rota.traces.registry import trace_format
from rota.traces.source import TraceSource
from rota.traces.table import MOST, TextTable, encode, read_table

REQUIRED = ("submit_s", "gpus", "duration_s")
OTHERS = (
    "job_id",
    "gpu_type",
    "iterations",
    "outcome",
    "failures_s",
    "signatures",
    "held_s",
    "start_s",
    "end_s",
    "ran_on",
    "ran_type",
    "array",
    "exit",
    "interrupted_s",
)
"""Columns of the format in addition to those of a job."""
_FIRST_UNIX_S = 1e9
"""Smallest number of seconds (in 2001) that is taken for Unix time, not for seconds from a log's start."""
_LAST_UNIX_S = 1e11
"""Largest number of seconds that is taken for Unix time; larger ones are probably milliseconds or finer."""
_HEAD = "#rota "
_BESIDE = ".rota.json"


def beside(file: str | PathLike[str]) -> Path:
    """Path of the file next to the CSV `file` that holds what has no column."""
    return Path(f"{file}{_BESIDE}")


def digest(data: bytes) -> str:
    """Digest of the decompressed content of a CSV."""
    return hashlib.sha256(data).hexdigest()


def _matches(source: TraceSource) -> bool:
    return source.is_parquet or _has_head(source) or {"submit_s", "gpus"} <= set(source.header())


def _has_head(source: TraceSource) -> bool:
    return source.data.startswith(_HEAD.encode())


@trace_format(
    "plain",
    description="Rota's own table of jobs, CSV or Parquet",
    recognised="Parquet, or a header with submit_s and gpus",
    matches=_matches,
    example="job_id,submit_s,gpus,duration_s,tenant,deadline_s\nj1,0,2,600,vision/ann,900\n",
)
def read(source: TraceSource) -> Trace:
    table, head = _parquet(source) if source.is_parquet else _csv(source)
    check_header(table, {*COLUMN, *OTHERS, *REQUIRED}, REQUIRED)
    odd = Oddities(table, ids_of(table, "job_id") if table.has("job_id") else numbered(table))
    if head.is_of_others:
        what = f"{beside(source.file).name} beside it describes other rows"
        odd.noted.append(OddRows(what, "left out: the file was changed after it was written", 1))
    numbers = _numbers(table)
    late = numbers["submit_s"] > _LAST_UNIX_S
    odd.note("submitted after the year 5000, if by Unix time", "kept: milliseconds must be divided", late)
    truth = _truth(table)
    trace = finish(
        "plain",
        odd,
        jobs={
            **numbers,
            **_named(table, head.names),
            "deadlines": _deadlines(table),
            "after": after_of(table, odd.ids),
            "parts": _parts(table),
        },
        truth=truth,
        observed=recorded(table, truth),
        facts=_calendar(numbers["submit_s"]) if head.odd is None else head.facts,
    )
    return trace if head.odd is None else replace(trace, odd=head.odd)


def _calendar(submit_s: Floats) -> dict[str, object]:
    """The moment of second 0, if the seconds of all jobs can only be Unix time."""
    is_unix = len(submit_s) > 0 and ((submit_s >= _FIRST_UNIX_S) & (submit_s <= _LAST_UNIX_S)).all()
    return {"epoch": stamp_of(datetime.fromtimestamp(0, UTC)), "time_zone": "UTC"} if is_unix else {}


@dataclass(frozen=True)
class _Head:
    """What a plain file holds in addition to its columns."""

    facts: dict[str, object] = field(default_factory=dict)
    odd: tuple[OddRows, ...] | None = None
    """Oddities of the file that the trace came from; None if this is the first file."""
    names: dict[str, list[str]] = field(default_factory=dict)
    is_of_others: bool = False
    """True if the file next to it was written for other rows, and was therefore ignored."""


def _csv(source: TraceSource) -> tuple[TextTable, _Head]:
    if _has_head(source):
        first = source.data.split(b"\n", 1)[0].decode()
        return read_table(source, skip=1), _head(source.file, first.removeprefix(_HEAD), row=1)
    return read_table(source), _described(source)


def _described(source: TraceSource) -> _Head:
    """Contents of the file next to `source`, if it exists and was written for exactly these rows."""
    file = beside(source.file)
    try:
        text = file.read_bytes().decode()
        is_of_these = json.loads(text)["of"] == digest(source.data)
    except FileNotFoundError:
        return _Head()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError.at(
            "is not as Rota writes it", file=file, expected=f"what describes {source.file}, or no such file"
        ) from None
    return _head(str(file), text) if is_of_these else _Head(is_of_others=True)


def _parquet(source: TraceSource) -> tuple[TextTable, _Head]:
    try:
        with damage_told():
            frame = pl.read_parquet(io.BytesIO(source.data))
            head = pl.read_parquet_metadata(io.BytesIO(source.data)).get("rota", "{}")
            check_kinds(source.file, frame)
            cells = frame.select(pl.all().cast(pl.String).fill_null(""))
    except DamagedParquet as error:
        problem = f"cannot be read as Parquet ({error})"
        raise InputError.at(problem, file=source.file, expected="a table of numbers and texts") from None
    if not frame.height:
        raise InputError.at("there is no job in it", file=source.file, expected="one row per job")
    table = TextTable(source.file, cells, np.arange(1, frame.height + 1))
    kept = ~np.isin(table.row, list(source.left_out))
    return table.take(kept), _head(source.file, head)


def _head(file: str, text: str, row: int | None = None) -> _Head:
    try:
        given = json.loads(text)
        json.dumps(given, ensure_ascii=False).encode()  # ValueError if a name has half of a surrogate pair
        odd, facts = given.get("odd"), dict(given.get("facts", {}))
        epoch_of(facts)  # ValueError if it is not a moment
        return _Head(
            facts=facts,
            odd=odd if odd is None else tuple(map(_odd_rows, odd)),
            names={name: [str(text) for text in names] for name, names in given.get("names", {}).items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise InputError.at(
            "what stands there beside the columns is not as Rota writes it",
            file=file,
            row=row,
            expected="JSON with facts, odd and names, or nothing",
        ) from None


def _odd_rows(said: dict[str, Any]) -> OddRows:
    """One entry about odd rows; TypeError if it is invalid."""
    rows = OddRows(**said | {"examples": tuple(said["examples"])})
    texts = (rows.what, rows.done, *rows.examples)
    if not (isinstance(rows.count, int) and all(isinstance(text, str) for text in texts)):
        raise TypeError("no oddity")
    return rows


def _numbers(table: TextTable) -> dict[str, Array]:
    """The columns of numbers, members and yes/no in the file, checked one by one and together."""
    columns = {
        column.name: _column(table, column)
        for column in EVEN
        if table.has(column.name) and column.name not in (*CODED, "gpu_types")
    }
    _check_sizes(table, columns)
    return columns


def _column(table: TextTable, column: JobColumn) -> Array:
    """One column of numbers or words; an empty cell gives the default, if there is one."""
    name, default = column.name, column.default
    if column.words:
        return _members(table, name, column.words)
    if column.dtype == "bool":
        yes_no = {"true": True, "false": False, "1": True, "0": False, "": default}
        return np.array(table.one_of(name, yes_no))
    if column.dtype == "float64":
        return table.floats(name, low=column.least, blank=default)
    if isinstance(default, str):
        given = table.whole(name, blank=-1)
        return np.where(given < 0, table.whole(default), given)
    return table.whole(name, low=int(column.least), blank=default)


def _members(table: TextTable, name: str, kind: type[IntEnum]) -> Array:
    """A column of members by name; an empty cell is the first member."""
    return np.array(table.one_of(name, {**{member.name: int(member) for member in kind}, "": 0}))


def _check_sizes(table: TextTable, columns: dict[str, Array]) -> None:
    """Raise where the GPU columns of one row contradict each other."""
    gpus, ones = columns["gpus"], np.ones(len(table))
    share = columns.get("gpu_share", ones)
    table.reject((share <= 0) | (share > 1), "gpu_share", "{} is not a share", "more than 0, at most 1")
    table.reject((share < 1) & (gpus < 1), "gpu_share", "{} of no GPU", "1, or gpus of at least 1")
    least, most = columns.get("gpus_min", gpus), columns.get("gpus_max", gpus)
    table.reject(least > gpus, "gpus_min", "{} is more than gpus", "at most gpus")
    table.reject(most < gpus, "gpus_max", "{} is less than gpus", "at least gpus")
    elastic = (share < 1) & (least < most)
    table.reject(elastic, "gpu_share", "{} of a number of GPUs that may change", "1, or gpus alone")
    if "batch_min" in columns and "batch_max" in columns:
        crossed = columns["batch_min"] > columns["batch_max"]
        table.reject(crossed, "batch_min", "{} is more than batch_max", "at most batch_max")


def _named(table: TextTable, known: dict[str, list[str]]) -> dict[str, Any]:
    """Codes and names of tenants, groups, workloads and GPU types; the head gives names not in use."""
    columns: dict[str, Any] = {}
    for name in CODED:
        names = known.get(name, ["default"] if name == "tenant" else [])
        cells = table.text(name) if table.has(name) else pl.Series([""] * len(table), dtype=pl.String)
        if name == "tenant":
            cells = cells.replace("", names[0] if names else "default")
        columns[name], columns[f"{name}_names"] = encode(cells, names)
    types = next((name for name in ("gpu_types", "gpu_type") if table.has(name)), None)
    cells = table.text(types) if types else pl.Series([""] * len(table), dtype=pl.String)
    return columns | type_masks(table, types or "gpu_types", cells, known.get("type", []))


def _truth(table: TextTable) -> Truth:
    outcome = _members(table, "outcome", Outcome) if table.has("outcome") else Outcome.COMPLETED
    runs = table.text("failures_s").to_list() if table.has("failures_s") else []
    failures = {row: _run_times(cell) for row, cell in enumerate(runs) if cell}
    bad = np.array([row in failures and not failures[row] for row in range(len(table))])
    table.reject(bad, "failures_s", "{} is not a list of run times", "seconds joined by ;")
    iterations = table.floats("iterations", blank=np.nan) if table.has("iterations") else np.nan
    duration_s = table.floats("duration_s", blank=np.nan)
    held_s = table.floats("held_s", blank=np.nan) if table.has("held_s") else np.nan
    return Truth.build(
        duration_s,
        iterations=iterations,
        outcome=outcome,
        held_s=held_s,
        failures=failures,
        signatures={row: tuple(cell.split(";")) for row, cell in filled(table, "signatures")},
    )


def _run_times(cell: str) -> tuple[float, ...]:
    """Numbers joined by `;`; empty if one is not a run time."""
    try:
        times = tuple(float(part) for part in cell.split(";"))
    except ValueError:
        return ()
    return times if all(0 <= time <= MOST for time in times) else ()


def _deadlines(table: TextTable) -> dict[int, tuple[Deadline, ...]]:
    """Moments and values of deadlines, for the rows that have some."""
    if not table.has("deadlines"):
        return {}
    cells = table.text("deadlines")
    several = {row: _deadline_list(cell) for row, cell in enumerate(cells) if cell}
    bad = np.array([row in several and not several[row] for row in range(len(table))])
    table.reject(bad, "deadlines", "{} is no list of deadlines", "MOMENT=VALUE joined by ;, in their order")
    return several


def _deadline_list(cell: str) -> tuple[Deadline, ...]:
    """The deadlines in `3600=10;7200=4`; empty if it is not such a list."""
    pairs = [part.partition("=") for part in cell.split(";")]
    try:
        several = tuple(Deadline(float(at_s), float(value)) for at_s, _, value in pairs)
    except ValueError:
        return ()
    are_sizes = all(abs(at_s) <= MOST and abs(value) <= MOST for at_s, value in several)
    return several if are_sizes and all(a.at_s <= b.at_s for a, b in pairwise(several)) else ()


def _parts(table: TextTable) -> dict[int, tuple[JobPart, ...]]:
    """Uneven tasks, for the rows that have them."""
    if not table.has("parts"):
        return {}
    cells = table.text("parts")
    parts = {row: _part_list(cell) for row, cell in enumerate(cells) if cell}
    bad = np.array([row in parts and not parts[row] for row in range(len(table))])
    table.reject(bad, "parts", "{} does not list tasks", '[{"tasks": 1, "gpus": 4}, ...]')
    return parts


def _part_list(cell: str) -> tuple[JobPart, ...]:
    """The tasks in a cell of JSON; empty if it is not such a list."""
    try:
        parts = tuple(JobPart(**part) for part in json_once(cell, "parts"))
    except (TypeError, ValueError, RecursionError, InputError):
        return ()
    return parts if all(map(_is_part, parts)) else ()


def _is_part(part: JobPart) -> bool:
    """Whether the numbers and the text of `part` have the right types."""
    counts, amounts = (part.tasks, part.gpus), (part.cpus, part.memory_gib)
    return (
        all(isinstance(count, int) and not isinstance(count, bool) and count <= MOST for count in counts)
        and all(isinstance(amount, int | float) and not isinstance(amount, bool) for amount in amounts)
        and all(0 <= amount <= MOST for amount in amounts)
        and part.tasks >= 1
        and part.gpus >= 0
        and isinstance(part.role, str)
    )
