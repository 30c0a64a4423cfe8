"""Rota's own table as people write it by hand (writing it is in test_writing)."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rota.model.job_columns import AllowedCounts, JobKind
from rota.model.jobs import JobPart, JobTable, Outcome, PlainJob
from rota.traces import read


def test_the_least_there_can_be(read_text: Any) -> None:
    trace = read_text("submit_s,gpus,duration_s\n5,2,\n0,1,60\n")
    assert list(trace.jobs.ids) == ["1", "0"]
    assert trace.jobs.submit_s.tolist() == [0, 5]
    assert np.isnan(trace.truth.duration_s).tolist() == [False, True]
    assert trace.jobs.job(0).tenant == "default"
    assert trace.observed is None


# column, the cell of job a (empty: the default), the cell of job b
CELLS = [
    *(("job_id", "a", "b"), ("submit_s", "0", "1"), ("gpus", "1", "4"), ("duration_s", "60", "60")),
    *(("gpus_min", "", "2"), ("gpus_max", "", "8"), ("counts", "", "powers_of_two")),
    *(
        ("gpu_memory_gib", "", "16"),
        ("gpu_type", "", "V100|A100"),
        ("cpus", "", "8"),
        ("memory_gib", "", "32"),
    ),
    *(("gang", "", "false"), ("kind", "", "OPPORTUNISTIC"), ("priority", "", "-3"), ("gpu_share", "0.5", "")),
    *(("deadline_s", "", "99"), ("limit_s", "", "90"), ("batch_size", "", "256"), ("iterations", "", "7")),
    *(("tenant", "", "vision/ann"), ("group", "", "g1"), ("workload", "", "vgg16")),
    *(("outcome", "", "FAILED"), ("failures_s", "", "5;2.5"), ("start_s", "", "2"), ("end_s", "", "70")),
    *(("after", "", "a"), ("parts", "", '"[{""tasks"": 2, ""gpus"": 2, ""role"": ""ps""}]"')),
]
FULL = "".join(",".join(cells) + "\n" for cells in zip(*CELLS, strict=True))


def test_empty_cells_are_defaults(read_text: Any) -> None:
    job = read_text(FULL).jobs.job(0)
    usual = JobTable.build(["a"], submit_s=[0.0], gpus=[1], gpu_share=[0.5]).job(0)
    for field in fields(PlainJob):
        assert getattr(job, field.name) == pytest.approx(getattr(usual, field.name), nan_ok=True), field.name


def test_all_there_can_be(read_text: Any) -> None:
    trace = read_text(FULL)
    job = trace.jobs.job(1)
    assert (job.gpus_min, job.gpus_max, job.counts) == (2, 8, AllowedCounts.POWERS_OF_TWO)
    assert (job.gpu_memory_gib, job.cpus, job.memory_gib) == (16, 8, 32)
    assert (trace.jobs.type_names, job.gpu_types) == (("A100", "V100"), 0b11)
    assert (job.gang, job.kind, job.priority) == (False, JobKind.OPPORTUNISTIC, -3)
    assert (job.deadline_s, job.limit_s, job.batch_size) == (99, 90, 256)
    assert (job.tenant, job.group, job.workload) == ("vision/ann", "g1", "vgg16")
    assert trace.truth.outcome.tolist() == [Outcome.COMPLETED, Outcome.FAILED]
    assert trace.truth.failures == {1: (5.0, 2.5)}
    assert trace.jobs.after == {1: (0,)}
    assert trace.jobs.parts == {1: (JobPart(2, 2, role="ps"),)}
    assert trace.observed is not None
    assert trace.observed.start_s[1] == 2


@pytest.mark.parametrize(
    ("a", "b", "c"), [("a", "", ""), ("b", "a", ""), ("b", "c", "a")], ids=["itself", "two", "three"]
)
def test_jobs_that_wait_for_each_other_are_left_out(a: str, b: str, c: str, tmp_path: Path) -> None:
    """They would wait for ever, and no policy would be to blame."""
    path = tmp_path / "circle.csv"
    others = "".join(f"j{n},0,1,9,\n" for n in range(5))
    path.write_text(f"job_id,submit_s,gpus,duration_s,after\na,0,1,9,{a}\nb,0,1,9,{b}\nc,0,1,9,{c}\n{others}")
    trace = read(path)
    circle = {"a"} | {job for job, before in (("b", b), ("c", c)) if before}
    assert not circle & set(trace.jobs.ids)
    assert len(trace) == 8 - len(circle)
    assert f"after: waiting for '{a}' never ends" in trace.remarks[0]


def test_a_recorded_past_that_cannot_be_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(
        "job_id,submit_s,gpus,duration_s,start_s,end_s\na,9,1,5,4,9\nb,9,1,5,10,7\nc,9,1,5,9,14\n"
    )
    found = {odd.what: (odd.count, odd.examples) for odd in read(path).odd}
    assert found == {
        "recorded start before submission": (1, ("row 2 (job a)",)),
        "recorded end before start": (1, ("row 3 (job b)",)),
    }


def test_starts_and_durations_say_when_jobs_ended(read_text: Any) -> None:
    """A table that has no column of ends is none of jobs that never ended; failed attempts lay anywhere."""
    trace = read_text("submit_s,gpus,duration_s,start_s,failures_s\n0,1,60,5,\n1,1,9,2,4\n2,1,9,,\n")
    assert trace.observed is not None
    assert trace.observed.end_s.tolist() == pytest.approx([65, np.nan, np.nan], nan_ok=True)
    still_runs = read_text("submit_s,gpus,duration_s,start_s,end_s\n0,1,60,5,\n")
    assert still_runs.observed is not None
    assert np.isnan(still_runs.observed.end_s).all()


@pytest.mark.parametrize(
    ("moments", "dated"),
    [((1.7e9, 1.7e9 + 60), True), ((0, 1.7e9), False), ((0, 60), False), ((1.7e12, 1.7e12 + 60), False)],
    ids=["Unix time", "from 0 on", "a minute", "milliseconds"],
)
def test_unix_time_has_dates(moments: tuple[float, float], dated: bool, read_text: Any) -> None:
    trace = read_text(f"submit_s,gpus,duration_s\n{moments[0]:.0f},1,9\n{moments[1]:.0f},1,9\n")
    assert trace.jobs.submit_s.tolist() == list(moments)
    assert trace.calendar == ({"epoch": "1970-01-01 00:00:00", "time_zone": "UTC"} if dated else {})
