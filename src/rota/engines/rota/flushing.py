"""What was written survives a power cut soon, and nobody waits for that.

A job's program need not wait until the disk has the record of its start.  Whatever process dies, the record
is there.  If the machine dies within these milliseconds, it may be gone: what the controller has heard of the
attempt then counts (it is lost, and the job has another one); one that it has not heard of begins again.  Of
an attempt that has ended before its turn comes the shim puts the end on the disk: that says more.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

from rota.model.atomic import sync_folder

LOG = logging.getLogger("rota.engines.rota")
SOON_S = 0.02
"""So long a flush waits: the controller hears of a beginning later (`rota.engines.shared.board.SOON_S`)."""


class Flusher:
    """Flushes files and the folders that name them, one after the other, in a thread of its own."""

    def __init__(self) -> None:
        self._waiting: dict[Path, tuple[float, int]] = {}
        """Folder -> when it is due on the monotonic clock, and the file; in that order."""
        self._lock = threading.Lock()
        self._more = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def soon(self, fd: int, folder: Path) -> None:
        """Flush and close the file `fd`, whose name is in `folder`; one at a time of each folder."""
        with self._lock:
            self._waiting[folder] = time.monotonic() + SOON_S, fd
        self._more.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rota-flusher", daemon=True)
            self._thread.start()

    def drop(self, folder: Path) -> None:
        """What waits of `folder` need not be flushed any more."""
        with self._lock:
            _, fd = self._waiting.pop(folder, (0.0, -1))
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Return once everything is on the disk."""
        if self._thread is not None:
            self._closing.set()
            self._more.set()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._closing.is_set():
            self._more.wait()
            self._more.clear()
            while self._flush_due():
                self._closing.wait(SOON_S)
        self._flush_due()

    def _flush_due(self) -> bool:
        """Flush what has waited long enough, all of it on closing; True if something waits still."""
        until_s = float("inf") if self._closing.is_set() else time.monotonic()
        while True:
            with self._lock:
                folder = next(iter(self._waiting), None)
                if folder is None or self._waiting[folder][0] > until_s:
                    return folder is not None
                _, fd = self._waiting.pop(folder)
            _flush(fd, folder)


def _flush(fd: int, folder: Path) -> None:
    try:
        os.fsync(fd)  # its name as well, on file systems with a journal: then what follows costs nothing
        sync_folder(folder)
    except FileNotFoundError:
        return  # it is over, and its folder was removed
    except OSError as error:
        LOG.warning("what was written to %s may not survive a power cut: %s", folder, error)
    finally:
        os.close(fd)
