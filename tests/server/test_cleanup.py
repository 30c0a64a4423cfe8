"""What the controller finds too old, what it tells agents to remove, and what people are told of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from store_place import jobs_of
from test_store import RUNNING, attempt
from test_store_pruning import ended

from rota.server import cleanup
from rota.server.auth import mint
from rota.server.caps import caps_of
from rota.server.cleanup import EXPIRED_S, Tidier
from rota.server.retention import Keep, again_s
from rota.server.roster import StoredRoster
from rota.server.store.failures import StoreError
from rota.server.store.rows import EventRow, JobRow, Step
from rota.server.store.store import Store
from rota.wire.keeping import Disk, Kept

DAY_S = 86400.0
KEEP = Keep(30 * DAY_S, 7 * DAY_S, 365 * DAY_S, 90 * DAY_S, DAY_S)


@dataclass
class Site:
    """A store whose clock the test sets, with `count` jobs."""

    store: Store
    roster: StoredRoster
    tidier: Tidier
    now: float = 0.0

    def job(self, row: int) -> JobRow:
        found = self.store.job(row)
        assert found is not None
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    store = Store.open(None, tmp_path)
    roster = StoredRoster(store)
    made = Site(store, roster, Tidier(store, roster, KEEP, lambda: made.now))
    store.add_jobs("ann", "vision", jobs_of(4), 1.0, key="k")
    yield made
    made.tidier.close()
    store.close()


DISK = Disk(total_bytes=100 * 2**30, free_bytes=50 * 2**30, files_bytes=2**30, checkpoints_bytes=2**31)


@pytest.mark.parametrize(
    ("days", "files",   "checkpoints"),
    [
        (6,   [],        []),
        (8,   [],        [0, 1]),
        (29,  [],        [0, 1]),
        (31,  [0, 1],    [0, 1]),
    ],
)  # fmt: skip
def test_what_agents_may_remove(site: Site, days: int, files: list[int], checkpoints: list[int]) -> None:
    """Of jobs that ended long enough ago; never of one that runs or waits, or that nobody knows."""
    ended(site.store, 0, 1, at_s=100.0)
    site.store.commit(Step(jobs={2: RUNNING}, attempts=[attempt(2)]))
    site.now = days * DAY_S + 100.0
    reply = site.tidier.kept("n0", Kept(disk=DISK, rows=[0, 1, 2, 3, 4, 5, 2**53]))
    assert (reply.files, reply.checkpoints, reply.again_s) == (files, checkpoints, 3600.0)
    assert site.tidier.disks == {"n0": DISK}


def test_what_another_job_of_the_number_left_stays(site: Site) -> None:
    """Where a store was restored from a backup, a number comes again: not all there is its own."""
    ended(site.store, 0, 1, at_s=100.0)
    site.now = 31 * DAY_S
    epoch_s = site.store.epoch_s
    said = Kept(disk=DISK, rows=[0, 1], submit_s={0: epoch_s + 1.0, 1: epoch_s - 5000.0})
    assert site.tidier.kept("n0", said).files == [0]


MIB = 2**20


@pytest.mark.parametrize(
    ("caps", "mib", "gone", "why"),
    [
        ({"kept_mib": 10}, (4, 4, 4, 4), [0, 1], "two of 4 MiB are within it, the oldest go"),
        ({"kept_mib": 16}, (4, 4, 4, 4), [], "as much as it may be"),
        ({"kept_mib": 10}, (1, 9, 4, 4), [0, 1], "what is older than too much goes as well"),
        ({"kept_mib": 10}, (1, 1, 1, 99), [0, 1, 2], "the newest has just been written"),
        ({"log_mib": 1}, (99, 99, 99, 99), [], "no cap"),
        ({"tenants": {"vision": {"kept_mib": 4}}}, (4, 4, 4, 4), [0, 1, 2], "the cap of the tenant"),
        ({"tenants": {"speech": {"kept_mib": 1}}}, (4, 4, 4, 4), [], "another's"),
    ],
)
def test_what_a_user_leaves_on_a_machine_is_capped(
    site: Site, caps: dict[str, Any], mib: tuple[int, ...], gone: list[int], why: str
) -> None:
    for row in range(4):
        ended(site.store, row, at_s=100.0 + row)
    site.now = 200.0
    tidier = Tidier(site.store, site.roster, KEEP, lambda: site.now, caps_of(caps))
    sizes = {row: size * MIB for row, size in enumerate(mib)}
    reply = tidier.kept("n0", Kept(disk=DISK, rows=[0, 1, 2, 3], files_bytes=sizes))
    assert (reply.files, reply.checkpoints) == (gone, []), why
    assert reply.again_s == (3600.0 if "log_mib" in caps else 60.0)
    if gone:
        assert "kept_mib" in tidier.logs_gone(site.job(gone[0]))


def test_users_of_a_tenant_and_machines_count_apart(site: Site) -> None:
    """Bob's two are beside Ann's four: each may leave 4 MiB, and their tenant too, on each machine."""
    site.store.add_jobs("bob", "vision", jobs_of(2), 1.0)
    for row in range(6):
        ended(site.store, row, at_s=100.0 + row)
    tidier = Tidier(site.store, site.roster, KEEP, lambda: 200.0, caps_of({"kept_mib": 4}))
    sizes = dict.fromkeys(range(6), 2 * MIB)
    assert tidier.kept("n0", Kept(disk=DISK, rows=[0, 4], files_bytes=sizes)).files == []
    assert tidier.kept("n1", Kept(disk=DISK, rows=[1, 2], files_bytes=sizes)).files == []
    assert tidier.kept("n0", Kept(disk=DISK, rows=[0, 3, 4, 5], files_bytes=sizes)).files == [0]
    asked = ([4, 5], [0, 1], [0], [4], [0])
    by_parts = [tidier.kept("n2", Kept(disk=DISK, rows=rows, files_bytes=sizes)).files for rows in asked]
    assert by_parts == [[], [0], [0], [], [0]], "those of earlier questions count"
    assert tidier.kept("n2", Kept(disk=DISK, rows=[0, 4], files_bytes=sizes)).files == []


def test_files_go_with_the_record_at_the_latest(site: Site) -> None:
    """An agent that was away for long hears of them when it is back."""
    ended(site.store, 0, at_s=100.0)
    site.now = 400 * DAY_S
    site.tidier.tidy()
    assert site.store.job(0) is None
    assert site.tidier.kept("n0", Kept(disk=DISK, rows=[0, 1])).files == [0]


def test_nothing_goes_if_all_is_kept_for_ever(site: Site) -> None:
    ended(site.store, 0, 1, 2, 3, at_s=100.0)
    site.now = 1e9
    forever = Tidier(site.store, site.roster, Keep(), lambda: site.now)
    forever.tidy()
    assert len(site.store.jobs()) == 4
    reply = forever.kept("n0", Kept(disk=DISK, rows=[0, 1]))
    assert (reply.files, reply.checkpoints) == ([], [])
    assert forever.gone(site.job(0)) == forever.logs_gone(site.job(0)) == ""


def test_each_thing_has_its_term(site: Site) -> None:
    ended(site.store, 0, at_s=100.0)
    site.store.commit(Step(events=[EventRow(350 * DAY_S, "ann", "policy")]))
    site.now = DAY_S / 2
    site.tidier.tidy()
    assert [job.row for job in site.store.add_jobs("ann", "vision", jobs_of(4), 1.0, key="k")] == [0, 1, 2, 3]
    site.now = 89 * DAY_S
    site.tidier.tidy()
    assert len(site.store.events()) == 3
    site.now = 92 * DAY_S
    site.tidier.tidy()
    assert [event.kind for event in site.store.events()] == ["policy"]
    assert len(site.store.jobs()) == 4
    site.now = 366 * DAY_S
    site.tidier.tidy()
    assert [job.row for job in site.store.jobs()] == [1, 2, 3]
    assert [job.row for job in site.store.add_jobs("ann", "vision", jobs_of(1), 1.0, key="k")] == [4]


def test_tokens_that_expired(site: Site) -> None:
    """They stay for a day, so that who comes with one hears that it expired."""
    now_s = time.time()
    for lifetime_s in (-2 * EXPIRED_S, -60.0, 3600.0, None):
        _, record = mint("join", "", lifetime_s)
        site.roster.put_token(record)
    site.tidier.tidy()
    left = [token.expires_s for token in StoredRoster(site.store)._tokens.values()]
    assert len(left) == 3
    assert min(at for at in left if at is not None) > now_s - EXPIRED_S


def test_what_people_are_told(site: Site) -> None:
    ended(site.store, 0, at_s=100.0)
    tidier = site.tidier
    site.now = 3 * DAY_S
    assert tidier.gone(site.job(0)) == tidier.logs_gone(site.job(0)) == tidier.gone(site.job(1)) == ""
    site.now = 8 * DAY_S + 100.0
    assert tidier.gone(site.job(0)) == (
        "job 1 ended 8d ago; its checkpoints are kept for 7d (keep_checkpoints), and then removed"
    )
    assert tidier.logs_gone(site.job(0)) == ""
    site.now = 40 * DAY_S + 100.0
    assert tidier.gone(site.job(0)) == (
        "job 1 ended 40d ago; its logs are kept for 30d (keep_files) and its checkpoints are kept for 7d "
        "(keep_checkpoints), and then removed"
    )
    assert tidier.logs_gone(site.job(0)) == (
        "the logs of job 1 have been removed: it ended 40d ago, and logs are kept for 30d (keep_files)"
    )
    site.now = 400 * DAY_S
    tidier.tidy()
    assert str(tidier.missing("1")) == (
        "job 1 is on record no more: it ended more than 365d ago (keep_history)"
    )
    for never in ("5", "999999999999999", "2_7", "0"):
        assert str(tidier.missing(never)) == f"there is no job {never}; `rota ls --all` lists them"


@pytest.mark.parametrize(
    ("total_gib", "free_gib", "told"),
    [
        (100, 6, False),
        (100, 4, True),
        (10_000, 300, False),
        (10_000, 9, True),
        (0, 0, False),
    ],
)
def test_a_disk_that_is_nearly_full(site: Site, total_gib: int, free_gib: int, told: bool) -> None:
    """Under a twentieth free, and under 10 GiB."""
    disk = DISK.model_copy(update={"total_bytes": total_gib * 2**30, "free_bytes": free_gib * 2**30})
    site.tidier.kept("n0", Kept(disk=disk))
    said = site.tidier.troubles()
    assert bool(said) == told
    if said:
        assert f"disk of node n0 is nearly full: {free_gib}.0 of {total_gib}.0 GiB are free" in said[0]
        assert "ended jobs take 3.0; free some space there, or keep less (keep_files" in said[0]


def test_how_often(site: Site) -> None:
    assert [again_s(kept) for kept in ([30.0, 600.0], [1.0], [DAY_S], [float("inf")])] == [3, 1, 3600, 3600]


def test_a_store_that_fails_is_tried_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread survives whatever happens to it, and stops when it is told to."""
    monkeypatch.setattr("rota.server.retention.LEAST_S", 0.01)
    monkeypatch.setattr(cleanup, "LEAST_REST_S", 0.001)
    ended(site.store, 0, 1, at_s=1.0)
    drop, tried, done = site.store.drop_old_jobs, [], threading.Event()

    def failing(before_s: float, keys_s: float) -> bool:
        tried.append(before_s)
        if len(tried) == 1:
            raise StoreError("the database is away")
        if len(tried) == 2:
            raise ValueError("a mistake of ours")
        found = drop(before_s, keys_s)
        if not found:
            done.set()
        return found

    monkeypatch.setattr(site.store, "drop_old_jobs", failing)
    site.now = 100.0
    quick = Tidier(site.store, site.roster, Keep(history_s=0.01, keys_s=0.01), lambda: site.now)
    quick.start()
    assert done.wait(20)
    quick.close()
    assert [job.row for job in site.store.jobs()] == [2, 3]
