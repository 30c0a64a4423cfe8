"""Agents of machines: joining, and the long poll in which each reports and receives directives."""

from __future__ import annotations

import asyncio
import math
import time

from rota.model.units import format_duration
from rota.server.auth import mint
from rota.server.callers import Caller
from rota.server.cleanup import Tidier
from rota.server.clocks import Clock, by_our_clock
from rota.server.logs import Logs
from rota.server.notifier import Notifier, unhurried
from rota.server.refusals import Conflict, Forbidden
from rota.server.roster import StoredRoster, token_row
from rota.server.scheduler_view import SchedulerView
from rota.server.store.rows import NodeRow
from rota.server.store.store import Store
from rota.server.terminals import Terminals
from rota.wire.keeping import Kept, KeptReply
from rota.wire.node_names import check_node
from rota.wire.sync import Joined, NodeInfo, SyncReply, SyncRequest
from rota.worlds.live.directives import Directives
from rota.worlds.live.inbox import Changed, Inbox, ReportTold

SILENT_SHARE = 0.45
"""Of the time after which it is lost, a node that says nothing is worth a word: its questions last less."""
SILENT_S = 1.0


class Agents:
    """Reports of agents go to the scheduler's inbox; orders to them come from its directives.

    Implements `rota.server.api.services.AgentsService`.
    """

    def __init__(
        self,
        store: Store,
        roster: StoredRoster,
        shown: SchedulerView,
        inbox: Inbox,
        directives: Directives,
        logs: Logs,
        terminals: Terminals,
        notifier: Notifier,
        tidier: Tidier,
        clock: Clock,
        heard: dict[str, float],
        lost_after_s: float,
    ) -> None:
        self._store, self._roster, self._shown = store, roster, shown
        self._inbox, self._desk, self._logs, self._notifier = inbox, directives, logs, notifier
        self._tidier, self._clock, self._terminals = tidier, clock, terminals
        self._heard = heard
        """When each agent was last heard, by this controller or before it began; the scheduler reads it."""
        self._lost_after_s = lost_after_s
        self._talked: dict[str, float] = {}
        """When the agent of each node last said something to this controller."""
        self._cut: dict[str, float] = {}
        """When the agent of each node broke off a question, and has not asked again since."""
        self._left: dict[str, str] = {}
        """Incarnation of each node's agent that has said goodbye: its earlier messages may arrive later."""

    def join(self, who: Caller, info: NodeInfo) -> Joined:
        """A machine joins, or comes back with other devices.

        Raises InputError for a name that no node can have, and Conflict if the agent of another machine has
        that name until its node is lost: with two of them each would put the other out, and a job of the one
        would begin a second time on the other.
        """
        if not who.node:
            check_node(info.name)
        if who.node and who.node != info.name:
            raise Forbidden(f"this is the token of node {who.node!r}, not of {info.name!r}")
        known = self._store.node(info.name)
        if not who.node and self._takes_part(info.name, known):
            raise Conflict(self._taken(info.name, known))
        was_forgotten = known is not None and known.state == "forgotten"
        if who.node and was_forgotten:
            raise _forgotten(info.name)
        token, record = mint("agent", info.name)
        self._store.join(info, token_row(record))
        self._roster.replace_agent(record)
        self._heard[info.name] = self._clock()
        if known is None or known.info != info or was_forgotten:
            self._inbox.put(Changed(f"node {info.name} has joined"))
        return Joined(node=info.name, token=token)

    def kept(self, node: str, said: Kept) -> KeptReply:
        """Which ended jobs' files a node may remove."""
        self._admit(node)
        return self._tidier.kept(node, said)

    def _admit(self, node: str) -> None:
        """Raise Forbidden if `node` was forgotten and has not joined again.

        The store knows it, and is read only for a node in doubt.
        """
        if not self._is_doubtful(node):
            return
        row = self._store.node(node)
        if row is not None and row.state == "forgotten":
            raise _forgotten(node)

    def _is_doubtful(self, node: str) -> bool:
        """Whether the scheduler has heard that `node` was forgotten."""
        told = self._shown.nodes.get(node)
        return told is not None and told.state == "forgotten"

    def _takes_part(self, node: str, known: NodeRow | None) -> bool:
        """Whether an agent has the name `node`: it is on record and not lost, or was heard lately.

        The record outlives this controller: jobs of an agent that has died run on under their shims
        until the node is lost, and a self-fencing one is ended by then.
        """
        if known is not None and known.state not in ("lost", "forgotten"):
            return True
        silent_s = self._clock() - self._talked.get(node, -math.inf)
        return silent_s < self._lost_after_s

    def _taken(self, node: str, known: NodeRow | None) -> str:
        """Why a machine that has no token of `node` may not have its name."""
        other = "give this one another name with --node"
        if known is None or known.state != "away":
            return (
                f"an agent takes part as node {node!r} already, or did a moment ago: if its machine is gone, "
                f"wait until the node is lost (within {format_duration(self._lost_after_s)}), or {other}"
            )
        return (
            f"the agent of node {node!r} was stopped, and its jobs may run on: start that one again, "
            f"wait until the node is lost (within {format_duration(self._lost_after_s)}), or {other}"
        )

    async def sync(self, node: str, request: SyncRequest) -> SyncReply:
        """Take in a report of the agent of `node`; answer when there is work for it, or after its wait."""
        if self._is_doubtful(node):
            await unhurried(self._store, lambda: self._admit(node))
        self._cut.pop(node, None)
        self._heard[node] = self._talked[node] = self._clock()
        self._logs.take(node, request.pieces)
        if request.leaving:
            self._left[node] = request.incarnation
            self._inbox.put(ReportTold(node, request))
            return self._reply(node, request.seen)
        if request.complete:
            self._terminals.begins_anew(node)
        has_left = self._left.get(node) == request.incarnation
        is_new = request.controller != self._desk.incarnation
        if is_new and not request.complete:
            return self._reply(node, 0).model_copy(update={"parts": [], "version": 0})
        is_back = self._is_out(node) and not has_left
        if request.reports or request.complete or request.devices is not None or is_back:
            now_unix_s = self._clock.epoch_unix_s + self._clock()
            said = by_our_clock(request, now_unix_s, time.monotonic())
            self._inbox.put(ReportTold(node, said.model_copy(update={"leaving": has_left})))
        seen = 0 if is_new else request.seen
        until = time.monotonic() + min(request.wait_s, self._lost_after_s / 3)
        with self._notifier.listen(("node", node)) as listener:
            while True:
                reply = self._reply(node, seen)
                left = until - time.monotonic()
                is_over = left <= 0 or self._desk.incarnation != request.controller
                if reply.parts or reply.fetch or reply.terminals or is_over:
                    self._heard[node] = self._talked[node] = self._clock()
                    return reply
                try:
                    await listener.wait(left)
                except asyncio.CancelledError:  # the caller is gone
                    self._cut[node] = self._clock()
                    raise

    def silent(self) -> list[str]:
        """A sentence for each node with an overdue agent that is not lost yet."""
        now, after = self._clock(), f"it counts as lost after {format_duration(self._lost_after_s)}"
        said = []
        for name, row in sorted(self._shown.nodes.copy().items()):
            silent_s = now - self._heard.get(name, now)
            if row.state not in ("up", "drained") or silent_s < SILENT_S:
                continue
            if name in self._cut:
                ago = format_duration(now - self._cut[name])
                said.append(f"node {name} is silent: its agent broke its connection {ago} ago; {after}")
            elif silent_s > SILENT_SHARE * self._lost_after_s:
                said.append(f"node {name} is silent for {format_duration(silent_s)}; {after}")
        return said

    def _is_out(self, node: str) -> bool:
        """True if no report of `node` is awaited: an agent is back even if it has no news."""
        row = self._shown.nodes.get(node)
        return row is not None and row.state in ("lost", "away")

    def _reply(self, node: str, seen: int) -> SyncReply:
        now_unix_s = self._clock.epoch_unix_s + self._clock()
        reply = self._desk.reply(node, seen, now_unix_s, self._lost_after_s)
        reply.fetch, reply.terminals = self._logs.asked_of(node), self._terminals.asked_of(node)
        return reply


def _forgotten(node: str) -> Forbidden:
    return Forbidden(
        f"node {node!r} was forgotten by an admin; it may join again with a join token (rota user join-token)"
    )
