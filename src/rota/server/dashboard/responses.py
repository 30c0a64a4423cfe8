"""Templates, and responses made of them: pages, parts of pages, errors."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any
from zlib import crc32

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from pydantic_core import to_json
from starlette.responses import HTMLResponse, Response

from rota.model.units import number, plural
from rota.model.words import ahead, count, duration, gib, hours, share, utc
from rota.reports.name_breaks import breakable
from rota.reports.palette import BARS
from rota.server.api.services import ClusterService
from rota.server.callers import Caller
from rota.server.dashboard.pages import PAGES
from rota.server.dashboard.statics import asset

POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "HX-Request",
}
"""Of every page: nothing is loaded from elsewhere, and the page itself contains no script or style."""
COLOURS = len(BARS)
_CHOSEN: dict[str, int] = {}
_CHOOSING = Lock()


@cache
def environment() -> Environment:
    """The templates, which escape whatever they are given."""
    made = Environment(
        loader=PackageLoader("rota.server.dashboard"),
        autoescape=select_autoescape(("html",), default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "ahead": ahead,
        "count": count,
        "duration": duration,
        "gib": gib,
        "number": number,
        "plural": lambda value, noun: plural(value, noun),
        "share": share,
        "hours": hours,
        "utc": utc,
        "colour": colour_of,
        "name": breakable,
    }
    made.globals |= {"pages": PAGES, "asset": asset}
    return made


def colour_of(name: str) -> int:
    """The number of a tenant's colour: by its name, or the next unused one while there is one."""
    with _CHOOSING:
        if name not in _CHOSEN:
            first, taken = crc32(name.encode()) % COLOURS, set(_CHOSEN.values())
            near = [(first + step) % COLOURS for step in range(COLOURS)]
            _CHOSEN[name] = next((colour for colour in near if colour not in taken), first)
        return _CHOSEN[name]


def page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A whole page; templates get the caller `who` and the `path`."""
    return HTMLResponse(rendered(request, template, **values), status, HEADERS)


def data(value: Any) -> Response:
    """Values for a script of a page."""
    return Response(to_json(value, inf_nan_mode="null"), headers=HEADERS, media_type="application/json")


fragment = page
"""A part of a page, which htmx puts in the place of an older one."""


def rendered(request: Request, template: str, **values: Any) -> str:
    """The template's text for this caller; templates see the moment `now_s`, too."""
    who: Caller | None = request.scope.get("identity")
    source = environment().get_template(template)
    seen = request.scope.get("seen", 0)
    return source.render(who=who, path=request.url.path, seen=seen, now_s=now_of(request), **values)


def now_of(request: Request) -> float:
    """Unix seconds by the cluster's clock, from which durations on the page are counted."""
    cluster: ClusterService = request.app.state.services.cluster
    return cluster.now_s()
