"""Parts of every route: permissions, the service that it asks, its answer, and waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from rota.errors import InputError
from rota.server.api import services
from rota.server.callers import Caller
from rota.server.refusals import Busy, Forbidden, NotFound
from rota.wire.job import JOB_ID

T = TypeVar("T")
LONGEST_WAIT_S = 60.0
AT_ONCE = 200
"""Entries of a list that are written in one go, which takes less than a millisecond."""


def _service(name: str) -> Any:
    """The service of this name as a dependency of a route; no part of the API's description."""

    async def service(request: Request) -> Any:
        return getattr(request.app.state.services, name)

    return Depends(service)


async def _anybody(request: Request) -> Caller:
    """The caller that the gate has identified."""
    who: Caller = request.scope["identity"]
    return who


async def _person(who: Annotated[Caller, Depends(_anybody)]) -> Caller:
    if not who.user:
        holder = f"the agent of node {who.node!r}" if who.node else "a join token"
        raise Forbidden(f"this call is for people; {holder} may not make it")
    return who


async def _admin(who: Annotated[Caller, Depends(_person)]) -> Caller:
    if not who.admin:
        raise Forbidden(f"this call is for admins; {who.user!r} is none")
    return who


async def _job_id(
    id: Annotated[str, Path(description="`17`, or `17_3` in an array", examples=["17"])],
) -> str:
    if not JOB_ID.fullmatch(id):
        raise NotFound(f"there is no job {id[:40]!r}; ids look like 17 or 17_3")
    return id


AskedSubmissions = Annotated[services.SubmissionsService, _service("submissions")]
AskedJobs = Annotated[services.JobsService, _service("jobs")]
AskedCommands = Annotated[services.JobCommandsService, _service("commands")]
AskedNodes = Annotated[services.NodesService, _service("nodes")]
AskedHistory = Annotated[services.HistoryService, _service("history")]
AskedCluster = Annotated[services.ClusterService, _service("cluster")]
AskedPolicies = Annotated[services.PoliciesService, _service("policies")]
AskedTenants = Annotated[services.TenantsService, _service("tenants")]
AskedUsers = Annotated[services.UsersService, _service("users")]
AskedAgents = Annotated[services.AgentsService, _service("agents")]
AskedTerminals = Annotated[services.TerminalsService, _service("terminals")]
Anybody = Annotated[Caller, Depends(_anybody)]
Person = Annotated[Caller, Depends(_person)]
Admin = Annotated[Caller, Depends(_admin)]
JobId = Annotated[str, Depends(_job_id)]
NodeName = Annotated[str, Path(max_length=253, description="name of a node", examples=["gpu-1"])]


async def known_parameters(request: Request) -> None:
    """Refuse a parameter in the address that this call has not: one that is misspelt would change nothing."""
    route = request.scope.get("route")
    if not request.scope["query_string"] or not isinstance(route, APIRoute):
        return
    known = _parameters(route.dependant)
    for name in request.query_params:
        if name not in known:
            raise InputError(f"{_shortened(name)} is no parameter of this call{_meant(name, known)}")


def _parameters(of: Dependant) -> list[str]:
    """Names of what a call, or what it depends on, reads in the address."""
    inner = [name for one in of.dependencies for name in _parameters(one)]
    return [field.alias for field in of.query_params] + inner


def _meant(name: str, known: list[str]) -> str:
    if near := get_close_matches(name, known, n=1):
        return f"; did you mean {near[0]}?"
    return f"; expected one of: {', '.join(known)}" if known else "; it has none"


def _shortened(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:79] + "…")


def answer(value: BaseModel | Sequence[BaseModel], status: int = 200) -> Response:
    """The value as JSON.

    Written here, on the thread of the call, because a list of 10,000 jobs would stop the event loop for long;
    routes declare what they answer for the description only.
    """
    if isinstance(value, BaseModel):
        text = to_json(value, inf_nan_mode="null")
    else:  # in pieces, between which other threads get their turn
        pieces = [
            to_json(value[at : at + AT_ONCE], inf_nan_mode="null") for at in range(0, len(value), AT_ONCE)
        ]
        text = b"[%b]" % b",".join(piece[1:-1] for piece in pieces)
    return Response(text, status, media_type="application/json")


class Waiting:
    """The calls that wait for an event; ends each when its caller disconnects, or all together."""

    def __init__(self) -> None:
        self._closed = False
        self._calls: set[_Call] = set()

    async def until_gone(self, request: Request, waiting: Coroutine[Any, Any, T]) -> T:
        """Result of `waiting`; cancels it if the caller goes (ClientDisconnect), or on `close` (Busy)."""
        call = _Call()
        gone = asyncio.ensure_future(_gone(request))
        gone.add_done_callback(call.left)
        try:
            return await self._held(call, waiting)
        finally:
            gone.cancel()

    async def until_closed(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Result of `waiting`, which is cancelled with the caller's task; Busy on `close`."""
        return await self._held(_Call(), waiting)

    async def _held(self, call: _Call, waiting: Coroutine[Any, Any, T]) -> T:
        """In the task that calls: a task of its own would cost more than most answers."""
        if self._closed:
            waiting.close()
            raise _stopping()
        self._calls.add(call)
        try:
            return await waiting
        except asyncio.CancelledError:
            if call.ended_by is None:
                raise
            raise call.ended_by from None
        finally:
            self._calls.discard(call)
            call.finish()

    def close(self) -> None:
        """Answer all that wait, and all that want to, that the controller is stopping."""
        self._closed = True
        for call in self._calls:
            call.end(_stopping())


class _Call:
    """One that waits, in the task that makes it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        """None once it waits no more."""
        self.ended_by: Exception | None = None

    def end(self, error: Exception) -> None:
        """Cancel the awaited task; the wait raises `error` instead."""
        if self._task is not None and self.ended_by is None:
            self.ended_by = error
            self._task.cancel()

    def left(self, gone: asyncio.Future[None]) -> None:
        """The caller has disconnected, unless the call is only no longer watched."""
        if not gone.cancelled():
            gone.exception()  # seen: of a connection that breaks there is nothing more to say
            self.end(ClientDisconnect())

    def finish(self) -> None:
        """From now on nothing ends it."""
        task, self._task = self._task, None
        if task is not None and self.ended_by is not None:
            task.uncancel()


async def wait_for(request: Request, waiting: Coroutine[Any, Any, T]) -> T:
    """`Waiting.until_gone` of this application."""
    waits: Waiting = request.app.state.waiting
    return await waits.until_gone(request, waiting)


def patience_s(wait_s: float) -> float:
    """How long a caller may really wait: between 0 and LONGEST_WAIT_S, also if asked for no number."""
    return min(max(0.0, wait_s), LONGEST_WAIT_S) if wait_s == wait_s else 0.0


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _stopping() -> Busy:
    return Busy("the controller is stopping; ask again when it is back")
