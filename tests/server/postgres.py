"""A real PostgreSQL for tests: in a folder of its own, reached by a UNIX socket, gone afterwards."""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest

_FAST = "-c fsync=off -c full_page_writes=off -c shared_buffers=16MB -c max_connections=80"
LONGEST_FOLDER = 70
"""Bytes of the folder for temporary files: below a longer one its socket has a path that is too long."""
_USERS = ("postgres", "nobody")
"""Who may run it when root asks: PostgreSQL refuses root."""


def program(name: str) -> Path | None:
    """Where PostgreSQL's program `name` is; the newest version if there are several."""
    places = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: float(p.parent.name))
    return next((p / name for p in [*versions[::-1], *places] if os.access(p / name, os.X_OK)), None)


class Postgres:
    """One server, and as many databases in it as asked for."""

    def __init__(self, initdb: Path, pg_ctl: Path) -> None:
        self._pg_ctl = pg_ctl
        self._user = _unprivileged() if os.geteuid() == 0 else None
        long = len(os.fsencode(tempfile.gettempdir())) > LONGEST_FOLDER
        self.folder = Path(tempfile.mkdtemp(prefix="rota-pg-", dir="/tmp" if long else None))
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._numbers = itertools.count()
        self._run(
            str(initdb), "-D", self._data, "-U", "rota", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
        )
        self.start()

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _run(self, *command: str) -> None:
        """Run a program of PostgreSQL as somebody it accepts.

        What it says goes to a file: a server keeps the pipe that its starter had.
        """
        options: dict[str, object] = {}
        if self._user is not None:
            options = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False,
                **options,  # type: ignore[call-overload]
            )  # fmt: skip
            said.seek(0)
            assert done.returncode == 0, said.read().decode("utf-8", "replace")

    def start(self) -> None:
        """Start the server; returns when it answers."""
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' {_FAST}"
        log = str(self.folder / "log")
        self._run(str(self._pg_ctl), "-D", self._data, "-l", log, "-w", "-t", "60", "-o", options, "start")

    def stop(self) -> None:
        """Stop the server at once; connections break."""
        self._run(str(self._pg_ctl), "-D", self._data, "-w", "-m", "immediate", "stop")

    def kill(self) -> None:
        """kill -9 of all its processes; returns when none is left."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        pids = [first, *_children(first)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.01)

    @contextmanager
    def frozen(self, *pids: int) -> Iterator[None]:
        """In this block `pids`, or all its processes, take what comes and say nothing."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        pids = pids or (first, *_children(first))
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @property
    def socket(self) -> str:
        """The path at which it listens."""
        return str(self.folder / ".s.PGSQL.5432")

    def over(self, url: str, port: int) -> str:
        """`url` by way of a port of this machine that leads to `socket`."""
        return url.replace(f"?host={self.folder}", f"?host=127.0.0.1&port={port}")

    def url(self, name: str) -> str:
        """The URL of the database `name`."""
        return f"postgresql+psycopg://rota@/{name}?host={self.folder}"

    def database(self, template: str = "template1") -> str:
        """The URL of a new database: empty, or a copy of `template`, which nobody may be using."""
        name = f"test{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def execute(self, statement: str, name: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement in the database `name`; its rows."""
        import psycopg

        place = {"host": str(self.folder), "user": "rota", "dbname": name}
        with psycopg.connect(**place, autocommit=True) as connection:  # type: ignore[arg-type]
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        """Stop the server and delete everything."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder)


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def _unprivileged() -> pwd.struct_passwd:
    found = [user for user in pwd.getpwall() if user.pw_name in _USERS]
    if not found:
        pytest.skip(f"PostgreSQL refuses root, and there is no user {' or '.join(_USERS)}")
    return min(found, key=lambda user: _USERS.index(user.pw_name))


@cache
def running(initdb: Path, pg_ctl: Path) -> Postgres:
    """The one server of this process, whichever module asks first."""
    server = Postgres(initdb, pg_ctl)
    atexit.register(server.remove)
    return server


@pytest.fixture(scope="session")
def postgres() -> Postgres:
    """The server; the test is skipped where PostgreSQL is not installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    initdb, pg_ctl = program("initdb"), program("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("PostgreSQL is not installed: no initdb in PATH or /usr/lib/postgresql/*/bin")
    return running(initdb, pg_ctl)
