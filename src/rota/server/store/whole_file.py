"""The file of an SQLite database, which is there as a whole or not at all.

Rota leaves no empty one behind, however it is killed: whoever meets one has lost what was in it, and is told.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from rota.model.units import plural
from rota.server.store.failures import StoreError

HEADER_BYTES = 100
"""Of every SQLite database."""
_EMPTY = (
    "{where} is empty: its file has {bytes}, as after a fault of the disk, and Rota leaves none so; put "
    "a copy of it in its place, or remove it to begin anew, without jobs and users"
)
_ALONE = (
    "{where} is gone, and what was written last is still beside it ({log}): put the file, or a copy of it, "
    "back in its place; or remove {log} as well to begin anew, without jobs and users"
)


def make_sure_of(path: Path, where: str) -> None:
    """The file at `path` may be opened; a new database, for its owner alone, if there is none.

    StoreError if what was there has been lost: SQLite would begin anew, and throw its log away.
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
        return
    with closing(os.fdopen(file, "rb")):
        size = os.fstat(file).st_size
        if size < HEADER_BYTES:
            raise StoreError(_EMPTY.format(where=where, bytes=plural(size, "byte")))


def _make(path: Path) -> None:
    """A database without tables, which gets its name once it is on the disk."""
    new = path.with_name(f"{path.name}.new")
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(new)) as database:
        database.execute("PRAGMA journal_mode = WAL")  # writes the first page, and waits for the disk
    os.replace(new, path)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
