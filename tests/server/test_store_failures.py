"""Whatever fails, a write has happened or not, one sentence says so, and the next call works."""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forking import Forks, forks  # noqa: F401
from postgres import Postgres, postgres  # noqa: F401
from sqlalchemy.exc import DBAPIError
from store_place import Place, contents, jobs_of, lite, node_info, place  # noqa: F401
from test_store import whole_step

from mounts import read_only
from new_store import put_new_store
from rota.errors import InputError
from rota.server.store.failures import StoreError, failure
from rota.server.store.rows import DecisionRow, JobState, NewJob, Step, TokenRow, UserRow
from rota.server.store.store import Store
from rota.server.store.whole_file import make_sure_of
from rota.wire.job import JobSpec

Call = Callable[[Store], Any]


class Plan:
    """Lets every point pass until the one with number `at`; remembers what came by."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.error: Exception = sqlite3.OperationalError("disk I/O error")
        self.seen: list[str] = []

    def __call__(self, point: str) -> None:
        self.seen.append(point)
        if self.at is not None and len(self.seen) > self.at:
            raise self.error

    def begin(self, at: int | None) -> None:
        self.at, self.seen = at, []


def _failure(call: Call, store: Store) -> StoreError | None:
    try:
        call(store)
    except StoreError as error:
        return error
    return None


def _step(store: Store) -> None:
    step = whole_step(b"memory")
    [command] = store.open_commands()
    step = replace(step, done=[replace(step.done[0], seq=command.seq)])
    nodes = [replace(node, state="drained") for node in store.nodes()]
    store.commit(replace(step, nodes=nodes, without=["shadow"], policies=step.policies[:1]))


CALLS: dict[str, Call] = {
    "jobs": lambda store: store.add_jobs("ann", "vision", jobs_of(3), 1.0, key="k"),
    "array": lambda store: store.add_jobs(
        "ann", "vision", [NewJob(JobSpec(command=["x"], array="1-2"), i) for i in (1, 2)], 1.0
    ),
    "same key": lambda store: store.add_jobs("ann", "vision", jobs_of(3), 1.0, key="k"),
    "command": lambda store: store.add_command(1.0, "ann", "cancel", row=0),
    "join": lambda store: store.join(node_info("n0"), TokenRow("h", "agent", "n0", 1.0)),
    "step": _step,
    "fact": lambda store: store.set_fact("name", "lab"),
    "user": lambda store: store.set_user(UserRow("ann", "h", "s")),
    "token": lambda store: store.add_token(TokenRow("j", "join")),
    "no token": lambda store: store.remove_token("j"),
    "no user": lambda store: store.remove_user("ann"),
    "old keys": lambda store: store.drop_old_keys(100.0),
    "old jobs": lambda store: store.drop_old_jobs(100.0, 100.0),
    "old events": lambda store: store.drop_old_lines("events", 100.0),
}
"""Every call that writes, in an order in which each has something to do."""


def test_every_write_fails_in_turn(place: Place) -> None:  # noqa: F811
    """At each point of each call: a StoreError, nothing changed, and the same call succeeds afterwards."""
    plan = Plan()
    store = place.open(faults=plan)
    points = 0
    for name, call in CALLS.items():
        before = contents(store)
        for at in range(100):
            plan.begin(at)
            if (error := _failure(call, store)) is None:
                break
            assert "disk I/O error" in str(error)
            assert str(place.home if place.engine == "sqlite" else "postgresql") in str(error)
            assert contents(store) == before, f"{name}: half a write after {plan.seen}"
            points += 1
        assert plan.seen[0] == "begin", name
        assert plan.seen[-1] == "commit", name
        if name != "same key":
            assert contents(store) != before, name
    assert points > 40, "each statement is a point"


@pytest.mark.parametrize("error", [ValueError("ours"), KeyboardInterrupt()])
def test_our_own_mistakes_stay_what_they_are(place: Place, error: BaseException) -> None:  # noqa: F811
    plan = Plan()
    store = place.open(faults=plan)
    before = contents(store)
    plan.begin(3)
    plan.error = error  # type: ignore[assignment]
    with pytest.raises(type(error)):
        store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    plan.begin(None)
    assert contents(store) == before
    assert store.add_jobs("ann", "vision", jobs_of(1), 1.0)[0].row == 0


def test_number_too_large(place: Place) -> None:  # noqa: F811
    store = place.open()
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    before = contents(store)
    with pytest.raises(StoreError):
        store.commit(Step(jobs={0: JobState(starts=2**70)}))
    assert contents(store) == before
    store.commit(Step(jobs={0: JobState(starts=2**62)}))


# -- SQLite ----------------------------------------------------------------------------------------


def _pragma(store: Store, text: str) -> None:
    """Tell the connection that writes."""
    with store._db.writing():
        pass  # so that there is one
    assert store._db._writer is not None
    store._db._writer.exec_driver_sql(text)


def _take_away(home: Path, to: Path) -> None:
    to.mkdir()
    for file in home.glob("rota.db*"):
        if not file.name.endswith(".lock"):
            file.rename(to / file.name)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_database_that_is_taken_away_under_its_controller(
    lite: Place,  # noqa: F811
    tmp_path: Path,
    replaced: bool,
) -> None:
    """It went on in a file without a name: what was acknowledged from then on was gone with the process."""
    store = lite.open()
    store.add_jobs("ann", "vision", jobs_of(2), 1.0)
    before, away = contents(store), tmp_path / "away"
    _take_away(lite.home, away)
    if replaced:
        shutil.copy(away / "rota.db", lite.home / "rota.db")
    became = "replaced by another file" if replaced else "removed"
    for _ in range(2):
        with pytest.raises(
            StoreError, match=rf"rota\.db has been {became} while .*; what was in it is now in .*saved"
        ):
            store.add_jobs("ann", "vision", jobs_of(1), 2.0)
        with pytest.raises(StoreError, match=f"has been {became}"):
            store.facts()
    (lite.home / "rota.db").unlink(missing_ok=True)
    for file in away.iterdir():
        file.rename(lite.home / file.name)
    assert contents(store) == before, "it is back"
    store.add_jobs("ann", "vision", jobs_of(1), 3.0)
    store.close()
    (lite.home / "rota.db.saved").replace(lite.home / "rota.db")
    assert stat.S_IMODE((lite.home / "rota.db").stat().st_mode) == 0o600
    assert contents(lite.open()) == before, "the copy is whole"


@pytest.mark.parametrize("removed", [False, True])
def test_a_database_that_loses_its_log_under_its_controller(tmp_path: Path, removed: bool) -> None:
    """What it wrote went into a log without a name, and reading was said to be an error of the disk."""
    home, away = tmp_path / "home", tmp_path / "rota.db-wal"
    store = Store.open(None, home)
    store.add_jobs("ann", "vision", jobs_of(2), 1.0)
    before, log = contents(store), home / "rota.db-wal"
    log.unlink() if removed else log.rename(away)
    with pytest.raises(
        StoreError, match=r"has been robbed of its log, rota\.db-wal, while .* is now in .*saved;"
    ):
        store.add_jobs("ann", "vision", jobs_of(1), 2.0)
    with pytest.raises(StoreError, match=r"has been robbed of its log"):
        store.facts()
    if not removed:
        away.rename(log)
        assert contents(store) == before, "it is back"
        store.add_jobs("ann", "vision", jobs_of(1), 3.0)
    store.close()
    (home / "rota.db.saved").replace(home / "rota.db")
    for left in ("rota.db-wal", "rota.db-shm"):
        (home / left).unlink(missing_ok=True)
    store = Store.open(None, home)
    assert contents(store) == before, "the copy is whole"
    store.close()


def test_one_that_cannot_be_saved_is_kept_open(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    store = Store.open(None, home)
    store.add_jobs("ann", "vision", jobs_of(2), 1.0)
    before = contents(store)
    home.rename(elsewhere)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"has been removed while .*; what was in it cannot be saved as"):
            store.add_jobs("ann", "vision", jobs_of(1), 2.0)
    elsewhere.rename(home)
    assert contents(store) == before
    store.close()


def test_full_disk(lite: Place) -> None:  # noqa: F811
    """SQLite's own limit on pages is the same to it as a disk without room."""
    store = lite.open()
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    before = contents(store)
    _pragma(store, "PRAGMA max_page_count = 1")
    long = JobSpec(command=["x" * 100_000])
    with pytest.raises(StoreError, match=r"rota\.db cannot grow: its disk is full; free some space there"):
        store.add_jobs("ann", "vision", [NewJob(long)], 1.0)
    assert contents(store) == before
    assert store.add_jobs("ann", "vision", [NewJob(long)], 1.0)[0].row == 1, "room again: a new connection"


