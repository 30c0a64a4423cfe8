"""A dry run: place, reasons, estimate and warnings of a job that is not there, and nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from answers_play import AskedSite, site

from rota.model.reasons import Code, Constraint, noted
from rota.model.tenants import Tenant, Tenants
from rota.server.answers.dry_run import warnings
from rota.wire.job import JobSpec


def busy(folder: Path, policy: str = "fifo:skip=yes") -> AskedSite:
    """Job 1 holds both devices for 100 s; job 2 waits for one of them."""
    s = site(folder, policy)
    s.until(s.submit(1000.0, gpus=2, time_s=100.0), "RUNNING")
    s.submit(50.0, time_s=50.0)
    s.turn()
    return s


def test_a_job_that_would_wait(tmp_path: Path) -> None:
    s = busy(tmp_path)
    found = s.dry_run(gpus=2, time_s=10.0)
    assert (found.feasible, found.position, found.warnings) == (True, 2, [])
    assert [reason.sentence for reason in found.reasons] == [
        "needs 2 devices; 0 are free",
        "stands behind 1 job submitted earlier (2)",
    ]
    assert found.start_s == pytest.approx(s.time.epoch_unix_s + 150.0, abs=6.0)
    assert found.basis == "simulated under fifo:skip=yes with the durations of 3 jobs: 3 from time limits"


def test_a_job_that_would_start_at_once(tmp_path: Path) -> None:
    s = site(tmp_path)
    s.until(s.submit(1000.0, gpus=1, time_s=100.0), "RUNNING")
    found = s.dry_run(gpus=1, time_s=10.0)
    assert (found.feasible, found.position, found.reasons) == (True, 1, [])
    assert found.start_s == pytest.approx(s.time.epoch_unix_s + s.time.now, abs=1.0)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """No row, no event, no command; the next job gets the next id, and the table is as it was."""
    s = busy(tmp_path)
    before = (s.store.jobs(), s.store.events(), s.store.totals(), s.store.open_commands())
    state = s.scheduler.loop.state  # type: ignore[union-attr]
    table = (state.submitted, len(state.jobs.ids), sorted(state.grants), state.waiting.sorted().tolist())
    for _ in range(3):
        s.dry_run(gpus=1)
    assert (s.store.jobs(), s.store.events(), s.store.totals(), s.store.open_commands()) == before
    assert table == (
        state.submitted,
        len(state.jobs.ids),
        sorted(state.grants),
        state.waiting.sorted().tolist(),
    )
    assert s.submit(1.0) == 2


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"gpus": 8}, "needs 8 devices at once; the cluster has 2 it could use"),
        ({"cpus": 999.0}, "needs 999 CPU cores on one node; the largest node has 8"),
        ({"gpus": 2, "cpus": 999.0}, "needs 999 CPU cores on one node; the largest node has 8"),
        ({"gpu_types": ["A100"]}, "needs devices of type A100; the cluster has none"),
        ({"tenant": "small", "gpus": 2}, "tenant small would use 2 devices; its quota is 1"),
        (
            {"after": [{"job": "1", "when": "failed"}]},
            "would be cancelled: job 1, which it is to run after, did not end as asked (failed)",
        ),
    ],
)
def test_what_can_never_run(spec: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    s = site(tmp_path)
    s.with_tenants(Tenants.of(Tenant("small", quota_gpus=1, hard=True)))
    s.until(s.submit(5.0), "COMPLETED")
    found = s.dry_run(**spec)
    assert (found.feasible, found.position, found.start_s) == (False, None, None)
    assert [reason.sentence for reason in found.reasons] == [sentence]


def test_what_would_be_held(tmp_path: Path) -> None:
    s = busy(tmp_path)
    found = s.dry_run(gpus=1, time_s=10.0, hold=True, after=[{"job": "1"}])
    assert [reason.sentence for reason in found.reasons][:2] == [
        "is held by u",
        "waits for job 1 to complete",
    ]
    assert (found.feasible, found.position) == (True, None)
    assert found.basis.endswith("; without what holds it")


def test_a_deadline_that_will_not_be_met(tmp_path: Path) -> None:
    s = busy(tmp_path)
    found = s.dry_run(gpus=1, time_s=60.0, deadline_s=s.time.epoch_unix_s + 120.0)
    (late,) = [reason for reason in found.reasons if reason.code == "Deadline"]
    assert late.sentence.startswith("would end ")
    assert late.sentence.endswith(" after its deadline, 2023-11-14 22:15:20 UTC")


def test_a_priority_that_has_no_effect(tmp_path: Path) -> None:
    s = site(tmp_path, "las")
    s.until(s.submit(5.0), "COMPLETED")
    (said,) = s.dry_run(time_s=60.0, priority=3).warnings
    assert said == "las orders jobs without looking at priorities: priority 3 has no effect under it"
    assert not s.dry_run(time_s=60.0).warnings


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ["no time limit is given (--time)"]),
        ({"time_s": 60.0}, []),
        ({"time_s": 60.0, "deadline_s": 900.0}, ["its deadline is over already"]),
        ({"time_s": 60.0, "deadline_s": 1030.0}, ["its time limit ends after its deadline"]),
        (
            {"time_s": 60.0, "checkpoint": "none"},
            ["it may be preempted, and would then start from the beginning"],
        ),
        ({"time_s": 60.0, "checkpoint": "none", "preemptible": False}, []),
        ({"time_s": 60.0, "array": "1-20%4"}, ["only the first of the 20 jobs of its array"]),
        ({"time_s": 60.0, "array": "7"}, []),
        ({"kind": "service"}, []),
    ],
)
def test_warnings(spec: dict[str, Any], words: list[str]) -> None:
    found = warnings(JobSpec(command=["x"], **spec), now_s=1000.0)
    assert len(found) == len(words)
    assert all(text.startswith(start) for text, start in zip(found, words, strict=True)), found


def test_what_no_quota_admits_is_held_with_the_reason(tmp_path: Path) -> None:
    """It is on record and in nobody's way: no policy sees it."""
    s = site(tmp_path)
    s.with_tenants(Tenants.of(Tenant("small", quota_gpus=1, hard=True)))
    s.until(s.submit(5.0), "COMPLETED")
    held = s.submit(5.0, tenant="small", gpus=2)
    s.until(s.submit(5.0, gpus=2), "COMPLETED")
    state = s.scheduler.loop.state  # type: ignore[union-attr]
    assert noted(state.held[held]) == Constraint(Code.QUOTA, 2.0, 1.0, "small")
