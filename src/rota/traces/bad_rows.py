"""Rows that cannot be read: named, counted and left out, so that the rest of the file can be used.

A reader raises `BadRowsError` with all bad rows of one kind at once; `leaving_out` then reads again without
them, as if they were not in the file. A file is refused if half of its rows cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from rota.errors import InputError
from rota.model.trace import DROPPED, EXAMPLES, OddRows, Trace
from rota.model.units import plural
from rota.traces.source import TEXT, TraceSource

_Entry = TypeVar("_Entry")
_Read = TypeVar("_Read")
_TOO_MANY = 0.5
"""Share of bad rows from which a file is refused: it is probably not in this format."""


@dataclass(frozen=True)
class BadKind:
    """Rows with the same kind of problem."""

    problem: str
    """The problem, with the text of the first of these rows."""
    rows: tuple[int, ...]
    """Row numbers as the reader counts them: lines of a text, entries of a list."""
    field: str | None = None
    expected: str | None = None

    def noted(self, noun: str) -> OddRows:
        """The entry of `Trace.odd` that counts them."""
        what = f"{self.field}: {self.problem}" if self.field else self.problem
        examples = tuple(f"{noun} {row}" for row in self.rows[:EXAMPLES])
        done = f"{DROPPED}expected {self.expected}" if self.expected else f"{DROPPED}it cannot be read"
        return OddRows(what, done, len(self.rows), examples)


class BadRowsError(InputError):
    """Rows of a file that violate its format; the sentence names the first."""

    kinds: tuple[BadKind, ...] = ()
    of: int | None = None
    """Number of rows in the file, if that is not its number of lines."""
    noun: str = "row"

    @classmethod
    def found(cls, file: str, kinds: Sequence[BadKind]) -> BadRowsError:
        """The error for `kinds`, of rows that are lines of `file`."""
        first = min(kinds, key=lambda kind: kind.rows[0])
        sentence = InputError.at(
            first.problem, file=file, row=first.rows[0], field=first.field, expected=first.expected
        )
        error = cls(str(sentence))
        error.kinds = tuple(kinds)
        return error


def check_text(source: TraceSource) -> None:
    """Raise BadRowsError for lines of `source` that are not UTF-8 and not yet left out."""
    kinds: dict[str, tuple[int, ...]] = {}
    for row, what in source.garbled.items():
        if row not in source.left_out:
            kinds[what] = (*kinds.get(what, ()), row)
    if kinds:
        raise BadRowsError.found(
            source.file, [BadKind(what, rows, expected=TEXT) for what, rows in kinds.items()]
        )


class BadEntryError(InputError):
    """One entry of a list violates its format; `collected` combines these into a `BadRowsError`."""

    kind: BadKind

    @classmethod
    def found(
        cls,
        file: str,
        row: int,
        problem: str,
        *,
        field: str | None = None,
        expected: str,
        says_row: bool = True,
    ) -> BadEntryError:
        """The error for the entry `row`; with `says_row` its sentence names the row, as users count."""
        named = row if says_row else None
        error = cls(str(InputError.at(problem, file=file, row=named, field=field, expected=expected)))
        error.kind = BadKind(problem, (row,), field, expected)
        return error

    def with_rows(self, others: Iterable[int]) -> BadEntryError:
        """A copy of this error that leaves out the rows `others` as well."""
        self.kind = replace(self.kind, rows=tuple(dict.fromkeys((*self.kind.rows, *others))))
        return self


def collected(
    entries: Iterable[_Entry], read: Callable[[_Entry], _Read], of: int | None = None, noun: str = "row"
) -> list[_Read]:
    """The result of `read` for each entry.

    Raises BadRowsError, for a file of `of` rows, with all entries for which `read` raises BadEntryError.
    """
    results: list[_Read] = []
    wrong: list[BadEntryError] = []
    for entry in entries:
        try:
            results.append(read(entry))
        except BadEntryError as error:
            wrong.append(error)
    if wrong:
        raise _together(wrong, of, noun)
    return results


def _together(wrong: Sequence[BadEntryError], of: int | None, noun: str) -> BadRowsError:
    kinds: dict[tuple[str | None, str | None], BadKind] = {}
    for error in wrong:
        own = error.kind
        known = kinds.get((own.field, own.expected), replace(own, rows=()))
        kinds[own.field, own.expected] = replace(known, rows=tuple(dict.fromkeys(known.rows + own.rows)))
    together = BadRowsError(str(wrong[0]))
    together.kinds, together.of, together.noun = tuple(kinds.values()), of, noun
    return together


def leaving_out(read: Callable[[TraceSource], Trace]) -> Callable[[TraceSource], Trace]:
    """Wrap the reader `read`, so that it leaves out rows it cannot read and counts them first in `Trace.odd`.

    The wrapped reader raises InputError, with the first of them, if half or more of the rows cannot be read.
    """

    def reading(source: TraceSource) -> Trace:
        noted: list[OddRows] = []
        while True:
            try:
                trace = read(source)
            except BadRowsError as error:
                rows = {row for kind in error.kinds for row in kind.rows}
                source = replace(source, left_out=source.left_out | rows)
                noted += [kind.noted(error.noun) for kind in error.kinds]
                _check_enough(error, source, len(rows))
            else:
                return replace(trace, odd=(*noted, *trace.odd)) if noted else trace

    return reading


def _check_enough(error: BadRowsError, source: TraceSource, new: int) -> None:
    """Raise `error`, which reports `new` bad rows, if too few rows are left."""
    bad, of = len(source.left_out), error.of or source.rows
    if not new or bad >= _TOO_MANY * of:
        if bad == 1:
            raise error
        raise InputError(
            f"{error}; {bad:,} of {plural(of, error.noun)} cannot be read, too many to leave out"
        )
