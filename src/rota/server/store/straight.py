"""The statements that every job needs, said straight to the driver.

SQLAlchemy writes each of them down once.  What it does around a statement afterwards takes several times as
long as the statement itself, and the start of a job waits for a dozen of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Executable
from sqlalchemy.exc import DBAPIError

from rota.server.store.forms import Params


class Text(NamedTuple):
    """A statement as the driver takes it."""

    said: str
    names: tuple[str, ...] | None
    """Of its parameters, in order; None if the driver takes them by name."""
    own: Params
    """Parameters that stand in the statement itself."""

    def values(self, given: Params) -> Params | tuple[Any, ...]:
        """The parameters of one execution as the driver takes them."""
        if self.names is None:
            return {**self.own, **given}
        return tuple([given[name] if name in given else self.own[name] for name in self.names])


class Straight:
    """Writes statements down for one driver, and hands them over.  Raises what SQLAlchemy would raise."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[str, ...]], tuple[Executable, Text]] = {}
        """With the statement itself: as long as it is there, no other one has its id."""

    def change(self, connection: Connection, statement: Executable, rows: Sequence[Params]) -> int:
        """Insert, update or delete once for each of `rows`, of the same names; how many were changed."""
        text = self._text(connection, statement, rows[0])
        values = [text.values(row) for row in rows]
        many = len(values) > 1
        cursor = self._told(connection, text.said, values if many else values[0], many=many)
        changed: int = cursor.rowcount
        cursor.close()
        return changed

    def first(self, connection: Connection, statement: Executable, params: Params) -> tuple[Any, ...] | None:
        """The first row that `statement` gives, None if it gives none; each value as the driver reads it."""
        text = self._text(connection, statement, params)
        cursor = self._told(connection, text.said, text.values(params))
        row: tuple[Any, ...] | None = cursor.fetchone()
        cursor.close()
        return row

    def say(self, connection: Connection, text: str) -> None:
        """A word that takes no parameters and answers nothing, such as COMMIT."""
        self._told(connection, text, ()).close()

    def _text(self, connection: Connection, statement: Executable, params: Params) -> Text:
        key = id(statement), tuple(params)
        known = self._known.get(key)
        if known is None:
            compiled: Any = statement.compile(  # type: ignore[attr-defined]
                dialect=connection.dialect, column_keys=sorted(params)
            )
            names = None if compiled.positiontup is None else tuple(compiled.positiontup)
            own = {name: value for name, value in compiled.params.items() if name not in params}
            known = self._known[key] = statement, Text(compiled.string, names, own)
        return known[1]

    def _told(self, connection: Connection, text: str, values: Any, *, many: bool = False) -> Any:
        raw: Any = connection.connection.dbapi_connection
        cursor = raw.cursor()
        errors: Any = connection.dialect.loaded_dbapi.Error
        try:
            if many:
                cursor.executemany(text, values)
            elif values:
                cursor.execute(text, values)
            else:
                cursor.execute(text)
        except errors as error:
            is_gone = connection.dialect.is_disconnect(error, raw, cursor)
            if is_gone:
                connection.invalidate(error)
            cursor.close()
            raise DBAPIError.instance(
                text, None, error, errors, dialect=connection.dialect, connection_invalidated=is_gone
            ) from error
        except BaseException:
            cursor.close()  # as long as it is open, its transaction would be
            raise
        return cursor
