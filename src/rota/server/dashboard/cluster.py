"""The page Cluster: who holds which device, what is free of it, and what is wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from rota.server.api.calling import AskedCluster, AskedNodes, Person
from rota.server.api.services import Cluster, Nodes
from rota.server.dashboard.rendering import fragment, page
from rota.wire.views import ClusterStatus, NodeView

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class ClusterPage:
    """What the page shows."""

    status: ClusterStatus
    nodes: Sequence[NodeView]
    now_s: float


def cluster_page(cluster: Cluster, nodes: Nodes) -> ClusterPage:
    """As it is now."""
    return ClusterPage(cluster.status(), nodes.nodes(), time.time())


@router.get("/")
def show(request: Request, cluster: AskedCluster, nodes: AskedNodes, who: Person) -> Response:
    """The page."""
    return page(request, "cluster.html", shown=cluster_page(cluster, nodes))


@router.get("/cluster/now")
def now(request: Request, cluster: AskedCluster, nodes: AskedNodes, who: Person) -> Response:
    """What changes of it."""
    return fragment(request, "cluster_now.html", shown=cluster_page(cluster, nodes))
