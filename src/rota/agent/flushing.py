"""What was written survives a power cut soon, and nobody waits for that.

A job's program need not wait until the disk has the record of its start.  Whatever process dies, the record
is there.  If the machine dies within these milliseconds, it may be gone: what the controller has heard of the
attempt then counts (it is lost, and the job has another one); one that it has not heard of begins again.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from queue import SimpleQueue

from rota.model.atomic import sync_folder

LOG = logging.getLogger("rota.agent")


class Flusher:
    """Flushes files and the folders that name them, one after the other, in a thread of its own."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[int, Path] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def soon(self, fd: int, folder: Path) -> None:
        """Flush and close the file `fd`, whose name is in `folder`."""
        self._queue.put((fd, folder))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rota-flusher", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Return once everything is on the disk."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (one := self._queue.get()) is not None:
            fd, folder = one
            try:
                os.fsync(
                    fd
                )  # its name as well, on file systems with a journal: then what follows costs nothing
                sync_folder(folder)
            except FileNotFoundError:
                continue  # it is over, and its folder was removed
            except OSError as error:
                LOG.warning("what was written to %s may not survive a power cut: %s", folder, error)
            finally:
                os.close(fd)
