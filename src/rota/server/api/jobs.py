"""Jobs: submit, list, show, change, why, logs, wait."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from rota.errors import InputError
from rota.model.words import STATES
from rota.server.api.forms import (
    MOST_LISTED,
    Act,
    JobChange,
    JobFilter,
    LogRequest,
    Submission,
    Submitted,
    TableFormat,
    Verb,
)
from rota.server.api.problems import refusals
from rota.server.api.route_parts import (
    LONGEST_WAIT_S,
    AskedCommands,
    AskedJobs,
    AskedSubmissions,
    AskedTerminals,
    JobId,
    Person,
    answer,
    patience_s,
    wait_for,
)
from rota.server.curves import curves_csv
from rota.wire.curves import CurvesView
from rota.wire.job import JOB_ID
from rota.wire.numbers import Unix
from rota.wire.sync import Piece
from rota.wire.terminal import TerminalReply, TerminalTalk
from rota.wire.timeline import StretchView
from rota.wire.views import ArrayDone, DryRun, JobDetail, JobView, Updated, Why

INT64 = 2**63 - 1
MOST_LOG_BYTES = 1 << 20
router = APIRouter(prefix="/v1/jobs", tags=["jobs"], responses=refusals())
ONE_JOB = refusals(404)
CHANGING = refusals(404, 409)
PLAIN = Act()
SubmissionBody = Annotated[
    Submission,
    Body(
        openapi_examples={
            "two devices": {
                "value": {
                    "spec": {"command": ["python", "train.py"], "gpus": 2, "name": "resnet", "time_s": 7200},
                    "key": "8f14e45f",
                }
            },
            "elastic": {
                "value": {"spec": {"command": ["./train"], "gpus": 4, "gpus_min": 1, "gpus_max": 8}},
            },
            "array": {
                "value": {"spec": {"command": ["./sweep"], "array": "1-20%4", "tenant": "vision/alice"}}
            },
        }
    ),
]
ActBody = Annotated[Act, Body(examples=[{"reason": "wrong data", "force": False}])]
ChangeBody = Annotated[JobChange, Body(examples=[{"priority": 10, "time_s": 3600}])]
TalkBody = Annotated[
    TerminalTalk,
    Body(
        openapi_examples={
            "attach": {"value": {"rows": 24, "columns": 80, "wait_s": 20}},
            "type": {"value": {"session": "9f3c21aa04d1be77", "at": 0, "data": "bHMK"}},
            "listen": {"value": {"session": "9f3c21aa04d1be77", "seen": 512, "wait_s": 20}},
        }
    ),
]
WaitS = Annotated[float, Query(ge=0, le=3600, description=f"seconds; at most {LONGEST_WAIT_S:g} are waited")]


@router.post("", status_code=201, response_model=Submitted, responses={200: {"model": DryRun}, **refusals()})
def submit(
    request: SubmissionBody,
    submissions: AskedSubmissions,
    who: Person,
    dry_run: Annotated[bool, Query(description="only say what would happen")] = False,
) -> Response:
    """Submit a job or an array; what is answered is on record.  With `dry_run`, nothing is."""
    if dry_run:
        return answer(submissions.dry_run(who, request.spec))
    return answer(submissions.submit(who, request), 201)


@router.get("", response_model=list[JobView], responses=ONE_JOB)
def jobs(
    jobs: AskedJobs,
    who: Person,
    state: Annotated[
        list[str] | None, Query(max_length=32, description="repeated, or words with commas between")
    ] = None,
    tenant: Annotated[str, Query(max_length=128)] = "",
    user: Annotated[str, Query(max_length=128)] = "",
    name: Annotated[str, Query(max_length=128)] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED, description="the newest so many")] = 1000,
    since: Annotated[Unix | None, Query(description="submitted or ended at this Unix time or later")] = None,
    before: Annotated[
        str | None,
        Query(pattern=f"^{JOB_ID.pattern}$", description="only those submitted before this job, by its id"),
    ] = None,
) -> Response:
    """List jobs, newest last.

    More than 1,000 are had page by page: `limit=1000`, then `before` with the first id of the page before.
    """
    states = tuple(word.strip().upper() for text in state or () for word in text.split(",") if word.strip())
    if unknown := [word for word in states if word not in STATES]:
        raise InputError(f"parameter state: {unknown[0]!r} is no state; expected {', '.join(STATES)}")
    return answer(jobs.jobs(JobFilter(states, tenant, user, name, limit, since, before or "")))


@router.get("/{id}", response_model=JobDetail, responses=ONE_JOB)
def detail(
    id: JobId,
    jobs: AskedJobs,
    who: Person,
    reason: Annotated[bool, Query(description="also ask the policy why it waits")] = False,
) -> Response:
    """Show a job with its specification, attempts and events."""
    return answer(jobs.detail(who, id, reason))


@router.patch("/{id}", response_model=Updated, responses=CHANGING)
def update(id: JobId, change: ChangeBody, commands: AskedCommands, who: Person) -> Response:
    """Change some of a job's fields."""
    return answer(commands.update(who, id, change))


