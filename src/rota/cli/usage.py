"""`rota usage`: where the GPU-hours went, of a trace or of the cluster's own history."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.connect import TokenFileOption, UrlOption, connect
from rota.cli.shell import JsonFlag, check_folder, complete_format, console, print_json
from rota.errors import InputError
from rota.model.units import plural

if TYPE_CHECKING:
    from rota.model.columns import Floats
    from rota.model.trace import Trace
    from rota.traces.usage import Usage, UsageLine

SHOWN = 30
"""Lines in text; JSON and CSV have all."""
COLUMNS = ("jobs", "gpu_hours", "share", "failed_gpu_hours", "cancelled_gpu_hours", "wait_hours", "cost")
"""Of a CSV file, behind what was counted by."""


def usage(
    trace: Annotated[
        Path | None,
        typer.Argument(metavar="[TRACE]", help="A file in any known format; the live cluster if none."),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="WHAT,...",
            help="tenant, user, group, workload, type, size, month or outcome, or several.",
        ),
    ] = "tenant",
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Count from this day on: 2026-11-01.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="Count up to this day, without it.")
    ] = None,
    price: Annotated[
        str | None, typer.Option(metavar="PRICE", help="Of a GPU-hour: 2.5, or by type: V100=1.2,A100=3.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all lines as CSV.")] = None,
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
      rota usage --by user,month

    Without TRACE the live cluster's own history is counted, jobs that still run with what they have had.
    """
    from rota.traces.usage import parse_prices, usage_of

    if csv is not None:
        check_folder(csv.parent)
    prices = None if price is None else parse_prices(price)
    begin, end = _day(since, "--since"), _day(until, "--until")
    history, held = _history(url, token_file) if trace is None else (_read(trace, format), None)
    words = [word.strip() for word in by.split(",") if word.strip()]
    figures = usage_of(history, words, prices=prices, since=begin, until=end, held=held)
    if csv is not None:
        _write(figures, csv)
    if as_json:
        print_json(figures.to_dict())
    else:
        _show(figures)


def _read(path: Path, format: str | None) -> Trace:
    from rota.traces import read

    return read(path, format)


def _history(url: str | None, token_file: Path | None) -> tuple[Trace, Floats]:
    """All that the controller has on record of jobs that have run, and the GPUs that each held on average."""
    with connect(url, token_file) as client, tempfile.TemporaryDirectory(prefix="rota-") as folder:
        path, all_ = Path(folder) / "history.csv", {"since": 0.0, "until": None}
        text = client.text("/v1/history", all_ | {"format": "csv"}, timeout_s=300)
        if len(text.splitlines()) < 2:
            raise InputError("no job has run on this cluster yet")
        path.write_text(text, encoding="utf-8")
        views = client.call("GET", "/v1/history", query=all_, timeout_s=300)
        views += client.call("GET", "/v1/jobs", query={"state": "RUNNING", "limit": 10_000}, timeout_s=300)
        return as_used(_read(path, "plain"), views)


def as_used(trace: Trace, views: Sequence[Mapping[str, Any]]) -> tuple[Trace, Floats]:
    """`trace`, which tells what would run its jobs again, with what they took; and the GPUs they held."""
    import numpy as np

    from rota.model.columns import read_only
    from rota.model.jobs import RecordedRun

    view_of = {view["id"]: view for view in views}
    mine = [view_of.get(id, {}) for id in trace.jobs.ids]
    zero_s = math.floor(min((view["submit_s"] for view in mine if view), default=0.0))

    def column(name: str) -> Floats:
        values = (view.get(name) for view in mine)
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)

    run_s = np.nan_to_num(column("run_s"))
    failing_s = np.array([sum(trace.truth.failures.get(row, ())) for row in range(len(trace))])
    jobs = replace(trace.jobs, submit_s=read_only(column("submit_s") - zero_s))
    truth = replace(trace.truth, duration_s=read_only(np.maximum(run_s - failing_s, 0.0)))
    seen = RecordedRun(column("start_s") - zero_s, column("end_s") - zero_s)
    stamp = datetime.fromtimestamp(zero_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    facts = {**trace.facts, "epoch": stamp, "time_zone": "UTC"}
    held = np.divide(np.nan_to_num(column("gpu_s")), run_s, out=np.zeros(len(trace)), where=run_s > 0.0)
    return replace(trace, jobs=jobs, truth=truth, observed=seen, facts=facts, source="the cluster"), held


def _day(text: str | None, field: str) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise InputError.at(f"{text!r} is no day", field=field, expected="such as 2026-11-01") from None


def _write(figures: Usage, path: Path) -> None:
    import csv

    from rota.model.atomic import replacing

    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*figures.by, *COLUMNS])
        for line in figures.lines:
            values = [getattr(line, name) for name in COLUMNS]
            writer.writerow([*line.names, *("" if value is None else value for value in values)])


def _show(figures: Usage) -> None:
    """A table, the sum below it, and what to know of it."""
    from rich.table import Table

    has_waits = figures.total.wait_hours is not None
    has_cost = figures.total.cost is not None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in figures.by:
        table.add_column(name, overflow="fold")
    heads = ["jobs", "GPU-hours", "share", "failed", "cancelled"]
    for head in [*heads, *["mean wait"] * has_waits, *["cost"] * has_cost]:
        table.add_column(head, justify="right", no_wrap=True)
    for line in figures.lines[:SHOWN]:
        table.add_row(*line.names, *_cells(line, has_waits, has_cost))
    blanks = [""] * (len(figures.by) - 1)
    table.add_row("all", *blanks, *_cells(figures.total, has_waits, has_cost), style="bold")
    screen = console()
    screen.print(table, highlight=False)
    more = len(figures.lines) - SHOWN
    said = [f"{plural(more, 'more line')}: --csv or --json has them all."] if more > 0 else []
    if figures.without_duration:
        said.append(f"{plural(figures.without_duration, 'job')} of unknown run time: counted with no hours.")
    if figures.from_submission:
        said.append("No starts are recorded: hours count from submission, and nobody's wait is known.")
    for sentence in said:
        screen.print(sentence, style="dim", highlight=False)


def _cells(line: UsageLine, has_waits: bool, has_cost: bool) -> list[str]:
    cells = [f"{line.jobs:,}", _hours(line.gpu_hours)]
    cells.append("-" if line.share is None else f"{100 * line.share:.1f}%")
    cells += [_part(line.failed_gpu_hours, line.gpu_hours), _part(line.cancelled_gpu_hours, line.gpu_hours)]
    if has_waits:
        from rota.model.units import format_duration

        cells.append("-" if line.wait_hours is None else format_duration(3600.0 * line.wait_hours))
    if has_cost:
        cells.append("-" if line.cost is None else f"{line.cost:,.2f}")
    return cells


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def _part(hours: float, whole: float) -> str:
    """Of the line's own GPU-hours."""
    return f"{100 * hours / whole:.1f}%" if whole else "-"
