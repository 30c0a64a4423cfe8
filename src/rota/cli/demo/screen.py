"""How a round of the demo is shown: a table in its place to a person, plain lines to everybody else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from rota.cli.demo.watch import Round, Show

if TYPE_CHECKING:
    from rich.table import Table

BAR = 24
WORDS = {"PENDING": "waits", "RUNNING": "runs", "SUSPENDED": "suspended", "COMPLETING": "ends"}


@contextmanager
def screen() -> Iterator[Show]:
    """What to call with each look; whatever is printed meanwhile stands above the table."""
    if not sys.stdout.isatty():
        yield _print
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(highlight=False), auto_refresh=False, transient=True) as live:
        yield lambda played, lines: live.update(picture(played), refresh=True)


def _print(played: Round, lines: list[str]) -> None:
    for line in lines:
        typer.echo(line)
    sys.stdout.flush()


def picture(played: Round) -> Table:
    """All jobs of a round, with how far they are."""
    from rich.table import Table

    seconds = time.time() - played.began_s
    table = Table(box=None, title=f"{played.policy}, second {seconds:.0f}", title_justify="left")
    for head in ("job", "slots", "state", "steps done"):
        table.add_column(head, justify="right" if head == "slots" else "left")
    for id in played.ids:
        view = played.views[id]
        full = round(BAR * played.done.get(id, 0.0))
        word = WORDS.get(view["state"], view["state"].lower())
        table.add_row(view["name"], str(view["gpus"]), word, "█" * full + "░" * (BAR - full))
    return table
