"""What a cluster did, read back as a trace and run again in the simulated world."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from answers_play import AskedSite, site

from rota.api.simulation import simulate
from rota.model.job_columns import JobKind
from rota.model.jobs import Outcome
from rota.model.trace import Trace
from rota.server.export import history_csv
from rota.traces.registry import find
from rota.traces.source import load


def written(s: AskedSite, folder: Path) -> Path:
    """The history of the site as a file."""
    history = s.store.history(0.0, 1e9)
    path = folder / "history.csv"
    path.write_text(history_csv(history, s.store.epoch_s, s.time.now))
    return path


def read(path: Path) -> Trace:
    source = load(path)
    return find(source, None).read(source)


def test_jobs_come_back_as_they_were(tmp_path: Path) -> None:
    """Times, sizes and names; B depends on A; moments count from the first submission."""
    s = site(tmp_path / "site")
    a = s.submit(20.0, gpus=2, time_s=100.0, priority=3, tenant="vision", group="g", workload="w")
    b = s.submit(10.0, gpus=1, kind="opportunistic", after=[{"job": str(a + 1)}])
    s.run()
    trace = read(written(s, tmp_path))
    jobs = trace.jobs
    assert list(jobs.ids) == ["1", "2"]
    assert jobs.gpus.tolist() == [2, 1]
    assert jobs.priority.tolist() == [3, 0]
    assert jobs.kind.tolist() == [JobKind.TRAIN, JobKind.OPPORTUNISTIC]
    assert [jobs.name_of("tenant", row) for row in (0, 1)] == ["vision", "t"]
    assert (jobs.name_of("group", 0), jobs.name_of("workload", 0)) == ("g", "w")
    assert jobs.limit_s[0] == 100.0
    assert np.isnan(jobs.limit_s[1])
    assert jobs.after == {b: (a,)}
    assert jobs.submit_s[0] == 0.0
    np.testing.assert_allclose(trace.truth.duration_s, [20.0, 10.0], atol=1.0)
    assert trace.truth.outcome.tolist() == [Outcome.COMPLETED] * 2


def test_the_replay_has_the_same_jobs_and_order(tmp_path: Path) -> None:
    """Eight jobs on two devices: `rota simulate` of the file runs all of them, each as long as it ran."""
    s = site(tmp_path / "site")
    for number in range(8):
        s.submit(5.0 + 3 * number, gpus=1 + number % 2)
    s.run()
    path = written(s, tmp_path)
    record = simulate(str(path), cluster="1x2", policies="fifo:skip=yes").records[0]
    live = sorted(s.rows(), key=lambda job: (job.now.finish_s or 0.0, job.row))
    again = record.jobs.sort("finish_s", "job_id")["job_id"].to_list()
    assert set(again) == {job.id for job in live}
    assert again == [job.id for job in live]


def test_ends_that_are_none(tmp_path: Path) -> None:
    """A job cancelled while it waits or held to the end took nothing; one cancelled while it ran did."""
    s = site(tmp_path / "site")
    runs, waits = s.submit(1000.0, gpus=2), s.submit(10.0, gpus=2)
    held = s.submit(10.0, hold=True)
    s.until(runs, "RUNNING")
    for row in (waits, held):
        s.command("cancel", row)
    s.turn()
    s.time.now += 30.0
    s.command("cancel", runs)
    s.until(runs, "CANCELLED")
    trace = read(written(s, tmp_path))
    assert list(trace.jobs.ids) == ["1"]
    assert trace.truth.outcome.tolist() == [Outcome.CANCELLED]
    assert trace.truth.duration_s[0] == pytest.approx(30.0, abs=6.0)


def test_jobs_that_still_run_are_in_it(tmp_path: Path) -> None:
    """One that runs, and one that was stopped for it and waits again: with what they have done so far."""
    s = site(tmp_path / "site")
    ended = s.submit(20.0, gpus=1)
    s.run()
    runs = s.submit(1000.0, gpus=2)
    s.until(runs, "RUNNING")
    s.turn()
    s.time.now += 30.0
    path = written(s, tmp_path)
    trace = read(path)
    assert list(trace.jobs.ids) == [str(ended + 1), str(runs + 1)]
    assert trace.truth.duration_s[1] == pytest.approx(30.0, abs=6.0)
    assert trace.observed is not None
    assert np.isnan(trace.observed.end_s[1])
    again = simulate(str(path), cluster="1x2", policies="fifo:skip=yes").records[0]
    assert len(again.jobs) == 2


def test_failed_attempts_are_told_apart(tmp_path: Path) -> None:
    """Its shim is killed once: the first attempt failed, and the second ran to its end."""
    s = site(tmp_path / "site")
    row = s.submit(40.0, gpus=1, checkpoint="none")
    s.until(row, "RUNNING")
    while (s.scheduler.view.holding[row].start_s) is None:
        s.turn()
    s.time.now += 15.0
    assert s.machines["n1"].kill_shim(random.Random(1))
    s.run()
    trace = read(written(s, tmp_path))
    (failed,) = trace.truth.failures[0]
    assert 15.0 <= failed <= 30.0, "with its start, and until its end was noticed"
    assert trace.truth.duration_s[0] == pytest.approx(40.0, abs=6.0)


def test_an_empty_history_has_its_header(tmp_path: Path) -> None:
    s = site(tmp_path / "site")
    assert written(s, tmp_path).read_text().startswith("job_id,submit_s,duration_s,gpus,")
