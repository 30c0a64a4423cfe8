"""`rota systems`: the policies there are, from the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.shell import JsonFlag, complete_system, console, print_json

if TYPE_CHECKING:
    from rota.cli.catalogue import Entry


def systems(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Show this one in full.", autocompletion=complete_system),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the policies, or show one with its paper, idea and parameters.

    \b
    Examples:
      rota systems
      rota systems tiresias
      rota systems --json | jq '.[].name'
    """
    from rota.cli.catalogue import entries, entry

    if name is not None:
        one = entry(name)
        print_json(one.to_dict()) if as_json else _show(one)
    elif as_json:
        print_json([one.to_dict() for one in entries()])
    else:
        _list(entries())


def _list(policies: list[Entry]) -> None:
    from rich.table import Table

    from rota.bounds import SUMMARIES

    table = Table("policy", "what it does", "needs", "status", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for one in policies:
        table.add_row(one.name, one.summary, ", ".join(one.needs) or "-", one.status)
    for name, summary in SUMMARIES.items():
        table.add_row(name, summary, "-", "bound")
    console().print(table)
    typer.echo("`rota systems NAME` shows paper, idea and parameters.")


def _show(one: Entry) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = console()
    screen.print(f"{one.name}: {one.summary}", style="bold", markup=False)
    screen.print()
    facts = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for key, text in one.facts().items():
        facts.add_row(key, Text(text))
    screen.print(facts)
    if not one.parameters:
        return
    screen.print()
    table = Table("parameter", "default", "values", "meaning", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for parameter in one.parameters:
        cells = parameter.name, parameter.default, parameter.values, parameter.meaning
        table.add_row(*(Text(cell) for cell in cells))
    screen.print(table)
