"""Commands: puts them on record, hands them to the scheduler, and lets callers wait for outcomes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from rota.server.callers import Caller
from rota.server.clocks import Clock
from rota.server.refusals import Conflict
from rota.server.store.store import Store
from rota.worlds.live.inbox import CommandAsked, Inbox

PATIENCE_S = 5.0
"""Seconds that a call waits for its command to be carried out; the command is on record anyhow."""
MOST_EARLY = 1000
"""Most outcomes kept of commands for which no thread waits yet."""


class Commands:
    """Gives commands: for one job, for all of an array, for a node, or about the policy."""

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
        """Put a command on record and wait up to `PATIENCE_S` until it is done.

        Returns its outcome, empty if it takes longer.  Raises Conflict if it could not be carried out.
        """
        seq = self._store.add_command(self._clock(), who.user, kind, row=row, node=node, args=args)
        self._outcomes.expect(seq)
        self._inbox.put(CommandAsked(seq, who.user, kind, row, node, args))
        outcome: Mapping[str, Any] = self._outcomes.wait(seq, PATIENCE_S) or {}
        if outcome.get("error"):
            raise Conflict(f"{about}: {outcome['error']}")
        return outcome


class CommandOutcomes:
    """Outcomes of commands, for the threads that wait for them."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[threading.Event, list[Any]]] = {}
        self._early: dict[int, Any] = {}
        """Outcomes that came before a thread waited: a rebuilt loop finds commands on record."""
        self._lock = threading.Lock()

    def expect(self, seq: int) -> None:
        """Keep the outcome of command `seq` until `wait` takes it."""
        with self._lock:
            event, outcome = self._waiting.setdefault(seq, (threading.Event(), []))
            if seq in self._early:
                outcome.append(self._early.pop(seq))
                event.set()

    def tell(self, seq: int, outcome: Any) -> None:
        """Command `seq` is done."""
        with self._lock:
            waiting = self._waiting.get(seq)
            if waiting is None:
                self._early[seq] = outcome
                while len(self._early) > MOST_EARLY:
                    del self._early[next(iter(self._early))]
                return
        waiting[1].append(outcome)
        waiting[0].set()

    def wait(self, seq: int, timeout_s: float) -> Any:
        """The outcome of command `seq`, which is expected; None if it is not done in time."""
        with self._lock:
            event, outcome = self._waiting[seq]
        event.wait(timeout_s)
        with self._lock:
            del self._waiting[seq]
        return outcome[0] if outcome else None
