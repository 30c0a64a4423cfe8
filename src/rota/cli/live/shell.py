"""`rota shell`: a job with a terminal, and this terminal attached to it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.live.caller import here
from rota.cli.live.connect import complete_job, job_id, live
from rota.cli.live.job_output import CANCELLED, Interrupts, already, exit_code, has_ended, how_it_ended
from rota.cli.live.request import Request, describes_job, make_job
from rota.cli.live.submit import post
from rota.cli.live.tables import warn
from rota.errors import InputError

if TYPE_CHECKING:
    from rota.cli.live.terminal import LocalTerminal
    from rota.client import Client
    from rota.wire.views import JobView

LOOK_S, MOST_LOOK_S = 1.0, 10.0
END_S = 30.0
DEFAULTS = {"ranks": "node", "preemptible": False, "retries": "0", "name": "shell", "checkpoint": "none"}
"""Defaults of `rota shell`: an interactive job cannot be preempted or run again."""


@live
@describes_job
def shell(
    client: Client,
    request: Request,
    attach: Annotated[
        str | None,
        typer.Option(
            "--attach",
            metavar="JOB",
            autocompletion=complete_job,
            help="Come back to a terminal that was left, instead of beginning another.",
        ),
    ] = None,
) -> None:
    """Begin a job with a terminal, and work in it: a shell on devices of the cluster.

    \b
    Examples:
      rota shell --gpus 1 --time 4h
      rota shell --gpus 2 --name debug -- python -m pdb train.py
      rota shell --attach 17

    Without a program it is your $SHELL.  The job waits for its turn like any other: Ctrl-C cancels it
    meanwhile.  Once it runs, all keys go to it.  Ctrl-] three times within a second leaves it to itself,
    and so does a connection that breaks: `--attach` comes back.  It ends when its program ends, and its
    exit code is that of this command.  It is not preempted unless you say --preempt.
    """
    if not (os.isatty(sys.stdin.fileno()) and os.isatty(sys.stdout.fileno())):
        raise InputError("rota shell needs a terminal at its input and output; `rota run` needs none")
    if attach is not None:
        id = _attached(request, attach)
        begun = _until_begun(client, _terminal(client, id), id, cancels=False)
    else:
        id = _submitted(client, request)
        begun = _until_begun(client, _terminal(client, id), id, cancels=True)
    if begun is not None:
        _tell_at_first(client, id)
    if begun is not None and not begun.run():
        _warn_below(
            f"job {id} is left to itself; `rota shell --attach {id}` comes back, `rota cancel {id}` ends it"
        )
        return
    raise typer.Exit(_end(client, id, begun))


def _terminal(client: Client, id: str) -> LocalTerminal:
    """This terminal, for that job; it reports a silent node if keys have no echo."""
    from rota.cli.live.terminal import LocalTerminal

    return LocalTerminal(client, id, 0, 1, unanswered=lambda: silent_node(client, _view(client, id)))


def _tell_at_first(client: Client, id: str) -> None:
    """Warn, before the first key, of what keeps this terminal from working."""
    job = _view(client, id)
    for said in (without_a_terminal(id, job.nodes), already(job), silent_node(client, job)):
        if said:
            warn(said)


def silent_node(client: Client, job: JobView) -> str:
    """A sentence if the node with the terminal of `job` is silent; else empty."""
    from rota.client import route
    from rota.wire.views import ClusterStatus

    if not job.nodes:
        return ""
    status = ClusterStatus.model_validate(client.call("GET", route("v1", "status")))
    if not any(line.startswith(f"node {job.nodes[0]} is silent") for line in status.troubles):
        return ""
    return f"node {job.nodes[0]}, where job {job.id} is, does not answer: what is typed waits until it does"


def without_a_terminal(id: str, nodes: Sequence[str]) -> str:
    """A sentence for a job on several nodes, since the first one has the terminal; else empty."""
    if len(nodes) < 2:
        return ""
    others = ", ".join(nodes[1:])
    return (
        f"job {id} is on {len(nodes)} nodes, and this terminal is on {nodes[0]}: on {others} the same "
        "program runs without one, where a shell ends at once; what is held there is held until the job ends"
    )


def _attached(request: Request, attach: str) -> str:
    if request.words or any(value not in (None, []) for value in request.options.values()):
        raise InputError(
            "--attach comes back to a job that is there; leave out what another one would ask for"
        )
    return job_id(attach)


def _submitted(client: Client, request: Request) -> str:
    """A job with a terminal; its number."""
    options = {
        name: value if value is not None else DEFAULTS.get(name) for name, value in request.options.items()
    }
    words = request.words or ([] if request.sbatch else [os.environ.get("SHELL") or "/bin/sh"])
    env = [*(["TERM"] if os.environ.get("TERM") else []), *request.env]
    spec, warnings = make_job(replace(request, words=words, options=options, env=env), *here())
    for warning in warnings:
        warn(warning)
    if spec.array:
        raise InputError("a shell is one job; leave out --array")
    if spec.ranks != "node":
        raise InputError("a job with a terminal has one process for each node; leave out --ranks gpu")
    id = str(post(client, spec.model_copy(update={"terminal": True}), request.key)["jobs"][0]["id"])
    warn(f"submitted job {id}")
    return id


def _until_begun(client: Client, session: LocalTerminal, id: str, *, cancels: bool) -> LocalTerminal | None:
    """The session once the job runs, None if it has ended; prints why it waits.

    Ctrl-C, or a terminal that is closed, cancels a job that was submitted here.
    """
    said, wait_s = "", LOOK_S
    try:
        with Interrupts(signal.SIGHUP) as interrupts:
            while (is_attached := session.wait(wait_s)) is False:
                interrupts.check()
                reason = silent_node(client, _view(client, id)) or _why(client, id)
                if reason != said:
                    warn(f"job {id} waits: {reason}; `rota why {id}` says more; Ctrl-C gives up")
                said, wait_s = reason, min(2 * wait_s, MOST_LOOK_S)
    except KeyboardInterrupt:
        if cancels:
            cancel(client, id)
            warn(f"job {id} is cancelled")
        raise typer.Exit(CANCELLED) from None
    return session if is_attached else None


def cancel(client: Client, id: str) -> None:
    """Cancel a job, unless it has ended by now."""
    from rota.cli.live.job_output import Follower

    Follower(client, id, [0]).cancel("given up in rota shell")


def _view(client: Client, id: str, wait_s: float = 0.0) -> JobView:
    from rota.client import route
    from rota.wire.views import JobView

    path, query = route("v1", "jobs", id, "wait"), {"wait_s": wait_s}
    return JobView.model_validate(client.call("GET", path, query=query, timeout_s=wait_s + LOOK_S + END_S))


def _why(client: Client, id: str) -> str:
    """The main reason why a job waits."""
    from rota.client import route
    from rota.wire.views import Why

    why = Why.model_validate(client.call("GET", route("v1", "jobs", id, "why")))
    return why.reasons[0].sentence.rstrip(".") if why.reasons else "it is about to begin"


def _warn_below(sentence: str) -> None:
    """Print a warning on a line of its own: the last output may lack an end of line."""
    typer.echo(err=True)
    warn(sentence)


def _end(client: Client, id: str, session: LocalTerminal | None) -> int:
    """Report the end of the session; the exit code."""
    if session is not None and session.why.startswith("another terminal"):
        _warn_below(f"{session.why} {id}")
        return 1
    job = _view(client, id, END_S)
    if session is None or not session.has_shown:  # it had ended before this terminal was attached
        _print_log(client, id)
    if not has_ended(job):
        warn(f"the terminal of job {id} was closed, and the job goes on: {job.state.lower()}")
        return 1
    if session is None and job.state == "COMPLETED":
        warn(already(job))
    if job.state != "COMPLETED":
        warn(f"job {id} ended: {job.state.lower()}" + how_it_ended(job))
    return exit_code(job)


def _print_log(client: Client, id: str) -> None:
    from rota.cli.live.job_output import pieces

    for text, _ in pieces(client, id, None, 0):
        typer.echo(text, nl=False)
