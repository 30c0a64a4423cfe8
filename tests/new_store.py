"""A SQLite store as it is right after it was made: making one takes longer than most tests that need one."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

from rota.server.store.store import Store

NAME = "rota.db"


def put_new_store(home: Path) -> None:
    """Such a store in `home`; its time begins when it is opened.  What stands there already is left."""
    if not (home / NAME).exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / NAME).write_bytes(_new_file())


@cache
def _new_file() -> bytes:
    with tempfile.TemporaryDirectory() as home:
        Store.open(None, Path(home)).close()
        with closing(sqlite3.connect(Path(home) / NAME)) as database, database:
            database.execute("DELETE FROM facts")
        return (Path(home) / NAME).read_bytes()
