"""A database takes what comes and says nothing: whoever asks is told so, nothing is lost or done twice."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from postgres import Postgres, postgres  # noqa: F401
from store_place import jobs_of

from rota.server.store.database import Database
from rota.server.store.failures import StoreError
from rota.server.store.rows import JobState, Step
from rota.server.store.store import Store

pytestmark = pytest.mark.slow
BUSY_S = 1.0
"""Twice as long is a silence."""
BOUND_S = 30.0
"""Of a call on a machine that has other things to do; alone it takes 2 to 5 s."""
SILENT = (
    r"out of reach \((no answer for 2 s|connection timeout expired)\); it is tried again at the next call"
)
LOCK = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND database = "


@pytest.fixture
def url(postgres: Postgres) -> str:  # noqa: F811
    return postgres.database()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store.open(url, Path(), busy_s=BUSY_S)
    yield store
    store.close()


def ends(call: Callable[[], Any]) -> tuple[str, float]:
    """The sentence with which `call` ended, empty if it had none; how long that took."""
    since_s, said = time.monotonic(), ""
    try:
        call()
    except StoreError as error:
        said = str(error)
    return said, time.monotonic() - since_s


def together(calls: list[Callable[[], Any]]) -> list[tuple[str, float]]:
    """`ends` of all of them, each in a thread of its own."""
    told: list[tuple[str, float]] = []
    threads = [
        threading.Thread(target=lambda call=call: told.append(ends(call)), daemon=True)  # type: ignore[misc]
        for call in calls
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * BOUND_S)
    assert len(told) == len(calls), "a call has no end"
    return told


def writing_backend(postgres: Postgres, url: str) -> int:  # noqa: F811
    """The server's process behind the connection that writes: it has the lock."""
    name = url.partition("@/")[2].partition("?")[0]
    [(pid,)] = postgres.execute(f"{LOCK} (SELECT oid FROM pg_database WHERE datname = '{name}')")
    assert isinstance(pid, int)
    return pid


def test_every_call_ends_in_a_sentence(postgres: Postgres, store: Store) -> None:  # noqa: F811
    """Many at once, readers and writers, then one more; when the server wakes, all goes on by itself."""
    store.add_jobs("ann", "vision", jobs_of(1), 1.0, key="first")
    store.jobs()
    calls: list[Callable[[], Any]] = [store.jobs, store.load, lambda: store.set_fact("a", 1)] * 4
    calls += [lambda k=k: store.add_jobs("ann", "vision", jobs_of(1), 1.0, key=f"k{k}") for k in range(4)]  # type: ignore[misc]
    with postgres.frozen():
        told = together(calls)
        again = ends(store.jobs)
    assert all(re.search(SILENT, said) for said, _ in [*told, again]), told
    assert max(seconds for _, seconds in told) < BOUND_S
    for k in range(4):
        store.add_jobs("ann", "vision", jobs_of(1), 1.0, key=f"k{k}")
    assert [row.row for row in store.jobs()] == [0, 1, 2, 3, 4]
    store.load()
    store.commit(Step(jobs={0: JobState(state="RUNNING")}))


