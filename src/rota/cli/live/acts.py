"""Commands that do one thing to each of some jobs: cancel, hold, release, suspend, resume, and so on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.connect import JobsArgument, live
from rota.cli.live.job_rows import LIVE_STATES
from rota.cli.live.tables import warn
from rota.cli.shell import JsonFlag, print_json
from rota.model.units import plural

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.views import ArrayDone

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

    The number of an array means all its jobs that are not over; this goes for hold, release, suspend,
    resume and requeue too.
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


@live
def accept(client: Client, jobs: JobsArgument, as_json: JsonFlag = False) -> None:
    """Take the later deadlines that jobs are offered.

    \b
    Example:
      rota accept 17

    Under a policy that promises deadlines, a job whose own cannot be kept is OFFERED a later one for a
    while; `rota why 17` says which, and until when.  Nothing is set aside for it until it is accepted: if
    others were promised theirs since, it may be offered a later one still.
    """
    from rota.cli.live.submit import answered

    act(client, "accept", jobs, "", False, as_json)
    for job in () if as_json else jobs:
        line = answered(client, job, still="any more, as others were promised theirs since")
        typer.echo(f"job {job}: {line}" if len(jobs) > 1 else line)


DONE = {
    "cancel": "cancelled",
    "hold": "held",
    "release": "released",
    "suspend": "told to suspend",
    "resume": "told to resume",
    "requeue": "told to requeue",
    "accept": "asks for its later deadline",
}
TOLD = frozenset({"suspend", "resume", "requeue", "accept"})


FEW = 10
"""Most jobs of an array that get a line each."""


def act(client: Client, verb: str, jobs: Sequence[str], reason: str, force: bool, as_json: bool) -> None:
    """Carry out the act for each job; names refused ones, and then the command fails (exit 1)."""
    from rota.client import Refused, route
    from rota.wire.views import ArrayDone

    views, refused = [], 0
    body = {"reason": reason, "force": force}
    for job in jobs:
        try:
            answer = client.call("POST", route("v1", "jobs", job, verb), body, idempotent=True)
        except Refused as error:
            if len(jobs) == 1:
                raise
            refused += 1
            warn(str(error))
            continue
        if "array" not in answer:
            lines = [_line(verb, answer)]
        else:
            array = ArrayDone.model_validate(answer)
            refused += len(array.refused)
            for sentence in _refusals(array):
                warn(sentence)
            lines = _lines_of_array(verb, array, answer["jobs"])
        views += answer.get("jobs", [answer])
        if not as_json:
            typer.echo("".join(line + "\n" for line in lines), nl=False)
    if as_json:
        print_json(views)
    if refused:
        raise typer.Exit(1)


def _line(verb: str, view: Mapping[str, Any]) -> str:
    # The act is carried out in a moment: the state is still the one before it.
    state = view["state"].lower()
    if verb == "cancel" and view["state"] not in (*LIVE_STATES.split(","), "CANCELLED"):
        return f"job {view['id']} had ended already: {state}"
    is_said = verb in TOLD or state == DONE[verb]
    return f"job {view['id']} {DONE[verb]}" + ("" if is_said else f": {state}")


def _lines_of_array(verb: str, array: ArrayDone, views: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each of few jobs, or one with a count; jobs that had ended are always counted."""
    if 0 < len(views) <= FEW and not array.ended:
        return [_line(verb, view) for view in views]
    if array.refused and not views:
        return []
    done, to, what = DONE[verb].partition(" to ")
    ended = f"; {array.ended} had ended" if array.ended else ""
    return [f"{done} {plural(len(views), 'job')} of array {array.array}{to}{what}{ended}"]


def _refusals(array: ArrayDone) -> list[str]:
    """Why some jobs were refused: by job if they are few, otherwise a count for each reason."""
    if len(array.refused) <= FEW:
        return [f"job {refusal.job}: {refusal.error}" for refusal in array.refused]
    counts = Counter(refusal.error for refusal in array.refused)
    return [f"{plural(n, 'job')} of array {array.array}: {error}" for error, n in counts.items()]
