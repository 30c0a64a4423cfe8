"""Machines as operators see them, and what operators do to them."""

from __future__ import annotations

from collections.abc import Mapping

from rota.server.callers import Caller
from rota.server.cleanup import Tidier
from rota.server.clocks import Clock
from rota.server.commands import Commands
from rota.server.refusals import NotFound
from rota.server.scheduler_view import SchedulerView
from rota.server.store.rows import NodeRow
from rota.server.store.store import Store
from rota.server.views import node_view
from rota.wire.views import NodeView


class Nodes:
    """Implements `rota.server.api.services.NodesService`."""

    def __init__(
        self,
        store: Store,
        shown: SchedulerView,
        commands: Commands,
        tidier: Tidier,
        heard: Mapping[str, float],
        clock: Clock,
    ) -> None:
        self._store, self._shown, self._commands, self._tidier = store, shown, commands, tidier
        self._heard = heard
        """When each agent was last heard; seconds since the epoch."""
        self._epoch_s = clock.epoch_unix_s

    def nodes(self) -> list[NodeView]:
        """All machines that have joined and are not forgotten, with the jobs on them."""
        holding, suspended = self._shown.holding_by_node(), self._shown.suspended_by_node()
        views = []
        for node in self._store.nodes():
            if node.state == "forgotten":
                continue
            on, held = holding.get(node.name, {}), suspended.get(node.name, {})
            view = node_view(node, on, held, self._heard.get(node.name), self._epoch_s)
            view.disk = self._tidier.disks.get(node.name)
            views.append(view)
        return views

    def drain(self, who: Caller, node: str, drained: bool, reason: str) -> NodeView:
        """No new jobs on a node, or jobs again."""
        if self._row(node).state == "forgotten":
            raise _unknown(node)
        verb = "drain" if drained else "undrain"
        self._commands.give(who, verb, {"reason": reason}, f"node {node}", node=node)
        return next(view for view in self.nodes() if view.name == node)

    def forget(self, who: Caller, node: str) -> NodeView:
        """A lost node is no part of the cluster any more; its row stays."""
        self._row(node)
        self._commands.give(who, "forget", {}, f"node {node}", node=node)
        self._tidier.disks.pop(node, None)
        return node_view(self._row(node), {}, {}, self._heard.get(node), self._epoch_s)

    def _row(self, node: str) -> NodeRow:
        row = self._store.node(node)
        if row is None:
            raise _unknown(node)
        return row


def _unknown(node: str) -> NotFound:
    return NotFound(f"there is no node {node!r}; `rota nodes` lists them")
