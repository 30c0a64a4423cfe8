"""Delimited text as columns of cells, and cells as checked numbers: every error names row and column.

All cells are read as text and converted a column at a time. A failed conversion leaves a mark in the column,
from which the first bad row is found and named; so conversion is fast and errors are still precise.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl

from rota.errors import InputError, brief
from rota.model.columns import Array, Bools, Floats, Ints
from rota.model.units import plural
from rota.traces.bad_rows import BadKind, BadRowsError, check_text
from rota.traces.near_names import near_name
from rota.traces.source import TraceSource

BLANKS = ("", "nan", "na", "n/a", "none", "null", "unknown")
"""Words (in lower case) that logs use for unknown values."""

MOST = 2**53
"""Largest whole number accepted; beyond it a float cannot represent every integer."""

_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class TextTable:
    """Rows of text cells, with the line number of each in the file."""

    file: str
    frame: pl.DataFrame
    """One String column per field; an empty cell is the empty string."""
    row: Ints
    """Line number of each row; the first line of the file is 1."""

    def __len__(self) -> int:
        return self.frame.height

    def has(self, name: str) -> bool:
        return name in self.frame.columns

    def first_of(self, *names: str) -> str:
        """The first of `names` that is a column, since variants of a format name some fields differently."""
        column = next((name for name in names if self.has(name)), None)
        if column is None:
            raise self._missing(names[0], names)
        return column

    def require(self, *names: str) -> None:
        """Raise unless all `names` are columns."""
        missing = next((name for name in names if not self.has(name)), None)
        if missing is not None:
            raise self._missing(missing, names)

    def _missing(self, name: str, wanted: Sequence[str]) -> InputError:
        near = near_name(name, self.frame.columns)
        return InputError.at(
            f"the header has no column {name!r}" + (f" (is it {near!r}?)" if near else ""),
            file=self.file,
            expected="a header with " + ", ".join(wanted),
        )

    def text(self, name: str) -> pl.Series:
        """The cells of a column, unchanged."""
        self.require(name)
        return self.frame[name]

    def floats(self, name: str, *, low: float = 0.0, blank: float | None = None) -> Floats:
        """A column of finite numbers, none below `low`; an empty cell becomes `blank`, or is an error."""
        cells = self.text(name).str.strip_chars()
        numbers = np.array(cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy())
        empty = is_blank(cells)
        wanted = "a number" if low == -np.inf else f"a number of at least {low:g}"
        if blank is None:
            self.reject((cells == "").to_numpy(), name, "the cell is empty", wanted)
            self.reject(empty, name, "{} is no number", wanted)
        no_number = ~np.isfinite(numbers) & ~empty
        self.reject(no_number, name, "{} is not a number", wanted + _as_seconds(name, cells, no_number))
        self.reject(np.abs(numbers) > MOST, name, "{} is too large", f"at most {MOST}")
        self.reject((numbers < low) & ~empty, name, f"{{}} is less than {low:g}", wanted)
        numbers[empty] = np.nan if blank is None else blank
        return numbers

    def whole(self, name: str, *, low: int = 0, blank: int | None = None) -> Ints:
        """A column of whole numbers (`8` or `8.0`), checked as `floats` does."""
        numbers = self.floats(name, low=low, blank=blank)
        self.reject(numbers != np.floor(numbers), name, "{} is not a whole number", "a whole number")
        return numbers.astype(np.int64)

    def stamps(self, name: str, *, blank: bool = False) -> Floats:
        """A column of `YYYY-MM-DD HH:MM:SS` (or with T), as seconds since 1970 in the file's own zone.

        Cells of nine or more digits already are such seconds (`SLURM_TIME_FORMAT=%s`). An empty cell (or
        None, Unknown ...) becomes NaN if `blank`, else it is an error.
        """
        cells = self.text(name).str.strip_chars()
        moments = cells.str.replace("T", " ", literal=True).str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)
        unix = cells.str.extract(r"^(\d{9,11})$").cast(pl.Float64)
        seconds = np.array(
            moments.dt.epoch("s").cast(pl.Float64).fill_null(unix).fill_null(np.nan).to_numpy()
        )
        bad = np.isnan(seconds) & ~is_blank(cells) if blank else np.isnan(seconds)
        self.reject(bad, name, "{} is not a date and time", "YYYY-MM-DD HH:MM:SS")
        self.reject(seconds < 0, name, "{} is not a likely date", "a date since 1970")
        return seconds

    def one_of(self, name: str, meanings: Mapping[str, _Value]) -> list[_Value]:
        """A column of words, each replaced by its meaning; case is ignored.

        `""` among the words gives the meaning of an empty cell.
        """
        known = {word.lower(): meaning for word, meaning in meanings.items()}
        cells = self.text(name).str.strip_chars().str.to_lowercase()
        self.reject(
            ~cells.is_in(list(known)).to_numpy(),
            name,
            "{} is not known here",
            "one of " + ", ".join(word for word in meanings if word),
        )
        return [known[word] for word in cells]

    def codes(self, name: str) -> tuple[Array, tuple[str, ...]]:
        """A column of names as codes (-1 where empty) and the names, in order of appearance.

        Blanks around a name are removed, since profiles list it without.
        """
        return encode(self.text(name).str.strip_chars())

    def reject(self, bad: Bools, name: str, problem: str, expected: str) -> None:
        """Raise BadRowsError for the rows marked in `bad`; `{}` in `problem` becomes the first one's cell."""
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            problem = problem.format(brief(self.frame[name][at])) if self.has(name) else problem
            rows = tuple(self.row[bad].tolist())
            raise BadRowsError.found(self.file, [BadKind(problem, rows, name, expected)])

    def rows(self, at: Ints) -> TextTable:
        """The table of the rows `at`, in that order."""
        return TextTable(self.file, self.frame[at], self.row[at])

    def take(self, keep: Bools) -> TextTable:
        """The table of the rows marked in `keep`."""
        return TextTable(self.file, self.frame.filter(pl.Series(keep)), self.row[keep])


