"""Calls from browsers: the cookie that holds a session, and other sites' pages, which may change nothing."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from rota.server.refusals import Forbidden

COOKIE = "rota_session"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing, so that any page may send them."""


def cookie_name(headers: Headers) -> str:
    """Its name carries the port: cookies do not know ports, and a machine may run several controllers."""
    port = urlsplit(f"//{headers.get('host', '')}").netloc.rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdigit() else COOKIE


def session_of(headers: Headers) -> str:
    """The session that a browser's cookie holds; empty if there is none."""
    sent = headers.get("cookie")
    if not sent or COOKIE not in sent:
        return ""
    try:
        morsel = SimpleCookie(sent).get(cookie_name(headers))
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def is_navigation(headers: Headers) -> bool:
    """True for a browser that wants a page, and no script or program that wants data."""
    return "text/html" in headers.get("accept", "") and "hx-request" not in headers


def check_origin(method: str, headers: Headers) -> None:
    """Raises Forbidden for a call that would change something and comes from another site's page.

    A browser says so by `Sec-Fetch-Site` where it can be trusted (https, loopback), else by `Origin`.
    """
    if method in SAFE:
        return
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin", "")
    if site == "same-origin" or (site is None and origin and urlsplit(origin).netloc == headers.get("host")):
        return
    raise Forbidden(f"this call comes from a page of {origin or 'an unknown site'}; only pages from here may")
