"""Jobs that run after a whole array: through restarts, in forecasts, and in the exported history."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers_play import AskedSite, site
from site_play import Site

from rota.server.export import history_csv
from rota.table.state import Phase
from rota.traces.registry import find
from rota.traces.source import load


def follower(s: Site, first: int, when: str = "ok") -> int:
    """A job after the array whose first row is `first`."""
    return s.submit(1.0, after=[{"job": str(first + 1), "when": when}])


@pytest.mark.parametrize(
    ("ends", "when", "state"),
    [
        (["ok", "ok", "ok"], "ok", "COMPLETED"),
        (["ok", "fail", "ok"], "ok", "CANCELLED"),
        (["ok", "fail", "ok"], "any", "COMPLETED"),
        (["ok", "ok", "ok"], "failed", "CANCELLED"),
    ],
)
def test_each_controller_knows_what_it_waits_for(
    tmp_path: Path, ends: list[str], when: str, state: str
) -> None:
    """Another one after every few turns; one job of the array runs at a time."""
    s = Site(tmp_path, {"n0": 1})
    rows = s.submit_array(*ends)
    after = follower(s, rows[0], when)

    def kill(turn: int) -> None:
        if turn % 4 == 3:
            s.kill_controller()
        started = s.store.job(after).now.first_start_s  # type: ignore[union-attr]
        is_open = any(s.store.job(row).now.phase < Phase.COMPLETED for row in rows)  # type: ignore[union-attr]
        assert started is None or not is_open

    s.run(between=kill)
    assert s.store.job(after).now.state == state  # type: ignore[union-attr]


def test_how_its_jobs_stand(tmp_path: Path) -> None:
    """By the array's number and by each job's id; a job beside it is not meant."""
    s = Site(tmp_path, {"n0": 1})
    rows = s.submit_array("ok", "fail", "ok")
    s.submit(1000.0)
    assert s.store.phases("1") == {Phase.ABSENT: 3}
    while any(s.store.job(row).now.phase < Phase.COMPLETED for row in rows):  # type: ignore[union-attr]
        s.turn()
    assert s.store.phases("1") == {Phase.COMPLETED: 2, Phase.FAILED: 1}
    assert s.store.phases("1_2") == {Phase.FAILED: 1}
    assert sum(s.store.phases("4").values()) == 1
    for name in ("2", "5", "01", "1_", "1_4", "0", "-1", "x", "٣", "9" * 200):
        assert not s.store.phases(name), name


def test_dry_runs(tmp_path: Path) -> None:
    s = site(tmp_path)
    s.submit_array("fail", "ok", "ok", gpus=2)
    s.until(0, "FAILED")
    held = s.dry_run(after=[{"job": "1", "when": "any"}])
    assert held.reasons[0].sentence == "waits for 2 of the 3 jobs of array 1 to end"
    never = s.dry_run(after=[{"job": "1"}])
    assert (never.feasible, [reason.sentence for reason in never.reasons]) == (
        False,
        ["would be cancelled: job 1, which it is to run after, did not end as asked (ok)"],
    )


def test_before_one_has_failed_it_says_that_one_must(tmp_path: Path) -> None:
    s: AskedSite = site(tmp_path)
    first = s.submit_array("ok", "ok", work_s=100.0)[0]
    row = follower(s, first, "failed")
    s.until(first, "RUNNING")
    assert s.sentences(row) == [
        "waits for 2 of the 2 jobs of array 1 to end, at least one of them by failing"
    ]


def test_the_history_names_all_of_its_jobs(tmp_path: Path) -> None:
    s = Site(tmp_path / "site", {"n0": 2})
    rows = s.submit_array("ok", "ok", "ok")
    after = follower(s, rows[0])
    s.run()
    history = s.store.history(0.0, 1e9)
    path = tmp_path / "history.csv"
    path.write_text(history_csv(history, s.store.epoch_s, s.time.now))
    source = load(path)
    jobs = find(source, None).read(source).jobs
    assert jobs.after == {after: tuple(rows)}
