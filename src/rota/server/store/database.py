"""The store's connections, one that writes and some that read, and the settings of both engines."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Executable, create_engine, event
from sqlalchemy.engine import URL, CursorResult, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import NullPool, QueuePool

from rota.crash import crash_point
from rota.errors import InputError
from rota.server.store.addresses import without_parameters
from rota.server.store.failures import AGAIN, AT_START, FAILURES, StoreError, failure
from rota.server.store.forms import Params
from rota.server.store.locks import FileLock, advisory_lock
from rota.server.store.migrations import is_empty
from rota.server.store.silence import StoreSilence, bounded_connect, long_patience
from rota.server.store.whole_file import FileLost, KeptFile, check_not_lost, is_read_only, make_sure_of

Faults = Callable[[str], None]
"""Called with the name of each point of a write before it is reached; its exceptions fail the write."""
READERS = 32
"""Most connections that read at one time; the next reader waits for one of them."""


class Writing:
    """One transaction that is being written."""

    def __init__(self, connection: Connection, faults: Faults | None) -> None:
        self.connection = connection
        self._faults = faults

    def run(
        self, point: str, statement: Executable, params: Params | Sequence[Params] | None = None
    ) -> CursorResult[Any]:
        """Execute `statement`; `point` names it to the tests."""
        if self._faults:
            self._faults(point)
        return self.connection.execute(statement, params)


class Database:
    """An open database, locked against other controllers.

    Transactions are begun and ended in plain sight: the drivers are in autocommit mode, so that SQLite
    begins IMMEDIATE and readers hold no snapshot unasked.
    """

    def __init__(
        self, url: str | None, home: Path, faults: Faults | None, busy_s: float, lock_s: float = 0.0
    ) -> None:
        try:
            parsed = make_url(url or f"sqlite:///{home / 'rota.db'}")
            self.dialect = parsed.get_backend_name()
        except (ArgumentError, NoSuchModuleError) as error:
            raise _bad_url(url, str(error)) from None
        except ValueError:  # of the port, as SQLAlchemy reads it
            raise _bad_url(url, "its port is no number") from None
        if self.dialect != "sqlite" and _is_cut_at_the_wrong_place(url or "", parsed):
            raise _bad_url(url, "an @ in its password is written %40, a / %2F") from None
        if self.dialect not in ("sqlite", "postgresql"):
            raise _bad_url(url, f"{self.dialect} is not supported")
        self.faults, self.busy_s = faults, busy_s
        self._writer: Connection | None = None
        self.is_open = False
        """Whether anything was written: the opening itself is, and from then on calls are tried again."""
        self.damage = ""
        """One sentence once a call has met damage, which lasts; other calls may read pages that are whole."""
        self.lineage = 0
        """Number of PostgreSQL's connections that have had the lock; between two, others may have written."""
        self._one_writer = threading.Lock()
        self._silences = StoreSilence(), StoreSilence()
        """Of the connection that writes, and of those that read."""
        self._lock_s = max(lock_s, min(busy_s, 2.0))
        """How long the lock of a predecessor is waited for, at first."""
        self._closed = False
        self._file_lock: FileLock | None = None
        self._home = home
        self._folder: Path | None = None
        self._file: KeptFile | None = None
        self._is_made = False  # by this opening
        if self.dialect == "sqlite":
            if not parsed.database or parsed.database == ":memory:":
                raise _bad_url(url, "a database in memory is lost with the controller")
            self.where = f"the database {parsed.database}"
            self._folder = Path(parsed.database).parent
            self._file_lock, self._is_made = _lock_file(Path(parsed.database), self.where, lock_s)
            self._file = KeptFile(Path(parsed.database), self.where)
            self._engines = self._sqlite(parsed)
        else:
            shown = without_parameters(parsed.render_as_string(hide_password=True))
            self.where = f"the database {shown}"
            self._engines = self._postgresql(parsed)

    def leave(self) -> None:
        """Say that this controller is about to end."""
        if self._file_lock is not None:
            self._file_lock.leave()

    def check_not_lost(self, connection: Connection) -> None:
        """Raise StoreError if a file that was there is empty, and should not be; PostgreSQL begins empty."""
        if self._file is not None and not self._is_made and is_empty(connection):
            check_not_lost(self._file.path, self._home, self.where)

    # -- engines -------------------------------------------------------------------------------

    def _sqlite(self, url: Any) -> tuple[Engine, Engine]:
        options: dict[str, Any] = {
            "isolation_level": "AUTOCOMMIT",
            "connect_args": {"timeout": self.busy_s, "check_same_thread": False},
        }
        write = create_engine(url, poolclass=NullPool, **options)
        read = create_engine(url, poolclass=QueuePool, pool_size=READERS, max_overflow=0, **options)
        for engine, pragmas in ((write, _WRITE_PRAGMAS), (read, _READ_PRAGMAS)):
            event.listen(engine, "connect", _setting(pragmas))
        return write, read

    def _postgresql(self, url: Any) -> tuple[Engine, Engine]:
        options: dict[str, Any] = {
            "isolation_level": "AUTOCOMMIT",
            "connect_args": {
                "connect_timeout": max(2, round(self.busy_s)),
                "application_name": "rota",
                "tcp_user_timeout": 15_000,  # milliseconds until a network that went dark is an error
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
            },
        }
        try:
            write = create_engine(url, poolclass=NullPool, **options)
        except ImportError as error:
            raise _bad_url(str(url.drivername) + "://", f"{error.name} is not installed") from None
        read = create_engine(
            url, poolclass=QueuePool, pool_size=4, max_overflow=READERS - 4, pool_pre_ping=True, **options
        )
        for engine in (write, read):
            event.listen(engine, "connect", _never_ended)
        if write.dialect.driver == "psycopg":
            for engine in (write, read):
                event.listen(engine, "do_connect", bounded_connect(2 * self.busy_s))
        return write, read

    # -- writing -------------------------------------------------------------------------------

    @contextmanager
    def writing(
        self, undone: Callable[[], None] = lambda: None, *, is_long: bool = False
    ) -> Iterator[Writing]:
        """One transaction: stored when the block ends, as if never begun if anything raises.

        `undone` is called if anything raises, before another thread writes.  With `is_long` its statements
        may take minutes.
        """
        with self._alone():
            committing = False
            try:
                connection = self._begun()
                with long_patience(connection, is_long):
                    yield Writing(connection, self.faults)
                self._point("commit")
                committing = True
                connection.exec_driver_sql("COMMIT")
                self.is_open = True
            except BaseException as error:
                undone()
                self._undo(error)
                if isinstance(error, FAILURES):
                    told = self._failure(error)
                    told.unsure = committing and getattr(error, "connection_invalidated", False)
                    raise told from error
                raise
            crash_point("store-committed")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other thread writes in this block."""
        with self._silences[0].asking() as after_others, self._one_writer:
            after_others()
            yield

    def _connect_writer(self) -> Connection:
        self._writer = self._connected()
        self.lineage += self.dialect == "postgresql"  # SQLite's lock outlives its connections
        return self._writer

    def _failure(self, error: BaseException) -> StoreError:
        then = AGAIN if self.is_open else AT_START
        told = failure(error, self.where, self.busy_s, is_read_only=is_read_only(self._folder), then=then)
        if told.damaged:
            self.damage = self.damage or str(told)
        return told

    def _point(self, name: str) -> None:
        crash_point(f"store-{name}")
        if self.faults:
            self.faults(name)

    def _begun(self) -> Connection:
        """The connection that writes, with a transaction begun; a new one if the old one is gone."""
        if self._closed:
            raise StoreError(f"{self.where} has been closed")
        if self._file is not None:
            self._file.check(self._save)
        self._point("begin")
        begin = "BEGIN IMMEDIATE" if self.dialect == "sqlite" else "BEGIN"
        if self._writer is not None:
            try:
                self._writer.exec_driver_sql(begin)
                return self._writer
            except FAILURES as error:
                if not getattr(error, "connection_invalidated", False):
                    raise
                self._drop()
        if self.dialect == "sqlite":  # readers that came while the file could only be read would keep it so
            self._engines[1].dispose()
        writer = self._connect_writer()
        writer.exec_driver_sql(begin)
        if self._file is not None:
            self._file.opened_log(is_open=True)
        return writer

    def _connected(self) -> Connection:
        connection = self._engines[0].connect()
        if self.dialect == "postgresql":
            try:
                advisory_lock(connection, self.where, self._lock_s, had_it=self.lineage > 0)
                self._lock_s = min(self.busy_s, 2.0)
                connection.exec_driver_sql(f"SET lock_timeout = {max(1, round(1000 * self.busy_s))}")
            except BaseException:
                connection.invalidate()
                connection.close()
                raise
        return connection

    def _undo(self, error: BaseException) -> None:
        """Back to before the transaction.

        A broken connection undoes it by itself; PostgreSQL's is kept if it works, since another controller
        could take the lock while it is away.
        """
        if self._writer is None or isinstance(
            error, FileLost
        ):  # which may have nothing left but this connection
            return
        lost = getattr(error, "connection_invalidated", False)
        if not lost and (self.dialect == "postgresql" or not isinstance(error, FAILURES)):
            try:
                self._writer.exec_driver_sql("ROLLBACK")
                return
            except FAILURES:
                lost = True  # dropping it has the same effect on the database
        self._drop()

    def _save(self, copy: Path) -> None:
        """Write all that an SQLite database holds, by a connection that has it open, to a new file."""
        if self._writer is None:
            raise OSError("no connection has it open any more")
        self._writer.exec_driver_sql("VACUUM INTO ?", (str(copy),))

    def _drop(self) -> None:
        writer, self._writer = self._writer, None
        if self._file is not None:
            self._file.opened_log(is_open=False)
        if writer is not None:
            writer.invalidate()
            writer.close()

    # -- reading -------------------------------------------------------------------------------

    @contextmanager
    def reading(self, *, one_moment: bool = False, is_long: bool = False) -> Iterator[Connection]:
        """A connection to read with; with `one_moment` all that is read is as of the first statement."""
        if self._closed:
            raise StoreError(f"{self.where} has been closed")
        if self._file is not None:
            self._file.check()
        with self._silences[1].asking(), self._read(one_moment, is_long) as connection:
            yield connection

    @contextmanager
    def _read(self, one_moment: bool, is_long: bool) -> Iterator[Connection]:
        try:
            with self._engines[1].connect() as connection, long_patience(connection, is_long):
                if not one_moment:
                    yield connection
                    return
                repeatable = " ISOLATION LEVEL REPEATABLE READ READ ONLY"
                connection.exec_driver_sql("BEGIN" + repeatable * (self.dialect == "postgresql"))
                try:
                    yield connection
                finally:
                    connection.exec_driver_sql("ROLLBACK")
        except FAILURES as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Close every connection, then let the next controller in."""
        with self._one_writer:
            self._closed = True
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            for engine in self._engines:
                engine.dispose()
            if self._file_lock is not None:
                self._file_lock.release()


