"""`rota logs` and `rota attach`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.live.connect import JobArgument, live
from rota.cli.live.tables import warn
from rota.cli.shell import JsonFlag, print_json
from rota.errors import InputError, RotaError

if TYPE_CHECKING:
    from rota.client import Client

RankOption = Annotated[
    int, typer.Option("--rank", "-r", metavar="N", min=0, help="Which process; 0 is the first.")
]


@live
def logs(
    client: Client,
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    rank: RankOption = 0,
    attempt: Annotated[
        int | None, typer.Option("--attempt", "-k", metavar="N", min=1, help="The newest if not given.")
    ] = None,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", metavar="N", min=0, help="Only the last N lines.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print what a job wrote.

    \b
    Examples:
      rota logs 17
      rota logs 17 -f -n 20
      rota logs 17 --rank 3 --attempt 1

    Standard output and standard error stand in one log for each rank and attempt.
    """
    if follow:
        if attempt is not None or as_json:
            raise InputError("--follow goes through all attempts as text; leave out --attempt and --json")
        _follow(client, job, rank, lines)
        return
    from rota.cli.live.job_output import pieces, read_piece, tail

    if as_json:
        text = tail(client, job, attempt, rank, lines)[0] if lines is not None else None
        whole = text if text is not None else "".join(t for t, _ in pieces(client, job, attempt, rank))
        print_json({"job": job, "rank": rank, "attempt": attempt, "text": whole})
        return
    if lines is not None:
        texts = iter([tail(client, job, attempt, rank, lines)])
    else:
        texts = pieces(client, job, attempt, rank)
    size = 0
    for text, behind in texts:
        typer.echo(text, nl=False)
        size = behind
    if not size:
        if error := read_piece(client, job, attempt, rank, 0).error:
            raise RotaError(error)
        warn(f"job {job} has written nothing so far")


@live
def attach(
    client: Client,
    job: JobArgument,
    rank: RankOption = 0,
    all_ranks: Annotated[bool, typer.Option("--all-ranks", help="Every rank, not one only.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="N", min=0, help="Begin with the last N lines.")
    ] = 10,
) -> None:
    """Follow a job's output until it ends.

    \b
    Examples:
      rota attach 17
      rota attach 17 --all-ranks

    Says so when the job is suspended or loses its devices.  The exit code is the job's, as for
    `rota run`; Ctrl-C leaves the job to itself.
    """
    from rota.cli.live.job_output import Follower, already, follow_to_end

    follower = Follower(client, job, None if all_ranks else [rank], from_end=lines)
    present, _ = follower.look(0.0)  # waits for a controller only once it has answered
    if said := already(present):
        warn(said)
    raise typer.Exit(follow_to_end(follower, cancels=False))


def _follow(client: Client, job: str, rank: int, lines: int | None) -> None:
    from rota.cli.live.job_output import Follower, follow_to_end

    follower = Follower(client, job, [rank], from_end=lines)
    follower.look(0.0)
    follow_to_end(follower, cancels=False)
