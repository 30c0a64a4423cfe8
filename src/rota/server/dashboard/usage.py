"""The page Usage: GPU-hours by tenant, user or workload, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from rota.errors import InputError
from rota.reports.usage.prices import parse_prices
from rota.reports.usage.view import csv_text, months_of
from rota.server.api.route_parts import AskedHistory, Person
from rota.server.api.services import HistoryService
from rota.server.dashboard.responses import HEADERS, data, page
from rota.wire.usage import BY, UsageLine, UsageView

router = APIRouter(include_in_schema=False)
LINES = 200
"""That the page shows; the file has all."""
DAY_S = 86_400.0
Word = Annotated[str, Query(max_length=1024, pattern=r"^[^\x00]*$")]


@dataclass(frozen=True)
class UsageAsked:
    """The usage to count; days are UTC, `2026-11-22`, empty for all of the past."""

    by: str = "tenant"
    then: str = ""
    """Counted by as well; empty for nothing more."""
    since: str = ""
    until: str = ""
    """The last day that counts."""
    price: str = ""

    @property
    def words(self) -> list[str]:
        """The key that usage is grouped by."""
        first = self.by if self.by in BY else "tenant"
        return [first, self.then] if self.then in BY and self.then != first else [first]

    @property
    def link(self) -> str:
        """This selection as a query."""
        fields = {name: value for name, value in vars(self).items() if value}
        return f"?{urlencode(fields)}" if fields else ""


@dataclass(frozen=True)
class UsagePage:
    """What the page shows."""

    asked: UsageAsked
    usage: UsageView
    lines: Sequence[tuple[UsageLine, float]]
    """With how wide its bar is, 0 to 1."""
    trouble: str
    """Why the cost is missing; empty if it is not."""


def counted(history: HistoryService, asked: UsageAsked, words: Sequence[str] = ()) -> tuple[UsageView, str]:
    """The figures, and why they have no cost although one was asked for; by `words` if there are any."""
    words = words or asked.words
    since_s, until_s = day_start(asked.since, "since"), day_start(asked.until, "until")
    end_s = None if until_s is None else until_s + DAY_S
    try:
        prices = parse_prices(asked.price) if asked.price else None
        return history.usage(words, since_s, end_s, prices), ""
    except InputError as error:
        if not asked.price:
            raise
        return history.usage(words, since_s, end_s, None), str(error).removeprefix("--price: ")


def usage_page(history: HistoryService, asked: UsageAsked) -> UsagePage:
    """The lines with the most GPU-hours."""
    usage, trouble = counted(history, asked)
    most = max((line.gpu_hours for line in usage.lines), default=0.0) or 1.0
    lines = [(line, line.gpu_hours / most) for line in usage.lines[:LINES]]
    return UsagePage(asked, usage, lines, trouble)


def _asked(
    by: Word = "tenant", then: Word = "", since: Word = "", until: Word = "", price: Word = ""
) -> UsageAsked:
    return UsageAsked(by, then, since, until, price.strip())


AskedFor = Annotated[UsageAsked, Depends(_asked)]


@router.get("/usage")
def show(request: Request, history: AskedHistory, who: Person, asked: AskedFor) -> Response:
    """The page."""
    from rota.reports.usage.view import columns, notes, summary

    shown = usage_page(history, asked)
    usage = shown.usage
    return page(
        request,
        "usage.html",
        shown=shown,
        choices=BY,
        columns=columns(usage),
        notes=notes(usage),
        summary=summary(usage),
    )


@router.get("/usage/months")
def months(history: AskedHistory, who: Person, asked: AskedFor) -> Response:
    """What `series.js` draws: GPU-hours by month, of whatever is counted by."""
    by_month = counted(history, asked, [*(word for word in asked.words if word != "month"), "month"])[0]
    drawn = months_of(by_month)
    curves = [] if drawn is None else drawn.curves
    return data(
        {
            "times": [] if drawn is None else drawn.times,
            "series": [{"name": name, "values": list(values)} for name, values in curves],
            "unit": "GPU-hours",
        }
    )


@router.get("/usage/lines.csv")
def export(history: AskedHistory, who: Person, asked: AskedFor) -> Response:
    """All lines, as a file."""
    headers = HEADERS | {"Content-Disposition": 'attachment; filename="rota-usage.csv"'}
    return Response(csv_text(counted(history, asked)[0]), headers=headers, media_type="text/csv")


def day_start(text: str, field: str) -> float | None:
    """Unix time at which the day begins; None for no text; InputError, naming `field`, if it is no day."""
    if not text:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InputError.at(f"{text!r} is no day", field=field, expected="one such as 2026-11-22") from None
