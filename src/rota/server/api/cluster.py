"""The cluster: nodes, status, history, events."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Body, Query
from starlette.responses import Response

from rota.reports.usage.prices import parse_prices
from rota.server.api.forms import MOST_ENDED, Reason, TableFormat
from rota.server.api.problems import refusals
from rota.server.api.route_parts import (
    Admin,
    AskedCluster,
    AskedHistory,
    AskedNodes,
    NodeName,
    Person,
    answer,
)
from rota.wire.job import JOB_ID
from rota.wire.numbers import Unix
from rota.wire.usage import BY, UsageView
from rota.wire.views import ClusterStatus, CostView, EventView, JobView, NodeView

router = APIRouter(prefix="/v1", tags=["cluster"], responses=refusals())
NO_REASON = Reason()
# Told, not enforced by the form: `usage_of` and `parse_prices` refuse the rest in words.
_BY = f"^({'|'.join(BY)})(,({'|'.join(BY)}))*$"
_TYPE, _AMOUNT = r"[^,=\s][^,=\x00]*=", r"[0-9]{1,12}(\.[0-9]{1,12})?"
_PRICE = rf"^({_TYPE})?{_AMOUNT}(,({_TYPE})?{_AMOUNT})*$"
ReasonBody = Annotated[Reason, Body(examples=[{"reason": "new power supply"}])]


class NodeVerb(StrEnum):
    """What is done to a node."""

    DRAIN = "drain"
    UNDRAIN = "undrain"
    FORGET = "forget"


@router.get("/nodes", response_model=list[NodeView])
def nodes(nodes: AskedNodes, who: Person) -> Response:
    """List the nodes with their devices."""
    return answer(nodes.nodes())


@router.post("/nodes/{node:path}/{verb}", response_model=NodeView, responses=refusals(404, 409))
def act_on_node(
    node: NodeName, verb: NodeVerb, nodes: AskedNodes, who: Admin, body: ReasonBody = NO_REASON
) -> Response:
    """Let a node take no new jobs, let it take them again, or forget one that is lost.  Admins only."""
    if verb is NodeVerb.FORGET:
        return answer(nodes.forget(who, node))
    return answer(nodes.drain(who, node, verb is NodeVerb.DRAIN, body.reason))


@router.get("/status", response_model=ClusterStatus)
def status(cluster: AskedCluster, who: Person) -> Response:
    """Say how the cluster stands, and what an operator should know now."""
    return answer(cluster.status())


@router.get(
    "/history",
    response_model=list[JobView],
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def history(
    history: AskedHistory,
    who: Person,
    since: Annotated[Unix | None, Query(description="ended at this Unix time or later")] = None,
    until: Annotated[Unix | None, Query(description="ended before this Unix time")] = None,
    format: TableFormat = TableFormat.JSON,
    limit: Annotated[
        int | None, Query(ge=1, le=MOST_ENDED, description="the first so many; all of them if not said")
    ] = None,
    after: Annotated[
        str | None, Query(pattern=f"^{JOB_ID.pattern}$", description="only those behind this job, by its id")
    ] = None,
) -> Response:
    """List the jobs that ended in a time, oldest first; as CSV, a trace that `rota simulate` reads.

    More than 10,000 are had page by page: `limit=10000`, then `after` with the last id of the page before.
    """
    if format is TableFormat.CSV:
        return Response(history.history_csv(since, until), media_type="text/csv")
    return answer(history.history(since, until, limit, after or ""))


@router.get(
    "/usage",
    response_model=UsageView,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def usage(
    history: AskedHistory,
    who: Person,
    by: Annotated[
        str,
        Query(
            max_length=100,
            description=f"what to count by, of {', '.join(BY)}",
            json_schema_extra={"pattern": _BY},
        ),
    ] = "tenant",
    since: Annotated[Unix | None, Query(description="count from this Unix time on")] = None,
    until: Annotated[Unix | None, Query(description="count up to this Unix time")] = None,
    price: Annotated[
        str | None,
        Query(
            max_length=1024,
            description="of a GPU-hour: 2.5, or by type: V100=1.2,A100=3",
            json_schema_extra={"pattern": _PRICE},
        ),
    ] = None,
    format: TableFormat = TableFormat.JSON,
) -> Response:
    """Say where the GPU-hours went, jobs that still run with what they have had, and what they cost."""
    from rota.reports.usage.view import csv_text

    prices = None if price is None else parse_prices(price)
    table = history.usage(by.split(","), since, until, prices)
    return Response(csv_text(table), media_type="text/csv") if format is TableFormat.CSV else answer(table)


@router.get("/costs", response_model=list[CostView])
def costs(history: AskedHistory, who: Person) -> Response:
    """Say what starts, suspensions and departures took here, for simulations of this cluster."""
    return answer(history.costs())


@router.get("/events", response_model=list[EventView])
def events(
    history: AskedHistory,
    who: Person,
    since_seq: Annotated[int, Query(ge=-1, le=2**62, description="only events after this one")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """List what happened, in its order."""
    return answer(history.events(since_seq, limit))
