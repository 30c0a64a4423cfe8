"""The service itself: health and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from rota import __version__
from rota.server.api.calling import AskedCluster, answer
from rota.server.api.forms import Health
from rota.server.api.problems import refusals
from rota.server.callers import Caller
from rota.server.metrics import CONTENT_TYPE, Metrics
from rota.server.refusals import Forbidden
from rota.wire.protocol import PROTOCOL

router = APIRouter(tags=["service"])


@router.get("/health", response_model=Health, responses={503: {"model": Health}})
def health(cluster: AskedCluster) -> Response:
    """Say whether the controller works, to anybody."""
    well = cluster.health()
    said = Health(ok=well, version=__version__, protocol=PROTOCOL, now_s=cluster.now_s())
    return answer(said, 200 if well else 503)


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
