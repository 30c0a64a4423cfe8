"""The call that comes most often, an agent's question, goes straight to its service.

A router and its dependencies take as long to find that service as it takes to answer.  Whatever is unusual,
and every refusal, is left to the route `rota.server.api.agents.sync`, which means the same.
"""

from __future__ import annotations

import re

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.errors import RotaError
from rota.server.api.calling import answer, patience_s, wait_for
from rota.server.api.services import Services
from rota.wire.sync import SyncRequest

_PATH = re.compile(r"/v1/agents/([^/]{1,253})/sync")


class AgentTalk:
    """ASGI middleware, innermost: the caller is known and the body fits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an agent's question, or pass the call on."""
        match = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if match is None or scope["method"] != "POST" or scope["identity"].node != match[1]:
            await self._app(scope, receive, send)
            return
        http = Request(scope, receive)
        body = await http.body()
        services: Services = scope["app"].state.services
        try:
            said = SyncRequest.model_validate_json(body)
            said.wait_s = patience_s(said.wait_s)
            response = answer(await wait_for(http, services.agents.sync(match[1], said)))
        except ClientDisconnect:
            raise
        except (ValidationError, RotaError):  # everything may be said twice
            await self._app(scope, _once(body, receive), send)
            return
        scope["route"] = _Route
        await response(scope, receive, send)


class _Route:
    """What the counters call it."""

    path = "/v1/agents/{node}/sync"


def _once(body: bytes, receive: Receive) -> Receive:
    """The body that has been read, then whatever comes."""
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return rest.pop() if rest else await receive()

    return again