_FILLING = """
import resource, sys
from pathlib import Path
from rota.server.store.failures import StoreError
from rota.server.store.rows import NewJob
from rota.server.store.store import Store
from rota.server.store.whole_file import make_sure_of
from rota.wire.job import JobSpec
store = Store.open(None, Path(sys.argv[1]))
long = JobSpec(command=["x" * 20_000])
store.add_jobs("ann", "vision", [NewJob(long)], 1.0)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
now = (Path(sys.argv[1]) / "rota.db-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (now + 30_000, limits[1]))
stored = 1
try:
    for _ in range(100):
        store.add_jobs("ann", "vision", [NewJob(long)], 1.0)
        stored += 1
except StoreError as error:
    print(error)
assert len(store.jobs()) == stored < 50, "reads go on"
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
assert store.add_jobs("ann", "vision", [NewJob(long)], 1.0)[0].row == stored
"""


def test_writes_the_kernel_refuses(lite: Place) -> None:  # noqa: F811
    """The log file may not grow in the middle of a write: what was stored stays, and all goes on later."""
    arguments = [sys.executable, "-c", _FILLING, str(lite.home)]
    child = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    assert child.returncode == 0, child.stderr
    assert re.search(r"rota\.db (cannot grow: its disk is full|cannot be read or written)", child.stdout)
    lite.open().load()


