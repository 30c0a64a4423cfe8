"""Flushes written files to disk shortly afterwards, in the background.

A job's program need not wait until the disk has the record of its start. The record survives the death of any
process. If the machine dies within these milliseconds, the record may be lost. An attempt that the controller
has heard of then counts as lost, and the job gets another one; otherwise the attempt starts again. If an
attempt ends before its flush is due, the shim flushes its exit record, which says more.
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
"""Seconds that a flush waits; the controller hears of a start later (`rota.engines.shared.board.SOON_S`)."""


class Flusher:
    """Flushes files and the folders that contain them, one after the other, in a thread of its own."""

    def __init__(self) -> None:
        self._waiting: dict[Path, tuple[float, int]] = {}
        """Folder -> when its file is due on the monotonic clock, and the file; in order of time."""
        self._lock = threading.Lock()
        self._more = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def soon(self, fd: int, folder: Path) -> None:
        """Flush and then close the file `fd`, whose name is in `folder`; one file of a folder at a time."""
        with self._lock:
            self._waiting[folder] = time.monotonic() + SOON_S, fd
        self._more.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rota-flusher", daemon=True)
            self._thread.start()

    def drop(self, folder: Path) -> None:
        """Drop the flush that waits for `folder`."""
        with self._lock:
            _, fd = self._waiting.pop(folder, (0.0, -1))
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Flush everything and return."""
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
        """Flush files that have waited long enough, all of them on closing; True if some still wait."""
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
        # With a journal, file systems flush the name as well here, and the next line costs nothing.
        os.fsync(fd)
        sync_folder(folder)
    except FileNotFoundError:
        return  # the attempt has ended, and its folder was removed
    except OSError as error:
        LOG.warning("what was written to %s may not survive a power cut: %s", folder, error)
    finally:
        os.close(fd)
