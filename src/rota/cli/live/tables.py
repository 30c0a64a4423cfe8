"""Plain tables of 100 columns or the terminal's, and the words of times, sizes and counts in them.

Standard library only until something is shown that needs more.
"""

from __future__ import annotations

import signal as signals
import sys
import time
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import datetime

from rota.cli.terminal import WIDTH, one_line, width
from rota.model.words import NONE
from rota.wire import cluster_clock

GAP = 2
NARROWEST = 6
"""Columns that a column keeps when the table is too wide."""
CLOCK: Callable[[], float] = cluster_clock.now_s


def now_s() -> float:
    """Unix seconds by the cluster's clock; what "ago" and "in" count from."""
    return CLOCK()


def table_text(heads: str, rows: Iterable[Sequence[str]], columns: int | None = None) -> str:
    """Rows under `heads`, words between blanks, with marks before them.

    `>` aligns right, `~` lets a column be cut short, `^` at the front of its cells, and `?` leaves it out
    where there are fewer than 100 columns (which is so on narrow terminals only, never in a pipe).

    No line is longer than `columns` if that can be; `_` in a head is a blank.  Only a last cell is ever
    empty, so that scripts can count words.
    """
    room = width() if columns is None else columns
    marks, names = _read_heads(heads)
    lines = [names, *([one_line(cell) or NONE for cell in row[:-1]] + [one_line(row[-1])] for row in rows)]
    if room < WIDTH:
        kept = [i for i, mark in enumerate(marks) if "?" not in mark]
        marks = [marks[i] for i in kept]
        lines = [[line[i] for i in kept] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(marks))]
    loose = [i for i, mark in enumerate(marks) if set(mark) & {"~", "^"}]
    excess = sum(widths) + GAP * (len(marks) - 1) - room
    while excess > 0 and loose:
        widest = max(loose, key=lambda i: widths[i])
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
        excess -= 1
    return "".join(_line(line, widths, marks) + "\n" for line in lines)


def _read_heads(heads: str) -> tuple[list[str], list[str]]:
    """The marks before each head, and the heads without them."""
    words = heads.split()
    names = [word.lstrip(">~^?") for word in words]
    marks = [word.removesuffix(name) for word, name in zip(words, names, strict=True)]
    return marks, [name.replace("_", " ") for name in names]


def _line(cells: Sequence[str], widths: Sequence[int], marks: Sequence[str]) -> str:
    padded = [
        f"{_cut(cell, size, mark):{'>' if '>' in mark else '<'}{size}}"
        for cell, size, mark in zip(cells, widths, marks, strict=True)
    ]
    return (" " * GAP).join(padded).rstrip()


def _cut(cell: str, size: int, mark: str) -> str:
    if len(cell) <= size:
        return cell
    return "…" + cell[len(cell) - size + 1 :] if "^" in mark else cell[: size - 1] + "…"


def pairs_text(pairs: Iterable[tuple[str, str]], sentences: Container[str] = ()) -> str:
    """`key  value` lines; values of the keys in `sentences` wrapped, pairs without a value left out."""
    kept = [(key, value) for key, value in pairs if value]
    size = max((len(key) for key, _ in kept), default=0) + GAP
    return "".join(
        (
            wrapped(value, f"{key:<{size}}", " " * size)
            if key in sentences
            else f"{key:<{size}}{one_line(value)}"
        )
        + "\n"
        for key, value in kept
    )


def wrapped(text: str, indent: str = "", further: str = "") -> str:
    """Lines of at most as many columns as there are, the first behind `indent`, the others `further` in."""
    import textwrap

    return textwrap.fill(
        one_line(text),
        width(),
        initial_indent=indent,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def moment(unix_s: float | None) -> str:
    """`2026-11-22T10:00:00` in local time, or `-`."""
    if unix_s is None:
        return NONE
    return datetime.fromtimestamp(unix_s).isoformat(timespec="seconds")


def signal_name(number: int) -> str:
    """`SIGKILL`, or `signal 77`."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ended_by(code: int | None, signal: int | None) -> str:
    """`0`, `3`, `SIGKILL`, or `-` for an attempt that has not ended or left no record."""
    if signal is not None:
        return signal_name(signal)
    return NONE if code is None else str(code)


def warn(sentence: str) -> None:
    """Print one line on standard error, without characters that move the cursor."""
    import typer

    typer.echo(f"rota: {one_line(sentence)}", err=True)


def show_frames(frame: Callable[[], str], every_s: float) -> None:
    """`frame()` again and again until Ctrl-C: in place on a terminal, one after the other in a pipe."""
    if not sys.stdout.isatty():
        while True:
            print(frame(), flush=True)
            time.sleep(every_s)
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as screen:
        while True:
            screen.update(Text(frame(), no_wrap=True, overflow="crop"), refresh=True)
            time.sleep(every_s)
