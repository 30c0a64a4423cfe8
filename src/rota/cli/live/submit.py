"""`rota submit` and `rota run`."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.caller import here, perhaps_submitted
from rota.cli.live.connect import live
from rota.cli.live.request import Request, describes_job, make_job
from rota.cli.live.tables import moment, now_s, warn, wrapped
from rota.cli.quick import number_of, submitted
from rota.cli.shell import JsonFlag, print_json
from rota.client.saying import spare
from rota.errors import InputError
from rota.model.words import ahead, duration

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.job import JobSpec
    from rota.wire.views import DryRun


@live
@describes_job
def submit(
    client: Client,
    request: Request,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say whether it can run, when, and why not now.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the number of the job only.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Submit a job: a program, a job file or an sbatch script.

    \b
    Examples:
      rota submit --gpus 2 --time 3h -- python train.py --lr 0.1
      rota submit job.yaml --priority 10
      rota submit --sbatch train.sh data/
      rota submit --array 1-20%4 --after 17 -- ./sweep
      rota submit --dry-run --gpus 8 -- ./train

    Options win over what a file says.  docs/jobs.md says what a job may ask for and what it gets.

    \b
    The job runs in this folder with PATH, HOME, LANG, VIRTUAL_ENV, PYTHONPATH,
    LD_LIBRARY_PATH, CONDA_* and LC_* as they are here; --env and --env-all pass
    more on.
    """
    spec, warnings = make_job(request, *here())
    for warning in warnings:
        warn(warning)
    if dry_run:
        from rota.wire.views import DryRun

        answer = client.call("POST", "/v1/jobs", {"spec": spec.model_dump()}, {"dry_run": True})
        print_json(answer) if as_json else typer.echo(_dry(DryRun.model_validate(answer)), nl=False)
        return
    answer = post(client, spec, request.key)
    if as_json:
        print_json(answer)
    else:
        ids = [job["id"] for job in answer["jobs"]]
        typer.echo(number_of(ids) if quiet else submitted(ids))
        if answer.get("answers") and len(ids) == 1 and not quiet:
            typer.echo(answered(client, ids[0]))


ANSWER_S = 5.0
"""Seconds that `rota submit` waits for the answer to a deadline."""


def answered(client: Client, id: str, still: str = "") -> str:
    """The answer of the policy to the deadline of a job: a promise, an offer or a refusal.

    `still` is a remark on a deadline that was offered before and cannot be kept now.
    """
    from rota.client import route
    from rota.wire.views import JobView

    until_s, still = time.monotonic() + ANSWER_S, still and f" {still}"
    while True:
        job = JobView.model_validate(client.call("GET", route("v1", "jobs", id))["job"])
        if job.promised_s is not None:
            return f"its deadline is promised: {spare(job, moment)}"
        if job.offered_s is not None and job.offered_until_s is not None:
            left = duration(max(job.offered_until_s - now_s(), 0.0))
            by = f"by {moment(job.offered_s)} if you accept within {left}: rota accept {id}"
            return f"not by {moment(job.deadline_s)}{still}; {by}\n(rota why {id} says why)"
        if job.state == "CANCELLED":
            return f"not by {moment(job.deadline_s)}{still}: {job.cause}"
        if time.monotonic() > until_s:
            said = _so_far(client, id)
            begin = "" if said.startswith("its deadline") else "its deadline is not promised so far; "
            return f"{begin}{said} (rota show {id})"
        time.sleep(0.05)


def _so_far(client: Client, id: str) -> str:
    """The state of a job without a promise: not considered yet, or refused and run without a deadline."""
    from rota.client import route
    from rota.wire.views import Why

    why = Why.model_validate(client.call("GET", route("v1", "jobs", id, "why")))
    return why.reasons[0].sentence if why.reasons else f"it is {why.state.lower()}"


@live
@describes_job
def run(
    client: Client,
    request: Request,
    all_ranks: Annotated[
        bool, typer.Option("--all-ranks", help="Show the output of every rank, not of rank 0 only.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the job's output only.")] = False,
) -> None:
    """Submit a job, show its output, and end as it ends.

    \b
    Examples:
      rota run --gpus 1 -- python train.py
      rota run --all-ranks job.yaml

    The exit code is the program's, 128+N if signal N ended it, 124 if its time ran out, 130 if it was
    cancelled.  Ctrl-C cancels the job; Ctrl-C again leaves it to itself.
    """
    from rota.cli.live.job_output import Follower, follow_to_end

    spec, warnings = make_job(request, *here())
    for warning in warnings:
        warn(warning)
    if spec.array:
        raise InputError("an array has no one output to show; use `rota submit`, then `rota attach JOB`")
    id = post(client, spec, request.key)["jobs"][0]["id"]
    if not quiet:
        warn(f"submitted job {id}")
    follower = Follower(client, id, None if all_ranks else [0], quiet=quiet)
    raise typer.Exit(follow_to_end(follower, cancels=True))


def post(client: Client, spec: JobSpec, key: str | None) -> dict[str, Any]:
    """Submit, and warn of options without effect.

    It is sent twice if the connection broke, which makes one job, since both have one key.  Raises Refused,
    and Unreachable, which names the key if the job may be on record.
    """
    from rota.client import Refused, Unreachable

    key = key or secrets.token_hex(16)
    body = {"spec": spec.model_dump(exclude_unset=True), "key": key}
    try:
        answer: dict[str, Any] = client.call("POST", "/v1/jobs", body, idempotent=True)
    except Unreachable as error:
        if not error.was_sent:
            raise
        raise Unreachable(f"{error}; {perhaps_submitted(key)}") from None
    except Refused as error:
        if error.status < 500:
            raise
        raise Refused(error.status, f"{error}; {perhaps_submitted(key)}", error.retry_after_s) from None
    except KeyboardInterrupt:
        warn(perhaps_submitted(key))
        raise
    for warning in answer.get("warnings", ()):
        warn(warning)
    return answer


def _dry(answer: DryRun) -> str:
    """Feasibility, place in the queue, estimate, and the binding reasons."""
    lines = [f"warning: {warning}" for warning in answer.warnings]
    if not answer.feasible:
        lines.append("it can never run on this cluster:")
    elif answer.position is None:
        lines.append("it can run")
    else:
        place = (
            "would be next to start"
            if answer.position == 1
            else f"would be number {answer.position} to start"
        )
        lines.append(f"it can run, and {place}")
    for reason in answer.reasons:
        lines.append(wrapped(reason.sentence, "  ", "  "))
        if reason.remedy:
            lines.append(wrapped(f"To change that: {reason.remedy}", "    ", "    "))
    if answer.feasible:
        lines.append(wrapped(estimate(answer.start_s, None, None, answer.basis)))
    lines.append("nothing was submitted")
    return "".join(line + "\n" for line in lines)


def estimate(start_s: float | None, low_s: float | None, high_s: float | None, basis: str) -> str:
    """`estimated start: in 5m (2026-11-22T10:05:00), by the time limits of users`, or `unknown; why`."""
    if start_s is None:
        return "estimated start: unknown" + (f"; {basis}" if basis else "")
    now = now_s()
    text = f"estimated start: {ahead(start_s, now)} ({moment(start_s)})"
    if low_s is not None and high_s is not None and high_s > low_s:
        text += f", between {moment(low_s)} and {moment(high_s)}"
    return text + (f", {basis}" if basis else "")
