"""Refusals in a browser: a page for a page, a sentence for a part of one."""

from __future__ import annotations

import json
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.server.auth import Unauthorized, refusal
from rota.server.dashboard.browsers import is_navigation
from rota.server.dashboard.responses import page
from rota.server.refusals import Forbidden

SIGN_IN = "/sign-in"
TITLES = {
    400: "That cannot be done",
    401: "Sign in first",
    403: "Not for you",
    404: "There is nothing here",
    409: "Not in this state",
    413: "Too much at once",
    422: "That cannot be done",
    429: "Too many calls",
    503: "Not now",
}


def refused_at_gate(scope: Scope, error: Unauthorized | Forbidden) -> Response:
    """The gate's answers: a browser without a session is led to where it gets one."""
    headers = Headers(scope=scope)
    if isinstance(error, Unauthorized):
        if is_navigation(headers) and scope["method"] == "GET":
            return RedirectResponse(_sign_in(scope["path"], scope["query_string"].decode()), 303)
        if "hx-request" in headers:
            return PlainTextResponse(str(error), 401, {"HX-Redirect": SIGN_IN})
    return refusal(error)


def _sign_in(path: str, query: str) -> str:
    whole = f"{path}?{query}" if query else path
    return SIGN_IN if whole == "/" else f"{SIGN_IN}?next={quote(whole, safe='')}"


class ErrorPages:
    """ASGI middleware: writes the refusals of JSON that browsers would get as pages or sentences instead.

    Programs, which ask for no HTML and send no `HX-Request`, get them as they are.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on; hold back a refusal until it can be written as a page."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if not is_navigation(headers) and "hx-request" not in headers:
            await self._app(scope, receive, send)
            return
        scope["seen"] = scope["app"].state.feed.count  # before anything is read that the page will show
        held: list[Message] = []

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_refusal(message):
                held.append(message)
            elif held and message["type"] == "http.response.body":
                held.append(message)
                if not message.get("more_body"):
                    await _written(scope, headers, held)(scope, receive, send)
            else:
                await send(message)

        await self._app(scope, receive, sent)


def _is_refusal(start: Message) -> bool:
    kind = Headers(raw=start["headers"]).get("content-type", "")
    return bool(start["status"] >= 400 and kind.startswith("application/json"))


def _written(scope: Scope, headers: Headers, held: list[Message]) -> Response:
    status = held[0]["status"]
    body = b"".join(message.get("body", b"") for message in held[1:])
    sentence = str(json.loads(body)["error"])
    sentence = sentence[:1].upper() + sentence[1:]
    if "hx-request" in headers:
        kept = {name: value for name, value in Headers(raw=held[0]["headers"]).items() if name[:3] == "hx-"}
        return PlainTextResponse(sentence, status, kept)
    title = TITLES.get(status, "Something is wrong here")
    return page(Request(scope), "error.html", status, title=title, sentence=sentence, code=status)
