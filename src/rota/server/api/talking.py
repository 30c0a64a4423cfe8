"""The calls that come most often go straight to their services: an agent's question, a submission, a wait.

A router and its dependencies take as long to find a service as it takes to answer, and who submits and then
waits would keep the scheduler from its decision for so long.  Whatever is unusual is left to the routes
`rota.server.api.agents.sync`, `rota.server.api.jobs.submit` and `wait`, which mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.errors import RotaError
from rota.server.api.calling import LONGEST_WAIT_S, answer, patience_s, wait_for
from rota.server.api.forms import Submission
from rota.server.api.problems import refused_at
from rota.server.api.services import Services
from rota.server.callers import Caller
from rota.wire.job import JOB_ID
from rota.wire.sync import SyncRequest

_SYNC = re.compile(r"/v1/agents/([^/]{1,253})/sync")
_SUBMIT = "/v1/jobs"
_WAIT = re.compile(rf"/v1/jobs/(?P<id>{JOB_ID.pattern})/wait")
_FOR = re.compile(r"(?:wait_s=([0-9]{1,3}(?:\.[0-9]{1,9})?))?")
"""What a wait asks for: so many seconds, or as many as one may wait."""

Held = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
"""Its result, unless the caller goes or the controller stops."""


class StraightCall(NamedTuple):
    """One of these calls."""

    path: str
    """What the counters call it."""
    answered: Callable[[bytes, Held], Awaitable[Response | None]]
    """The answer to a body; None if nothing has happened and the route has to say why."""
    is_held: bool
    """Whether it ends when its caller goes."""


def straight(services: Services, who: Caller, method: str, path: str, query: str) -> StraightCall | None:
    """How `services` are asked straight; None if this is no such call, or not one that `who` may make."""
    if method == "POST" and path == _SUBMIT:
        submitted = partial(_submitted, services, who)
        return StraightCall(_SUBMIT, submitted, is_held=False) if who.user and not query else None
    if method == "POST":
        match = _SYNC.fullmatch(path)
        if match is None or match[1] != who.node:
            return None
        return StraightCall("/v1/agents/{node}/sync", partial(_asked, services, match[1]), is_held=True)
    job, asked = _WAIT.fullmatch(path), _FOR.fullmatch(query)
    if method != "GET" or not job or not asked or not who.user:
        return None
    wait_s = LONGEST_WAIT_S if asked[1] is None else float(asked[1])
    return StraightCall(
        "/v1/jobs/{id}/wait", partial(_waited, services, who, job["id"], wait_s), is_held=True
    )


class StraightCalls:
    """ASGI middleware, innermost: the caller is known and the body fits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an agent's question, a submission or a wait, or pass the call on."""
        call = _call_of(scope)
        if call is None:
            await self._app(scope, receive, send)
            return
        http = Request(scope, receive)
        body = await http.body() if scope["method"] == "POST" else b""
        response = await call.answered(body, partial(wait_for, http))
        if response is None:
            rest = _once(body, receive) if scope["method"] == "POST" else receive
            await self._app(scope, rest, send)
            return
        scope["route"] = call
        await response(scope, receive, send)


def _call_of(scope: Scope) -> StraightCall | None:
    if scope["type"] != "http" or "identity" not in scope:
        return None
    who, services = scope["identity"], scope["app"].state.services
    query = scope["query_string"].decode("latin-1")
    call = straight(services, who, scope["method"], scope["path"], query)
    if call is None or call.path != _SUBMIT:
        return call
    return call if Request(scope).headers.get("content-type") == "application/json" else None


async def _asked(services: Services, node: str, body: bytes, held: Held) -> Response | None:
    """The answer to an agent; None for every refusal: everything may be said twice."""
    try:
        said = SyncRequest.model_validate_json(body)
        said.wait_s = patience_s(said.wait_s)
        return answer(await held(services.agents.sync(node, said)))
    except (ValidationError, RotaError):
        return None


async def _submitted(services: Services, who: Caller, body: bytes, _: Held) -> Response | None:
    """What became of a submission; None if it is not one that can be read."""
    try:
        request = Submission.model_validate_json(body)
    except ValidationError:
        return None
    try:
        return await run_in_threadpool(lambda: answer(services.submissions.submit(who, request), 201))
    except RotaError as error:  # not said twice: it may be on record
        return refused_at(f"POST {_SUBMIT}", error)


async def _waited(
    services: Services, who: Caller, id: str, wait_s: float, _: bytes, held: Held
) -> Response | None:
    """How a job stands once it has ended or the time is over; None for every refusal, said by the route."""
    try:
        return answer(await held(services.jobs.wait(who, id, patience_s(wait_s))))
    except RotaError:
        return None


def _once(body: bytes, receive: Receive) -> Receive:
    """The body that has been read, then whatever comes."""
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return rest.pop() if rest else await receive()

    return again
