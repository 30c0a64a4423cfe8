"""How long the controller has been silent, and what that allows.

The controller counts a node as lost `lost_after_s` after it last heard of it.  What this side knows is when
it *asked* the last question that was answered, never later than when the controller heard it: measured
from there, whatever is over before `lost_after_s` is over before the controller gives the node's jobs away.

The moment is kept as the time stamp of a file, so that an agent that was killed does not count from anew.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rota.engine.reconcile import Silence

LOG = logging.getLogger("rota.agent")
FENCING_AT = 0.5
"""Share of `lost_after_s` after which parts that fence themselves are told to go."""
FENCED_AT = 0.9
"""Share after which they are killed."""
LATEST_S = 5.0
"""They are killed so long before the end, if that is later."""
WAIT_SHARE = 0.2
"""A question may wait this share of `lost_after_s` for its answer."""


class Contact:
    """When the controller was heard last; thread-safe."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        lost_after_s: float = 60.0,
    ) -> None:
        """`path` is the file whose time stamp survives this process; silence is counted by `clock`."""
        self.lost_after_s = lost_after_s
        self._path, self._clock, self._wall = path, clock, wall
        self._lock = threading.Lock()
        self._written_s = -float("inf")
        try:
            silent_s = max(0.0, wall() - path.stat().st_mtime)
            self._last_s: float | None = clock() - silent_s
        except FileNotFoundError:
            self._last_s = None

    def heard(self, asked_s: float, lost_after_s: float) -> None:
        """A question asked at `asked_s`, of the monotonic clock, was answered."""
        with self._lock:
            self.lost_after_s = lost_after_s
            self._last_s = asked_s if self._last_s is None else max(asked_s, self._last_s)
            if abs(self._last_s - self._written_s) >= min(1.0, lost_after_s / 20):
                self._written_s = self._last_s
                self._write(self._wall() - (self._clock() - self._last_s))

    def _write(self, last_s: float) -> None:
        """Without the file the next agent counts from anew: worse, but no reason to end."""
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.utime(fd, (last_s, last_s))
            finally:
                os.close(fd)
        except OSError as error:
            LOG.warning("the moment of the last contact cannot be kept: %s", error)

    @property
    def fenced_s(self) -> float:
        """When parts that fence themselves are killed, if nothing is heard; by the monotonic clock."""
        with self._lock:
            return self._moment(max(FENCED_AT * self.lost_after_s, self.lost_after_s - LATEST_S))

    def silence(self) -> Silence:
        """What the silence up to now allows."""
        now_s = self._clock()
        if now_s >= self.fenced_s:
            return Silence.FENCED
        return Silence.FENCING if now_s >= self._fencing_s else Silence.HEARD

    def next_s(self) -> float:
        """Seconds until that changes, if nothing is heard; infinite if it does not any more."""
        now_s = self._clock()
        return min(
            (at_s - now_s for at_s in (self._fencing_s, self.fenced_s) if at_s > now_s), default=float("inf")
        )

    @property
    def wait_s(self) -> float:
        """How long a question may wait for its answer."""
        return min(20.0, WAIT_SHARE * self.lost_after_s)

    @property
    def _fencing_s(self) -> float:
        with self._lock:
            return self._moment(FENCING_AT * self.lost_after_s)

    def _moment(self, after_s: float) -> float:
        return float("inf") if self._last_s is None else self._last_s + after_s
