"""How long the controller has been silent, and what that allows.

The controller counts a node as lost `lost_after_s` after it last heard of it. This side knows when it *asked*
the last question that was answered, which is never later than when the controller heard it. What is over
before `lost_after_s` from that moment is therefore over before the controller gives the node's jobs away.

The moment is kept in a file, by a clock that counts from the machine's boot, that cannot be set and that
continues during sleep. The next agent continues from it. The shims of parts that fence themselves read it to
see whether an agent, possibly dead or frozen, has heard nothing for too long (`shim.py`).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rota.engines.shared.reconcile import Silence

LOG = logging.getLogger("rota.engines.rota")
FENCING_AT = 0.5
"""Share of `lost_after_s` after which parts that fence themselves are stopped."""
FENCED_AT = 0.9
"""Share of `lost_after_s` after which they are killed."""
LATEST_S = 5.0
"""They are killed this many seconds before `lost_after_s`, if that is later than `FENCED_AT`."""
WAIT_SHARE = 0.2
"""Share of `lost_after_s` that a request may wait for its answer."""
LINE = 120
"""Bytes of the file: it is written in place, so that a full disk does not matter."""


def since_boot_s() -> float:
    """Seconds since the machine's boot, including those in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Contact:
    """When the controller was last heard; thread-safe."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = since_boot_s,
        boot: str = "",
        lost_after_s: float = 60.0,
        on_trouble: Callable[[], None] = lambda: None,
    ) -> None:
        """`path` is the file that survives this process; `clock` counts within the boot `boot`.

        `on_trouble` is called, from any thread, when `trouble` has changed.
        """
        self.lost_after_s, self.clock = lost_after_s, clock
        self.trouble = ""
        """Why the file cannot be written now; other files beside it cannot be written either."""
        self._on_trouble = on_trouble
        self._path, self._boot = path, boot
        self._lock = threading.Lock()
        self._written_s = -float("inf")
        self._last_s = self._kept_s()

    def heard(self, asked_s: float, lost_after_s: float) -> None:
        """Record the answer to a request sent at `asked_s`, by `clock`."""
        with self._lock:
            self.lost_after_s = lost_after_s
            self._last_s = asked_s if self._last_s is None else max(asked_s, self._last_s)
            if self.trouble or abs(self._last_s - self._written_s) >= min(1.0, lost_after_s / 20):
                self._written_s = self._last_s
                self._keep()

    def check(self) -> None:
        """Check whether the file can be written, after a file beside it could not."""
        with self._lock:
            if self._last_s is not None:
                self._keep()

    def _kept_s(self) -> float | None:
        """Moment that an earlier agent recorded in this boot; None if there was none.

        If its line cannot be read the moment is unknown, and the silence begins now.
        """
        try:
            words = self._path.read_text(encoding="ascii").split()
            last_s, _, boot = float(words[0]), float(words[1]), " ".join(words[2:])
        except FileNotFoundError:
            return None
        except (ValueError, IndexError, OSError):
            return self.clock()
        return min(last_s, self.clock()) if boot == self._boot else None

    def _keep(self) -> None:
        """Write the file; if that fails, the next agent counts from its own start, but this one goes on."""
        line, trouble = f"{self._last_s:.3f} {self.lost_after_s:.3f} {self._boot}", ""
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(fd, f"{line.ljust(LINE - 1)[: LINE - 1]}\n".encode(), 0)
            finally:
                os.close(fd)
        except OSError as error:
            trouble = f"{self._path.parent} {_why(error)}"
        if trouble != self.trouble:
            self.trouble = trouble
            LOG.warning("%s", trouble or f"{self._path.parent} can be written again")
            self._on_trouble()

    @property
    def fenced_s(self) -> float:
        """When parts that fence themselves are killed, if nothing is heard; by `clock`."""
        with self._lock:
            return self._moment(max(FENCED_AT * self.lost_after_s, self.lost_after_s - LATEST_S))

    def silence(self) -> Silence:
        """What the silence up to now requires."""
        now_s = self.clock()
        if now_s >= self.fenced_s:
            return Silence.FENCED
        return Silence.FENCING if now_s >= self._fencing_s else Silence.HEARD

    def next_s(self) -> float:
        """Seconds until the result of `silence` changes without contact; infinite if it does not any more."""
        now_s = self.clock()
        return min(
            (at_s - now_s for at_s in (self._fencing_s, self.fenced_s) if at_s > now_s), default=float("inf")
        )

    @property
    def wait_s(self) -> float:
        """Seconds that a request may wait for its answer."""
        return min(20.0, WAIT_SHARE * self.lost_after_s)

    @property
    def _fencing_s(self) -> float:
        with self._lock:
            return self._moment(FENCING_AT * self.lost_after_s)

    def _moment(self, after_s: float) -> float:
        return float("inf") if self._last_s is None else self._last_s + after_s


def _why(error: OSError) -> str:
    """Why the file cannot be written, and what to do if that does not end by itself."""
    if isinstance(error, FileNotFoundError):  # making it could place it below a mount that is still to come
        way = f"put it back or mount it, or end process {os.getpid()}, which works there, and start it again"
        return f"is gone: {way}"
    return f"cannot be written: {error.strerror}"