def test_read_only(lite: Place) -> None:  # noqa: F811
    store = lite.open()
    _pragma(store, "PRAGMA query_only = ON")
    with pytest.raises(StoreError, match="can only be read; give this user the right to write"):
        store.set_fact("a", 1)
    store.set_fact("a", 1)


def test_locked_by_another_program(lite: Place) -> None:  # noqa: F811
    store = lite.open(busy_s=0.05)
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    other = sqlite3.connect(lite.home / "rota.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"is locked by another program for more than 0\.05 s; end that one"):
        store.set_fact("a", 1)
    assert len(store.jobs()) == 1, "reads go on"
    other.execute("ROLLBACK")
    other.close()
    store.set_fact("a", 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not a database at all" * 100, "is no SQLite database; name another file"),
        (b"SQLite format 3\0" + b"\xff" * 4080, "SQLite database"),
    ],
)
def test_file_of_another_kind(lite: Place, content: bytes, said: str) -> None:  # noqa: F811
    (lite.home / "rota.db").write_bytes(content)
    with pytest.raises(StoreError, match=said):
        lite.open()
    (lite.home / "rota.db").unlink()
    lite.open()  # the failed one let go of the lock


EMPTY = r"rota\.db is empty: its file has 0 bytes, .*; put a copy of it in its place, or remove it"


