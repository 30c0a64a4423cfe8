"""What users do to jobs from a page: the verbs of the API, answered with a sentence."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from rota.model.reasons import Code
from rota.server.api.forms import Act, Verb
from rota.server.api.route_parts import AskedCommands, JobId, Person
from rota.server.callers import Caller
from rota.server.dashboard.responses import HEADERS
from rota.wire.views import ArrayDone, JobView

router = APIRouter(include_in_schema=False)
REASON = "from the dashboard"
DONE = {
    Verb.CANCEL: "is cancelled",
    Verb.HOLD: "is held",
    Verb.RELEASE: "is released",
    Verb.SUSPEND: "is suspended",
    Verb.RESUME: "is resumed",
    Verb.REQUEUE: "is requeued",
    Verb.ACCEPT: "has taken its offer",
}
WAITS, RUNS = ("PENDING", "OFFERED"), ("RUNNING",)
VERBS: dict[Verb, tuple[str, ...]] = {
    Verb.HOLD: WAITS,
    Verb.RELEASE: WAITS,
    Verb.SUSPEND: RUNS,
    Verb.RESUME: ("SUSPENDED",),
    Verb.REQUEUE: RUNS,
    Verb.CANCEL: (*WAITS, *RUNS, "SUSPENDED"),
}
"""States of a job that offer each verb."""


@router.post("/act/{id}/{verb}")
def act(id: JobId, verb: Verb, commands: AskedCommands, who: Person) -> Response:
    """Carry it out; the answer describes the result for the page."""
    done = commands.act(who, id, verb, Act(reason=REASON))
    return PlainTextResponse(sentence_of(id, verb, done), headers=HEADERS)


def sentence_of(id: str, verb: Verb, done: JobView | ArrayDone) -> str:
    """`Job 17 is cancelled`; of an array, of how many jobs."""
    if isinstance(done, ArrayDone):
        refused = f"; {len(done.refused)} do not allow it" if done.refused else ""
        return f"Array {id}: {len(done.jobs)} jobs, each {DONE[verb]}{refused}"
    return f"Job {id} {DONE[verb]}"


def offered(who: Caller, job: JobView) -> list[Verb]:
    """What this user may do to the job in its state; nothing for a viewer."""
    if who.viewer or not who.owns(job.user, job.tenant):
        return []
    is_held = job.reason == Code.HELD
    unfit = {Verb.HOLD} if is_held else {Verb.RELEASE}
    return [verb for verb, states in VERBS.items() if job.state in states and verb not in unfit]
