"""Databases of every version become databases of this one, and those of later ones are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from postgres import postgres  # noqa: F401
from sqlalchemy import MetaData, Table, inspect, text
from store_place import Place, bare, contents, jobs_of  # noqa: F401

from rota.server.store import migrations
from rota.server.store.database import Database
from rota.server.store.failures import StoreError
from rota.server.store.new_jobs import asked
from rota.server.store.rows import JobRow, JobState
from rota.server.store.stored import job_params
from rota.server.store.tables import metadata
from rota.wire.job import JobSpec

FIRST = "0001"
NEXT_VERSION = f"{int(migrations.HEAD) + 1:04}"
NEXT = '''
"""Adds a colour to jobs."""
import sqlalchemy as sa
from alembic import op

revision = "{after}"
down_revision = "{head}"

def upgrade():
    op.add_column("jobs", sa.Column("colour", sa.Text, nullable=False, server_default="red"))
    op.create_index("jobs_colour", "jobs", ["colour"])
    {last}
'''


def database(bare: Place) -> Database:  # noqa: F811
    return Database(bare.url, bare.home, None, 1.0)


def versions_with(folder: Path, last: str = "") -> str:
    """A copy of the versions with one more."""
    shutil.copytree(migrations.HERE / "versions", folder)
    text = NEXT.format(last=last, head=migrations.HEAD, after=NEXT_VERSION)
    (folder / f"v{NEXT_VERSION}_colour.py").write_text(text)
    return str(folder)


def test_head_is_the_newest_file() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations.HERE))
    config.set_main_option("path_separator", "newline")
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [migrations.HEAD]
    found = sorted(script.revision for script in scripts.walk_revisions())
    assert found == [f"{number:04}" for number in range(1, len(found) + 1)]


def test_migrations_build_the_tables(bare: Place) -> None:  # noqa: F811
    """From an empty database to exactly what `tables` says: columns, types, indexes, keys."""
    store = bare.open()
    with store._db.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        found = inspect(connection)
        for table in metadata.sorted_tables:
            key = found.get_pk_constraint(table.name)["constrained_columns"]
            assert key == [column.name for column in table.primary_key]
            assert {i["name"] for i in found.get_indexes(table.name) if not i["unique"]} == {
                i.name for i in table.indexes
            }
            assert {c["name"]: c["nullable"] for c in found.get_columns(table.name)} == {
                c.name: bool(c.nullable) for c in table.columns
            }


def test_from_the_first_version(bare: Place, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """What a store of the first version holds is there after all the migrations since."""
    opened = database(bare)
    with opened.writing() as writing:
        assert migrations.bring(writing.connection, opened.where, FIRST)
        assert migrations.version(writing.connection) == FIRST
        writing.connection.execute(text("INSERT INTO facts VALUES ('epoch_s', '5.0'), ('name', '\"lab\"')"))
    opened.close()
    store = bare.open()
    assert store.facts() == {"epoch_s": 5.0, "name": "lab"}
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)


def test_jobs_of_the_version_before_get_the_defaults(bare: Place) -> None:  # noqa: F811
    """A job that was submitted before there were weights has the weight that nobody gave."""
    opened = database(bare)
    spec = JobSpec(command=["x"], gpus=3)
    with opened.writing() as writing:
        assert migrations.bring(writing.connection, opened.where, "0002")
        writing.connection.execute(text("INSERT INTO facts VALUES ('epoch_s', '5.0')"))
        old = Table("jobs", MetaData(), autoload_with=writing.connection)
        specs = text("INSERT INTO specs VALUES (1, :text)")
        writing.connection.execute(specs, {"text": spec.model_dump_json(include={"command", "gpus"})})
        row = JobRow(0, "1", "ann", 1.0, None, None, 0, asked(spec, "ann", "vision", 5.0), JobState())
        said = {name: value for name, value in job_params(row, 1).items() if name in old.c}
        writing.connection.execute(old.insert(), [said])
    opened.close()
    assert {"weight", "deadlines"}.isdisjoint(old.c.keys())
    assert bare.open().job(0) == row


def test_a_later_migration(bare: Place, tmp_path: Path) -> None:  # noqa: F811
    store = bare.open()
    store.add_jobs("ann", "vision", jobs_of(3), 1.0)
    store.close()
    versions = versions_with(tmp_path / "versions")
    opened = database(bare)
    try:
        with opened.writing() as writing:
            assert migrations.bring(writing.connection, opened.where, NEXT_VERSION, versions)
        with opened.writing() as writing:
            assert not migrations.bring(writing.connection, opened.where, NEXT_VERSION, versions)
            colours = writing.connection.execute(text("SELECT id, colour FROM jobs ORDER BY id")).fetchall()
        assert [tuple(row) for row in colours] == [("1", "red"), ("2", "red"), ("3", "red")]
    finally:
        opened.close()
    newer = (
        rf"was written by a newer rota \(schema {int(NEXT_VERSION)}\); this one knows {int(migrations.HEAD)}"
    )
    with pytest.raises(StoreError, match=newer):
        bare.open()


def test_a_migration_that_fails_leaves_the_old_version(bare: Place, tmp_path: Path) -> None:  # noqa: F811
    store = bare.open()
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    before = contents(store)
    store.close()
    versions = versions_with(tmp_path / "versions", last='op.execute("SELECT * FROM nowhere")')
    opened = database(bare)
    try:
        with pytest.raises(StoreError, match="nowhere"), opened.writing() as writing:
            migrations.bring(writing.connection, opened.where, NEXT_VERSION, versions)
        with opened.writing() as writing:
            assert migrations.version(writing.connection) == migrations.HEAD
            assert "colour" not in {c["name"] for c in inspect(writing.connection).get_columns("jobs")}
    finally:
        opened.close()
    assert contents(bare.open()) == before


def test_database_of_another_program(bare: Place) -> None:  # noqa: F811
    opened = database(bare)
    with opened.writing() as writing:
        writing.connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        writing.connection.execute(text("INSERT INTO alembic_version VALUES ('ae1027a6acf')"))
    opened.close()
    with pytest.raises(StoreError, match="belongs to another program"):
        bare.open()


def test_tables_of_another_program(bare: Place) -> None:  # noqa: F811
    opened = database(bare)
    with opened.writing() as writing:
        writing.connection.execute(text("CREATE TABLE users (id INTEGER)"))
    opened.close()
    with pytest.raises(StoreError, match="users"):
        bare.open()
    opened = database(bare)
    with opened.reading() as connection:
        assert inspect(connection).get_table_names() == ["users"], "nothing of ours was left there"
    opened.close()


@pytest.mark.soak
def test_a_store_that_is_up_to_date_loads_no_alembic(tmp_path: Path) -> None:
    """It would cost each start a tenth of a second and the controller some megabytes."""
    import subprocess
    import sys

    program = (
        "import sys; from pathlib import Path; from rota.server.store.store import Store; "
        "Store.open(None, Path(sys.argv[1])).close(); print('alembic' in sys.modules)"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["True", "False"]
