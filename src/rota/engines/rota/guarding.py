"""What goes wrong while the agent handles one job stays with that job.

The agent handles the jobs of its machine in turn, in one loop.  An exception from one of them would end the
agent, and its next start, and with it the supervision of all others.  So each handling of one job runs under
a guard: its exception is logged, told in the job's reports as long as the same handling fails, and goes no
further.
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
    """Runs what is done for one job, and knows what of it fails; any thread may use it."""

    def __init__(self) -> None:
        self._troubles: dict[Key, dict[str, str]] = {}
        """What each job's handling failed at, by what was being done."""

    def run(self, key: Key, doing: str, act: Callable[[], T], otherwise: T) -> T:
        """What `act` returns, or `otherwise` if it raises; `doing` completes "the agent cannot …"."""
        try:
            value = act()
        except Exception as error:  # whatever it is: the other jobs must not suffer from it
            self.note(key, doing, error)
            return otherwise
        self.clear(key, doing)
        return value

    def note(self, key: Key, doing: str, error: Exception) -> None:
        """`doing` failed for a job; logged once, not at each try."""
        sentence = f"the agent cannot {doing}: {described(error)}"
        if self._troubles.get(key, {}).get(doing) != sentence:
            LOG.error("job %d attempt %d: %s", key[0] + 1, key[1], sentence, exc_info=error)
            self._troubles[key] = {**self._troubles.get(key, {}), doing: sentence}

    def clear(self, key: Key, doing: str) -> None:
        """`doing` works for a job."""
        if doing in self._troubles.get(key, {}):
            self._troubles[key] = {one: why for one, why in self._troubles[key].items() if one != doing}

    def trouble(self, key: Key) -> str:
        """What the agent cannot do for a job at present, as a sentence; empty if nothing is known."""
        return next(iter(self._troubles.get(key, {}).values()), "")

    def keep(self, keys: Set[Key]) -> None:
        """Forget all other jobs."""
        for key in self._troubles.keys() - keys:
            self._troubles.pop(key, None)


def described(error: Exception) -> str:
    """An exception on one line: with its type, which says more than most messages."""
    said = " ".join(str(error).split())[:MOST_SENTENCE]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
