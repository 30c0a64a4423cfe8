"""`rota systems`: all policies, from the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.shell import JsonFlag, complete_system, console, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from rota.cli.system_index import Entry, Index


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
    known = _all()
    if as_json:
        print_json([one.to_dict() for one in (*known.systems.values(), *known.published.values())])
    else:
        _list(known)


def _one(name: str) -> Entry:
    """The system `name`; raises InputError if there is none."""
    from rota.cli.system_index import index

    known = index()
    if known is not None and (one := known.systems.get(name) or known.published.get(name)):
        return one
    from rota.cli.catalogue import entry

    return entry(name)


def _all() -> Index:
    """Every system, what reproduces published code, and the bounds."""
    from rota.cli.system_index import Index, index

    known = index()
    if known is not None:
        return known
    from rota.bounds import SUMMARIES
    from rota.cli.catalogue import entries, published_entries

    own, others = ({one.name: one for one in group} for group in (entries(), published_entries()))
    return Index(own, others, SUMMARIES)


def _list(known: Index) -> None:
    from rota.cli.system_index import NEEDS_TOLD

    table = _table("policy")
    for one in known.systems.values():
        table.add_row(one.name, one.summary, one.needs_line(), one.status)
    for name, summary in known.bounds.items():
        table.add_row(name, summary, "-", "bound")
    console().print(table)
    typer.echo(NEEDS_TOLD)
    typer.echo("`rota systems NAME` shows paper, idea and parameters.\n")
    typer.echo("Published code, reproduced where it departs from its paper:\n")
    table = _table("policy")
    for one in known.published.values():
        table.add_row(one.name, one.summary, one.needs_line(), one.status)
    console().print(table)


def _table(head: str) -> Table:
    from rich.table import Table

    return Table(head, "what it does", "needs", "status", box=None, pad_edge=False, padding=(0, 2, 0, 0))


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