def _as_seconds(name: str, cells: pl.Series, bad: Bools) -> str:
    """A hint for a column of seconds whose first `bad` cell is a date or a clock time."""
    cell = cells[int(np.flatnonzero(bad)[0])] if bad.any() and name.endswith("_s") else ""
    if _DATE.match(cell):
        return ": seconds from any origin, such as Unix time"
    return ": seconds" if ":" in cell else ""


def reject_twice(table: TextTable, name: str, cells: pl.Series) -> None:
    """Raise for the first cell, derived from the column `name`, that repeats an earlier one."""
    again = (~cells.is_first_distinct()).to_numpy()
    table.reject(again, name, "{} stands there twice", "each name once")


def is_blank(cells: pl.Series) -> Bools:
    """Which cells are empty, or hold a word for unknown."""
    return cells.str.to_lowercase().is_in(list(BLANKS)).to_numpy()


def encode(names: pl.Series, known: Sequence[str] = ()) -> tuple[Array, tuple[str, ...]]:
    """Codes of `names` (-1 where empty) and the tuple they index, which starts with `known`."""
    present = [name for name in names.unique(maintain_order=True) if name]
    table = tuple(dict.fromkeys([*known, *present]))
    code = {name: i for i, name in enumerate(table)}
    codes = (
        names.replace_strict({**code, "": -1}, return_dtype=pl.Int32) if len(names) else names.cast(pl.Int32)
    )
    return codes.to_numpy(), table


def read_table(
    source: TraceSource,
    names: Sequence[str] | None = None,
    *,
    separator: str = ",",
    quoted: bool = True,
    skip: int = 0,
    noun: str = "job",
) -> TextTable:
    """The rows of delimited text after `skip` lines, without blank lines.

    `names` are the columns of a file without header. `quoted` says whether double quotes have the meaning
    they have in CSV; `noun` is what a row represents, for messages.
    """
    check_text(source)
    read = _read_quoted if quoted and b'"' in source.data else _read_lines
    table = read(source, names, separator, skip)
    if not len(table):
        raise InputError.at(f"there is no {noun} in it", file=source.file, expected=f"one line per {noun}")
    return table


