"""The page Cluster: which job holds which device, how busy it is, free room, and faults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from rota.server.api.forms import JobFilter
from rota.server.api.route_parts import AskedCluster, AskedJobs, AskedNodes, Person
from rota.server.api.services import ClusterService, JobsService, NodesService
from rota.server.dashboard.memo import Memo
from rota.server.dashboard.responses import colour_of, data, fragment, page
from rota.wire.views import ClusterStatus, DeviceView, JobView, NodeView

router = APIRouter(include_in_schema=False)
HOLDING = ("RUNNING", "SUSPENDED", "COMPLETING")
MOST_JOBS = 100_000
NODES_SHOWN = 50
TAKES_JOBS = "up"


@dataclass(frozen=True)
class FreeGang:
    """Free devices of one type, for a job that wants whole devices now."""

    type: str
    devices: int
    free: int
    """Wholly free ones, on nodes that take jobs; the largest gang that may be spread."""
    on_one_node: int
    """The largest gang that has to be together."""
    where: str
    """A node with that much room; empty if none has any."""
    empty_nodes: int


@dataclass(frozen=True)
class ClusterPage:
    """What the page shows."""

    status: ClusterStatus
    nodes: Sequence[NodeView]
    gangs: Sequence[FreeGang]
    obtained: float | None
    """Devices' worth of work that jobs obtain, on the devices that say so; None if none does."""
    obtained_of: float
    """Devices granted among those."""


@dataclass(frozen=True)
class NodesPart:
    """A window on the list of nodes."""

    rows: Sequence[NodeView]
    first: int
    total: int
    text: str


def cluster_page(cluster: ClusterService, nodes: Sequence[NodeView]) -> ClusterPage:
    """As it is now."""
    devices = [device for node in nodes for device in node.devices]
    said = [device for device in devices if device.granted and device.utilisation is not None]
    obtained = sum(device.utilisation or 0.0 for device in said) if said else None
    granted = sum(min(device.granted, 1.0) for device in said)
    return ClusterPage(cluster.status(), nodes, gangs(nodes), obtained, granted)


def gangs(nodes: Sequence[NodeView]) -> list[FreeGang]:
    """One for each type of device, by name: what of it is free, and what fits on one node."""
    by_kind: dict[str, FreeGang] = {}
    for node in nodes:
        for kind in sorted({device.info.type for device in node.devices}):
            own = [device for device in node.devices if device.info.type == kind]
            free = sum(is_free(device) for device in own) if node.state == TAKES_JOBS else 0
            old = by_kind.get(kind, FreeGang(kind, 0, 0, 0, "", 0))
            by_kind[kind] = FreeGang(
                kind,
                old.devices + len(own),
                old.free + free,
                max(old.on_one_node, free),
                node.name if free > old.on_one_node else old.where,
                old.empty_nodes + (free == len(own)),
            )
    return [by_kind[kind] for kind in sorted(by_kind)]


def is_free(device: DeviceView) -> bool:
    """True if no job has a grant of it and it is well, whatever suspended jobs have left in its memory."""
    return not device.granted and device.info.healthy


def nodes_part(nodes: Sequence[NodeView], text: str, first: int) -> NodesPart:
    """The nodes with `text` in their name, state or reason; nodes that take no jobs come first."""
    wanted = text.strip().lower()
    matching = [node for node in nodes if wanted in f"{node.name} {node.state} {node.reason}".lower()]
    matching.sort(key=lambda node: node.state == TAKES_JOBS and all(one.info.healthy for one in node.devices))
    first = first if 0 <= first < len(matching) else 0
    return NodesPart(matching[first : first + NODES_SHOWN], first, len(matching), text)


@router.get("/")
def show(request: Request, cluster: AskedCluster, nodes: AskedNodes, who: Person) -> Response:
    """The page."""
    seen = _nodes(request, nodes)
    return page(request, "cluster.html", shown=cluster_page(cluster, seen), part=nodes_part(seen, "", 0))


@router.get("/cluster/now")
def now(request: Request, cluster: AskedCluster, nodes: AskedNodes, who: Person) -> Response:
    """The numbers, the troubles, what fits."""
    return fragment(request, "cluster_now.html", shown=cluster_page(cluster, _nodes(request, nodes)))


@router.get("/cluster/nodes")
def list_nodes(request: Request, nodes: AskedNodes, who: Person, text: str = "", first: int = 0) -> Response:
    """A window on the list of nodes."""
    part = nodes_part(_nodes(request, nodes), text[:100], first)
    return fragment(request, "cluster_nodes.html", part=part)


@router.get("/cluster/grid")
def show_grid(request: Request, nodes: AskedNodes, jobs: AskedJobs, who: Person) -> Response:
    """All devices, for the picture."""
    memo: Memo = request.app.state.memo
    return data(memo.get("grid", lambda: _grid(request, nodes, jobs)))


def _grid(request: Request, nodes: NodesService, jobs: JobsService) -> Mapping[str, Any]:
    holding: Sequence[JobView] = jobs.jobs(JobFilter(state=HOLDING, limit=MOST_JOBS))
    return grid(_nodes(request, nodes), holding)


def _nodes(request: Request, nodes: NodesService) -> Sequence[NodeView]:
    memo: Memo = request.app.state.memo
    return memo.get("nodes", lambda: sorted(nodes.nodes(), key=_natural))


def _natural(node: NodeView) -> list[tuple[int, str]]:
    """`n2` before `n10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", node.name)]


FREE = 0


def grid(nodes: Sequence[NodeView], holding: Sequence[JobView]) -> Mapping[str, Any]:
    """`jobs`: `[id, name, tenant, user, gpus, state]`; `tenants`: `[path, colour]`; `nodes`: `[name, state,
    reason, type, devices]`.

    A device is 0 if it is free and well, else `[holders, granted, busy, used, whole, suspended, sick]`, cut
    after the last that is not 0: numbers of jobs, the part granted, the part that is busy (-1: not known),
    GiB used and in all, numbers of suspended jobs, and why it is unhealthy.
    """
    number = {job.id: row for row, job in enumerate(holding)}
    tenants = sorted({job.tenant for job in holding})
    place = {tenant: row for row, tenant in enumerate(tenants)}
    return {
        "jobs": [_job(job, place) for job in holding],
        "tenants": [[tenant, colour_of(tenant)] for tenant in tenants],
        "nodes": [_node(node, number) for node in nodes],
    }


def _job(job: JobView, place: Mapping[str, int]) -> list[Any]:
    return [job.id, job.name, place[job.tenant], job.user, job.gpus_now or job.gpus, job.state]


def _node(node: NodeView, number: Mapping[str, int]) -> list[Any]:
    devices = [_device(device, number) for device in node.devices]
    return [node.name, node.state, node.reason, _types(node), devices]


def _types(node: NodeView) -> str:
    return ", ".join(dict.fromkeys(device.info.type for device in node.devices))


def _device(device: DeviceView, number: Mapping[str, int]) -> int | list[Any]:
    """A holder that is not listed, having come or gone just now, is -1."""
    busy = device.utilisation
    cells: list[Any] = [
        [number.get(job, -1) for job in device.jobs],
        round(device.granted, 3),
        -1 if busy is None else round(busy, 2),
        round(device.memory_used_gib or 0.0, 1),
        round(device.info.memory_gib, 1),
        [number.get(job, -1) for job in device.suspended],
        "" if device.info.healthy else device.info.why or "no reason is known",
    ]
    if not (device.jobs or device.suspended or cells[6]):
        return FREE
    while cells and cells[-1] in (0, [], ""):
        cells.pop()
    return cells
