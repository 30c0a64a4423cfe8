"""What is too old leaves the store, all of it and nothing else, and no number is given twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from postgres import postgres  # noqa: F401
from site_play import AllMayRun
from store_place import SPEC, Place, contents, jobs_of, lite, place  # noqa: F401
from test_store import DONE, RUNNING, attempt

from rota.model.tenants import Tenants
from rota.server.recovery import rebuild
from rota.server.store import old_rows
from rota.server.store.rows import CommandDone, EventRow, IntervalRow, JobState, NewJob, Step
from rota.server.store.store import Store
from rota.table.state import Phase
from rota.wire.job import After, JobSpec
from rota.worlds.live.curves import Point

LATER_S = 1000.0
CANCELLED = JobState(state="CANCELLED", phase=int(Phase.CANCELLED), finish_s=9.0)


@pytest.fixture
def store(place: Place) -> Store:  # noqa: F811
    return place.open()


def ended(store: Store, *rows: int, at_s: float = 9.0) -> None:
    """These jobs have run and completed, with something in every table that a job leaves lines in."""
    store.commit(
        Step(
            jobs={row: replace(DONE, finish_s=at_s) for row in rows},
            attempts=[attempt(row, end_s=at_s, how="finished") for row in rows],
            intervals=[IntervalRow(row, 1, 1.0, at_s, (0,), (0,), 1.0, "alone", "finished") for row in rows],
            points=[Point(row, 1, 5.0, 5.0, 2.0, {}) for row in rows],
            events=[EventRow(at_s, "rota", "end", str(row + 1)) for row in rows],
        )
    )


def drop(store: Store, before_s: float = LATER_S, keys_s: float = LATER_S) -> int:
    """Prune until nothing is left to prune; how many transactions that took."""
    count = 0
    while store.drop_old_jobs(before_s, keys_s):
        count += 1
        assert count < 100
    return count


def rows_in(store: Store, table: str) -> set[int]:
    return {line["row"] for line in contents(store)[table]}


def test_a_job_goes_with_all_that_belongs_to_it(store: Store) -> None:
    own = JobSpec(command=["y"])
    for spec in (SPEC, own, SPEC):
        store.add_jobs("ann", "vision", [NewJob(spec)], 1.0)
    ended(store, 0, 1, 2)
    assert drop(store) == 1
    for table in ("jobs", "attempts", "intervals", "points"):
        assert rows_in(store, table) == {2}, table
    assert [line["text"] for line in contents(store)["specs"]] == [SPEC.model_dump_json()]
    assert store.job(0) is store.job_of_id("2") is None
    assert len(store.events()) == 6, "the audit has a term of its own"


def test_numbers_go_on_from_the_newest_job(store: Store) -> None:
    """It stays, however old: the next row is counted from it."""
    store.add_jobs("ann", "vision", jobs_of(3), 1.0)
    ended(store, 0, 1, 2)
    drop(store)
    assert [job.row for job in store.jobs()] == [2]
    assert store.add_jobs("ann", "vision", jobs_of(1), 2.0)[0].id == "4"
    drop(store)
    assert [job.row for job in store.jobs()] == [3]


KEPT: dict[str, Callable[[Store], None]] = {
    "waits": lambda store: store.commit(Step(jobs={0: JobState()})),
    "runs": lambda store: store.commit(Step(jobs={0: RUNNING}, attempts=[attempt(0)])),
    "ended just now": lambda store: ended(store, 0, at_s=LATER_S),
    "is over, and an attempt may live": lambda store: store.commit(
        Step(jobs={0: CANCELLED}, attempts=[attempt(0, 1, end_s=3.0), attempt(0, 2)])
    ),
    "a waiting job names it": lambda store: (
        ended(store, 0),
        store.add_jobs("bob", "nlp", [NewJob(JobSpec(command=["x"], after=[After(job="1")]))], 2.0),
        store.add_jobs("bob", "nlp", jobs_of(1), 2.0),
    )[0],
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(store: Store, name: str) -> None:
    store.add_jobs("ann", "vision", jobs_of(2), 1.0)
    KEPT[name](store)
    before = contents(store)
    assert drop(store) == 0
    assert contents(store) == before


def test_named_ones_do_not_hold_up_the_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_rows, "MOST_JOBS", 1)
    monkeypatch.setattr(old_rows, "_OLD", old_rows._OLD.limit(2))
    monkeypatch.setattr(old_rows, "_PAGE", 2)
    store.add_jobs("ann", "vision", jobs_of(4), 1.0)
    ended(store, 0, 1, 2)
    waits = JobSpec(command=["x"], after=[After(job="1"), After(job="2", when="any")])
    store.add_jobs("bob", "nlp", [NewJob(waits)], 2.0)
    drop(store)
    assert [job.row for job in store.jobs()] == [0, 1, 3, 4]


def test_an_array_goes_as_a_whole(store: Store) -> None:
    """Whoever is to run after all of it must not find less of it than there was."""
    spec = JobSpec(command=["x"], array="1-3")
    store.add_jobs("ann", "vision", [NewJob(spec, index) for index in (1, 2, 3)], 1.0)
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    ended(store, 0, 1)
    store.commit(Step(jobs={2: RUNNING}, attempts=[attempt(2)]))
    assert drop(store) == 0
    ended(store, 2)
    store.add_jobs("bob", "nlp", [NewJob(JobSpec(command=["x"], after=[After(job="1")]))], 2.0)
    assert drop(store) == 0, "a job waits for it"
    ended(store, 3, 4)
    store.add_jobs("bob", "nlp", jobs_of(1), 2.0)
    drop(store)
    assert [job.id for job in store.jobs()] == ["6"]


def test_a_job_that_is_named_at_the_last_moment_stays(store: Store) -> None:
    """Between the look for old jobs and their deletion somebody submits a job that is to run after one."""
    store.add_jobs("ann", "vision", jobs_of(2), 1.0)
    ended(store, 0)
    with store._db.reading(one_moment=True) as connection:
        old = old_rows.old_jobs(connection, LATER_S, LATER_S)
    assert old.rows == [0]
    store.add_jobs("bob", "nlp", [NewJob(JobSpec(command=["x"], after=[After(job="1")]))], 2.0)
    before = contents(store)
    with store._db.writing() as writing:
        assert not old_rows.drop_jobs(writing, old)
    assert contents(store) == before


def test_a_job_stays_as_long_as_its_key(store: Store) -> None:
    """A submission that is sent again finds its jobs, or makes new ones: never half of both."""
    first = store.add_jobs("ann", "vision", jobs_of(2), 1.0, key="k")
    store.add_jobs("ann", "vision", jobs_of(1), 500.0)
    ended(store, 0, 1)
    assert drop(store, LATER_S, keys_s=1.0) == 0
    assert not store.drop_old_keys(1.0)
    assert [job.row for job in store.add_jobs("ann", "vision", jobs_of(2), 2.0, key="k")] == [0, 1]
    assert store.drop_old_keys(400.0)
    assert not store.drop_old_keys(400.0)
    drop(store, LATER_S, keys_s=400.0)
    again = store.add_jobs("ann", "vision", jobs_of(2), 2.0, key="k")
    assert [job.row for job in again] == [3, 4]
    assert len(first) == 2


def test_much_goes_in_small_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with many lines is emptied first, and goes last."""
    store.add_jobs("ann", "vision", jobs_of(2), 1.0)
    ended(store, 0)
    store.commit(Step(points=[Point(0, 1, 5.0, 5.0, 2.0, {})] * (2 * old_rows.MOST_LINES)))
    seen = []
    while store.drop_old_jobs(LATER_S, LATER_S):
        seen.append((len(contents(store)["points"]), len(store.jobs())))
    assert seen == [(old_rows.MOST_LINES + 1, 2), (1, 2), (0, 1)]