@router.get("/{id}/why", response_model=Why, responses=ONE_JOB)
def why(id: JobId, jobs: AskedJobs, who: Person) -> Response:
    """Say why a job waits: all binding reasons of the last decision, dominant first."""
    return answer(jobs.why(id))


@router.get(
    "/{id}/curves",
    response_model=CurvesView,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}, **ONE_JOB},
)
def curves(
    id: JobId,
    jobs: AskedJobs,
    who: Person,
    since: Annotated[
        Unix | None, Query(description="only points with something said after this Unix time")
    ] = None,
    format: TableFormat = TableFormat.JSON,
) -> Response:
    """Show what a job's programs and agents have said over time: loss, step time, batch, use of devices.

    At most 512 points, and one more for what was said last; where many values became one point, their mean,
    least and most.
    """
    view = jobs.curves(who, id, since)
    if format is TableFormat.CSV:
        return Response(curves_csv(view), media_type="text/csv")
    return answer(view)


@router.get("/{id}/timeline", response_model=list[StretchView], responses=ONE_JOB)
def timeline(id: JobId, jobs: AskedJobs, who: Person) -> Response:
    """Show when a job waited, ran and stood still, on which nodes, and why each of these ended.

    The last 1,000 stretches of running, with what lies between.
    """
    return answer(jobs.timeline(who, id))


@router.get("/{id}/logs", response_model=Piece, responses=ONE_JOB)
async def logs(
    request: Request,
    id: JobId,
    jobs: AskedJobs,
    who: Person,
    attempt: Annotated[int | None, Query(ge=1, le=10**9, description="the newest if left out")] = None,
    rank: Annotated[int, Query(ge=0, le=10**6)] = 0,
    offset: Annotated[int, Query(ge=-INT64, le=INT64, description="bytes; from the end if negative")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_LOG_BYTES)] = 65536,
    wait_s: WaitS = 0.0,
) -> Response:
    """Read a piece of a rank's log; waits for something to be there if asked to."""
    piece = LogRequest(attempt, rank, offset, limit, patience_s(wait_s))
    return answer(await wait_for(request, jobs.logs(who, id, piece)))


@router.get("/{id}/wait", response_model=JobView, responses=ONE_JOB)
async def wait(
    request: Request, id: JobId, jobs: AskedJobs, who: Person, wait_s: WaitS = LONGEST_WAIT_S
) -> Response:
    """Wait for a job to end: answers as soon as it has, or how it stands after `wait_s`."""
    return answer(await wait_for(request, jobs.wait(who, id, patience_s(wait_s))))


@router.post("/{id}/terminal", response_model=TerminalReply, responses=CHANGING)
async def terminal(
    request: Request, id: JobId, said: TalkBody, terminals: AskedTerminals, who: Person
) -> Response:
    """Attach to the terminal of a job (`session` empty: waits for its start), or talk in such a session.

    Only the job's own user and admins may.  The newest session of a job puts an end to the one before.
    """
    said.wait_s = patience_s(said.wait_s)
    return answer(await wait_for(request, terminals.person(who, id, said)))


@router.post("/{id}/{verb}", response_model=JobView | ArrayDone, responses=CHANGING)
def act(
    id: JobId,
    verb: Verb,
    commands: AskedCommands,
    who: Person,
    body: ActBody = PLAIN,
) -> Response:
    """Cancel, hold, release, suspend, resume or requeue a job, or accept the deadline it is offered.

    Doing so twice is no error, but for accepting.

    An array's number means all its jobs that are not over, in one command.
    """
    return answer(commands.act(who, id, verb, body))
