"""The cluster: nodes, status, history, events."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Body, Query
from starlette.responses import Response

from rota.server.api.calling import Admin, Asked, NodeName, Person, answer
from rota.server.api.forms import Reason
from rota.server.api.problems import refusals
from rota.wire.job import Unix
from rota.wire.views import ClusterStatus, CostView, EventView, JobView, NodeView

router = APIRouter(prefix="/v1", tags=["cluster"], responses=refusals())
NO_REASON = Reason()
ReasonBody = Annotated[Reason, Body(examples=[{"reason": "new power supply"}])]


class NodeVerb(StrEnum):
    """What is done to a node."""

    DRAIN = "drain"
    UNDRAIN = "undrain"
    FORGET = "forget"


class HistoryFormat(StrEnum):
    """How the history is written."""

    JSON = "json"
    CSV = "csv"


@router.get("/nodes", response_model=list[NodeView])
def nodes(controller: Asked, who: Person) -> Response:
    """List the nodes with their devices."""
    return answer(controller.nodes(who))


@router.post("/nodes/{node}/{verb}", response_model=NodeView, responses=refusals(404, 409))
def act_on_node(
    node: NodeName, verb: NodeVerb, controller: Asked, who: Admin, body: ReasonBody = NO_REASON
) -> Response:
    """Let a node take no new jobs, let it take them again, or forget one that is lost.  Admins only."""
    if verb is NodeVerb.FORGET:
        return answer(controller.forget(who, node))
    return answer(controller.drain(who, node, verb is NodeVerb.DRAIN, body.reason))


@router.get("/status", response_model=ClusterStatus)
def status(controller: Asked, who: Person) -> Response:
    """Say how the cluster stands, and what an operator should know now."""
    return answer(controller.status(who))


@router.get(
    "/history",
    response_model=list[JobView],
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def history(
    controller: Asked,
    who: Person,
    since: Annotated[Unix | None, Query(description="ended at this Unix time or later")] = None,
    until: Annotated[Unix | None, Query(description="ended before this Unix time")] = None,
    format: HistoryFormat = HistoryFormat.JSON,
) -> Response:
    """List the jobs that ended in a time, oldest first; as CSV, a trace that `rota simulate` reads."""
    if format is HistoryFormat.CSV:
        return Response(controller.history_csv(who, since, until), media_type="text/csv")
    return answer(controller.history(who, since, until))


@router.get("/costs", response_model=list[CostView])
def costs(controller: Asked, who: Person) -> Response:
    """Say what starts, suspensions and departures took here, for simulations of this cluster."""
    return answer(controller.costs(who))


@router.get("/events", response_model=list[EventView])
def events(
    controller: Asked,
    who: Person,
    since_seq: Annotated[int, Query(ge=-1, le=2**62, description="only events after this one")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """List what happened, in its order."""
    return answer(controller.events(who, since_seq, limit))
