"""The page of one job: what it does and why, its life, curves and logs, and what may be done to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from rota.client.saying import abilities, asked, spare
from rota.model.words import count, utc
from rota.server.api.calling import AskedJobs, JobId, Person
from rota.server.api.forms import JobFilter, LogRequest, Verb
from rota.server.api.services import JobsService
from rota.server.callers import Caller
from rota.server.dashboard.acts import offered
from rota.server.dashboard.rendering import HEADERS, fragment, now_of, page
from rota.server.dashboard.strip import Strip, strip
from rota.server.views import is_over
from rota.wire.job import JOB_ID
from rota.wire.timeline import StretchView
from rota.wire.views import JobDetail, JobView, Why

router = APIRouter(include_in_schema=False)
MOST_LISTED, MOST_EVENTS, MOST_ROWS = 100, 200, 100
"""Jobs on the page that leads to one; events and stretches on the page of one."""
PIECE_BYTES = 1 << 19


@dataclass(frozen=True)
class JobRecord:
    """What is on record of it, and what may be said of that: the lower part of the page."""

    detail: JobDetail

    @property
    def job(self) -> JobView:
        """Its line in the list of jobs."""
        return self.detail.job

    @property
    def is_over(self) -> bool:
        """True once nothing more will happen to it."""
        return is_over(self.job.state)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """What it asks for, where that differs from the defaults."""
        words = count(self.detail.spec.gpus)
        return [pair for pair in asked(self.detail.spec, words, utc) if pair[1]]

    @property
    def abilities(self) -> list[tuple[str, str]]:
        """What its program can do, as far as it is known."""
        can = self.detail.capability
        pairs = () if can is None else abilities(can, self.detail.attempts)
        return [pair for pair in pairs if pair[1]]

    @property
    def promise(self) -> str:
        """Which deadline it is promised, and how that stands; empty if none is."""
        return spare(self.job, utc)

    @property
    def ranks(self) -> int:
        """Processes of its newest attempt, as far as known: each has a log."""
        attempts, spec = self.detail.attempts, self.detail.spec
        if not attempts:
            return 1
        return max(len(attempts[-1].nodes if spec.ranks_by == "node" else attempts[-1].devices), 1)


@dataclass(frozen=True)
class JobPage(JobRecord):
    """All that the page shows."""

    why: Why
    strip: Strip
    stretches: Sequence[StretchView]
    """The newest, newest first."""
    verbs: Sequence[Verb]
    """What the caller may do to it now."""


def job_record(jobs: JobsService, who: Caller, id: str) -> JobRecord:
    """As it is now; Forbidden for those whose job it is not."""
    detail = jobs.detail(who, id)
    detail.events = detail.events[-MOST_EVENTS:]
    return JobRecord(detail)


def job_page(jobs: JobsService, who: Caller, id: str, now_s: float) -> JobPage:
    """Likewise, with its life, and why it waits or runs."""
    record, life = job_record(jobs, who, id), jobs.timeline(who, id)
    return JobPage(
        detail=record.detail,
        why=jobs.why(id),
        strip=strip(life, now_s),
        stretches=life[: -MOST_ROWS - 1 : -1],
        verbs=offered(who, record.job),
    )


@router.get("/jobs")
def listed(request: Request, jobs: AskedJobs, who: Person, id: str = "") -> Response:
    """The caller's newest jobs; with an id, the page of that one."""
    if wanted := id.strip().removeprefix("#"):
        return RedirectResponse(f"/jobs/{wanted}" if JOB_ID.fullmatch(wanted) else "/jobs", 303)
    own = [job for job in jobs.jobs(JobFilter(limit=10 * MOST_LISTED)) if who.owns(job.user, job.tenant)]
    return page(request, "jobs.html", jobs=own[: -MOST_LISTED - 1 : -1])


@router.get("/jobs/{id}")
def show(request: Request, id: JobId, jobs: AskedJobs, who: Person) -> Response:
    """The page."""
    return page(request, "job.html", shown=job_page(jobs, who, id, now_of(request)))


@router.get("/jobs/{id}/now")
def now(request: Request, id: JobId, jobs: AskedJobs, who: Person) -> Response:
    """What changes of it, as far as it is looked at first: state, reasons, life."""
    return fragment(request, "job_now.html", shown=job_page(jobs, who, id, now_of(request)))


@router.get("/jobs/{id}/more")
def more(request: Request, id: JobId, jobs: AskedJobs, who: Person) -> Response:
    """What changes of it further down: what it asks for and can do, its attempts and events."""
    return fragment(request, "job_more.html", shown=job_record(jobs, who, id))


@router.get("/jobs/{id}/log")
async def log(id: JobId, jobs: AskedJobs, who: Person, rank: int = 0, attempt: int | None = None) -> Response:
    """The whole log of a rank, as a file to keep."""
    first = await jobs.logs(who, id, LogRequest(attempt, rank, 0, PIECE_BYTES, 0.0))

    async def pieces() -> AsyncIterator[bytes]:
        data, place, piece = first.text.encode(), 0, first
        while data:
            yield data
            place += len(data)
            if place >= first.size:
                return  # what is written meanwhile belongs to the next look
            piece = await jobs.logs(who, id, LogRequest(attempt, rank, place, PIECE_BYTES, 0.0))
            data = piece.text.encode()

    name = f"job-{id}-attempt-{attempt or 'newest'}-rank-{rank}.log"
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pieces(), 200, headers, "text/plain; charset=utf-8")
