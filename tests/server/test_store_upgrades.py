"""A cluster that is upgraded: what any earlier version had on record is there, whoever dies meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from postgres import postgres  # noqa: F401
from sqlalchemy import MetaData
from store_place import Place, bare, contents, jobs_of, node_info  # noqa: F401
from test_store import whole_step

from rota.server.auth import mint
from rota.server.roster import StoredRoster, token_row
from rota.server.store import migrations
from rota.server.store.database import Database
from rota.server.store.rows import EventRow, JobState, Step
from rota.server.store.store import Store
from rota.server.store.tables import metadata
from rota.wire.views import UserView
from tiers import first

VERSIONS = [f"{number:04}" for number in range(1, int(migrations.HEAD))]
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """A cluster in the middle of its work: users, tokens, a node, jobs that wait, run and have ended."""
    store = Store.open(None, tmp_path_factory.mktemp("whole"))
    roster = StoredRoster(store)
    roster.put_user(UserView(name="ann", admin=False, tenant="vision", account="ann"))
    roster.renew("user", "ann")
    store.join(node_info("n1"), token_row(mint("agent", "n1")[1]))
    store.add_jobs("ann", "vision", jobs_of(6), 1.0, key="once")
    store.set_fact("tenants", {"vision": {"quota": 4, "hard": True}})
    number = store.add_command(1.0, "ann", "cancel", row=1, args={"reason": "no"})
    step = whole_step(b"memory")
    store.commit(replace(step, done=[replace(step.done[0], seq=number)]))
    waits = JobState(state="PENDING", phase=1, reason="Resources", since_s=2.0)
    store.commit(Step(jobs={2: waits}, events=[EventRow(2.0, "rota", "hold", "3", "")]))
    found = {name: [dict(row) for row in rows] for name, rows in contents(store).items()}
    store.close()
    return found


def database(place: Place) -> Database:
    return Database(place.url, place.home, None, 5.0)


def make_old(place: Place, version: str, rows: Rows) -> Rows:
    """A database as a Rota of that version left it; what of `rows` that one could put on record."""
    opened = database(place)
    kept: Rows = {}
    try:
        with opened.writing() as writing:
            migrations.bring(writing.connection, opened.where, version)
            old = MetaData()
            old.reflect(writing.connection)
            for table in metadata.sorted_tables:
                if table.name in old.tables:
                    columns = old.tables[table.name].c.keys()
                    known = table.c  # the types of today read and write what was written then
                    kept[table.name] = [
                        {name: value for name, value in row.items() if name in columns}
                        for row in rows[table.name]
                    ]
                    assert set(columns) <= set(known.keys()), "nothing that was kept has gone since"
                    if kept[table.name]:
                        writing.connection.execute(table.insert(), kept[table.name])
    finally:
        opened.close()
    return kept


def of_then(now: Rows, then: Rows) -> Rows:
    """What is on record now, in the words of the earlier version."""
    return {
        name: sorted(
            ({key: row[key] for key in then[name][0]} for row in now[name]) if then[name] else now[name],
            key=repr,
        )
        for name in then
    }


def version_of(place: Place) -> str | None:
    opened = database(place)
    try:
        with opened.reading() as connection:
            return migrations.version(connection)
    finally:
        opened.close()


# One upgrade passes all that are behind it: the first does everything, the last are what people have.
@pytest.mark.parametrize("version", first(5, [VERSIONS[0], *VERSIONS[:0:-1]]))
def test_from_every_version(bare: Place, version: str, rows: Rows) -> None:  # noqa: F811
    then = make_old(bare, version, rows)
    store = bare.open()
    assert of_then(contents(store), then) == {name: sorted(ones, key=repr) for name, ones in then.items()}
    everything = store.load()
    assert sorted(everything.jobs) == [0, 2, 3, 4, 5], "those that are not over"
    assert {job.account for job in everything.jobs.values()} == {"ann"}, "as their user has it at that moment"
    assert StoredRoster(store).user("ann") == UserView(
        name="ann", admin=False, tenant="vision", account="ann", viewer=False
    )
    again = store.add_jobs("ann", "vision", jobs_of(6), 9.0, key="once")
    assert [job.row for job in again] == [0, 1, 2, 3, 4, 5], "who asks again after the upgrade adds nothing"
    assert [job.row for job in store.add_jobs("ann", "vision", jobs_of(1), 9.0)] == [6]


OPENS = """
import sys
from pathlib import Path
from rota.server.store.store import Store
Store.open(sys.argv[1] or None, Path(sys.argv[2]))
"""


@pytest.mark.soak
def test_killed_in_the_middle_of_it(bare: Place, rows: Rows) -> None:  # noqa: F811
    """With -9, all changes made and none of them on record: the next start makes them."""
    then = make_old(bare, "0001", rows)
    environment = {**os.environ, "ROTA_CRASH_AT": "store-commit"}
    command = [sys.executable, "-c", OPENS, bare.url or "", str(bare.home)]
    killed = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr.decode()
    assert version_of(bare) == "0001"
    store = bare.open()
    assert of_then(contents(store), then) == {name: sorted(ones, key=repr) for name, ones in then.items()}
    store.close()
    assert version_of(bare) == migrations.HEAD
