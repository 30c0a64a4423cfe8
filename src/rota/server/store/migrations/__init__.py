"""How a database of an earlier version becomes one of this: `versions`, run in their order by `bring`."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from rota.server.store.failures import StoreError

HEAD = "0009"
"""The newest version; a test holds it against the files.  Here, so that nothing loads Alembic in vain."""
HERE = Path(__file__).parent
_BEGUN_WITH = {"users", "nodes", "jobs"}
"""Tables that have a row as soon as a cluster has begun."""


def bring(
    connection: Connection, where: str, head: str = HEAD, versions: str = str(HERE / "versions")
) -> bool:
    """Bring the database up to `head` within the transaction that has begun; False if it was there already.

    StoreError if a newer rota, or another program, has written it.
    """
    current = version(connection)
    if current == head:
        return False
    if current is not None and not (current.isdigit() and len(current) == len(head)):
        raise StoreError(f"{where} belongs to another program (its version is {current!r}); name another one")
    if current is not None and current > head:
        raise StoreError(
            f"{where} was written by a newer rota (schema {int(current)}); this one knows {int(head)}: "
            "install that version, or name another database"
        )
    _upgrade(connection, head, versions)
    return True


def version(connection: Connection) -> str | None:
    """The version of the database; None if it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    number: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return number


def is_empty(connection: Connection) -> bool:
    """True for a database in which no cluster has begun: without tables, or without users, nodes and jobs."""
    there = set(inspect(connection).get_table_names())
    if not there >= _BEGUN_WITH:
        return not there
    rows = (connection.execute(text(f"SELECT 1 FROM {name} LIMIT 1")).first() for name in _BEGUN_WITH)
    return all(row is None for row in rows)


def _upgrade(connection: Connection, head: str, versions: str) -> None:
    from alembic import command  # a tenth of a second that most starts do not need
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", versions.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, head)