_COMMON = ("PRAGMA foreign_keys = ON", "PRAGMA temp_store = MEMORY")
_WRITE_PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", *_COMMON)
_READ_PRAGMAS = (*_COMMON, "PRAGMA query_only = ON")


_ENDINGS = """
SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN (
    'idle_session_timeout', 'idle_in_transaction_session_timeout', 'statement_timeout', 'transaction_timeout'
)
"""
"""The settings among these that the server's version has."""


def _never_ended(raw: Any, _record: Any) -> None:
    """Whatever the server ends of others after a while: the lock lives as long as the connection that has it,
    and how long a statement may take is for the store to say."""
    cursor = raw.cursor()
    cursor.execute(_ENDINGS)
    cursor.close()
    if not raw.autocommit:
        raw.commit()


def _setting(pragmas: Sequence[str]) -> Callable[[Any, Any], None]:
    def connected(raw: Any, _record: Any) -> None:
        cursor = raw.cursor()
        for pragma in pragmas:
            cursor.execute(pragma)
        cursor.close()

    return connected


def _lock_file(path: Path, where: str, wait_s: float) -> tuple[FileLock, bool]:
    """The lock of the database at `path`, and whether the file had to be made, for its owner alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(path.with_name(f"{path.name}.lock"), where, wait_s)
    except OSError as error:
        raise StoreError(f"{where} cannot be locked: {error.strerror} ({error.filename})") from None
    try:
        is_made = make_sure_of(path, where)
    except OSError as error:
        lock.release()
        raise StoreError(f"{where} cannot be opened: {error.strerror}") from None
    except sqlite3.Error as error:
        lock.release()
        raise failure(error, where, wait_s, is_read_only=is_read_only(path.parent)) from None
    except StoreError:
        lock.release()
        raise
    return lock, is_made


def _is_cut_at_the_wrong_place(url: str, parsed: URL) -> bool:
    """True if part of the password counts as host or name: messages would show it with the address."""
    return url.count("@") > 1 and "@" in f"{parsed.host}{parsed.database}"


def _bad_url(url: str | None, problem: str) -> InputError:
    # Never the URL itself: it may hold a password.
    scheme, separator, _ = (url or "").partition("://")
    return InputError.at(
        f"{scheme if separator else 'what is given'!r} cannot be used ({problem})",
        field="--database-url",
        expected="sqlite:////path/to/file.db or postgresql+psycopg://user@host/name",
    )
