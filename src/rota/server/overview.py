"""The cluster in one view: its nodes, its troubles, its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rota import __version__
from rota.server.facade import Gauges
from rota.server.store.rows import AttemptRow, NodeRow
from rota.server.views import STOPPED, node_state, node_view
from rota.wire.views import ClusterStatus, NodeView

if TYPE_CHECKING:
    from rota.server.controller import LiveController

LIVE = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING")
"""States of jobs that are not over, or of which something is left."""


class Overview:
    """Reads store and scheduler; changes nothing."""

    def __init__(self, controller: LiveController) -> None:
        self.controller = controller

    def nodes(self) -> list[NodeView]:
        """All machines that have joined and are not forgotten, with what is on them."""
        controller, scheduler = self.controller, self.controller.scheduler
        holding = _by_node(scheduler.holding, scheduler.ids)
        suspended = _by_node(scheduler.suspended, scheduler.ids)
        views = []
        for node in controller.store.nodes():
            if node.state == "forgotten":
                continue
            on, held = holding.get(node.name, {}), suspended.get(node.name, {})
            seen_s = controller.heard.get(node.name)
            view = node_view(node, on, held, seen_s, controller.epoch_s)
            view.disk = controller.tidier.disks.get(node.name)
            views.append(view)
        return views

    def status(self) -> ClusterStatus:
        """What an operator sees first."""
        controller, nodes = self.controller, self._rows()
        totals = controller.store.totals()
        return ClusterStatus(
            name=controller.name,
            version=__version__,
            started_s=controller.started_s,
            policy=controller.answers.policy().policy,
            nodes=len(nodes),
            gpus=_gpus(nodes),
            gpus_used=self._gpus_used(),
            pending=totals.get("PENDING", 0),
            running=totals.get("RUNNING", 0),
            suspended=totals.get("SUSPENDED", 0),
            finished=sum(count for state, count in totals.items() if state not in LIVE),
            store=controller.store.where,
            troubles=self._troubles(nodes),
        )

    def _rows(self) -> list[NodeRow]:
        """The nodes as the scheduler knows them; views of ten thousand devices take long."""
        rows = list(self.controller.scheduler.nodes.copy().values()) or self.controller.store.nodes()
        return [row for row in rows if row.state != "forgotten"]

    def _gpus_used(self) -> float:
        """Shares of devices that are granted."""
        held = self.controller.scheduler.holding.copy().values()
        return sum(float(attempt.grant[2]) * len(attempt.grant[1]) for attempt in held)

    def _troubles(self, nodes: Sequence[NodeRow]) -> list[str]:
        scheduler = self.controller.scheduler
        host = scheduler.host
        found = [scheduler.trouble, host.trouble if host is not None else ""]
        found += [f"node {node.name} is lost: {node.reason}" for node in nodes if node.state == "lost"]
        found += [f"node {node.name} is away: {STOPPED}" for node in nodes if node.state == "away"]
        found += [
            f"device {node.name}:{device.index} is unhealthy: {device.why}"
            for node in nodes
            for device in node.info.devices
            if not device.healthy
        ]
        found += self.controller.tidier.troubles()
        return [sentence for sentence in found if sentence]

    def gauges(self) -> Gauges:
        """This moment in numbers, jobs by tenant."""
        by_state: dict[str, dict[str, int]] = {"PENDING": {}, "RUNNING": {}, "SUSPENDED": {}}
        for (state, tenant), count in self.controller.store.live_totals().items():
            if state in by_state:
                by_state[state][tenant] = count
        nodes, disks = self._rows(), dict(self.controller.tidier.disks)
        busy = _by_node(self.controller.scheduler.holding, self.controller.scheduler.ids)
        states: dict[str, int] = {}
        for node in nodes:
            state = node_state(node, is_busy=node.name in busy)
            states[state] = states.get(state, 0) + 1
        return Gauges(
            pending=by_state["PENDING"],
            running=by_state["RUNNING"],
            suspended=by_state["SUSPENDED"],
            gpus=_gpus(nodes),
            gpus_allocated=self._gpus_used(),
            nodes=states,
            disk_free_bytes={node: disk.free_bytes for node, disk in disks.items()},
            kept_bytes={node: disk.files_bytes + disk.checkpoints_bytes for node, disk in disks.items()},
        )


def _gpus(nodes: Sequence[NodeRow]) -> int:
    """Devices of the nodes that are there."""
    return sum(len(node.info.devices) for node in nodes if node.state != "lost")


def _by_node(attempts: dict[int, AttemptRow], ids: dict[int, str]) -> dict[str, dict[str, AttemptRow]]:
    """Attempts by the names of their nodes and the ids of their jobs."""
    found: dict[str, dict[str, AttemptRow]] = {}
    ids = ids.copy()  # the scheduler changes both
    for row, attempt in attempts.copy().items():
        if row in ids:
            for place in attempt.parts["places"]:
                found.setdefault(place["name"], {})[ids[row]] = attempt
    return found
