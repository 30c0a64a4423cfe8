"""From columns to a `Trace`: odd rows counted, rows sorted, wall-clock stamps shifted to start at 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from rota.errors import InputError, brief
from rota.model.calendar import stamp_of
from rota.model.columns import Array, Bools, Floats, read_only
from rota.model.jobs import JobTable, Outcome, RecordedRun, Truth
from rota.model.trace import DROPPED, EXAMPLES, OddRows, Trace
from rota.traces.bad_rows import BadKind, BadRowsError
from rota.traces.table import MOST, TextTable, encode

_MOST_TYPES = 63
"""Number of bits of a mask, without the sign."""


@dataclass
class Oddities:
    """Collects the odd rows of one file, and which of them are left out."""

    table: TextTable
    ids: Sequence[str]
    """Job id of each row; a repeated id gets `~2`, `~3` ... appended, which is noted."""
    noted: list[OddRows] = field(default_factory=list)
    repeats: bool = False
    """True if several rows of one id are normal in this format, and all keep the id."""
    dropped: Bools = field(init=False)

    def __post_init__(self) -> None:
        self.dropped = np.zeros(len(self.table), dtype=np.bool_)
        if self.repeats:
            return
        given = self.ids
        self.ids = unique(given)
        again = np.array([old != new for old, new in zip(given, self.ids, strict=True)], dtype=np.bool_)
        self.note("job id used before", "kept under the id with ~2, ~3 ... appended", again)

    def note(self, what: str, done: str, rows: Array, details: Mapping[int, str] | None = None) -> None:
        """Count the rows marked in the boolean array `rows`, if any; `details` has texts for some, by
        place."""
        at = np.flatnonzero(rows).tolist()
        if at:
            more = {place: f": {detail}" for place, detail in (details or {}).items()}
            examples = tuple(
                f"row {self.table.row[i]} (job {self.ids[i]}{more.get(i, '')})" for i in at[:EXAMPLES]
            )
            self.noted.append(OddRows(what, done, len(at), examples))

    def drop(self, what: str, why: str, rows: Array, details: Mapping[int, str] | None = None) -> None:
        """Count the rows and leave them out of the trace."""
        self.note(what, f"{DROPPED}{why}", rows & ~self.dropped, details)
        self.dropped |= rows

    def check_left(self) -> None:
        """Raise InputError, with the oddities, if no row is left."""
        if self.dropped.all():
            reasons = "; ".join(f"{rows.what} ({rows.count})" for rows in self.noted)
            raise InputError.at(f"no job is left: {reasons}", file=self.table.file, expected="jobs that ran")


def numbered(table: TextTable) -> list[str]:
    """Ids for a format without any: the place in the file from 0, as most simulators count."""
    return [str(i) for i in range(len(table))]


def ids_of(table: TextTable, column: str) -> list[str]:
    """The job ids in `column`; empty ones are an error."""
    cells = table.text(column).str.strip_chars()
    table.reject((cells == "").to_numpy(), column, "the cell is empty", "a job id")
    return cells.to_list()


def unique(ids: Sequence[str]) -> list[str]:
    """`ids` with `~2`, `~3` ... appended to repeated ones; names that already exist are not used."""
    if len(set(ids)) == len(ids):
        return list(ids)
    taken, used, times = set(ids), set[str](), dict.fromkeys(ids, 1)
    names = []
    for id in ids:
        name = id
        while name in used or (name != id and name in taken):
            times[id] += 1
            name = f"{id}~{times[id]}"
        used.add(name)
        names.append(name)
    return names


def finish(
    format: str,
    odd: Oddities,
    *,
    jobs: Mapping[str, Any],
    truth: Truth,
    observed: RecordedRun | None = None,
    facts: Mapping[str, object] | None = None,
    zone: str | None = None,
) -> Trace:
    """The trace of all rows that were not dropped, sorted by submission.

    `jobs` are the arguments of `JobTable.build` without ids. `zone` means that all times are wall-clock
    stamps of that zone, in seconds since 1970; they are then shifted to start at 0. Oddities that any format
    can have (zero duration, zero GPUs, duplicates, order) are noted here.
    """
    last_s = np.full(len(odd.ids), np.nan)
    for row, several in jobs.get("deadlines", {}).items():
        last_s[row] = several[-1].at_s if several else np.nan
    sizes = {"duration_s": truth.duration_s, "held_s": truth.held_s, "the last of deadlines": last_s}
    _check_sizes(odd, {**jobs, **sizes})
    _note_common(odd, np.asarray(jobs["submit_s"]), np.asarray(jobs["gpus"]), truth)
    _note_observed(odd, np.asarray(jobs["submit_s"]), observed)
    odd.check_left()
    trace = Trace(
        jobs=JobTable.build(odd.ids, **jobs),
        truth=truth,
        observed=observed,
        source=odd.table.file,
        format=format,
        odd=tuple(odd.noted),
        facts=dict(facts or {}),
    )
    if odd.dropped.any():
        trace = trace.take(np.flatnonzero(~odd.dropped))
    return (trace if zone is None else _from_zero(trace, zone)).by_submission()


def _from_zero(trace: Trace, zone: str) -> Trace:
    """The trace with wall-clock stamps shifted so that the first submission is at 0."""
    epoch = float(trace.jobs.submit_s.min())
    stamp = stamp_of(datetime.fromtimestamp(epoch, UTC))
    seen = trace.observed
    return replace(
        trace,
        jobs=replace(trace.jobs, submit_s=read_only(trace.jobs.submit_s - epoch)),
        observed=seen and replace(seen, start_s=seen.start_s - epoch, end_s=seen.end_s - epoch),
        facts={**trace.facts, "epoch": stamp, "time_zone": zone},
    )


def _check_sizes(odd: Oddities, columns: Mapping[str, Any]) -> None:
    """Raise BadRowsError for a number too large for a size or moment, such as a product of large cells."""
    for name, values in columns.items():
        if name.endswith("_names") or isinstance(values, Mapping):
            continue
        numbers = np.broadcast_to(np.asarray(values), len(odd.ids))
        huge = np.flatnonzero((np.abs(numbers) > MOST) & ~odd.dropped)  # NaN is not larger
        if len(huge):
            at = int(huge[0])
            comes_to = numbers[at]
            problem = f"{name} of job {brief(odd.ids[at])} comes to {comes_to:g}"
            rows = tuple(odd.table.row[huge].tolist())
            raise BadRowsError.found(odd.table.file, [BadKind(problem, rows, expected=f"at most {MOST}")])


def _note_observed(odd: Oddities, submit_s: Floats, observed: RecordedRun | None) -> None:
    """Count impossible starts and ends; a job that started before its submission waited 0 seconds."""
    if observed is not None:
        kept = ~odd.dropped
        odd.note("recorded start before submission", "kept", kept & (observed.start_s < submit_s))
        odd.note("recorded end before start", "kept", kept & (observed.end_s < observed.start_s))


def _note_common(odd: Oddities, submit_s: Floats, gpus: Array, truth: Truth) -> None:
    kept = ~odd.dropped
    ran = truth.outcome != Outcome.CANCELLED
    odd.note("zero duration", "kept", kept & ran & (truth.duration_s == 0))
    odd.note("no GPU asked for", "kept as CPU jobs", kept & (gpus == 0))
    first = pl.struct(*odd.table.frame.columns).is_first_distinct()
    again = ~odd.table.frame.select(first).to_series().to_numpy()
    odd.note("exact duplicate of an earlier row", "kept", kept & again)
    late = np.concatenate(([False], submit_s[1:] < submit_s[:-1]))
    odd.note("submitted before the row above it", "sorted by submission", kept & late)


def held_since(odd: Oddities, eligible_s: Floats, submit_s: Floats) -> Floats:
    """Seconds from submission until each job became eligible; NaN if unknown."""
    odd.note("eligible before submission", "kept, eligible at once", ~odd.dropped & (eligible_s < submit_s))
    return np.maximum(eligible_s - submit_s, 0.0)


def tenant_paths(table: TextTable, *columns: str) -> dict[str, Any]:
    """The `JobTable` arguments for a tenant whose path is the names in `columns`, widest first."""
    cells = [table.text(column).str.strip_chars() for column in columns]
    for column, names in zip(columns, cells, strict=True):
        table.reject((names == "").to_numpy(), column, "the cell is empty", "a name")
    paths = pl.select(pl.concat_str([pl.lit(names) for names in cells], separator="/")).to_series()
    tenant, tenant_names = encode(paths)
    return {"tenant": tenant, "tenant_names": tenant_names}


def type_masks(
    table: TextTable, column: str, cells: pl.Series | None = None, known: Sequence[str] = ()
) -> dict[str, Any]:
    """The `JobTable` arguments for GPU types written as `A100|V100`; an empty cell means any type.

    `cells` are the cells of `column`, or derived from them.
    """
    cells = table.text(column) if cells is None else cells
    lists = {cell: [name.strip() for name in cell.split("|") if name.strip()] for cell in cells.unique()}
    names = tuple(dict.fromkeys([*known, *sorted({name for listed in lists.values() for name in listed})]))
    bit = {name: 1 << i for i, name in enumerate(names)}
    beyond = {cell for cell, listed in lists.items() if set(names[_MOST_TYPES:]) & set(listed)}
    many = np.array([cell in beyond for cell in cells], dtype=np.bool_)
    problem = f"{{}} is of {len(names)} GPU types that the file names"
    table.reject(many, column, problem, f"at most {_MOST_TYPES}")
    masks = {cell: sum(bit[name] for name in set(listed)) for cell, listed in lists.items()}
    return {"gpu_types": np.array([masks[cell] for cell in cells], dtype=np.int64), "type_names": names}
