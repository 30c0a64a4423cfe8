"""One controller for one database: the second one gets a sentence."""

from __future__ import annotations

import fcntl
import logging
import os
import time
import weakref
from pathlib import Path

from sqlalchemy import Connection

from rota.server.store.failures import StoreError

log = logging.getLogger(__name__)
LOOK_S = 0.05
LEAVING = "leaving"
LEAVING_S = 30.0
"""Seconds that a new controller waits for one that is leaving, which ends its calls and its policy."""
_ADVISORY = int.from_bytes(b"rota-db", "big")
"""Number of the lock in PostgreSQL; other programs that lock this database use other numbers."""
_KEEPALIVE = {"tcp_keepalives_idle": 10, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 3}
"""After how many seconds the server lets go of the lock of a machine that went dark."""
_TAKEN = "{where} is in use by another controller{who}; stop that one, or give this one a database of its own"
_STILL_HELD = (
    "{where} has not let go of the connection that this controller had before, or another one has it now; "
    "it is tried again at the next call"
)


class FileLock:
    """A file beside a SQLite database, locked as long as this process lives, however it dies."""

    def __init__(self, path: Path, where: str, wait_s: float = 0.0) -> None:
        """Waits `wait_s` for a controller that is leaving; then raises StoreError that names the holder."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        began_s, is_told = time.monotonic(), False
        while not self._taken():
            pid, _, does = os.pread(self._file, 40, 0).decode("ascii", "replace").strip().partition(" ")
            most_s = max(wait_s, LEAVING_S) if does == LEAVING and wait_s else wait_s
            if time.monotonic() - began_s >= most_s:
                self.release()
                raise StoreError(_TAKEN.format(where=where, who=f" (process {pid})" if pid else ""))
            if not is_told:
                log.warning("waits for process %s, which still has the lock of %s", pid or "?", where)
                is_told = True
            time.sleep(LOOK_S)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        _held.add(self)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def leave(self) -> None:
        """Announce that it will be free soon: the next controller waits for it."""
        if self._file >= 0:
            os.pwrite(self._file, f"{os.getpid()} {LEAVING}\n".encode(), 0)

    def release(self) -> None:
        """Let the next one in.  The file stays: removing it would let two of them in."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _forget() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_forget)  # a child that outlives the controller must not keep its lock


def advisory_lock(connection: Connection, where: str, wait_s: float, *, had_it: bool = False) -> None:
    """Take the lock that PostgreSQL keeps while `connection` lives; wait for a controller that is leaving.

    `had_it` says that an earlier connection of this process had it, which PostgreSQL may count as alive.
    """
    for name, value in _KEEPALIVE.items():
        connection.exec_driver_sql(f"SET {name} = {value}")
    connection.exec_driver_sql(f"SET lock_timeout = {max(1, round(1000 * wait_s))}")
    try:
        connection.exec_driver_sql(f"SELECT pg_advisory_lock({_ADVISORY})")
    except Exception as error:
        if getattr(getattr(error, "orig", None), "sqlstate", None) == "55P03":
            sentence = _STILL_HELD if had_it else _TAKEN
            raise StoreError(sentence.format(where=where, who=""), silent=had_it) from None
        raise
