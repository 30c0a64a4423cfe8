"""The cluster in one view: its nodes, its troubles, its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rota import __version__
from rota.server.facade import Gauges
from rota.server.store.rows import AttemptRow
from rota.server.views import node_view
from rota.wire.views import NodeView, Status

if TYPE_CHECKING:
    from rota.server.controller import LiveController

LIVE = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING")
"""States of jobs that are not over, or of which something is left."""


class Overview:
    """Reads store and scheduler; changes nothing."""

    def __init__(self, controller: LiveController) -> None:
        self.controller = controller

    def nodes(self) -> list[NodeView]:
        """All machines that have joined, with what is on them."""
        controller, scheduler = self.controller, self.controller.scheduler
        ids = dict(scheduler.ids)
        holding, suspended = _by_node(scheduler.holding, ids), _by_node(scheduler.suspended, ids)
        views = []
        for node in controller.store.nodes():
            on, held = holding.get(node.name, {}), suspended.get(node.name, {})
            seen_s = controller.heard.get(node.name)
            view = node_view(node, on, held, seen_s, controller.epoch_s)
            view.disk = controller.tidier.disks.get(node.name)
            views.append(view)
        return views

    def status(self) -> Status:
        """What an operator sees first."""
        controller, nodes = self.controller, self.nodes()
        totals = controller.store.totals()
        return Status(
            name=controller.name,
            version=__version__,
            started_s=controller.started_s,
            policy=controller.answers.policy().policy,
            nodes=len(nodes),
            gpus=sum(node.gpus for node in nodes if node.state != "lost"),
            gpus_used=sum(node.gpus_used for node in nodes),
            pending=totals.get("PENDING", 0),
            running=totals.get("RUNNING", 0),
            suspended=totals.get("SUSPENDED", 0),
            finished=sum(count for state, count in totals.items() if state not in LIVE),
            store=controller.store.where,
            troubles=self._troubles(nodes),
        )

    def _troubles(self, nodes: Sequence[NodeView]) -> list[str]:
        scheduler = self.controller.scheduler
        host = scheduler.host
        found = [scheduler.trouble, host.trouble if host is not None else ""]
        found += [f"node {node.name} is lost: {node.reason}" for node in nodes if node.state == "lost"]
        found += [
            f"device {view.device} is unhealthy: {view.info.why}"
            for node in nodes
            for view in node.devices
            if not view.info.healthy
        ]
        found += self.controller.tidier.troubles()
        return [sentence for sentence in found if sentence]

    def gauges(self) -> Gauges:
        """This moment in numbers, jobs by tenant."""
        by_state: dict[str, dict[str, int]] = {"PENDING": {}, "RUNNING": {}, "SUSPENDED": {}}
        for (state, tenant), count in self.controller.store.live_totals().items():
            if state in by_state:
                by_state[state][tenant] = count
        nodes, disks = self.nodes(), dict(self.controller.tidier.disks)
        states: dict[str, int] = {}
        for node in nodes:
            states[node.state] = states.get(node.state, 0) + 1
        return Gauges(
            pending=by_state["PENDING"],
            running=by_state["RUNNING"],
            suspended=by_state["SUSPENDED"],
            gpus=sum(node.gpus for node in nodes if node.state != "lost"),
            gpus_allocated=sum(node.gpus_used for node in nodes),
            nodes=states,
            disk_free_bytes={node: disk.free_bytes for node, disk in disks.items()},
            kept_bytes={node: disk.files_bytes + disk.checkpoints_bytes for node, disk in disks.items()},
        )


def _by_node(attempts: Mapping[int, AttemptRow], ids: Mapping[int, str]) -> dict[str, dict[str, AttemptRow]]:
    """Attempts by the names of their nodes and the ids of their jobs."""
    found: dict[str, dict[str, AttemptRow]] = {}
    for row, attempt in dict(attempts).items():
        if row in ids:
            for place in attempt.parts["places"]:
                found.setdefault(place["name"], {})[ids[row]] = attempt
    return found
