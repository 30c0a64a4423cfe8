"""Slurm accounting dumps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rota.errors import InputError
from rota.model.jobs import Outcome

HEAD = (
    "JobIDRaw|User|Account|JobName|Submit|Start|End|ElapsedRaw|TimelimitRaw|State|Restarts|"
    "ReqTRES|AllocTRES\n"
)
DAY = "2024-03-01T"
DUMP = HEAD + "".join(
    f"{id}|{user}|vision|train|{DAY}{submit}|{start}|{end}|{elapsed}|{limit}|{state}|{again}|{asked}|{given}\n"
    for id, user, submit, start, end, elapsed, limit, state, again, asked, given in [
        (
            "10",
            "ann",
            "09:00:00",
            DAY + "09:05:00",
            DAY + "10:05:00",
            3600,
            120,
            "COMPLETED",
            0,
            "gres/gpu:a100=2",
            "cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G",
        ),
        (
            "10.batch",
            "",
            "09:05:00",
            DAY + "09:05:00",
            DAY + "10:05:00",
            3600,
            "",
            "COMPLETED",
            0,
            "",
            "cpu=8",
        ),
        (
            "11",
            "bob",
            "09:01:00",
            "Unknown",
            DAY + "09:30:00",
            0,
            "UNLIMITED",
            "CANCELLED by 123",
            0,
            "cpu=4,gres/gpu=8",
            "",
        ),
        (
            "12",
            "ann",
            "09:02:00",
            DAY + "09:02:00",
            DAY + "09:12:00",
            600,
            10,
            "TIMEOUT",
            2,
            "gres/gpu=1",
            "gres/gpu=1",
        ),
        ("13", "bob", "09:03:00", "Unknown", "Unknown", 0, 60, "PENDING", 0, "gres/gpu=4", ""),
        (
            "14",
            "bob",
            "09:04:00",
            DAY + "09:04:00",
            "Unknown",
            7200,
            "Partition_Limit",
            "RUNNING",
            0,
            "gres/gpu=1",
            "gres/gpu:v100=1,gres/gpu=1",
        ),
        (
            "15",
            "cat",
            "09:05:00",
            DAY + "09:06:00",
            DAY + "09:06:30",
            30,
            5,
            "OUT_OF_MEMORY",
            0,
            "cpu=2",
            "cpu=2,mem=4G",
        ),
    ]
)


def test_a_dump(read_text: Any) -> None:
    trace = read_text(DUMP)
    jobs = trace.jobs
    assert list(jobs.ids) == ["10", "11", "12", "14", "15"]
    assert jobs.submit_s.tolist() == [0, 60, 120, 240, 300]
    assert jobs.gpus.tolist() == [2, 8, 1, 1, 0]
    assert (jobs.cpus[0], jobs.memory_gib[0], jobs.memory_gib[4]) == (8, 64, 4)
    assert jobs.limit_s.tolist() == pytest.approx([7200, np.nan, 600, np.nan, 300], nan_ok=True)
    assert (jobs.type_names, jobs.gpu_types.tolist()) == (("a100",), [1, 0, 0, 0, 0])
    assert trace.truth.duration_s.tolist() == [3600, 0, 600, 7200, 30]
    assert trace.truth.outcome.tolist() == [
        *(Outcome.COMPLETED, Outcome.CANCELLED, Outcome.FAILED, Outcome.COMPLETED, Outcome.FAILED),
    ]
    assert (jobs.job(1).tenant, jobs.job(1).group) == ("vision/bob", "train")
    assert trace.observed is not None
    assert trace.observed.start_s.tolist() == pytest.approx([300, np.nan, 120, 240, 360], nan_ok=True)
    assert trace.facts["epoch"] == "2024-03-01 09:00:00"


def test_what_is_odd_about_it(read_text: Any) -> None:
    trace = read_text(DUMP)
    assert {odd.what: (odd.count, odd.done) for odd in trace.odd} == {
        "job step": (1, "dropped: its job has a line of its own"),
        "cancelled while waiting": (1, "kept with duration 0"),
        "still waiting at the time of the dump": (1, "dropped: how long it runs is not known"),
        "still running at the time of the dump": (1, "kept, ending after the time elapsed"),
        "ended as TIMEOUT": (1, "kept as failed"),
        "requeued": (1, "kept as one attempt; sacct --duplicates gives the earlier ones"),
        "no GPU asked for": (1, "kept as CPU jobs"),
    }
    assert trace.odd[0].examples == ("row 3 (job 10.batch)",)


def test_moments_that_make_no_sense_leave_the_job_out(read_text: Any) -> None:
    """A database that was repaired after a crash has such rows: nobody edits a million others for them."""
    stamps = "2024-03-01T09:00:00|2024-03-01T09:10:00|2024-03-01T"
    trace = read_text(
        "JobID|Submit|Start|End|State|AllocTRES\n"
        f"1|{stamps}10:00:00|COMPLETED|gres/gpu=1\n"
        f"2|{stamps}09:05:00|COMPLETED|gres/gpu=1\n"
        "3|Unknown|Unknown|Unknown|PENDING|\n"
    )
    assert list(trace.jobs.ids) == ["1"]
    assert {odd.what: (odd.count, odd.done) for odd in trace.odd} == {
        "no submission recorded": (1, "dropped: nobody can say when it came"),
        "ended before it started": (1, "dropped: how long it ran is not known"),
    }


# Timelimit  seconds
@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("1-12:00:00", 129600),
        ("02:30:00", 9000),
        ("30:00", 1800),
        ("45", 2700),
        ("UNLIMITED", np.nan),
        ("Partition_Limit", np.nan),
        ("", np.nan),
    ],
)
def test_time_limits(read_text: Any, limit: str, seconds: float) -> None:
    """Without raw columns: clocks, and End minus Start; a bar at the end of each line does no harm."""
    row = f"7_1|{DAY}09:00:00|{DAY}09:00:10|{DAY}09:01:10|{limit}|COMPLETED|gres/gpu=1|\n"
    trace = read_text("JobID|Submit|Start|End|Timelimit|State|AllocTRES|\n" + row)
    assert trace.jobs.limit_s.tolist() == pytest.approx([seconds], nan_ok=True)
    assert trace.truth.duration_s.tolist() == [60]
    assert trace.jobs.job(0).tenant == "default"


def test_seconds_since_1970_are_stamps(read_text: Any) -> None:
    """As `SLURM_TIME_FORMAT=%s` prints them."""
    rows = (
        "7|1709283600|1709283610|1709283670|COMPLETED|gres/gpu=1\n8|1709283700|None|1709283760|CANCELLED|\n"
    )
    trace = read_text("JobID|Submit|Start|End|State|AllocTRES\n" + rows)
    assert trace.jobs.submit_s.tolist() == [0, 100]
    assert trace.truth.duration_s.tolist() == [60, 0]
    assert trace.facts["epoch"] == "2024-03-01 09:00:00"


def test_a_clock_that_is_none_is_named(read_text: Any) -> None:
    with pytest.raises(InputError, match="column 'Timelimit': 'a day' is not a time limit"):
        read_text(
            "JobID|Submit|Start|End|Timelimit|State|AllocTRES\n"
            f"7|{DAY}09:00:00|{DAY}09:00:10|{DAY}09:01:10|a day|COMPLETED|gres/gpu=1\n"
        )
