"""Keeps errors in the handling of one job away from all others.

The agent handles the jobs of its machine in turn, in one loop. An exception from one of them would end the
agent, then its next start, and so the supervision of all others. Each job is therefore handled under a guard,
which logs the exception and puts it into the job's reports until the same action succeeds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set
from typing import TypeVar

from rota.engines.shared.ledger import Key

T = TypeVar("T")
LOG = logging.getLogger("rota.engines.rota")
MOST_SENTENCE = 500


class JobGuard:
    """Runs actions for jobs and remembers which of them fail; any thread may use it."""

    def __init__(self) -> None:
        self._troubles: dict[Key, dict[str, str]] = {}
        """For each job: the action that failed -> the error."""

    def run(self, key: Key, doing: str, act: Callable[[], T], otherwise: T) -> T:
        """Return the result of `act`, or `otherwise` if it raises; `doing` completes "the agent cannot …"."""
        try:
            value = act()
        except Exception as error:  # any exception: it must not affect the other jobs
            self.note(key, doing, error)
            return otherwise
        self.clear(key, doing)
        return value

    def note(self, key: Key, doing: str, error: Exception) -> None:
        """Store that `doing` failed for a job; it is logged once, not at each attempt."""
        sentence = f"the agent cannot {doing}: {described(error)}"
        if self._troubles.get(key, {}).get(doing) != sentence:
            LOG.error("job %d attempt %d: %s", key[0] + 1, key[1], sentence, exc_info=error)
            self._troubles[key] = {**self._troubles.get(key, {}), doing: sentence}

    def clear(self, key: Key, doing: str) -> None:
        """Store that `doing` has succeeded for a job."""
        if doing in self._troubles.get(key, {}):
            self._troubles[key] = {one: why for one, why in self._troubles[key].items() if one != doing}

    def trouble(self, key: Key) -> str:
        """What the agent cannot do for a job at present, as a sentence; empty if no problem is known."""
        return next(iter(self._troubles.get(key, {}).values()), "")

    def keep(self, keys: Set[Key]) -> None:
        """Forget all jobs except those in `keys`."""
        for key in self._troubles.keys() - keys:
            self._troubles.pop(key, None)


def described(error: Exception) -> str:
    """An exception on one line, with its type, which often says more than the message."""
    said = " ".join(str(error).split())[:MOST_SENTENCE]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
