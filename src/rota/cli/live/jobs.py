"""`rota ls`: lists jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.live.connect import live
from rota.cli.live.job_rows import LIVE_STATES, jobs_text
from rota.cli.live.tables import show_frames
from rota.cli.shell import JsonFlag, print_json
from rota.errors import InputError
from rota.model.words import STATES

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.views import JobView

EVERY_S = 2.0
Text = str | None


@live
def ls(
    client: Client,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Those that have ended too.")] = False,
    state: Annotated[
        Text, typer.Option(metavar="STATE,...", help="Only those: PENDING, RUNNING, FAILED ....")
    ] = None,
    tenant: Annotated[Text, typer.Option(metavar="PATH", help="Only of this tenant and below.")] = None,
    user: Annotated[Text, typer.Option(metavar="NAME", help="Only of this user.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only your own.")] = False,
    name: Annotated[Text, typer.Option(metavar="NAME", help="Only jobs of this name.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, help="The newest N at most.")
    ] = 1000,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Again every two seconds, until Ctrl-C.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List jobs: those waiting, running and suspended, or all.

    \b
    Examples:
      rota ls
      rota ls --mine --watch
      rota ls --all --state FAILED,TIMEOUT --json | jq '.[].cause'

    WHERE OR WHY names the nodes of a job that runs, and for others, in parentheses, what keeps them
    waiting (the first 50 of them) or how they ended; `rota why JOB` says it in sentences, of any.  A
    terminal of less than 100 columns shows neither TENANT nor LIMIT.
    """
    if mine:
        user = client.call("GET", "/v1/whoami")["name"]
    query = {
        "state": _states(state) if state else None if everything else LIVE_STATES,
        "tenant": tenant,
        "user": user,
        "name": name,
    }

    def rows() -> list[JobView]:
        from rota.client.paging import newest_jobs
        from rota.wire.views import JobView

        return [JobView.model_validate(row) for row in newest_jobs(client, query, limit)]

    if as_json:
        print_json([row.model_dump() for row in rows()])
    elif watch:
        show_frames(lambda: jobs_text(rows()), EVERY_S)
    else:
        typer.echo(jobs_text(rows()), nl=False)


def _states(text: str) -> str:
    """States, in the spelling of Slurm too.  Raises InputError for other words, which would match nothing."""
    words = [word.strip().upper() for word in text.split(",")]
    for word in words:
        if word not in STATES:
            raise InputError.at(f"{word!r} is no state", field="--state", expected=", ".join(STATES))
    return ",".join(words)
