"""The calls that come most often go straight to their services: an agent's question, a submission, a wait.

A router and its dependencies take as long to find a service as it takes to answer, and who submits and then
waits would keep the scheduler from its decision for so long.  Whatever is unusual is left to the routes
`rota.server.api.agents.sync`, `rota.server.api.jobs.submit` and `wait`, which mean the same.
"""

from __future__ import annotations

import re

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.errors import RotaError
from rota.server.api.calling import LONGEST_WAIT_S, answer, patience_s, wait_for
from rota.server.api.forms import Submission
from rota.server.api.problems import refused
from rota.server.api.services import Services
from rota.wire.sync import SyncRequest

_SYNC = re.compile(r"/v1/agents/([^/]{1,253})/sync")
_SUBMIT = "/v1/jobs"
_WAIT = re.compile(r"/v1/jobs/([0-9]{1,15}(?:_[0-9]{1,9})?)/wait")
_FOR = re.compile(rb"(?:wait_s=([0-9]{1,3}(?:\.[0-9]{1,9})?))?")
"""What a wait asks for: so many seconds, or as many as one may wait."""


class StraightCalls:
    """ASGI middleware, innermost: the caller is known and the body fits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an agent's question, a submission or a wait, or pass the call on."""
        if scope["type"] == "http" and scope["method"] == "GET":
            await self._get(scope, receive, send)
            return
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

    async def _get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a wait, or pass the call on."""
        job, asked = _WAIT.fullmatch(scope["path"]), _FOR.fullmatch(scope["query_string"])
        response = None
        if job and asked and scope["identity"].user:
            wait_s = LONGEST_WAIT_S if asked[1] is None else float(asked[1])
            response = await _waited(Request(scope, receive), job[1], wait_s)
        if response is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = _Wait
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


async def _waited(http: Request, id: str, wait_s: float) -> Response | None:
    """How a job stands once it has ended or the time is over; None for every refusal, said by the route."""
    services: Services = http.app.state.services
    waiting = services.jobs.wait(http.scope["identity"], id, patience_s(wait_s))
    try:
        return answer(await wait_for(http, waiting))
    except RotaError:
        return None


class _Sync:
    """What the counters call it."""

    path = "/v1/agents/{node}/sync"


class _Submit:
    path = _SUBMIT


class _Wait:
    path = "/v1/jobs/{id}/wait"


def _once(body: bytes, receive: Receive) -> Receive:
    """The body that has been read, then whatever comes."""
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return rest.pop() if rest else await receive()

    return again
