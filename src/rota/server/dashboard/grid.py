"""All devices of a cluster in few bytes, for the picture: names once, devices as numbers that point there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rota.server.dashboard.rendering import colour_of
from rota.wire.views import DeviceView, JobView, NodeView

FREE = 0


def grid(nodes: Sequence[NodeView], holding: Sequence[JobView]) -> Mapping[str, Any]:
    """`jobs`: `[id, name, tenant, user, gpus, state]`; `tenants`: `[path, colour]`; `nodes`: `[name, state,
    reason, type, devices]`.

    A device is 0 if it is free and well, else `[holders, granted, busy, used, whole, suspended, sick]`, cut
    after the last that is not 0: numbers of jobs, the part granted, the part that is busy (-1: nobody says),
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
