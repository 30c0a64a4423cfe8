"""The service itself: health and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from starlette.responses import Response

from rota.model.revision import full_version
from rota.server.api.forms import Health
from rota.server.api.problems import refusals
from rota.server.api.route_parts import AskedCluster, answer
from rota.server.callers import Caller
from rota.server.metrics import CONTENT_TYPE, Metrics
from rota.server.refusals import Forbidden
from rota.wire.protocol import PROTOCOL

router = APIRouter(tags=["service"])
HEALTH_S = 1.0
"""Most seconds until a question about the controller's health is answered."""


class Pulse:
    """Whether the controller works, found out in a thread of its own, so that callers never wait long.

    A check that takes longer than `HEALTH_S` counts as failed; later callers wait for its answer too.
    """

    def __init__(self, question: Callable[[], str]) -> None:
        """`question` returns the fault, or nothing."""
        self._question = question
        self._asking: asyncio.Task[str] | None = None
        self._thread = CapacityLimiter(1)

    async def what_is_wrong(self) -> str:
        """The answer; that it has not come, if it takes too long."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(run_sync(self._question, limiter=self._thread))
        asked = self._asking
        await asyncio.wait([asked], timeout=HEALTH_S)
        return asked.result() if asked.done() else f"the store has not answered within {HEALTH_S:g} s"


@router.get("/health", response_model=Health, responses={503: {"model": Health}})
async def health(request: Request, cluster: AskedCluster) -> Response:
    """Say whether the controller works, to anybody."""
    pulse: Pulse = request.app.state.pulse
    why = await pulse.what_is_wrong()
    said = Health(ok=not why, error=why, version=full_version(), protocol=PROTOCOL, now_s=cluster.now_s())
    return answer(said, 503 if why else 200)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **refusals()},
)
def metrics(request: Request, cluster: AskedCluster) -> Response:
    """Answer Prometheus; takes a user's token unless configured to be open."""
    who: Caller | None = request.scope.get("identity")
    if who is not None and not who.user:
        raise Forbidden("this call is for people; an agent's token does not do")
    kept: Metrics = request.app.state.metrics
    return Response(kept.exposition(cluster.gauges()), headers={"Content-Type": CONTENT_TYPE})
