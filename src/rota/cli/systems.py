"""`rota systems`: the policies there are, from the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.shell import JsonFlag, complete_system, console, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.cli.system_index import Entry


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
    show_systems(name, as_json=as_json)


def show_systems(name: str | None, *, as_json: bool) -> None:
    """Print one system, or the list of all; raises InputError if there is none of that name."""
    if name is not None:
        one = _one(name)
        print_json(one.to_dict()) if as_json else _show(one)
        return
    policies, bounds = _all()
    if as_json:
        print_json([one.to_dict() for one in policies])
    else:
        _list(policies, bounds)


def _one(name: str) -> Entry:
    """The system `name`; raises InputError if there is none."""
    from rota.cli.system_index import index

    known = index()
    if known is not None and name in known.systems:
        return known.systems[name]
    from rota.cli.catalogue import entry

    return entry(name)


def _all() -> tuple[list[Entry], Mapping[str, str]]:
    """Every system, and what stands beside them."""
    from rota.cli.system_index import index

    known = index()
    if known is not None:
        return list(known.systems.values()), known.bounds
    from rota.bounds import SUMMARIES
    from rota.cli.catalogue import entries

    return entries(), SUMMARIES


def _list(policies: list[Entry], bounds: Mapping[str, str]) -> None:
    from rich.table import Table

    from rota.cli.system_index import NEEDS_TOLD

    table = Table("policy", "what it does", "needs", "status", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for one in policies:
        table.add_row(one.name, one.summary, one.needs_line(), one.status)
    for name, summary in bounds.items():
        table.add_row(name, summary, "-", "bound")
    console().print(table)
    typer.echo(NEEDS_TOLD)
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
