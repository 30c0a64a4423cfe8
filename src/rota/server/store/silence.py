"""A database that takes a call and never answers: the caller gets an error, and later callers wait less.

Its machine is frozen, its disk hangs, the network has silently failed, or another program keeps the database
locked: a driver would wait for ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

from rota.server.store.failures import StoreError

LONG_SILENCE_S = 600.0
"""Seconds that statements which read or rewrite everything may take."""


def bounded_connect(silence_s: float) -> Callable[..., Any]:
    """What opens connections in the driver's place, each with a `patience_s` of `silence_s`."""
    import psycopg

    class Bounded(psycopg.Connection[Any]):
        """A connection that gives up a server that says nothing."""

        patience_s = silence_s
        """Seconds without a word after which it is closed."""

        def wait(self, gen: Any, *given: Any, **more: Any) -> Any:
            """As the driver's own, which looks after each interval whether it is to go on."""
            return super().wait(self._heard(gen), *given, **more)

        def _heard(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            try:
                wants, since_s = next(gen), time.monotonic()
                while True:
                    ready = yield wants
                    if ready:
                        since_s = time.monotonic()
                    elif time.monotonic() - since_s > self.patience_s:
                        self.pgconn.finish()
                        raise psycopg.errors.ConnectionTimeout(f"no answer for {self.patience_s:g} s")
                    wants = gen.send(ready)
            except StopIteration as end:
                return end.value

    def connect(_dialect: Any, _record: Any, given: list[Any], named: dict[str, Any]) -> Any:
        return Bounded.connect(*given, **named)

    return connect


@contextmanager
def long_patience(connection: Connection, is_long: bool = True) -> Iterator[None]:
    """In this block `connection` waits LONG_SILENCE_S for its server, if it limits waits at all."""
    raw: Any = connection.connection.dbapi_connection
    if not is_long or not hasattr(raw, "patience_s"):
        yield
        return
    before, raw.patience_s = raw.patience_s, LONG_SILENCE_S
    try:
        yield
    finally:
        raw.patience_s = before


class StoreSilence:
    """Whether the database answers.

    Once a call has waited in vain, one call at a time tests whether the database answers again; the others
    fail immediately.
    """

    def __init__(self) -> None:
        self.told = ""
        """The sentence of the call that waited in vain; empty as long as the database answers."""
        self._finding_out = threading.Lock()

    @contextmanager
    def asking(self) -> Iterator[Callable[[], None]]:
        """One call; StoreError immediately if another call is testing the database.

        It yields a function for a caller that has waited for others: StoreError if they waited in vain.
        """
        said = self.told
        if said and not self._finding_out.acquire(blocking=False):
            raise StoreError(said, silent=True)

        def after_others() -> None:
            if self.told and not said:
                raise StoreError(self.told, silent=True)

        try:
            yield after_others
            self.told = ""
        except StoreError as error:
            if error.silent:
                self.told = str(error)
            raise
        finally:
            if said:
                self._finding_out.release()