def _read_lines(source: TraceSource, names: Sequence[str] | None, separator: str, skip: int) -> TextTable:
    """Read text without quotes: count the separators of each line, then let polars split all lines."""
    lines = source.data.split(b"\n")
    rows = [
        row for row, line in enumerate(lines, 1) if row > skip and line.strip() and row not in source.left_out
    ]
    is_headed = names is None
    if names is None:
        names = _column_names(source, rows[0], lines[rows[0] - 1].decode().split(separator))
        rows = rows[1:]
    mark = separator.encode()
    counts = [lines[row - 1].count(mark) + 1 for row in rows]
    ragged = [(row, fields) for row, fields in zip(rows, counts, strict=True) if fields != len(names)]
    if ragged:
        raise BadRowsError.found(source.file, _ragged(ragged, names, is_headed))
    frame = (
        pl.read_csv(
            b"\n".join([lines[row - 1] for row in rows]),
            has_header=False,
            new_columns=list(names),
            separator=separator,
            quote_char=None,
            infer_schema=False,
        ).fill_null("")
        if rows
        else pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    )
    return TextTable(source.file, frame, np.array(rows, dtype=np.int64))


def _read_quoted(source: TraceSource, names: Sequence[str] | None, separator: str, skip: int) -> TextTable:
    """Read text with quotes, which may enclose separators and even line ends, record by record."""
    rows: list[int] = []
    records: list[list[str]] = []
    ragged: list[tuple[int, int]] = []
    unclosed: list[int] = []
    closed_early: list[int] = []
    is_headed = names is None
    for row, record in _records(source, separator, skip, len(names) if names else None):
        if isinstance(record, csv.Error):
            (closed_early if "expected after" in str(record) else unclosed).append(row)
        elif names is None:
            names = _column_names(source, row, record)
        elif len(record) != len(names):
            ragged.append((row, len(record)))
        else:
            rows.append(row)
            records.append(record)
    kinds = _ragged(ragged, names or (), is_headed)
    if unclosed:
        kinds.append(BadKind("a quote is not closed", tuple(unclosed), expected='a second "'))
    if closed_early:
        expected = f"{separator!r} behind it, and each quote in a cell twice"
        early = "a quote is closed before the cell ends"
        kinds.append(BadKind(early, tuple(closed_early), expected=expected))
    if kinds:
        raise BadRowsError.found(source.file, kinds)
    frame = pl.DataFrame(records, schema=dict.fromkeys(names or (), pl.String), orient="row")
    return TextTable(source.file, frame, np.array(rows, dtype=np.int64))


def _records(
    source: TraceSource, separator: str, skip: int, width: int | None
) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """The cells of each record after `skip` lines, with the line it starts in, without blank records.

    A record whose quotes do not close gives an error. After it, and after a record over several lines that
    does not have `width` cells (by default as many as the first record), the next record begins one line
    later, so that an open quote does not swallow the rows below it.
    """
    lines = source.data.decode().split("\n")
    at = skip
    while at < len(lines):
        first = at
        reader = csv.reader(
            (f"{lines[i]}\n" for i in range(first, len(lines))), delimiter=separator, strict=True
        )
        try:
            for record in reader:
                row, end = at + 1, first + reader.line_num
                width = width or len(record)
                is_torn = end > row and len(record) != width
                if row not in source.left_out and any(cell.strip() for cell in record):
                    yield row, record
                at = row if is_torn else end
                if is_torn:
                    break
        except csv.Error as error:
            if at + 1 not in source.left_out:
                yield at + 1, error
            at += 1


def _column_names(source: TraceSource, row: int, cells: Sequence[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise InputError.at(f"two columns are called {brief(twice)}", file=source.file, row=row)
    return names


def _ragged(lines: Sequence[tuple[int, int]], names: Sequence[str], is_headed: bool) -> list[BadKind]:
    """Lines whose number of fields is not that of `names`; one kind for each number."""
    expected = f"{len(names)}, as many as the header" if is_headed else f"{len(names)} ({', '.join(names)})"
    rows: dict[int, list[int]] = {}
    for row, fields in lines:
        rows.setdefault(fields, []).append(row)
    return [
        BadKind(f"the line has {plural(fields, 'field')}", tuple(own), expected=expected)
        for fields, own in rows.items()
    ]
