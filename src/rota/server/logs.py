"""Pieces of logs: requested from the agents that have them, handed to the callers that wait."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from rota.server.api.forms import LogRequest
from rota.server.notifier import Notifier, unhurried
from rota.server.refusals import Busy, NotFound
from rota.server.store.rows import AttemptRow, JobRow
from rota.server.store.store import Store
from rota.wire.sync import Fetch, Piece
from rota.worlds.live.directives import Directives

LOG_POLL_S = 0.25
"""How often a follower of a log asks the agent again."""
FETCH_S = 10.0
"""How long an agent may take to answer for a piece of a log."""


class Logs:
    """Open requests to agents for pieces of logs, and the answers; used on the API's event loop only."""

    def __init__(self, store: Store, directives: Directives, notifier: Notifier) -> None:
        self.store = store
        self.directives = directives
        self.notifier = notifier
        self._fetches: dict[str, dict[str, Fetch]] = {}
        self._pieces: dict[str, Piece] = {}
        self._number = itertools.count(1)

    def asked_of(self, node: str) -> list[Fetch]:
        """The pieces that the agent of `node` is to send."""
        return list(self._fetches.get(node, {}).values())

    def take(self, node: str, pieces: Sequence[Piece]) -> None:
        """Take pieces that the agent of `node` has sent; pieces that no call waits for are dropped."""
        for piece in pieces:
            if piece.id in self._fetches.get(node, {}):
                self._pieces[piece.id] = piece
        self.notifier.notify([("piece", piece.id) for piece in pieces])

    async def read(self, row: JobRow, request: LogRequest) -> Piece:
        """A piece of a log of a job; empty if it has none yet.  NotFound, or Busy if its node is silent."""
        until = time.monotonic() + request.wait_s
        while True:
            attempt = await unhurried(self.store, lambda: self._attempt(row, request.attempt))
            left = until - time.monotonic()
            if attempt is not None:
                piece = await self._fetch(row, attempt, request)
                if piece.text or left <= 0 or attempt.end_s is not None:
                    return piece
            elif left <= 0:
                return Piece(id="", offset=0, text="", size=0)
            with self.notifier.listen(("job", row.row)) as listener:
                await listener.wait(min(LOG_POLL_S, max(left, 0.0)))

    def _attempt(self, row: JobRow, number: int | None) -> AttemptRow | None:
        """The attempt to read the log of: the newest that has begun, or a certain one."""
        attempts = self.store.attempts(row.row)
        if number is not None:
            attempt = next((a for a in attempts if a.number == number), None)
            if attempt is None:
                raise NotFound(f"job {row.id} has no attempt {number}; it has {len(attempts)}")
            return attempt
        begun = [a for a in attempts if a.start_s is not None or a.end_s is not None]
        return begun[-1] if begun else None

    async def _fetch(self, row: JobRow, attempt: AttemptRow, request: LogRequest) -> Piece:
        node = _node_of(row, attempt, request.rank)
        fetch = Fetch(
            id=f"{self.directives.incarnation}-{next(self._number)}",  # agents may hold old pieces
            row=row.row,
            attempt=attempt.number,
            rank=request.rank,
            offset=request.offset,
            limit=request.limit,
        )
        self._fetches.setdefault(node, {})[fetch.id] = fetch
        try:
            with self.notifier.listen(("piece", fetch.id)) as listener:
                self.notifier.notify([("node", node)])
                await listener.wait(FETCH_S)
            piece = self._pieces.pop(fetch.id, None)
        finally:
            self._fetches.get(node, {}).pop(fetch.id, None)
        if piece is None:
            raise Busy(f"node {node}, where the log is, does not answer")
        return piece


def _node_of(row: JobRow, attempt: AttemptRow, rank: int) -> str:
    """Name of the node where `rank` of the attempt runs or ran; NotFound."""
    places = attempt.parts["places"]
    for place in places:
        if any(one["rank"] == rank for one in place["ranks"]):
            return str(place["name"])
    ranks = sum(len(place["ranks"]) for place in places)
    raise NotFound(f"job {row.id} has no rank {rank}; it has {ranks}, from 0")
