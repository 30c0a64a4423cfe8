"""The page Queue: the order of waiting jobs, why each waits, when it may start, its verbs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from rota.errors import RotaError
from rota.scheduler.reasons.order import Precedence
from rota.server.answers.starts import Range, Starts
from rota.server.api.forms import Verb
from rota.server.api.route_parts import AskedJobs, Person
from rota.server.api.services import JobsService
from rota.server.callers import Caller
from rota.server.dashboard.acts import offered
from rota.server.dashboard.memo import Memo
from rota.server.dashboard.responses import fragment, page
from rota.server.store.queries import JobLine
from rota.wire.views import JobView, ReasonView

router = APIRouter(include_in_schema=False)
WAITING, LIVE = ("PENDING", "OFFERED"), ("PENDING", "OFFERED", "RUNNING", "SUSPENDED", "COMPLETING")
STATES: Mapping[str, tuple[str, ...]] = {
    "waiting": WAITING,
    "running": ("RUNNING", "COMPLETING"),
    "suspended": ("SUSPENDED",),
    "all": LIVE,
}
ROWS = 50
"""Most jobs on one page: the policy is asked about each, and each is rendered again at every change."""
LONGEST_TEXT = 100


@dataclass(frozen=True)
class Look:
    """The filter of a viewer."""

    text: str = ""
    state: str = "waiting"
    tenant: str = ""
    first: int = 0


@dataclass(frozen=True)
class QueueRow:
    """One job."""

    job: JobView
    place: int | None
    """1 for the job served next; None for jobs without an order."""
    target: float | None
    """The share that the policy means to give it; None if it does not say."""
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
    """The order of the rows, as a sentence."""
    target: str
    """Head of the column of shares that the policy means to give: `part of its time`; empty without one."""
    starts: Starts
    trouble: str
    """Why reasons or order are missing; empty if they are not."""
    step: int = ROWS


@dataclass(frozen=True)
class Queue:
    """All live jobs, in the order of the page, with the facts known without a question about each."""

    jobs: Sequence[JobLine]
    places: Mapping[int, int]
    """Of waiting rows in an order, 1 for the next."""
    precedence: Precedence
    counts: Mapping[str, int]
    tenants: Sequence[str]
    trouble: str

    @property
    def order(self) -> str:
        """The order of the jobs, as a sentence."""
        if self.precedence.order is not None:
            return "as the policy serves them"
        if self.precedence.targets:
            return f"by what the policy means to give each: {self.precedence.target}"
        return "by submission: this policy has no order"


def queue_of(jobs: JobsService) -> Queue:
    """The list, which does not depend on the viewer: waiting jobs in order, then held, then running jobs."""
    live = jobs.lines()
    trouble, known = "", Precedence()
    try:
        known = jobs.order()
    except RotaError as error:
        trouble = f"The order is not known just now: {error}"
    turn = {row: place for place, row in enumerate(known.order or (), start=1)}
    targets = known.targets if known.order is None else {}

    def rank(job: JobLine) -> tuple[bool, int, float, int]:
        is_next = turn.get(job.row, len(turn) + 1)
        return job.state not in WAITING, is_next, -targets.get(job.row, 0.0), job.row

    states = Counter(job.state for job in live)
    return Queue(
        jobs=sorted((job for job in live if job.state in LIVE), key=rank),
        places={job.row: turn[job.row] for job in live if job.row in turn and job.state in WAITING},
        precedence=known,
        counts={word: sum(states[state] for state in group) for word, group in STATES.items()},
        tenants=sorted({job.tenant for job in live}),
        trouble=trouble,
    )


def queue_page(queue: Queue, jobs: JobsService, who: Caller, look: Look) -> QueuePage:
    """The window that is asked for, with the reasons of the jobs in it."""
    chosen = [job.row for job in queue.jobs if _is_wanted(job, look)]
    first = look.first if 0 <= look.first < len(chosen) else 0
    window = jobs.some(chosen[first : first + ROWS])
    waiting = [job.id for job in window if job.state in (*WAITING, "SUSPENDED")]
    reasons, trouble = _reasons(jobs, waiting)
    starts = jobs.starts() if waiting else Starts()
    return QueuePage(
        look=replace(look, first=first),
        rows=[
            QueueRow(
                job,
                queue.places.get(job.row) if job.state in WAITING else None,
                queue.precedence.targets.get(job.row),
                reasons.get(job.id, ()),
                starts.of.get(job.id) if job.state in WAITING else None,
                offered(who, job),
            )
            for job in window
        ],
        total=len(chosen),
        counts=queue.counts,
        tenants=queue.tenants,
        order=queue.order,
        target=queue.precedence.target if queue.precedence.targets else "",
        starts=starts,
        trouble=queue.trouble or trouble,
    )


def _reasons(jobs: JobsService, ids: Sequence[str]) -> tuple[Mapping[str, Sequence[ReasonView]], str]:
    if not ids:
        return {}, ""
    try:
        return jobs.reasons(ids), ""
    except RotaError as error:
        return {}, f"Why jobs wait is not known just now: {error}"


def _is_wanted(job: JobLine, look: Look) -> bool:
    """Each word has to occur in the row."""
    if job.state not in STATES[look.state]:
        return False
    if look.tenant and not f"{job.tenant}/".startswith(f"{look.tenant}/"):
        return False
    if not look.text:
        return True
    said = f"{job.id} {job.name} {job.user} {job.tenant} {job.state} {job.reason}".lower()
    return all(word in said for word in look.text.lower().split())


def _look(text: str, state: str, tenant: str, first: int) -> Look:
    return Look(text[:LONGEST_TEXT].strip(), state if state in STATES else "waiting", tenant[:128], first)


def _shown(request: Request, jobs: JobsService, who: Caller, look: Look) -> QueuePage:
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
    """The parts of a view that its address must contain."""
    return {name: value for name, value in asdict(look).items() if value != getattr(Look(), name)}