def test_an_empty_file_is_what_a_fault_left(lite: Place) -> None:  # noqa: F811
    """SQLite would make a new database of it without a word, and throw away the log that lies beside it."""
    store = lite.open()
    store.add_jobs("ann", "vision", jobs_of(3), 1.0)
    store.close()
    whole = (lite.home / "rota.db").read_bytes()
    (lite.home / "rota.db").write_bytes(b"")
    (lite.home / "rota.db-wal").write_bytes(b"what was written last")
    with pytest.raises(StoreError, match=EMPTY):
        lite.open()
    assert (lite.home / "rota.db").read_bytes() == b""
    assert (lite.home / "rota.db-wal").read_bytes() == b"what was written last"
    (lite.home / "rota.db-wal").unlink()
    (lite.home / "rota.db").write_bytes(whole)
    assert len(lite.open().load().jobs) == 3


def test_a_log_without_its_file(lite: Place) -> None:  # noqa: F811
    """The file was lost, and what was written last is in the log."""
    (lite.home / "rota.db-wal").write_bytes(b"what was written last")
    with pytest.raises(StoreError, match=r"rota\.db is gone, and what was written last is still beside it"):
        lite.open()
    assert sorted(path.name for path in lite.home.iterdir()) == ["rota.db-wal", "rota.db.lock"]
    (lite.home / "rota.db-wal").unlink()
    lite.open()


LOST = r"rota\.db has nothing in it, and .*{sign} shows that a cluster was here: .* put a copy of it in"


def leaves(rows: str, home: Path) -> None:
    """What SQLite has in its file as long as nothing was written back from the log: no tables, or no rows."""
    if rows == "no tables":
        make_sure_of(home / "rota.db", "the database")
    else:
        put_new_store(home)


@pytest.mark.parametrize("rows", ["no tables", "no rows"])
@pytest.mark.parametrize("sign", ["tokens/admin", "agent/token"])
def test_a_young_database_that_has_lost_its_log(lite: Place, rows: str, sign: str) -> None:  # noqa: F811
    """All of it was in `rota.db-wal`; the folder around it remembers that there was a cluster."""
    leaves(rows, lite.home)
    (lite.home / sign).parent.mkdir(exist_ok=True)
    (lite.home / sign).write_text("x")
    before = (lite.home / "rota.db").read_bytes()
    with pytest.raises(StoreError, match=LOST.format(sign=sign)):
        lite.open()
    assert (lite.home / "rota.db").read_bytes() == before
    (lite.home / "rota.db").unlink()
    lite.open()  # as the sentence says: another cluster begins in this folder


@pytest.mark.parametrize("rows", ["no tables", "no rows"])
def test_a_first_start_that_was_killed_goes_on(lite: Place, rows: str) -> None:  # noqa: F811
    leaves(rows, lite.home)
    assert lite.open().load().jobs == {}


def test_a_cluster_that_has_users_only_is_one(lite: Place) -> None:  # noqa: F811
    store = lite.open()
    store.set_user(UserRow("admin", "", "", admin=True))
    store.close()
    (lite.home / "tokens").mkdir()
    (lite.home / "tokens" / "admin").write_text("x")
    assert [user.name for user in lite.open().users()] == ["admin"]


def test_a_file_behind_a_link(lite: Place, tmp_path: Path) -> None:  # noqa: F811
    """Made where the link leads to; with the folder away (nothing is mounted there) the link stays."""
    (lite.home / "rota.db").symlink_to(tmp_path / "disk" / "rota.db")
    with pytest.raises(StoreError, match="cannot be opened: No such file or directory"):
        lite.open()
    assert (lite.home / "rota.db").is_symlink()
    (tmp_path / "disk").mkdir()
    lite.open()
    assert (lite.home / "rota.db").is_symlink()
    assert (tmp_path / "disk" / "rota.db").stat().st_size > 0


KILLED = """
import os, sys
from pathlib import Path
from rota.server.store.store import Store
real, calls = os.replace, []
def replace(*paths):
    if sys.argv[2] == "before":
        os._exit(9)
    real(*paths)
    os._exit(9)
os.replace = replace
Store.open(None, Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_while_the_file_is_made(lite: Place, when: str) -> None:  # noqa: F811
    """Neither leaves an empty file, which the next start would refuse."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(lite.home), when], check=False)
    assert done.returncode == 9
    assert (lite.home / "rota.db").exists() == (when == "after")
    lite.open().add_jobs("ann", "vision", jobs_of(1), 1.0)


