"""The application: authentication, limits, metrics, and routes over the services."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota import __version__
from rota.server.api import agents, cluster, jobs, policy, service, tenants, users
from rota.server.api.problems import handle_errors, problem, problem_schema
from rota.server.api.route_parts import Waiting, known_parameters
from rota.server.api.services import Services
from rota.server.auth import AuthenticationGate, Roster
from rota.server.dashboard.errors import SIGN_IN, ErrorPages, refused_at_gate
from rota.server.dashboard.feed import Feed
from rota.server.dashboard.memo import Memo
from rota.server.dashboard.pages import routers
from rota.server.dashboard.statics import FOLDER
from rota.server.limits import (
    BURST_CALLS,
    CALLS_PER_S,
    MOST_BODY_BYTES,
    BodyLimit,
    CallRates,
    LongQuestions,
    RateLimit,
    UnreadAnswers,
)
from rota.server.metrics import Metrics
from rota.wire import cluster_clock

ROOMS = (jobs, cluster, policy, tenants, users, agents, service)
OPEN_PATHS = ("/health",)
OPEN_PAGES = (SIGN_IN, FOLDER, "/favicon.ico")
"""Of the dashboard, what strangers may see."""
NOW_HEADER = cluster_clock.HEADER.encode()
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """What can be configured of the API."""

    metrics_open: bool = False
    """Let every caller read /metrics."""
    most_body_bytes: int = MOST_BODY_BYTES
    calls_per_s: float = CALLS_PER_S
    """Of one user or agent, on the long run."""
    burst_calls: float = BURST_CALLS
    """Most concurrent calls of one user or agent."""
    threads: int = 16
    """Threads, and so concurrent calls; calls that wait for something take none."""


def create_app(
    services: Services,
    roster: Roster,
    metrics: Metrics | None = None,
    settings: ApiSettings | None = None,
    feed: Feed | None = None,
) -> FastAPI:
    """API and dashboard over `services` for the users that `roster` knows, as an ASGI application.

    Changes put into `feed` reach the open browsers.
    """
    chosen, kept = settings or ApiSettings(), metrics or Metrics()
    open_paths = (*OPEN_PATHS, "/metrics") if chosen.metrics_open else OPEN_PATHS

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = chosen.threads
        yield

    app = FastAPI(
        title="Rota",
        version=__version__,
        summary="A scheduler for deep-learning GPU clusters",
        description="Times are Unix seconds; durations are seconds.  Refusals are one sentence.",
        lifespan=lifespan,
        docs_url=None,  # these pages load their scripts from elsewhere
        redoc_url=None,
        strict_content_type=False,
        redirect_slashes=False,
        generate_unique_id_function=_operation,
        middleware=[
            Middleware(CallWatch, metrics=kept, now_s=services.cluster.now_s),
            Middleware(ErrorPages),
            Middleware(
                AuthenticationGate,
                directory=roster,
                open_paths=(*open_paths, *OPEN_PAGES),
                refused=refused_at_gate,
            ),
            Middleware(RateLimit, rates=CallRates(chosen.calls_per_s, chosen.burst_calls)),
            Middleware(LongQuestions),
            Middleware(UnreadAnswers),
            Middleware(BodyLimit, most_bytes=chosen.most_body_bytes),
        ],
    )
    app.state.services, app.state.metrics, app.state.waiting = services, kept, Waiting()
    app.state.roster, app.state.feed = roster, feed or Feed()
    app.state.memo, app.state.pulse = Memo(app.state.feed), service.Pulse(services.cluster.health)
    handle_errors(app)
    for room in ROOMS:  # probes and Prometheus may send what they like
        checks = [] if room is service else [Depends(known_parameters)]
        app.include_router(room.router, dependencies=checks)
    for router in routers():
        app.include_router(router)
    _describe(app, open_paths)
    return app


class CallWatch:
    """ASGI middleware: counts and times the answers; logs the bugs that got through, answered with 500.

    Every answer tells the moment by the cluster's clock.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, now_s: Callable[[], float]) -> None:
        self._app = app
        self._metrics = metrics
        self._now_s = now_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, status = time.perf_counter(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (NOW_HEADER, b"%.3f" % self._now_s())]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except ClientDisconnect:
            status = status or 499  # the caller has gone
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not status:
                sentence = "something is wrong in the controller; its log says what"
                await problem(500, sentence)(scope, receive, sent)
        finally:
            self._count(scope, status, time.perf_counter() - began_s)

    def _count(self, scope: Scope, status: int, took_s: float) -> None:
        route = getattr(scope.get("route"), "path_format", "other")
        method = scope["method"] if route != "other" else "other"
        self._metrics.answered(method, route, status, took_s)


def _operation(route: APIRoute) -> str:
    return route.name


def _describe(app: FastAPI, open_paths: tuple[str, ...]) -> None:
    """Say in the description of the API that calls take a token."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                description=app.description,
                routes=app.routes,
            )
            parts = schema.setdefault("components", {})
            parts["schemas"] = dict(sorted({**parts.get("schemas", {}), **problem_schema()}.items()))
            schemes = parts.setdefault("securitySchemes", {})
            schemes["token"] = {"type": "http", "scheme": "bearer"}
            schema["security"] = [{"token": []}]
            for path in open_paths:
                schema["paths"][path]["get"]["security"] = []
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
