"""What has changed since a policy last looked, so that it need not walk through every job at each moment."""

from __future__ import annotations

from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot


class News:
    """Rows whose phase or grant has changed since the last look.

    A cache: whoever looks for the first time, at another state or with another memory, is told to look at
    everybody.
    """

    def __init__(self) -> None:
        self._log: list[int] | None = None
        self._memory: Memory | None = None
        self._read = 0

    def rows(self, snapshot: Snapshot, memory: Memory) -> set[int] | None:
        """Changed rows since the last look with this very `memory`; None if that cannot be told."""
        log = snapshot.state.log
        is_known = self._log is log and self._memory is memory
        changed = set(log[self._read :]) if is_known else None
        self._log, self._memory, self._read = log, memory, len(log)
        return changed
