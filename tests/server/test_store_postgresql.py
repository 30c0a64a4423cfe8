"""What a server of PostgreSQL does to a store of its own accord, and how it does not let somebody in."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from postgres import Postgres, postgres  # noqa: F401
from sqlalchemy.exc import DBAPIError
from store_place import jobs_of

from rota.server.store.failures import StoreError, failure
from rota.server.store.rows import Step
from rota.server.store.store import Store

SENTENCES = [
    (
        "sorry, too many clients already",
        "HERE takes no more connections (sorry, too many clients already); raise its max_connections, or end "
        "some of others",
    ),
    (
        "remaining connection slots are reserved for roles with the SUPERUSER attribute",
        "HERE takes no more connections (remaining connection slots are reserved for roles with the "
        "SUPERUSER attribute); raise its max_connections, or end some of others",
    ),
    (
        'password authentication failed for user "rota"',
        "HERE refuses the password; give the right one in database_url, PGPASSWORD or ~/.pgpass",
    ),
    ('database "rota" does not exist', "HERE does not exist; make it with createdb"),
    ('role "rota" does not exist', 'HERE refuses this user (role "rota" does not exist)'),
    (
        "the database system is starting up",
        "HERE is out of reach (the database system is starting up); it is tried again at the next call",
    ),
    (
        "désolé, trop de clients sont déjà connectés",
        "HERE is out of reach (désolé, trop de clients sont déjà connectés); it is tried again at the next "
        "call",
    ),
]


@pytest.mark.parametrize(("words", "said"), SENTENCES)
def test_who_is_not_let_in_is_told_what_to_do(words: str, said: str) -> None:
    """libpq has no number for it, only words behind where it was."""
    psycopg = pytest.importorskip("psycopg")
    whole = f'connection failed: connection to server at "127.0.0.1", port 5432 failed: FATAL:  {words}'
    error = DBAPIError("", {}, psycopg.OperationalError(whole))
    assert str(failure(error, "HERE", 5.0)) == said


@pytest.mark.slow
def test_a_server_that_takes_no_more_connections(postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    url, name = own_database(postgres)
    postgres.execute(f"CREATE ROLE of_{name} LOGIN")
    postgres.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0")  # the superuser may still
    with pytest.raises(StoreError, match=r" takes no more connections \(too many connections for database "):
        Store.open(url.replace("//rota@", f"//of_{name}@"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["idle_session_timeout", "statement_timeout"])
def test_a_server_that_ends_what_is_idle_or_long(
    postgres: Postgres,  # noqa: F811
    tmp_path: Path,
    setting: str,
) -> None:
    """The lock is never let go of, so that what was read is true still."""
    url, name = own_database(postgres)
    postgres.execute(f"ALTER DATABASE {name} SET {setting} = '1s'")
    with closing(Store.open(url, tmp_path)) as store:
        store.load()
        with store._db.writing() as writing:
            writing.connection.exec_driver_sql("SELECT pg_sleep(1.2)")
        with store._db.reading() as reading:
            reading.exec_driver_sql("SELECT pg_sleep(1.2)")
        time.sleep(1.3)
        store.add_jobs("ann", "vision", jobs_of(1), 1.0)
        store.commit(Step())
        assert store._db.lineage == 1


@pytest.mark.slow
def test_nothing_is_read_for_decisions_where_none_could_be_kept(
    postgres: Postgres,  # noqa: F811
    tmp_path: Path,
) -> None:
    """A standby shows what was so a while ago, and goes on to what is so when it is promoted.

    A scheduler that had read before would decide, by the same connection, about jobs that are over.
    """
    url, name = own_database(postgres)
    with closing(Store.open(url, tmp_path)) as store:
        store.add_jobs("ann", "vision", jobs_of(1), 1.0)
        store.load()
        becomes_standby(postgres, name, "on")
        assert [job.id for job in store.jobs()] == ["1"], "people see what there is"
        for call in (store.load, lambda: store.set_fact("a", 1)):
            with pytest.raises(StoreError, match="can only be read: it is a standby, or set to read only"):
                call()
        becomes_standby(postgres, name, "off")
        until(lambda: len(store.load().jobs) == 1)
        store.commit(Step())


def own_database(postgres: Postgres) -> tuple[str, str]:  # noqa: F811
    """A new database: its URL and its name."""
    url = postgres.database()
    return url, url.partition("@/")[2].partition("?")[0]


def becomes_standby(postgres: Postgres, name: str, on: str) -> None:  # noqa: F811
    """From now on, or no longer, who connects to the database cannot write."""
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {on}")
    postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


def until(look: Callable[[], bool]) -> None:
    """Calls that meet a connection that was just ended fail: the next one has another."""
    end_s = time.monotonic() + 30.0
    while True:
        try:
            assert look()
            return
        except StoreError:
            assert time.monotonic() < end_s
            time.sleep(0.05)
