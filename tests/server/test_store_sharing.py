"""Who may use a store at the same time: one controller, many threads, readers that never wait."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from postgres import Postgres, postgres  # noqa: F401
from store_place import Place, contents, jobs_of, lite, place  # noqa: F401

from rota.server.store.failures import StoreError
from rota.server.store.rows import DecisionRow, EventRow, JobState, Step
from rota.server.store.store import Store

TAKEN = "is in use by another controller"

_HOLDER = """
import sys
from pathlib import Path
from rota.server.store.store import Store
store = Store.open(sys.argv[1] or None, Path(sys.argv[2]))
store.set_fact("who", "child")
print("open", flush=True)
sys.stdin.read()
"""


def holder(place: Place) -> subprocess.Popen[str]:  # noqa: F811
    """Another process that has the store open."""
    arguments = [sys.executable, "-c", _HOLDER, place.url or "", str(place.home)]
    child = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    return child


# -- one controller --------------------------------------------------------------------------------


def test_second_controller_is_told(place: Place) -> None:  # noqa: F811
    first = place.open()
    with pytest.raises(StoreError, match=TAKEN) as found:
        place.open(busy_s=0.2)
    if place.engine == "sqlite":
        assert f"(process {os.getpid()})" in str(found.value)
    first.set_fact("a", 1)
    first.close()
    assert place.open().facts()["a"] == 1


def test_controller_in_another_process_and_its_death(place: Place) -> None:  # noqa: F811
    with holder(place) as child:
        with pytest.raises(StoreError, match=TAKEN):
            place.open(busy_s=0.2)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert place.open().facts()["who"] == "child"


def test_a_child_of_the_controller_keeps_no_lock(lite: Place) -> None:  # noqa: F811
    """What was forked and outlives the controller must not lock out its successor."""
    store = lite.open()
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        theirs.send(b"it lives")
        theirs.recv(1)
        os._exit(0)
    theirs.close()
    try:
        assert ours.recv(8) == b"it lives"
        store.close()
        lite.open().close()
    finally:
        ours.close()
        os.waitpid(child, 0)


def test_lock_lost_with_the_connection(postgres: Postgres) -> None:  # noqa: F811
    """Who was cut off and finds another controller in its place must not write."""
    url = postgres.database()
    name = url.partition("@/")[2].partition("?")[0]
    first = Store.open(url, Path(), busy_s=1.0)
    try:
        postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        second = Store.open(url, Path())
        try:
            with pytest.raises(StoreError, match="or another one has it now"):
                first.set_fact("a", 1)
            assert "a" not in second.facts()
        finally:
            second.close()
        first.set_fact("a", 1)
    finally:
        first.close()


def test_closed(place: Place) -> None:  # noqa: F811
    store = place.open()
    store.close()
    store.close()
    for call in (store.jobs, store.load, lambda: store.set_fact("a", 1)):
        with pytest.raises(StoreError, match="has been closed"):
            call()


# -- readers and the writer ------------------------------------------------------------------------


def test_readers_do_not_wait_for_the_writer(place: Place) -> None:  # noqa: F811
    """While a step is half written, whoever asks is told what was there before; only who loads all waits."""
    half, go_on = threading.Event(), threading.Event()

    def faults(point: str) -> None:
        if point == "commit" and threading.current_thread() is not main:
            half.set()
            assert go_on.wait(60)

    main = threading.current_thread()
    store = place.open(faults=faults)
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    before = contents(store)
    step = Step(jobs={0: JobState(state="RUNNING", phase=3)}, decision=DecisionRow(1.0, "fifo", 0.0))
    writer = threading.Thread(target=store.commit, args=(step,))
    writer.start()
    try:
        assert half.wait(30)
        assert contents(store) == before
        job = store.job(0)
        assert job is not None
        assert job.now.state == "PENDING"
    finally:
        go_on.set()
        writer.join(30)
    assert store.load().jobs[0].now.state == "RUNNING"


def test_load_is_of_one_moment(place: Place) -> None:  # noqa: F811
    """Jobs and decisions are committed together, so whoever loads sees as many of one as of the other."""
    store = place.open()
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    stop = threading.Event()

    def write() -> int:
        count = 0
        while not stop.is_set():
            count += 1
            states = {0: JobState(starts=count)}
            store.commit(Step(jobs=states, decision=DecisionRow(float(count), "fifo", 0.0)))
        return count

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            seen = []
            for _ in range(40):
                found = store.load()
                assert found.jobs[0].now.starts == found.columns.numbers["starts"][0] == found.decisions
                seen.append(found.decisions)
        finally:
            stop.set()
        assert writing.result() >= seen[-1]
    assert seen == sorted(seen)


def test_many_threads_submit(place: Place) -> None:  # noqa: F811
    """Rows stay without gaps, each key counts once, whoever comes first."""
    store = place.open()

    def submit(thread: int) -> list[int]:
        rows = []
        for i in range(10):
            key = f"both {i}" if thread < 2 else None
            rows += [job.row for job in store.add_jobs("ann", "vision", jobs_of(2), 1.0, key)]
            store.commit(Step(events=[EventRow(1.0, "rota", "tick")]))
        return rows

    with ThreadPoolExecutor(6) as pool:
        rows = list(pool.map(submit, range(6)))
    assert rows[0] == rows[1], "the same keys"
    assert sorted(row for some in rows[1:] for row in some) == list(range(100))
    assert [job.row for job in store.jobs()] == list(range(100))
    assert len(store.events(limit=1000)) == 50 + 60


def test_failing_faults_leave_the_others_alone(place: Place) -> None:  # noqa: F811
    """A thread whose writes fail does not disturb one whose writes work."""

    def faults(point: str) -> None:
        if point == "commit" and threading.current_thread().name.endswith("_0"):
            raise sqlite3.OperationalError("disk I/O error")

    store = place.open(faults=faults)
    meet = threading.Barrier(2)

    def submit() -> tuple[int, int]:
        meet.wait(30)
        good = bad = 0
        for _ in range(20):
            try:
                store.add_jobs("ann", "vision", jobs_of(1), 1.0)
                good += 1
            except StoreError:
                bad += 1
        return good, bad

    with ThreadPoolExecutor(2, thread_name_prefix="writer") as pool:
        outcomes = [one.result() for one in [pool.submit(submit), pool.submit(submit)]]
    assert sorted(outcomes) == [(0, 20), (20, 0)]
    assert [job.row for job in store.jobs()] == list(range(20))
