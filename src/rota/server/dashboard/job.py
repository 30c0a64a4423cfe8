"""The page of one job: its state and reasons, its life, curves and logs, and its verbs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from rota.client.saying import abilities, asked, spare
from rota.model.units import format_duration, plural
from rota.model.words import count, utc
from rota.server.api.forms import JobFilter, LogRequest, Verb
from rota.server.api.route_parts import AskedJobs, JobId, Person
from rota.server.api.services import JobsService
from rota.server.callers import Caller
from rota.server.dashboard.acts import offered
from rota.server.dashboard.responses import HEADERS, fragment, now_of, page
from rota.server.views import is_over
from rota.wire.job import JOB_ID
from rota.wire.timeline import Doing, StretchView
from rota.wire.views import JobDetail, JobView, Why

router = APIRouter(include_in_schema=False)
MOST_LISTED, MOST_EVENTS, MOST_ROWS = 100, 200, 100
"""Jobs on the page that leads to one; events and stretches on the page of one."""
PIECE_BYTES = 1 << 19


@dataclass(frozen=True)
class JobRecord:
    """The job's record, and remarks on it: the lower part of the page."""

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
        """The parts of its request that differ from the defaults."""
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
    """The acts that the caller may do to it now."""


def job_record(jobs: JobsService, who: Caller, id: str) -> JobRecord:
    """The job as it is now; Forbidden if it is not the caller's."""
    detail = jobs.detail(who, id)
    detail.events = detail.events[-MOST_EVENTS:]
    return JobRecord(detail)


def job_page(jobs: JobsService, who: Caller, id: str, now_s: float) -> JobPage:
    """The part of the page that changes, with the job's life, and why it waits or runs."""
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
    """The changing part at the top: state, reasons, life."""
    return fragment(request, "job_now.html", shown=job_page(jobs, who, id, now_of(request)))


@router.get("/jobs/{id}/more")
def more(request: Request, id: JobId, jobs: AskedJobs, who: Person) -> Response:
    """The changing part further down: its request, its program's abilities, its attempts and events."""
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
                return  # output written meanwhile belongs to the next look
            piece = await jobs.logs(who, id, LogRequest(attempt, rank, place, PIECE_BYTES, 0.0))
            data = piece.text.encode()

    name = f"job-{id}-attempt-{attempt or 'newest'}-rank-{rank}.log"
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pieces(), 200, headers, "text/plain; charset=utf-8")


MOST_BARS = 400
"""The newest stretches of a job that was moved more often."""
HEIGHT, LEAST_HEIGHT, STILL_HEIGHT = 56.0, 14.0, 8.0
LEAST_WIDTH = 0.15
"""Least width in per cent of a bar, so that a shorter part is still visible."""
TICKS = 4
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800,
    345600, 604800, 1209600, 2592000,
)  # fmt: skip


@dataclass(frozen=True)
class StripBar:
    """A rectangle: `left` and `width` in parts of a hundred, `top` and `height` in pixels."""

    doing: str
    left: float
    width: float
    top: float
    height: float
    title: str
    starting: float = 0.0
    """Width of its beginning, in which no work was done."""
    is_cut_short: bool = False
    """Others, or a failure, put an end to it."""


@dataclass(frozen=True)
class StripTick:
    """A moment of the axis, counted from the submission."""

    left: float
    text: str


@dataclass(frozen=True)
class Strip:
    """The picture; its axis goes from the first moment to the last."""

    bars: Sequence[StripBar]
    ticks: Sequence[StripTick]
    from_s: float
    to_s: float
    most_gpus: int
    left_out: int = 0
    """Stretches that came before."""


def strip(stretches: Sequence[StretchView], now_s: float) -> Strip:
    """The picture of these stretches, which are in their order, at `now_s`."""
    shown = stretches[-MOST_BARS:]
    begin = shown[0].from_s if shown else now_s
    ends = [now_s if one.to_s is None else one.to_s for one in shown]
    end = max([*ends, begin + 1.0])
    most = max((one.gpus for one in shown), default=0)

    def part(moment_s: float) -> float:
        return 100.0 * min(max(moment_s - begin, 0.0), end - begin) / (end - begin)

    bars = []
    for one, until_s in zip(shown, ends, strict=True):
        left = part(one.from_s)
        width = max(part(until_s) - left, LEAST_WIDTH)
        height = _height(one, most)
        bars.append(
            StripBar(
                doing=one.doing,
                left=min(left, 100.0 - width),
                width=width,
                top=HEIGHT - height,
                height=height,
                title=_title(one, until_s - one.from_s),
                starting=min(width, part(begin + one.starting_s)),
                is_cut_short=one.end in ("preempted", "failed", "lost"),
            )
        )
    return Strip(bars, _ticks(end - begin), begin, end, most, len(stretches) - len(shown))


def _height(one: StretchView, most: int) -> float:
    if one.doing is not Doing.RUNNING:
        return STILL_HEIGHT
    return LEAST_HEIGHT + (HEIGHT - LEAST_HEIGHT) * (one.gpus / most if most else 1.0)


def _title(one: StretchView, seconds: float) -> str:
    """`running 5m on n0, n1 (4 devices), preempted: for job 2`."""
    held = f" on {', '.join(one.nodes)} ({plural(one.gpus, 'device')})" if one.nodes else ""
    end = f", {one.end}" if one.end else ""
    why = f": {one.why}" if one.why not in ("", one.end) else ""
    return f"{one.doing} {format_duration(seconds)}{held}{end}{why}"


def _ticks(span_s: float) -> list[StripTick]:
    """Round moments, a few of them."""
    step = next((one for one in _STEPS_S if span_s / one <= TICKS + 1), _STEPS_S[-1])
    while span_s / step > 2 * TICKS:
        step *= 2
    count = int(span_s / step)
    return [
        StripTick(100.0 * i * step / span_s, f"+{format_duration(i * step)}") for i in range(1, count + 1)
    ]
