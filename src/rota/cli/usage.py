"""`rota usage`: where the GPU-hours went, of a trace or of the cluster's own history."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.connect import TokenFileOption, UrlOption, live
from rota.cli.shell import JsonFlag, check_file, complete_format, console, print_json
from rota.errors import InputError
from rota.model.units import plural

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.usage import UsageView

SHOWN = 30
"""Lines of the text; JSON, CSV and page have all."""


def usage(
    trace: Annotated[
        Path | None,
        typer.Argument(metavar="[TRACE]", help="A file in any known format; the live cluster if none."),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="WHAT,...",
            help="tenant, subtenant, user, group, workload, partition, qos, node, type, size, month or "
            "outcome, or several.",
        ),
    ] = "tenant",
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Count from this day on: 2026-11-01.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="Count up to this day, without it.")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="PRICE",
            help="Of a GPU-hour: 2.5, by type: V100=1.2,1g.10gb=0.5, or a cluster file.",
        ),
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all lines as CSV.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it as a page that stands by itself.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="Of the trace; detected if not given.", autocompletion=complete_format
        ),
    ] = None,
    as_json: JsonFlag = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Say where the GPU-hours went: of a trace, or of the cluster.

    \b
    Examples:
      rota usage jobs.csv --by tenant,month --price V100=1.2,A100=3
      rota usage sacct.txt --by user --since 2026-10-01 --until 2026-11-01 --csv october.csv
      rota usage --by user,month --html usage.html

    Without TRACE the live cluster's own history is counted, jobs that still run with what they have had,
    at the prices of its configuration if no others are given.
    """
    for option, path in (("--csv", csv), ("--html", html)):
        if path is not None:
            check_file(path, option)
    if price is not None:
        from rota.reports.usage.prices import prices_text

        price = prices_text(price)
    begin, end = _day(since, "--since"), _day(until, "--until")
    words = [word.strip() for word in by.split(",") if word.strip()]
    _check(words, begin, end, price)
    if trace is None:
        figures = _of_cluster(words, begin, end, price, url, token_file)
    else:
        figures = _of_trace(trace, format, words, begin, end, price)
    if csv is not None:
        from rota.reports.usage.table import as_csv

        _write(csv, as_csv(figures))
    if html is not None:
        from rota.reports.usage.page import render

        _write(html, render(figures))
    if as_json:
        print_json(figures.model_dump(mode="json"))
    else:
        _show(figures)


def _check(by: list[str], since: datetime | None, until: datetime | None, price: str | None) -> None:
    """Raises InputError for options that cannot be, before a trace is read or a controller asked."""
    from rota.reports.usage.counting import check_asked
    from rota.reports.usage.prices import parse_prices

    check_asked(by, since, until)
    if price is not None:
        parse_prices(price)


def _of_trace(
    path: Path,
    format: str | None,
    by: list[str],
    since: datetime | None,
    until: datetime | None,
    price: str | None,
) -> UsageView:
    from rota.reports.usage.counting import usage_of
    from rota.reports.usage.of_trace import held_of
    from rota.reports.usage.prices import parse_prices
    from rota.traces import read

    prices = None if price is None else parse_prices(price)
    held = held_of(read(path, format), by_node="node" in by)
    return usage_of(held, by, prices=prices, since=since, until=until)


def _of_cluster(
    by: list[str],
    since: datetime | None,
    until: datetime | None,
    price: str | None,
    url: str | None,
    token_file: Path | None,
) -> UsageView:
    """The usage of all that the controller has on record, which it counts itself."""
    from rota.wire.usage import UsageView

    asked = {
        "by": ",".join(by),
        "since": None if since is None else since.timestamp(),
        "until": None if until is None else until.timestamp(),
        "price": price,
    }
    said = _ask(asked, url=url, token_file=token_file)
    figures = UsageView.model_validate(said)
    if not figures.total.jobs and since is None and until is None:
        raise InputError("no job has run on this cluster yet")
    return figures


@live
def _ask(client: Client, asked: dict[str, object]) -> Any:
    return client.call("GET", "/v1/usage", query=asked, timeout_s=300)


def _day(text: str | None, field: str) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise InputError.at(f"{text!r} is no day", field=field, expected="such as 2026-11-01") from None


def _write(path: Path, text: str) -> None:
    from rota.model.atomic import replacing

    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", newline="")


def _show(figures: UsageView) -> None:
    """A table, its sums, and remarks."""
    from rich.table import Table

    from rota.reports.usage.wording import columns, notes

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in figures.by:
        table.add_column(name, overflow="fold")
    shown = columns(figures)
    for column in shown:
        table.add_column(column.head, justify="right", no_wrap=True)
    for line in figures.lines[:SHOWN]:
        table.add_row(*line.names, *(column.cell(line) for column in shown))
    blanks = [""] * (len(figures.by) - 1)
    table.add_row("all", *blanks, *(column.cell(figures.total) for column in shown), style="bold")
    screen = console()
    screen.print(table, highlight=False)
    more = len(figures.lines) - SHOWN
    said = [f"{plural(more, 'more line')}: --csv or --json has them all."] if more > 0 else []
    for sentence in said + notes(figures):
        screen.print(sentence, style="dim", highlight=False)
