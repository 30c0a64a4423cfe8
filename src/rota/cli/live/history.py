"""`rota history` and `rota events`: the past of the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.connect import live
from rota.cli.live.job_rows import gpus
from rota.cli.live.tables import ended_by, moment, table_text
from rota.cli.shell import JsonFlag, check_file, json_text, print_json
from rota.model.words import duration

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.views import EventView, JobView

MOST_EVENTS = 10_000
A_PAGE = 2_000
"""Jobs in one answer: the controller serves other clients in between."""
EVERY_S = 1.0


@live
def history(
    client: Client,
    since: Annotated[
        str, typer.Option(metavar="AGO|MOMENT", help="Ended after: 7d, 2026-11-22T10:00.")
    ] = "7d",
    until: Annotated[
        str | None, typer.Option(metavar="AGO|MOMENT", help="Ended before; now if not given.")
    ] = None,
    csv: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write a trace that `rota simulate` reads; - prints it."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the jobs that ended; write them, and those that still run, as a trace.

    \b
    Examples:
      rota history --since 1d
      rota history --since 30d --csv jobs.csv && rota simulate jobs.csv --policy srtf,tiresias
    """
    if csv is not None and csv != "-":
        check_file(Path(csv), "--csv")
    query = _between(client, since, until)
    if csv is not None:
        _write(client.text("/v1/history", query | {"format": "csv"}, timeout_s=300), csv)
        return
    answer = list(_ended(client, query))
    if as_json:
        print_json(answer)
        return
    from rota.wire.views import JobView

    typer.echo(history_text([JobView.model_validate(row) for row in answer]), nl=False)


def _between(client: Client, since: str, until: str | None) -> dict[str, Any]:
    """Unix seconds by the cluster's clock, as for ends of jobs; `1h` is an hour ago."""
    from rota.client.times import parse_since
    from rota.wire import cluster_clock

    def told() -> dict[str, Any]:
        now_s = cluster_clock.now_s()
        until_s = None if until is None else parse_since(until, "--until", now_s)
        return {"since": parse_since(since, "--since", now_s), "until": until_s}

    told()  # refuse a wrong moment before the controller is asked
    client.call("GET", "/health")  # its answer has the cluster's clock
    return told()


def _ended(client: Client, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All jobs that ended, a page at a time."""
    query = query | {"limit": A_PAGE}
    while True:
        page = client.call("GET", "/v1/history", query=query, timeout_s=300)
        yield from page
        if len(page) < A_PAGE:
            return
        query = query | {"after": page[-1]["id"]}


def _write(text: str, name: str) -> None:
    if name == "-":
        typer.echo(text, nl=False)
        return
    from rota.model.atomic import replacing

    with replacing(Path(name)) as part:
        part.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {name}{_unended(text)}")


def _unended(text: str) -> str:
    """A remark on a trace with jobs that have no end yet."""
    import csv
    from io import StringIO

    from rota.model.units import plural

    count = sum(line.get("end_s") == "" for line in csv.DictReader(StringIO(text)))
    return f"; {plural(count, 'job')} not over yet, with what was done so far" if count else ""


def history_text(jobs: Sequence[JobView]) -> str:
    """One line for each job that ended."""
    rows = [
        (
            job.id,
            job.name,
            job.user,
            job.tenant,
            gpus(job),
            moment(job.submit_s),
            duration(job.waiting_s),
            duration(job.run_s),
            job.state,
            ended_by(job.exit_code, job.signal),
        )
        for job in jobs
    ]
    return table_text("JOB ~NAME ~USER ~TENANT >GPUS SUBMITTED >WAIT >RUN STATE >EXIT", rows)


@live
def events(
    client: Client,
    number: Annotated[int, typer.Option("--last", "-n", metavar="N", min=0, help="The last N.")] = 50,
    since_seq: Annotated[int | None, typer.Option(metavar="SEQ", min=0, help="All after this one.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of text; a line for each event with --follow.")
    ] = False,
) -> None:
    """List what happened on the cluster.

    \b
    Examples:
      rota events -n 20
      rota events --follow --json
    """

    decisions = list(_after(client, since_seq or 0))
    kept = decisions if since_seq is not None else decisions[len(decisions) - min(number, len(decisions)) :]
    if as_json and not follow:
        print_json(kept)
        return
    last = decisions[-1]["seq"] if decisions else since_seq or 0
    _print(kept, as_json, heads=True)
    while follow:
        time.sleep(EVERY_S)
        new = list(_after(client, last))
        last = new[-1]["seq"] if new else last
        _print(new, as_json, heads=False)


def _after(client: Client, seq: int) -> Iterator[dict[str, Any]]:
    """All events after `seq`, a page at a time."""
    while True:
        page = client.call("GET", "/v1/events", query={"since_seq": seq, "limit": MOST_EVENTS})
        yield from page
        if len(page) < MOST_EVENTS:
            return
        seq = page[-1]["seq"]


def _print(rows: Sequence[dict[str, Any]], as_json: bool, heads: bool) -> None:
    from rota.wire.views import EventView

    if as_json:
        for row in rows:
            typer.echo(json_text(row))
        return
    text = events_text([EventView.model_validate(row) for row in rows])
    typer.echo(text if heads else text.partition("\n")[2], nl=False)


def events_text(events: Sequence[EventView]) -> str:
    """One line for each event."""
    rows = [(str(e.seq), moment(e.at_s), e.who, e.kind, e.job, e.text) for e in events]
    return table_text(">SEQ TIME ~BY EVENT JOB ~WHAT", rows)
