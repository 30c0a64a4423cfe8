"""The one way to a terminal: sentences, tables and titles of a report as text of a given width."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from io import StringIO
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rota.reports.finding import DataTable, TableCell, TableRow

GAP = 2
"""Blanks between two columns."""
Shows = Callable[[Console], None]


def as_text(shows: Shows, width: int) -> str:
    """What `shows` prints, without colour, in lines of at most `width` characters."""
    out = StringIO()
    shows(Console(file=out, width=width, force_terminal=False, no_color=True, legacy_windows=False))
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def say(
    screen: Console,
    sentence: str = "",
    style: str = "",
    first: str = "",
    rest: str = "",
    *,
    wraps: bool = True,
) -> None:
    """One paragraph, or an empty line; `first` and `rest` stand before its first line and the others.

    Without `wraps`, for text to type or copy, it stays one line, however long.
    """
    if not (first or rest):
        screen.print(sentence, style=style, markup=False, highlight=False, soft_wrap=not wraps)
        return
    wrapped = textwrap.wrap(sentence, screen.width, initial_indent=first, subsequent_indent=rest)
    for line in wrapped or [""]:
        screen.print(line, style=style, markup=False, highlight=False)


def say_all(screen: Console, sentences: Iterable[str], style: str = "dim") -> None:
    """Each sentence as a paragraph of its own."""
    for sentence in sentences:
        say(screen, sentence, style)


def show_table(screen: Console, table: DataTable, *, name_width: int | None = None) -> None:
    """The rows below their heads; names of rows that are longer than `name_width` are cut."""
    screen.print(rich_table(table, name_width=name_width), highlight=False)


def rich_table(table: DataTable, *, name_width: int | None = None) -> Table:
    """`table` for a terminal: numbers aligned right, words aligned left."""
    made = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    overflow: Literal["ellipsis", "fold"] = "fold" if name_width is None else "ellipsis"
    made.add_column(table.head, no_wrap=name_width is not None, overflow=overflow, max_width=name_width)
    for column in table.columns:
        if column.is_text:
            made.add_column(column.head, overflow="fold")
        else:
            made.add_column(column.head, justify="right", no_wrap=True)
    for row in table.rows:
        made.add_row(_name(row), *(_cell(cell, starred=table.starred) for cell in row.cells))
    return made


def _name(row: TableRow) -> Text:
    return Text(row.name, style=row.style if row.ranked else "italic")


def _cell(cell: TableCell, *, starred: bool) -> Text:
    """Bold and green if it is the best; what stands below it is dim."""
    star = ("*" if cell.best else " ") if starred else ""
    text = Text(f"{cell.text}{star}", style="bold green" if cell.best else cell.style)
    return text.append("".join(f"\n{line}{' ' * len(star)}" for line in cell.below), style="not bold dim")
