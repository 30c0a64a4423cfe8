"""Progress of a long command on standard error: bars on a terminal, elsewhere a line from time to time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rota.model.units import format_duration

EVERY_S = 10.0
"""Seconds between two lines where there is no terminal."""
MOST_NAMED = 4
"""Names in a line; others are counted."""
Told = Callable[[str, int, int], None]
"""Receives a name, how much of it is done, and how much there is."""


@contextmanager
def progress_bars(wanted: bool) -> Iterator[Told | None]:
    """A bar for each name on a terminal; elsewhere a line every `EVERY_S`.  None if it is not `wanted`."""
    if not wanted:
        yield None
    elif sys.stderr.isatty():
        with _bars() as told:
            yield told
    else:
        with _lines() as told:
            yield told


@contextmanager
def _bars() -> Iterator[Told]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        known: dict[str, Any] = {}

        def told(name: str, done: int, total: int) -> None:
            if name not in known:
                known[name] = bars.add_task(name, total=total)
            bars.update(known[name], completed=done)

        yield told


@contextmanager
def _lines() -> Iterator[Told]:
    """A thread of its own writes them: one decision of a policy may take longer than the time between two."""
    so_far: dict[str, tuple[int, int]] = {}
    over = threading.Event()
    began_s = time.monotonic()

    def write() -> None:
        while not over.wait(EVERY_S):
            line = f"rota: {format_duration(time.monotonic() - began_s)}: {in_words(dict(so_far))}"
            try:
                print(line, file=sys.stderr, flush=True)
            except (OSError, ValueError):  # standard error is closed; the work continues
                return

    def told(name: str, done: int, total: int) -> None:
        so_far[name] = (done, total)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield told
    finally:
        over.set()
        writer.join()


def in_words(so_far: dict[str, tuple[int, int]]) -> str:
    """`2 done, srtf 12,000 of 82,247`: progress by name."""
    if not so_far:
        return "preparing"
    under_way = {name: of for name, of in so_far.items() if of[0] < of[1]}
    done = len(so_far) - len(under_way)
    parts = [f"{done} done"] if done else []
    parts += [f"{name} {now:,} of {total:,}" for name, (now, total) in list(under_way.items())[:MOST_NAMED]]
    if len(under_way) > MOST_NAMED:
        parts.append(f"{len(under_way) - MOST_NAMED} others")
    return ", ".join(parts)
