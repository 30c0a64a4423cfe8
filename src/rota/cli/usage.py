"""`rota usage`: where the GPU-hours went, of a trace or of the cluster's own history."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.connect import TokenFileOption, UrlOption, live
from rota.cli.shell import JsonFlag, check_file, complete_format, console, print_json
from rota.errors import InputError

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.usage import UsageView


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
        from rota.reports.page import write_text
        from rota.reports.usage.view import csv_text

        write_text(csv, csv_text(figures))
    if html is not None:
        from rota.reports.page import write_text
        from rota.reports.usage.view import render

        write_text(html, render(figures))
    if as_json:
        print_json(figures.model_dump(mode="json"))
    else:
        from rota.reports.usage.view import show

        show(figures, console())


def _check(by: list[str], since: datetime | None, until: datetime | None, price: str | None) -> None:
    """Report errors independent of the counted jobs, before a trace is read or a controller asked."""
    from rota.reports.usage.gpu_hours import check_asked
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
    from rota.reports.usage.gpu_hours import usage_of
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