@pytest.mark.parametrize("left", [1, 99, 100, 512, 2048, 4095, 4096, 6000, 0.5, 0.9])
def test_a_file_that_was_cut_off(lite: Place, left: float) -> None:  # noqa: F811
    """Half a page, or half of the pages: one sentence, and the file is as it was."""
    store = lite.open()
    store.add_jobs("ann", "vision", jobs_of(300), 1.0)
    store.close()
    file = lite.home / "rota.db"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(left * len(whole)) if isinstance(left, float) else left])
    cut = file.read_bytes()
    with pytest.raises(
        StoreError, match=r"is empty: its file has \d+ bytes?|is damaged \(|is no SQLite database"
    ) as refused:
        lite.open().load()
    assert "\n" not in str(refused.value)
    assert file.read_bytes() == cut


def test_folder_that_cannot_be(lite: Place) -> None:  # noqa: F811
    (lite.home / "file").write_text("")
    lite.home = lite.home / "file"
    with pytest.raises(StoreError, match=r"cannot be locked: (Not a directory|File exists)"):
        lite.open()


def test_the_file_is_its_owners(lite: Place) -> None:  # noqa: F811
    lite.home = lite.home / "new"
    lite.open().set_fact("a", 1)
    modes = {path.name: path.stat().st_mode & 0o777 for path in lite.home.iterdir()}
    assert modes.keys() >= {"rota.db", "rota.db-wal", "rota.db.lock"}
    assert set(modes.values()) == {0o600}
    assert lite.home.stat().st_mode & 0o777 == 0o700


def test_what_sqlite_is_told(lite: Place) -> None:  # noqa: F811
    store = lite.open(busy_s=0.2)
    with store._db.writing() as writing:
        asked = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        said = [writing.connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in asked]
    assert said == ["wal", 2, 1, 200]
    with store._db.reading() as connection, pytest.raises(Exception, match="readonly"):
        connection.exec_driver_sql("DELETE FROM facts")


