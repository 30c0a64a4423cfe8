"""The scheduler decides about jobs while they are on their way to the disk; if they never come there, the
decision has never happened."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from site_play import Site
from store_place import Place, jobs_of, lite  # noqa: F401

from rota.server.store.failures import StoreError
from rota.server.store.rows import JobRow, JobState, Step


@dataclass
class FailingCommit:
    """Fails the commit of the thread that has armed it, once."""

    armed_by: int = 0

    def __call__(self, point: str) -> None:
        if point == "commit" and threading.get_ident() == self.armed_by:
            self.armed_by = 0
            raise StoreError("the disk is full")

    def arm(self) -> None:
        self.armed_by = threading.get_ident()


def test_nothing_is_decided_about_jobs_that_are_not_on_record(lite: Place) -> None:  # noqa: F811
    """After an announcement in vain no step is taken before everything has been loaded anew."""
    fails = FailingCommit()
    store = lite.open(faults=fails)
    announced: list[JobRow] = []
    fails.arm()
    with pytest.raises(StoreError, match="the disk is full"):
        store.add_jobs("ann", "vision", jobs_of(2), 1.0, announce=announced.extend)
    assert [row.row for row in announced] == [0, 1]
    store.add_jobs("bob", "nlp", jobs_of(1), 2.0)  # another job has that row now
    with pytest.raises(StoreError, match="announced could not be put on record"):
        store.commit(Step(jobs={0: JobState(state="RUNNING")}))
    assert [job.user for job in store.load().jobs.values()] == ["bob"]
    store.commit(Step(jobs={0: JobState(state="RUNNING")}))
    assert store.job(0).now.state == "RUNNING"  # type: ignore[union-attr]


def test_a_submission_that_fails_before_it_is_announced_stops_nobody(lite: Place) -> None:  # noqa: F811
    def refuse(rows: list[JobRow]) -> None:
        raise AssertionError("it was announced")

    store = lite.open(faults=lambda point: _raise_at(point, "events"))
    with pytest.raises(StoreError):
        store.add_jobs("ann", "vision", jobs_of(1), 1.0, announce=refuse)
    store.commit(Step(facts={"name": "lab"}))


def _raise_at(point: str, where: str) -> None:
    if point == where:
        raise StoreError("the disk is full")


@pytest.mark.slow
def test_whoever_loads_waits_for_what_has_been_announced(lite: Place) -> None:  # noqa: F811
    """The scheduler may have taken the announcement, and then begun anew: the job must not be lost."""
    store, loaded = lite.open(), []
    loader = threading.Thread(target=lambda: loaded.extend(store.load().jobs))

    def announce(rows: list[JobRow]) -> None:
        loader.start()
        loader.join(0.3)
        assert loader.is_alive(), "it did not wait"

    store.add_jobs("ann", "vision", jobs_of(2), 1.0, announce=announce)
    loader.join()
    assert loaded == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("turn_between", [False, True])
def test_a_job_that_never_came_to_the_disk_never_runs(tmp_path: Path, turn_between: bool) -> None:
    """The scheduler has decided to start it, and waits to write that down, when its record fails; the next
    job gets its row, and runs as it was submitted."""
    fails = FailingCommit()
    site = Site(tmp_path, {"n0": 1}, faults=fails)
    site.turn()
    turn = threading.Thread(target=site.turn)
    put = site.inbox.put

    def put_and_decide(event: object) -> None:
        put(event)  # type: ignore[arg-type]
        if not turn.ident:
            turn.start()
            time.sleep(0.3)

    site.inbox.put = put_and_decide  # type: ignore[method-assign]
    fails.arm()
    with pytest.raises(StoreError, match="the disk is full"):
        site.submit(1.0, name="ghost", gpus=1)
    if turn_between:
        turn.join()
        site.turn()
    row = site.submit(2.0, name="real", gpus=1)
    turn.join()
    assert row == 0
    site.run()
    site.check_end()
    [job] = site.rows()
    assert (job.asked.name, job.now.state) == ("real", "COMPLETED")
    assert [attempt.number for attempt in site.store.attempts(0)] == [1]


@pytest.mark.parametrize("taken", [False, True])
def test_who_begins_anew_does_not_hear_of_what_never_came_to_the_disk(tmp_path: Path, taken: bool) -> None:
    """The disk is full: a turn fails, and while the scheduler pauses a submission does; the row goes to the
    next job, perhaps before the next turn."""
    fails = FailingCommit()
    site = Site(tmp_path, {"n0": 2}, faults=fails)
    site.turn()
    site.scheduler._fail(StoreError("the disk is full"), 0.0)
    fails.arm()
    with pytest.raises(StoreError, match="the disk is full"):
        site.submit(1.0, name="ghost", gpus=2)
    site.scheduler._build()
    if taken:
        site.submit(1.0, name="real", gpus=1)
    site.turn()
    if not taken:
        site.submit(1.0, name="real", gpus=1)
    site.run()
    site.check_end()
    [job] = site.rows()
    assert (job.asked.name, job.now.state) == ("real", "COMPLETED")
    [attempt] = site.store.attempts(0)
    [place] = attempt.parts["places"]
    assert len(place["devices"]) == 1, "it runs as it was submitted"
