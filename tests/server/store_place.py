"""Databases for the tests of the store, of either engine, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from postgres import Postgres

from new_store import put_new_store
from rota.server.store.database import Faults
from rota.server.store.rows import NewJob
from rota.server.store.store import Store
from rota.server.store.tables import metadata
from rota.wire.job import JobSpec
from rota.wire.sync import DeviceInfo, NodeInfo

SPEC = JobSpec(command=["python", "train.py"], name="a")


@dataclass
class Place:
    """A database of one test, and the stores opened there."""

    url: str | None
    home: Path
    engine: str
    opened: list[Store] = field(default_factory=list)

    def open(self, *, faults: Faults | None = None, busy_s: float = 5.0) -> Store:
        """A store there; closed when the test ends.

        It waits for `busy_s`: PostgreSQL learns a moment later that the one before has been closed.
        """
        store = Store.open(self.url, self.home, faults=faults, busy_s=busy_s)
        self.opened.append(store)
        return store


def _closing(place: Place) -> Iterator[Place]:
    yield place
    for store in place.opened:
        store.close()


@cache
def _new_database(server: Postgres) -> str:
    """The name of such a store in PostgreSQL."""
    Store.open(url := server.database(), Path()).close()
    return url.partition("@/")[2].partition("?")[0]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A store that has just been made: each test runs with both engines."""
    if request.param == "sqlite":
        put_new_store(tmp_path)
        yield from _closing(Place(None, tmp_path, "sqlite"))
    else:
        server = request.getfixturevalue("postgres")
        yield from _closing(Place(server.database(_new_database(server)), tmp_path, "postgresql"))


@pytest.fixture(params=["sqlite", "postgresql"])
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty database, of either engine."""
    url = request.getfixturevalue("postgres").database() if request.param == "postgresql" else None
    yield from _closing(Place(url, tmp_path, request.param))


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Place]:
    """An empty SQLite database."""
    yield from _closing(Place(None, tmp_path, "sqlite"))


def contents(store: Store) -> dict[str, list[Any]]:
    """All rows of all tables, without the numbers the database gives (a failed write may use some up)."""
    found: dict[str, list[Any]] = {}
    with store._db.reading(one_moment=True) as connection:
        for table in metadata.sorted_tables:
            rows = [dict(row._mapping) for row in connection.execute(table.select())]
            for row in rows:
                row.pop("seq", None)
            found[table.name] = sorted(rows, key=repr)
    return found


def jobs_of(count: int, spec: JobSpec = SPEC) -> list[NewJob]:
    """So many jobs."""
    return [NewJob(spec) for _ in range(count)]


def node_info(name: str, devices: int = 2) -> NodeInfo:
    """A machine with so many slots."""
    found = [DeviceInfo(index=i, type="cpu") for i in range(devices)]
    return NodeInfo(
        name=name, address="127.0.0.1", cpus=4, memory_gib=8, boot_id="b", devices=found, kind="cpu"
    )
