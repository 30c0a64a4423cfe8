"""Commands that do one thing to each of some jobs: cancel, hold, release, suspend, resume, requeue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.live.connect import JobsArgument, live
from rota.cli.live.tables import warn
from rota.cli.shell import JsonFlag, print_json

if TYPE_CHECKING:
    from rota.client import Client

ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")]


@live
def cancel(
    client: Client,
    jobs: JobsArgument,
    reason: ReasonOption = "",
    force: Annotated[bool, typer.Option("--force", help="SIGKILL at once, without grace.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Cancel jobs: notice, SIGTERM, grace, SIGKILL.

    \b
    Examples:
      rota cancel 17 18
      rota cancel 17 --reason "wrong data"
      rota cancel 17 --force
    """
    act(client, "cancel", jobs, reason, force, as_json)


@live
def hold(client: Client, jobs: JobsArgument, reason: ReasonOption = "", as_json: JsonFlag = False) -> None:
    """Keep waiting jobs from starting.

    \b
    Example:
      rota hold 17 --reason "data not there yet"
    """
    act(client, "hold", jobs, reason, False, as_json)


@live
def release(client: Client, jobs: JobsArgument, reason: ReasonOption = "", as_json: JsonFlag = False) -> None:
    """Let held jobs start again.

    \b
    Example:
      rota release 17
    """
    act(client, "release", jobs, reason, False, as_json)


@live
def suspend(client: Client, jobs: JobsArgument, reason: ReasonOption = "", as_json: JsonFlag = False) -> None:
    """Take their devices from running jobs until `rota resume`.

    \b
    Example:
      rota suspend 17

    A program that imports rota.training moves its state to host memory; others are stopped in place
    where their devices come free by that, and otherwise checkpointed or restarted.
    """
    act(client, "suspend", jobs, reason, False, as_json)


@live
def resume(client: Client, jobs: JobsArgument, reason: ReasonOption = "", as_json: JsonFlag = False) -> None:
    """Let suspended jobs run again.

    \b
    Example:
      rota resume 17
    """
    act(client, "resume", jobs, reason, False, as_json)


@live
def requeue(
    client: Client,
    jobs: JobsArgument,
    reason: ReasonOption = "",
    force: Annotated[bool, typer.Option("--force", help="SIGKILL at once, without grace.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Stop running jobs and let them wait for another attempt.

    \b
    Example:
      rota requeue 17
    """
    act(client, "requeue", jobs, reason, force, as_json)


DONE = {
    "cancel": "cancelled",
    "hold": "held",
    "release": "released",
    "suspend": "told to suspend",
    "resume": "told to resume",
    "requeue": "told to requeue",
}
TOLD = frozenset({"suspend", "resume", "requeue"})


def act(client: Client, verb: str, jobs: Sequence[str], reason: str, force: bool, as_json: bool) -> None:
    """Do it to each job; those refused are named, and the command fails in the end (exit 1)."""
    from rota.client import Refused, route

    views, refused = [], 0
    body = {"reason": reason, "force": force}
    for job in jobs:
        try:
            view = client.call("POST", route("v1", "jobs", job, verb), body, idempotent=True)
        except Refused as error:
            if len(jobs) == 1:
                raise
            refused += 1
            warn(str(error))
            continue
        views.append(view)
        if not as_json:
            # What is told to happen happens in a moment: the state is still that of before.
            state = "" if verb in TOLD else f": {view['state'].lower()}"
            typer.echo(f"job {view['id']} {DONE[verb]}{state}")
    if as_json:
        print_json(views)
    if refused:
        raise typer.Exit(1)
