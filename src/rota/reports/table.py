"""The one way to a table in a file or a text: CSV, Markdown, and columns of letters."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence


def as_csv(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """CSV with a line of `heads`; None is empty, and no spreadsheet takes a text for a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: object) -> object:
    """`value`, its text behind a quote where it begins like a formula; `-` alone is none."""
    if value is None or not isinstance(value, str):
        return "" if value is None else value
    is_formula = value[:1] in ("=", "+", "@", "\t", "\r") or (value.startswith("-") and value != "-")
    return f"'{value}" if is_formula else value


def as_markdown(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table in Markdown; the columns at the places `numbers` are aligned right."""
    rule = "|" + "".join("---:|" if place in numbers else "---|" for place in range(len(heads)))
    lines = [f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def as_columns(lines: Sequence[Sequence[str]]) -> str:
    """Lines of text with their cells below each other, two blanks apart."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "".join(f"{'  '.join(cells).rstrip()}\n" for cells in padded)
