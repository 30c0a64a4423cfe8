"""Failures of a database, each as one sentence that names it and the way out."""

from __future__ import annotations

import re
import sqlite3

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from rota.errors import WorldError


class StoreError(WorldError):
    """The store could not be read or written; the attempted write is not stored."""

    def __init__(
        self, message: str, *, unsure: bool = False, silent: bool = False, damaged: bool = False
    ) -> None:
        super().__init__(message)
        self.damaged = damaged
        """True if the database does not hold what was written: no later call repairs that."""
        self.silent = silent
        """True if the database was waited for in vain: it said nothing, or another program has it locked."""
        self.unsure = unsure
        """True if the connection broke during the commit itself: the write may be there, as a whole."""


FAILURES = (SQLAlchemyError, sqlite3.Error, OSError, OverflowError, UnicodeError)
"""Exceptions of a database or its driver; any other is a mistake of ours and is not converted."""

DAMAGED = "{where} is damaged ({said}); put a copy of it in its place while no controller runs (`rota down`)"
_SQLITE: dict[object, str] = {
    sqlite3.SQLITE_FULL: "{where} cannot grow: its disk is full; free some space there",
    sqlite3.SQLITE_BUSY: "{where} is locked by another program for more than {busy_s:g} s; end that one",
    sqlite3.SQLITE_LOCKED: "{where} is locked by another program for more than {busy_s:g} s; end that one",
    sqlite3.SQLITE_READONLY: "{where} can only be read; give this user the right to write file and folder",
    sqlite3.SQLITE_PERM: "{where} may not be opened by this user; give it the right to read and write",
    sqlite3.SQLITE_CANTOPEN: "{where} cannot be opened; see that its folder is there and may be written",
    sqlite3.SQLITE_IOERR: "{where} cannot be read or written: the disk reports an error ({said})",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: "{where} is no SQLite database; name another file",
}
_UNWRITTEN = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}
)
"""How a file system that has become read-only shows, in a file that was open before or is opened now."""
_POSTGRES: dict[object, str] = {
    "53100": "{where} cannot grow: its disk is full; free some space there",
    "53300": "{where} takes no more connections ({said}); raise its max_connections, or end some of others",
    "25006": "{where} can only be read: it is a standby, or set to read only",
    "42501": "{where} does not let this user do that ({said})",
    "28P01": "{where} refuses the password; give the right one in database_url, PGPASSWORD or ~/.pgpass",
    "28000": "{where} refuses this user ({said})",
    "3D000": "{where} does not exist; make it with createdb",
    "XX001": DAMAGED,
    "XX002": DAMAGED,
    "55P03": "{where} is locked by another program for more than {busy_s:g} s; end that one",
}


_REFUSED: tuple[tuple[str, str], ...] = (
    ("53300", r"too many clients|too many connections|remaining connection slots"),
    ("28P01", r"password authentication failed|no password supplied"),
    ("3D000", r"database \".*\" does not exist"),
    ("28000", r"role \".*\" does not exist|no pg_hba\.conf entry|authentication failed"),
)
"""Refusals of a server to let a client in, by SQLSTATE, as libpq passes on the words only.

Where they are in another language the database is out of reach, with these words.
"""
_SILENCE = "ConnectionTimeout"
"""psycopg's name for a server that does not answer; `silence` raises it as well."""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, "XX001", "XX002")
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, "55P03")
AGAIN = "it is tried again at the next call"
AT_START = "start the controller again when it answers"
"""There is no next call where a store could not be opened."""
OUT_OF_REACH = "{where} is out of reach ({said}); {then}"
READ_ONLY = "{where} can only be read: its file system is read-only; mount it so that it can be written"


def failure(
    error: BaseException, where: str, busy_s: float, *, is_read_only: bool = False, then: str = AGAIN
) -> StoreError:
    """The StoreError that reports `error`, which is one of FAILURES.

    `is_read_only` says that the file system of an SQLite database takes nothing; `then` what comes next
    where it is out of reach.
    """
    cause = (error.orig or error) if isinstance(error, DBAPIError) else error
    said = (str(cause).strip() or type(cause).__name__).splitlines()[0].rpartition("FATAL: ")[2].strip()
    gone = isinstance(error, DBAPIError) and error.connection_invalidated
    sentence = OUT_OF_REACH if gone else _known(cause)
    if is_read_only and _code(cause) in _UNWRITTEN:
        sentence = READ_ONLY
    is_silent = type(cause).__name__ == _SILENCE or _code(cause) in _LOCKED
    told = sentence.format(where=where, busy_s=busy_s, said=said, then=then)
    return StoreError(told, silent=is_silent, damaged=_code(cause) in _DAMAGE)


def _code(cause: BaseException) -> int | str | None:
    """The database's code for it: a number of SQLite (the low byte: the rest refines it), an SQLSTATE."""
    number: int | None = getattr(cause, "sqlite_errorcode", None)
    state: str | None = getattr(cause, "sqlstate", None)
    return state if number is None else number & 0xFF


def _refused(cause: BaseException) -> str | None:
    """The SQLSTATE with which PostgreSQL refuses the connection; None for any other or unknown one."""
    if not hasattr(cause, "sqlstate"):
        return None
    return next((state for state, words in _REFUSED if re.search(words, str(cause))), None)


def _known(cause: BaseException) -> str:
    code = _code(cause) or _refused(cause)
    if code in _SQLITE:
        return _SQLITE[code]
    if code in _POSTGRES:
        return _POSTGRES[code]
    if type(cause).__name__ in ("OperationalError", _SILENCE) and hasattr(cause, "sqlstate"):
        return OUT_OF_REACH
    return "{where}: {said}"