def test_old_lines(store: Store) -> None:
    """The oldest first, never the newest, and no command that is not done."""
    store.commit(Step(events=[EventRow(float(at_s), "ann", "submit") for at_s in range(5)]))
    assert store.drop_old_lines("events", 3.0)
    assert not store.drop_old_lines("events", 3.0)
    assert [event.at_s for event in store.events()] == [3.0, 4.0]
    store.drop_old_lines("events", LATER_S)
    last = store.events()[-1].seq
    store.commit(Step(events=[EventRow(9.0, "ann", "submit")]))
    assert store.events()[-1].seq > last

    numbers = [store.add_command(1.0, "ann", "cancel") for _ in range(3)]
    store.commit(Step(done=[CommandDone(number, 1.0) for number in numbers[::2]]))
    assert store.drop_old_lines("commands", LATER_S)
    assert not store.drop_old_lines("commands", LATER_S)
    assert [line["done_s"] for line in contents(store)["commands"]] in ([1.0, None], [None, 1.0])
    assert store.add_command(2.0, "ann", "cancel") > numbers[-1]


def test_the_scheduler_goes_on_with_what_is_left(store: Store) -> None:
    """Every row keeps its place: the gaps are jobs that did nothing and are over."""
    spec = JobSpec(command=["x"], array="1-3")
    store.add_jobs("ann", "vision", [NewJob(spec, index) for index in (1, 2, 3)], 1.0)
    store.add_jobs("bob", "nlp", [NewJob(JobSpec(command=["x"], gpus=2))], 2.0)
    store.add_jobs("ann", "vision", jobs_of(2), 3.0)
    ended(store, 0, 1, 2, 4)
    waits = JobState(phase=int(Phase.PENDING))
    store.commit(Step(jobs={2: replace(DONE, run_s=7.0, service=14.0), 3: waits, 5: waits}))
    before = store.load()
    drop(store)
    after = store.load()
    assert after.columns.ids == ["1", "2", "3", "4", "5", "6"]
    assert after.columns.numbers["phase"][[0, 1, 2, 4]].tolist() == [int(Phase.CANCELLED)] * 4
    for name in ("run_s", "service", "starts", "progress_base"):
        assert not after.columns.numbers[name][[0, 1, 2, 4]].any(), name
    for name, column in after.columns.numbers.items():
        same = column[[3, 5]], before.columns.numbers[name][[3, 5]]
        assert np.array_equal(*same, equal_nan=True), name
        assert column.dtype == before.columns.numbers[name].dtype
    assert (np.diff(after.columns.submit_s) >= 0).all()
    assert after.columns.live.tolist() == before.columns.live.tolist()
    old, new = (rebuild(everything, Tenants.none(), AllMayRun(), 20.0) for everything in (before, after))
    assert new.state.submitted == old.state.submitted == 6
    assert new.state.waiting.rows.tolist() == old.state.waiting.rows.tolist() == [3, 5]
    assert [job.row for job in new.jobs] == [job.row for job in old.jobs]


