"""The file of an SQLite database, which exists as a whole or not at all.

Rota leaves no empty file behind, however it is killed: an empty file means lost content, and is an error.
It also stops writing to a file that has lost its name: all of that would be gone with the process.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from rota.model.units import plural
from rota.server.store.failures import FAILURES, StoreError

HEADER_BYTES = 100
"""Of every SQLite database."""
_EMPTY = (
    "{where} is empty: its file has {bytes}, as after a fault of the disk, and Rota leaves none so; put "
    "a copy of it in its place, or remove it to start over, without jobs and users"
)
_NOT_THERE = (
    "{where} has been {became} while this controller uses it, and what it writes would be lost{saved}; put "
    "the file back in its place, or end this controller (`rota down`), put a copy there and start it again"
)
_ALONE = (
    "{where} is gone, and what was written last is still beside it ({log}): put the file, or a copy of it, "
    "back in its place; or remove {log} as well to start over, without jobs and users"
)
_SIGNS = ("tokens/admin", "agent/token")
"""Files in ROTA_HOME that a cluster writes once its first rows are on the disk."""
_NOTHING_IN_IT = (
    "{where} has nothing in it, and {sign} shows that a cluster was here: what was written last is gone with "
    "its log ({log}); put a copy of it in its place, or remove it to start over, without jobs and users"
)


def make_sure_of(path: Path, where: str) -> bool:
    """The file at `path` may be opened; a new database, for its owner alone, if there is none: then True.

    StoreError if the former content is lost: SQLite would begin with an empty file, and throw its log away.
    OSError and sqlite3.Error if it cannot be opened or made.
    """
    path = path.resolve()  # SQLite writes beside what a link leads to
    log = path.with_name(f"{path.name}-wal")
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if _size(log):
            raise StoreError(_ALONE.format(where=where, log=log)) from None
        _make(path)
        return True
    with closing(os.fdopen(file, "rb")):
        size = os.fstat(file).st_size
        if size < HEADER_BYTES:
            raise StoreError(_EMPTY.format(where=where, bytes=plural(size, "byte")))
    return False


def check_not_lost(path: Path, home: Path, where: str) -> None:
    """Raise StoreError if a cluster has begun in `home`; call it if the existing database at `path` is empty.

    SQLite keeps the first rows in the log beside the file for a while: without the log, which a fault of the
    disk or a careless copy may have lost, the file looks like one in which nothing has begun yet.
    """
    sign = next((home / name for name in _SIGNS if (home / name).exists()), None)
    if sign is not None:
        real = path.resolve()
        log = real.with_name(f"{real.name}-wal")
        raise StoreError(_NOTHING_IN_IT.format(where=where, sign=sign, log=log))


class FileLost(StoreError):  # noqa: N818
    """The file of the database is not at its path any more; nothing has been begun."""


class KeptFile:
    """The file that was opened, as long as it is the one at its path."""

    def __init__(self, path: Path, where: str) -> None:
        """The file is there."""
        self.path, self._where = path, where
        real = path.resolve()  # SQLite writes beside what a link leads to
        self._log = real.with_name(f"{real.name}-wal")
        self._opened = os.stat(path)
        self._log_opened: os.stat_result | None = None
        self._saved = ""

    def opened_log(self, *, is_open: bool) -> None:
        """A connection that writes has begun to, or has gone: SQLite keeps one log as long as it is there."""
        self._log_opened = _stat(self._log) if is_open else None

    def check(self, save: Callable[[Path], None] | None = None) -> None:
        """Raises FileLost if it has been removed or replaced, until it is back.

        The first time, `save` writes its content to a file beside it: no other process can open it any more.
        """
        became = self._became()
        if not became:
            return
        if save is not None and not self._saved:
            self._saved = self._save(save)
        raise FileLost(_NOT_THERE.format(where=self._where, became=became, saved=self._saved))

    def _became(self) -> str:
        """The change that the file has undergone; empty if there is none."""
        now = _stat(self.path)
        if now is None:
            return "removed"
        if not os.path.samestat(self._opened, now):
            return "replaced by another file"
        if self._log_opened is not None:
            log = _stat(self._log)
            if log is None or not os.path.samestat(self._log_opened, log):
                return f"robbed of its log, {self._log.name},"
        return ""

    def _save(self, save: Callable[[Path], None]) -> str:
        copy = self.path.with_name(f"{self.path.name}.saved")
        try:
            copy.unlink(missing_ok=True)
            save(copy)
            copy.chmod(0o600)
        except FAILURES as error:
            return f"; what was in it cannot be saved as {copy} ({error})"
        return f"; what was in it is now in {copy}"


def is_read_only(folder: Path | None) -> bool:
    """Whether the file system of an SQLite database takes nothing now."""
    try:
        return folder is not None and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _make(path: Path) -> None:
    """A database without tables, which gets its name once it is on the disk."""
    new = path.with_name(f"{path.name}.new")
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(new)) as database:
        database.execute("PRAGMA journal_mode = WAL")  # writes the first page, and waits for the disk
    os.replace(new, path)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