@pytest.mark.parametrize(
    ("url",                                "said"),
    [
        ("nonsense",                       "cannot be used"),
        ("mysql://user:secret@host/db",    "cannot be used"),
        ("ann:secret@host/db",             "'what is given' cannot be used"),
        ("postgresql://a:secret@h:x/db",   "its port is no number"),
        ("postgresql://a:b@secret@h/db",   "an @ in its password is written %40"),
        ("postgresql://a:b@secret/x@h/db", "an @ in its password is written %40, a / %2F"),
        ("sqlite://",                      "a database in memory is lost"),
        ("sqlite:///:memory:",             "a database in memory is lost"),
    ],
)  # fmt: skip
def test_urls(tmp_path: Path, url: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as found:
        Store.open(url, tmp_path)
    assert "expected sqlite:////path/to/file.db or postgresql+psycopg://" in str(found.value)
    assert "secret" not in str(found.value)


# -- PostgreSQL ------------------------------------------------------------------------------------


def test_connections_that_were_cut(postgres: Postgres) -> None:  # noqa: F811
    """The server has ended our connections, idle ones: the next call does not notice."""
    store = Store.open(url := postgres.database(), Path())
    try:
        store.add_jobs("ann", "vision", jobs_of(1), 1.0)
        store.jobs()
        name = url.partition("@/")[2].partition("?")[0]
        cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        assert len(postgres.execute(cut)) >= 2
        assert store.add_jobs("ann", "vision", jobs_of(1), 1.0)[0].row == 1
        assert len(postgres.execute(cut)) >= 1
        assert len(store.jobs()) == 2
    finally:
        store.close()


def test_connection_cut_in_a_transaction(postgres: Postgres) -> None:  # noqa: F811
    url = postgres.database()
    name = url.partition("@/")[2].partition("?")[0]
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    when: list[str] = []

    def faults(point: str) -> None:
        if when and point == when[0]:
            when.clear()
            postgres.execute(cut)

    store = Store.open(url, Path(), faults=faults)
    try:
        for point, unsure in (("jobs", False), ("commit", True)):
            before = contents(store)
            when.append(point)
            with pytest.raises(
                StoreError, match=r"is out of reach .*; it is tried again at the next call"
            ) as found:
                store.add_jobs("ann", "vision", jobs_of(1), 1.0)
            assert found.value.unsure == unsure
            assert contents(store) == before
        assert store.add_jobs("ann", "vision", jobs_of(1), 1.0)[0].row == 0
    finally:
        store.close()


def test_server_away_for_a_while(postgres: Postgres) -> None:  # noqa: F811
    store = Store.open(postgres.database(), Path(), busy_s=1.0)
    try:
        store.add_jobs("ann", "vision", jobs_of(1), 1.0)
        postgres.stop()
        try:
            for call in (
                store.jobs,
                store.load,
                lambda: store.set_fact("a", 1),
                lambda: store.set_fact("a", 2),
            ):
                with pytest.raises(StoreError, match="is out of reach"):
                    call()
        finally:
            postgres.start()
        store.set_fact("a", 3)
        assert store.facts()["a"] == 3
        assert len(store.load().jobs) == 1
    finally:
        store.close()


def test_database_that_is_not_there(postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(StoreError, match=r"rota@/nowhere\S* does not exist; make it with createdb$"):
        Store.open(postgres.url("nowhere"), tmp_path)


def test_there_is_no_next_call_of_a_store_that_was_not_opened(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(
        StoreError, match=r"is out of reach \(.*\); start the controller again when it answers$"
    ):
        Store.open("postgresql+psycopg://rota@127.0.0.1:1/rota", tmp_path)


@pytest.mark.parametrize("url", ["//ann:secret@/db?host={}", "///db?user=ann&password=secret&host={}"])
def test_no_password_in_any_sentence(tmp_path: Path, url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError) as found:
        Store.open(f"postgresql+psycopg:{url.format(tmp_path)}", tmp_path)
    assert "secret" not in str(found.value)
    assert "out of reach" in str(found.value)


def test_standby(postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    url = postgres.database()
    name = url.partition("@/")[2].partition("?")[0]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(StoreError, match="can only be read: it is a standby, or set to read only"):
        Store.open(url, tmp_path)


# -- sentences -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code",                       "said"),
    [
        (sqlite3.SQLITE_FULL,      "HERE cannot grow: its disk is full; free some space there"),
        (sqlite3.SQLITE_BUSY,      "HERE is locked by another program for more than 5 s; end that one"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "HERE is locked by another program for more than 5 s; end that one"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "HERE can only be read; give this user the right to write file and "
                                          "folder"),
        (sqlite3.SQLITE_IOERR_FSYNC, "HERE cannot be read or written: the disk reports an error (words)"),
        (sqlite3.SQLITE_CORRUPT,   "HERE is damaged (words); put a copy of it in its place while no "
                                   "controller runs (`rota down`)"),
        (sqlite3.SQLITE_CANTOPEN,  "HERE cannot be opened; see that its folder is there and may be written"),
        (sqlite3.SQLITE_TOOBIG,    "HERE: words"),
    ],
)  # fmt: skip
def test_sentences_of_sqlite(code: int, said: str) -> None:
    error = sqlite3.OperationalError("words\nmore words")
    error.sqlite_errorcode = code
    assert str(failure(error, "HERE", 5.0)) == said


@pytest.mark.parametrize(
    ("name",                       "said"),
    [
        ("DiskFull",               "HERE cannot grow: its disk is full; free some space there"),
        ("TooManyConnections",     "HERE takes no more connections (words); raise its max_connections, or "
                                   "end some of others"),
        ("InvalidPassword",        "HERE refuses the password; give the right one in database_url, "
                                   "PGPASSWORD or ~/.pgpass"),
        ("InsufficientPrivilege",  "HERE does not let this user do that (words)"),
        ("LockNotAvailable",       "HERE is locked by another program for more than 5 s; end that one"),
        ("DataCorrupted",          "HERE is damaged (words); put a copy of it in its place while no "
                                   "controller runs (`rota down`)"),
        ("AdminShutdown",          "HERE: words"),
        ("OperationalError",       "HERE is out of reach (words); it is tried again at the next call"),
    ],
)  # fmt: skip
def test_sentences_of_postgresql(name: str, said: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    kind = getattr(psycopg.errors, name, None) or getattr(psycopg, name)
    error = DBAPIError("SELECT 1", {}, kind("words"))
    assert str(failure(error, "HERE", 5.0)) == said


# -- dying -----------------------------------------------------------------------------------------

_CHILD = """
import sys
from pathlib import Path
from rota.server.store.rows import NewJob
from rota.server.store.store import Store
from rota.server.store.whole_file import make_sure_of
from rota.wire.job import JobSpec
store = Store.open(sys.argv[1] or None, Path(sys.argv[2]))
for i in range(3):
    store.add_jobs("ann", "vision", [NewJob(JobSpec(command=["x"]))] * 2, 1.0, key=f"k{i}")
    print(i, flush=True)
"""


@pytest.mark.parametrize(
    ("point",             "answered", "stored"),
    [
        ("store-begin",      0, 0),
        ("store-commit",     0, 0),
        ("store-commit:3",   1, 2),  # the first one is the opening's
        ("store-committed",  0, 0),
        ("store-committed:3", 1, 4),  # stored, although nobody was told: the key finds it
        ("nowhere",          3, 6),
    ],
)  # fmt: skip
def test_killed(place: Place, point: str, answered: int, stored: int, forks: Forks) -> None:  # noqa: F811
    place.open().close()
    code, out = forks.run(_CHILD, place.url or "", str(place.home), ROTA_CRASH_AT=point)
    assert code == (0 if point == "nowhere" else -signal.SIGKILL)
    assert len(out.split()) == answered
    store = place.open()
    assert len(store.jobs()) == stored
    rows = store.add_jobs("ann", "vision", [NewJob(JobSpec(command=["x"]))] * 2, 1.0, key="k0")
    if stored:
        assert [job.row for job in rows] == [0, 1]


def test_step_after_a_failure_is_trimmed_as_ever(lite: Place) -> None:  # noqa: F811
    """A failed step does not upset what the store counts."""
    plan = Plan()
    store = lite.open(faults=plan)
    for at in range(6):
        plan.begin(at % 4)
        try:
            store.commit(Step(decision=DecisionRow(float(at), "fifo", 0.0)))
        except StoreError:
            continue
    plan.begin(None)
    store.commit(Step(decision=DecisionRow(9.0, "fifo", 0.0)))
    assert store.decisions()[-1].now_s == 9.0


@pytest.mark.slow
def test_a_database_whose_file_system_is_read_only_for_a_while(tmp_path: Path) -> None:
    """It can be read, a sentence says what is wrong, and nothing that was opened meanwhile outlives that."""
    plan = Plan()
    store = Store.open(None, tmp_path / "home", faults=plan)
    store.set_fact("name", "before")
    with read_only(tmp_path / "home"):
        plan.begin(at=0)
        with pytest.raises(StoreError, match="disk I/O error"):  # of the file that was open
            store.set_fact("name", "meanwhile")
        plan.begin(at=None)
        for _ in range(2):
            with pytest.raises(StoreError, match=r"rota.db can only be read: its file system is read-only"):
                store.set_fact("name", "meanwhile")
            assert store.facts()["name"] == "before"
    store.set_fact("name", "after")
    assert store.facts()["name"] == "after"
    store.close()
