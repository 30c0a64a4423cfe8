"""A command: put on record, handed to the scheduler, and waited for a little."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.server.callers import Caller
from rota.server.clocks import Clock
from rota.server.refusals import Conflict
from rota.server.store.store import Store
from rota.server.waiting import CommandOutcomes
from rota.worlds.live.inbox import CommandAsked, Inbox

PATIENCE_S = 5.0
"""How long a call waits for its command to be carried out; it is on record anyhow."""


class Commands:
    """Each call is one command, be it for one job, for all of an array, for a node or about the policy."""

    def __init__(self, store: Store, inbox: Inbox, outcomes: CommandOutcomes, clock: Clock) -> None:
        self._store, self._inbox, self._outcomes, self._clock = store, inbox, outcomes, clock

    def give(
        self,
        who: Caller,
        kind: str,
        args: dict[str, Any],
        about: str,
        *,
        row: int | None = None,
        node: str | None = None,
    ) -> Mapping[str, Any]:
        """Put a command on record and wait a little until it is done; Conflict if it could not be.

        Returns what is told of it; nothing if it takes longer.
        """
        seq = self._store.add_command(self._clock(), who.user, kind, row=row, node=node, args=args)
        self._outcomes.expect(seq)
        self._inbox.put(CommandAsked(seq, who.user, kind, row, node, args))
        outcome: Mapping[str, Any] = self._outcomes.wait(seq, PATIENCE_S) or {}
        if outcome.get("error"):
            raise Conflict(f"{about}: {outcome['error']}")
        return outcome
