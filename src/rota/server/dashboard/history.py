"""The page History: jobs that ended, filtered, page by page, and as files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from rota.server.api.forms import MOST_ENDED, EndedFilter
from rota.server.api.route_parts import AskedHistory, Person
from rota.server.api.services import HistoryService
from rota.server.dashboard.responses import HEADERS, page
from rota.server.dashboard.usage import day_start
from rota.wire.views import JobView

router = APIRouter(include_in_schema=False)
STATES = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
LINES = 50
COLUMNS = (
    "id", "name", "user", "tenant", "state", "gpus", "submit_s", "start_s", "end_s", "run_s", "waiting_s",
    "gpu_s", "preemptions", "failures", "exit_code", "cause",
)  # fmt: skip
Word = Annotated[str, Query(max_length=256, pattern=r"^[^\x00]*$")]


@dataclass(frozen=True)
class Filter:
    """A search for ended jobs; an empty field matches every job.  Days are UTC, `2026-11-22`."""

    tenant: str = ""
    user: str = ""
    state: str = ""
    text: str = ""
    """In its name, its number, its group or the sentence of its end."""
    since: str = ""
    until: str = ""
    """The last day that counts."""
    at: int = 0
    """Page, from 0."""

    def link(self, at: int | None = None) -> str:
        """This search as a query, of another page if `at` is given."""
        fields = {
            name: value for name, value in vars(self if at is None else replace(self, at=at)).items() if value
        }
        return f"?{urlencode(fields)}" if fields else ""

    @property
    def window(self) -> tuple[float | None, float | None]:
        """Unix times from which and before which jobs ended; InputError for what is no day."""
        until_s = day_start(self.until, "until")
        return day_start(self.since, "since"), None if until_s is None else until_s + 86400.0


@dataclass(frozen=True)
class HistoryPage:
    """What the page shows."""

    asked: Filter
    jobs: Sequence[JobView]
    matches: int
    """Jobs that pass the filter."""
    is_cut: bool
    """True if older jobs than those searched are on record."""
    gpu_hours: float
    """That those matches held."""
    pages: int
    export: str
    """Query of the trace of this window."""


def history_page(history: HistoryService, asked: Filter) -> HistoryPage:
    """The jobs that pass, newest first."""
    jobs_ended, is_cut = ended(history, asked)
    pages = max(-(-len(jobs_ended) // LINES), 1)
    asked = replace(asked, at=min(max(asked.at, 0), pages - 1))
    begin = asked.at * LINES
    since_s, until_s = asked.window
    export = urlencode(
        {k: v for k, v in (("since", since_s), ("until", until_s)) if v is not None} | {"format": "csv"}
    )
    hours = sum(job.gpu_s for job in jobs_ended) / 3600.0
    return HistoryPage(
        asked, jobs_ended[begin : begin + LINES], len(jobs_ended), is_cut, hours, pages, export
    )


def ended(history: HistoryService, asked: Filter) -> tuple[list[JobView], bool]:
    """All that pass, the one that ended last first; and whether there were more to search."""
    since_s, until_s = asked.window
    states = (asked.state,) if asked.state in STATES else STATES
    which = EndedFilter(states, asked.tenant, asked.user, MOST_ENDED, since_s, until_s)
    listed = history.ended(which)
    return [job for job in listed if _passes(job, asked.text.casefold(), until_s)], len(listed) >= MOST_ENDED


def _passes(job: JobView, text: str, until_s: float | None) -> bool:
    if until_s is not None and (job.end_s or 0.0) >= until_s:
        return False
    said = (job.id, job.name, job.group, job.workload, job.cause, job.user, job.tenant)
    return not text or any(text in one.casefold() for one in said)


def as_csv(jobs: Iterable[JobView]) -> str:
    """The rows of the page as a table; moments are Unix seconds."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for job in jobs:
        writer.writerow([_cell(getattr(job, name)) for name in COLUMNS])
    return out.getvalue()


def _cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return "" if value is None else value


# -- routes ------------------------------------------------------------------------------------------


def _asked(
    tenant: Word = "", user: Word = "", state: Word = "", text: Word = "", since: Word = "", until: Word = "",
    at: Annotated[int, Query(ge=0, le=10**6)] = 0,
) -> Filter:  # fmt: skip
    return Filter(tenant.strip(), user.strip(), state, text.strip(), since, until, at)


Asked = Annotated[Filter, Depends(_asked)]


@router.get("/history")
def show(request: Request, history: AskedHistory, who: Person, asked: Asked) -> Response:
    """The page."""
    return page(request, "history.html", shown=history_page(history, asked), states=STATES)


@router.get("/history/jobs.csv")
def export(history: AskedHistory, who: Person, asked: Asked) -> Response:
    """All jobs that pass the filter, as a file."""
    headers = HEADERS | {"Content-Disposition": 'attachment; filename="rota-history.csv"'}
    return Response(as_csv(ended(history, asked)[0]), headers=headers, media_type="text/csv")
