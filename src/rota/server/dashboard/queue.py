"""The page Queue: who is next, why each job waits, when it may start, and what one may do about it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from rota.errors import RotaError
from rota.server.answering.starts import Range, Starts
from rota.server.api.calling import AskedJobs, Person
from rota.server.api.forms import JobFilter, Verb
from rota.server.api.services import Jobs
from rota.server.callers import Caller
from rota.server.dashboard.acts import offered
from rota.server.dashboard.memo import Memo
from rota.server.dashboard.rendering import fragment, page
from rota.wire.views import JobView, ReasonView

router = APIRouter(include_in_schema=False)
WAITING, LIVE = ("PENDING", "OFFERED"), ("PENDING", "OFFERED", "RUNNING", "SUSPENDED", "COMPLETING")
STATES: Mapping[str, tuple[str, ...]] = {
    "waiting": WAITING,
    "running": ("RUNNING", "COMPLETING"),
    "suspended": ("SUSPENDED",),
    "all": LIVE,
}
ROWS = 100
"""That one look shows."""
MOST_JOBS = 100_000
LONGEST_TEXT = 100


@dataclass(frozen=True)
class Look:
    """What somebody wants to see."""

    text: str = ""
    state: str = "waiting"
    tenant: str = ""
    first: int = 0


@dataclass(frozen=True)
class QueueRow:
    """One job."""

    job: JobView
    place: int | None
    """1 for who is served next; None for those that are in no order."""
    reasons: Sequence[ReasonView]
    start: Range | None
    verbs: Sequence[Verb]


@dataclass(frozen=True)
class QueuePage:
    """What the page shows."""

    look: Look
    rows: Sequence[QueueRow]
    total: int
    counts: Mapping[str, int]
    """Jobs by the words of `STATES`, whatever else is wanted."""
    tenants: Sequence[str]
    order: str
    """In which order the rows are, as a sentence."""
    starts: Starts
    trouble: str
    """Why reasons or order are missing; empty if they are not."""
    now_s: float


@dataclass(frozen=True)
class Queue:
    """All live jobs, in the order of the page."""

    jobs: Sequence[JobView]
    places: Mapping[str, int]
    has_order: bool
    trouble: str


def queue_of(jobs: Jobs) -> Queue:
    """The same for everybody: those in order first, then who is held, then who runs, by submission."""
    live = jobs.jobs(JobFilter(state=LIVE, limit=MOST_JOBS))
    trouble, order = "", None
    try:
        order = jobs.order()
    except RotaError as error:
        trouble = f"The order is not known just now: {error}"
    turn = {row: place for place, row in enumerate(order or (), start=1)}
    ranked = sorted(
        live, key=lambda job: (job.state not in WAITING, turn.get(job.row, len(turn) + 1), job.row)
    )
    places = {job.id: turn[job.row] for job in live if job.row in turn and job.state in WAITING}
    return Queue(ranked, places, order is not None, trouble)


def queue_page(queue: Queue, jobs: Jobs, who: Caller, look: Look) -> QueuePage:
    """The window that is asked for, with the reasons of the jobs in it."""
    chosen = [job for job in queue.jobs if _is_wanted(job, look)]
    first = look.first if 0 <= look.first < len(chosen) else 0
    window = chosen[first : first + ROWS]
    waiting = [job.id for job in window if job.state in (*WAITING, "SUSPENDED")]
    reasons, trouble = _reasons(jobs, waiting)
    starts = jobs.starts() if waiting else Starts()
    return QueuePage(
        look=replace(look, first=first),
        rows=[
            QueueRow(
                job,
                queue.places.get(job.id),
                reasons.get(job.id, ()),
                starts.of.get(job.id) if job.state in WAITING else None,
                offered(who, job),
            )
            for job in window
        ],
        total=len(chosen),
        counts={word: sum(job.state in states for job in queue.jobs) for word, states in STATES.items()},
        tenants=sorted({job.tenant for job in queue.jobs}),
        order="as the policy serves them" if queue.has_order else "by submission: this policy has no order",
        starts=starts,
        trouble=queue.trouble or trouble,
        now_s=time.time(),
    )


def _reasons(jobs: Jobs, ids: Sequence[str]) -> tuple[Mapping[str, Sequence[ReasonView]], str]:
    if not ids:
        return {}, ""
    try:
        return jobs.reasons(ids), ""
    except RotaError as error:
        return {}, f"Why jobs wait is not known just now: {error}"


def _is_wanted(job: JobView, look: Look) -> bool:
    """Every word has to stand somewhere in what the row shows."""
    if job.state not in STATES[look.state]:
        return False
    if look.tenant and not f"{job.tenant}/".startswith(f"{look.tenant}/"):
        return False
    said = f"{job.id} {job.name} {job.user} {job.tenant} {job.state} {job.reason}".lower()
    return all(word in said for word in look.text.lower().split())


def _look(text: str, state: str, tenant: str, first: int) -> Look:
    return Look(text[:LONGEST_TEXT].strip(), state if state in STATES else "waiting", tenant[:128], first)


def _shown(request: Request, jobs: Jobs, who: Caller, look: Look) -> QueuePage:
    memo: Memo = request.app.state.memo
    return queue_page(memo.get("queue", lambda: queue_of(jobs)), jobs, who, look)


@router.get("/queue")
def show(
    request: Request,
    jobs: AskedJobs,
    who: Person,
    text: str = "",
    state: str = "waiting",
    tenant: str = "",
    first: int = 0,
) -> Response:
    """The page."""
    return page(request, "queue.html", shown=_shown(request, jobs, who, _look(text, state, tenant, first)))


@router.get("/queue/rows")
def rows(
    request: Request,
    jobs: AskedJobs,
    who: Person,
    text: str = "",
    state: str = "waiting",
    tenant: str = "",
    first: int = 0,
) -> Response:
    """The part of it that changes."""
    shown = _shown(request, jobs, who, _look(text, state, tenant, first))
    answer = fragment(request, "queue_rows.html", shown=shown)
    answer.headers["HX-Replace-Url"] = f"/queue?{urlencode(_kept(shown.look))}"
    return answer


def _kept(look: Look) -> dict[str, str | int]:
    """What of a look has to stand in an address."""
    return {name: value for name, value in asdict(look).items() if value != getattr(Look(), name)}