def test_what_policies_know_of_the_past_comes_from_what_is_kept(store: Store) -> None:
    store.add_jobs("ann", "vision", jobs_of(2), 1.0)
    store.add_jobs("bob", "nlp", jobs_of(2), 1.0)
    ended(store, 0, 1, at_s=9.0)
    ended(store, 2, 3, at_s=99.0)
    assert len(store.past()) == 2
    drop(store, before_s=50.0)
    assert {key: runs.tolist() for key, runs in store.past().items()} == {("nlp", "bob/a"): [4.0, 4.0]}
    assert [job.row for job in store.history(0.0, LATER_S).jobs] == [2, 3]


def test_ends(store: Store) -> None:
    """Who is over, who is on record no more, and nobody else: not who lives, nor who never was."""
    store.add_jobs("ann", "vision", jobs_of(5), 1.0)
    ended(store, 0, 1)
    store.commit(Step(jobs={2: RUNNING, 3: CANCELLED}, attempts=[attempt(2), attempt(3)]))
    drop(store, before_s=0.0)
    assert store.ended(range(-2, 9)) == {0: 9.0, 1: 9.0}
    drop(store)
    assert store.ended([0, 1, 2, 3, 4, 5, 2**70]) == {0: -np.inf, 1: -np.inf}
    assert store.last_row() == 4
