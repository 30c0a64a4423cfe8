"""Machines: how they join, and the long conversation with each of their agents."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from rota.server.auth import mint
from rota.server.clocks import by_our_clock
from rota.server.facade import Caller, Conflict, Forbidden
from rota.server.roster import token_row
from rota.wire.sync import Joined, NodeInfo, SyncReply, SyncRequest, check_node
from rota.worlds.live.inbox import Changed, ReportTold

if TYPE_CHECKING:
    from rota.server.controller import LiveController


class Agents:
    """What agents say goes to the scheduler's inbox, what they are to do comes from its desk."""

    def __init__(self, controller: LiveController) -> None:
        self.controller = controller
        self._talked: dict[str, float] = {}
        """When the agent of each node last said something to this controller."""
        self._left: dict[str, str] = {}
        """Incarnation of each node's agent that has said goodbye: what it said before may come after."""

    def join(self, who: Caller, info: NodeInfo) -> Joined:
        """A machine joins, or comes back with other devices.

        Raises InputError for a name that no node can have, and Conflict if the agent of another machine takes
        part by that name: with two of them each would put the other out, and both would lose their jobs.
        """
        controller = self.controller
        if not who.node:
            check_node(info.name)
        if who.node and who.node != info.name:
            raise Forbidden(f"this is the token of node {who.node!r}, not of {info.name!r}")
        if not who.node and self._takes_part(info.name):
            raise Conflict(
                f"an agent takes part as node {info.name!r} already; give this one another name with --node"
            )
        known = controller.store.node(info.name)
        was_forgotten = known is not None and known.state == "forgotten"
        if who.node and was_forgotten:
            raise _forgotten(info.name)
        token, record = mint("agent", info.name)
        controller.store.join(info, token_row(record))
        controller.roster.replace_agent(record)
        controller.heard[info.name] = controller.now
        if known is None or known.info != info or was_forgotten:
            controller.inbox.put(Changed(f"node {info.name} has joined"))
        return Joined(node=info.name, token=token)

    def admit(self, node: str) -> None:
        """Raise Forbidden if `node` was forgotten and has not joined again.

        The store knows, and is asked only where the scheduler has heard of it.
        """
        told = self.controller.scheduler.nodes.get(node)
        if told is None or told.state != "forgotten":
            return
        row = self.controller.store.node(node)
        if row is not None and row.state == "forgotten":
            raise _forgotten(node)

    def _takes_part(self, node: str) -> bool:
        """Whether the agent of `node` was heard lately; a controller that has just begun knows of none."""
        silent_s = self.controller.now - self._talked.get(node, -math.inf)
        return silent_s < self.controller.scheduler.settings.live.lost_after_s

    async def sync(self, node: str, request: SyncRequest) -> SyncReply:
        """Take in what the agent of `node` says; answer when there is something to do, or after its wait."""
        controller = self.controller
        self.admit(node)
        lost_after_s = controller.scheduler.settings.live.lost_after_s
        controller.heard[node] = self._talked[node] = controller.now
        controller.pieces.take(node, request.pieces)
        if request.leaving:
            self._left[node] = request.incarnation
            controller.inbox.put(ReportTold(node, request))
            return self._reply(node, request.seen, lost_after_s)
        has_left = self._left.get(node) == request.incarnation
        is_new = request.controller != controller.desk.incarnation
        if is_new and not request.complete:
            return self._reply(node, 0, lost_after_s).model_copy(update={"parts": [], "version": 0})
        is_back = self._is_out(node) and not has_left
        if request.reports or request.complete or request.devices is not None or is_back:
            now_unix_s = controller.epoch_s + controller.now
            said = by_our_clock(request, now_unix_s)
            controller.inbox.put(ReportTold(node, said.model_copy(update={"leaving": has_left})))
        seen = 0 if is_new else request.seen
        until = time.monotonic() + min(request.wait_s, lost_after_s / 3)
        with controller.bells.listen(("node", node)) as bell:
            while True:
                reply = self._reply(node, seen, lost_after_s)
                left = until - time.monotonic()
                is_over = left <= 0 or controller.desk.incarnation != request.controller
                if reply.parts or reply.fetch or is_over:
                    controller.heard[node] = self._talked[node] = controller.now
                    return reply
                await bell.wait(left)

    def _is_out(self, node: str) -> bool:
        """Whether nothing is expected of `node`: an agent that has no news is back all the same."""
        row = self.controller.scheduler.nodes.get(node)
        return row is not None and row.state in ("lost", "away")

    def _reply(self, node: str, seen: int, lost_after_s: float) -> SyncReply:
        reply = self.controller.desk.reply(node, seen, time.time(), lost_after_s)
        reply.fetch = self.controller.pieces.asked_of(node)
        return reply


def _forgotten(node: str) -> Forbidden:
    return Forbidden(
        f"node {node!r} was forgotten by an admin; it may join again with a join token (rota user join-token)"
    )
