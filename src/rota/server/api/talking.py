"""The calls that come most often, an agent's question and a submission, go straight to their services.

A router and its dependencies take as long to find a service as it takes to answer.  Whatever is unusual is
left to the routes `rota.server.api.agents.sync` and `rota.server.api.jobs.submit`, which mean the same.
"""

from __future__ import annotations

import re

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.errors import RotaError
from rota.server.api.calling import answer, patience_s, wait_for
from rota.server.api.forms import Submission
from rota.server.api.problems import refused
from rota.server.api.services import Services
from rota.wire.sync import SyncRequest

_SYNC = re.compile(r"/v1/agents/([^/]{1,253})/sync")
_SUBMIT = "/v1/jobs"


class StraightCalls:
    """ASGI middleware, innermost: the caller is known and the body fits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an agent's question or a submission, or pass the call on."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        match = _SYNC.fullmatch(scope["path"])
        http = Request(scope, receive)
        if not (_is_submission(http) if match is None else scope["identity"].node == match[1]):
            await self._app(scope, receive, send)
            return
        body = await http.body()
        response = await (_asked(http, match[1], body) if match else _submitted(http, body))
        if response is None:
            await self._app(scope, _once(body, receive), send)
            return
        scope["route"] = _Sync if match else _Submit
        await response(scope, receive, send)


def _is_submission(http: Request) -> bool:
    """Whether a person submits, and asks for nothing else."""
    scope = http.scope
    is_json = http.headers.get("content-type") == "application/json"
    return bool(scope["path"] == _SUBMIT and is_json and not scope["query_string"] and scope["identity"].user)


async def _asked(http: Request, node: str, body: bytes) -> Response | None:
    """The answer to an agent; None for every refusal: everything may be said twice."""
    services: Services = http.app.state.services
    try:
        said = SyncRequest.model_validate_json(body)
        said.wait_s = patience_s(said.wait_s)
        return answer(await wait_for(http, services.agents.sync(node, said)))
    except ClientDisconnect:
        raise
    except (ValidationError, RotaError):
        return None


async def _submitted(http: Request, body: bytes) -> Response | None:
    """What became of a submission; None if it is not one that can be read."""
    services: Services = http.app.state.services
    try:
        request = Submission.model_validate_json(body)
    except ValidationError:
        return None
    try:
        return await run_in_threadpool(
            lambda: answer(services.submissions.submit(http.scope["identity"], request), 201)
        )
    except RotaError as error:  # not said twice: it may be on record
        return refused(http, error)


class _Sync:
    """What the counters call it."""

    path = "/v1/agents/{node}/sync"


class _Submit:
    path = _SUBMIT


def _once(body: bytes, receive: Receive) -> Receive:
    """The body that has been read, then whatever comes."""
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return rest.pop() if rest else await receive()

    return again