def test_others_are_told_while_one_finds_out(
    postgres: Postgres,  # noqa: F811
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted, not timed: those who are told at once never come to the database."""
    came, read = [], Database._read

    def counted(self: Database, *how: Any) -> Any:
        came.append(how)
        return read(self, *how)

    store.jobs()
    monkeypatch.setattr(Database, "_read", counted)
    with postgres.frozen():
        assert ends(store.jobs)[0]
        before = len(came)
        told = together([store.jobs] * 12)
    assert all(said for said, _ in told)
    assert 1 <= len(came) - before <= 6, "one finds out, the next one only after it"


def test_one_writer_waits_for_a_lock_of_another_program_and_the_others_are_told(tmp_path: Path) -> None:
    """Counted, not timed: while one finds out whether SQLite can be written again, others begin nothing."""
    begun: list[str] = []
    is_held, finds_out, may_go_on = threading.Event(), threading.Event(), threading.Event()

    def faults(point: str) -> None:
        if point == "begin":
            begun.append(threading.current_thread().name)
            if is_held.is_set():
                finds_out.set()
                may_go_on.wait(BOUND_S)

    with ExitStack() as stack:
        store = Store.open(None, tmp_path, busy_s=0.2, faults=faults)
        stack.callback(store.close)
        [file] = tmp_path.glob("*.db")
        other = sqlite3.connect(file, isolation_level=None)
        stack.callback(other.close)
        other.execute("BEGIN IMMEDIATE")
        assert "locked by another program" in ends(lambda: store.set_fact("a", 1))[0]
        begun.clear()
        is_held.set()
        first: list[tuple[str, float]] = []
        finder = threading.Thread(target=lambda: first.append(ends(lambda: store.set_fact("a", 2))))
        finder.start()
        assert finds_out.wait(BOUND_S)
        told = together([lambda: store.set_fact("a", 3)] * 4)
        assert all("locked by another program" in said for said, _ in told), told
        assert begun == [finder.name]
        other.execute("ROLLBACK")
        is_held.clear()
        may_go_on.set()
        finder.join(BOUND_S)
        assert [said for said, _ in first] == [""]
        store.set_fact("a", 4)
        assert store.facts()["a"] == 4


def test_a_commit_that_nobody_has_looked_at_comes_before_what_is_loaded(
    postgres: Postgres,  # noqa: F811
    url: str,
) -> None:
    """The server's process freezes with a COMMIT before it: who submitted is told that it is unsure.  Whoever
    loads now must not see the past, for that commit happens as soon as the process wakes."""
    with ExitStack() as stack:
        asleep: list[int] = []

        def faults(point: str) -> None:
            if point == "commit" and armed:
                armed.clear()
                asleep.append(backend)
                stack.enter_context(postgres.frozen(backend))

        armed: list[bool] = []
        store = Store.open(url, Path(), busy_s=BUSY_S, faults=faults)
        stack.callback(store.close)
        store.load()
        backend = writing_backend(postgres, url)
        armed.append(True)
        with pytest.raises(StoreError, match="no answer for 2 s") as failed:
            store.add_jobs("ann", "vision", jobs_of(1), 1.0, key="k")
        assert asleep
        assert failed.value.unsure
        assert store.jobs() == [], "others are awake, and see what was before"
        with pytest.raises(StoreError, match="the connection that this controller had before"):
            store.load()
        with postgres.frozen(backend):
            pass  # it wakes
        loaded = until_loaded(store)
        assert loaded == [0], "the commit has happened, and whoever loads knows of it"
        assert [row.row for row in store.add_jobs("ann", "vision", jobs_of(1), 1.0, key="k")] == [0]


def until_loaded(store: Store) -> list[int]:
    """Rows of all jobs, once they can be loaded."""
    end_s = time.monotonic() + BOUND_S
    while True:
        try:
            return sorted(store.load().jobs)
        except StoreError:
            assert time.monotonic() < end_s
            time.sleep(0.05)


def test_no_step_is_stored_by_a_connection_that_came_after_what_was_loaded(
    postgres: Postgres,  # noqa: F811
    url: str,
    store: Store,
) -> None:
    """Between two connections another controller may have had the lock, and the cluster."""
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    store.load()
    postgres.execute(f"SELECT pg_terminate_backend({writing_backend(postgres, url)})")
    with pytest.raises(StoreError, match="was out of reach meanwhile; everything is read again"):
        store.commit(Step(jobs={0: JobState(state="RUNNING")}))
    assert store.job(0).now.state == "PENDING"  # type: ignore[union-attr]
    store.load()
    store.commit(Step(jobs={0: JobState(state="RUNNING")}))
    assert store.job(0).now.state == "RUNNING"  # type: ignore[union-attr]
