"""Dumps in local time over a night in which the site's clock is put back or on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from sacct_text import dump, gpus, row

from rota.traces.capacity import auto_cluster, peak_demand

NIGHTS = {
    "back in Berlin": ("Europe/Berlin", datetime(2025, 10, 25, 20, tzinfo=UTC)),
    "back in Chicago": ("America/Chicago", datetime(2025, 11, 2, 2, tzinfo=UTC)),
    "back in London": ("Europe/London", datetime(2025, 10, 25, 21, tzinfo=UTC)),
    "on in Berlin": ("Europe/Berlin", datetime(2025, 3, 29, 20, tzinfo=UTC)),
    "on in Chicago": ("America/Chicago", datetime(2025, 3, 9, 2, tzinfo=UTC)),
}


def a_night(zone: str, first: datetime, minutes: int) -> tuple[str, list[float]]:
    """Jobs that keep a node of four GPUs busy, one after the other, and when each of them was submitted."""
    clock = ZoneInfo(zone)
    said, submitted = [], []
    for number in range(12 * 60 // minutes):
        start = first + timedelta(minutes=minutes * number)
        moments = (start - timedelta(minutes=90), start, start + timedelta(minutes=minutes))
        submit, begin, end = (moment.astimezone(clock).strftime("%FT%T") for moment in moments)
        cells = {"Submit": submit, "Start": begin, "End": end, "ElapsedRaw": str(60 * minutes)}
        said.append(row(str(100 + number), ReqTRES=gpus(4), AllocTRES=gpus(4, "a100"), **cells))
        submitted.append(60.0 * minutes * number)
    return dump(*said), submitted


@pytest.mark.parametrize("night", NIGHTS)
@pytest.mark.parametrize("minutes", [40, 150])
def test_the_night_of_a_clock_change(read_text: Any, night: str, minutes: int) -> None:
    """Local stamps lay half of the jobs over the others: the cluster came out twice as large as it is."""
    text, submitted = a_night(*NIGHTS[night], minutes)
    trace = read_text(text)
    assert auto_cluster(trace).describe() == "1x4:a100 (4 GPUs in 1 node)"
    assert len(trace) >= len(submitted) - 2
    assert peak_demand(trace).gpus == 4
    assert trace.observed is not None
    np.testing.assert_allclose(trace.observed.end_s - trace.observed.start_s, 60.0 * minutes)
    # Of a submission in the two hours that the clock showed alike nobody knows in which it was.
    known = np.array([submitted[int(id) - 100] for id in trace.jobs.ids])
    doubtful = np.abs(trace.jobs.submit_s - known) > 1
    assert doubtful.sum() <= -(-120 // minutes)
    assert "after the clock was changed" in [odd.what.partition(" (")[0] for odd in trace.odd]


def test_runs_within_the_hour_that_came_twice(read_text: Any) -> None:
    """They may be of either, so that they are left out, and that is told."""
    text, _ = a_night(*NIGHTS["back in Berlin"], 20)
    around = row("9", Start="2025-10-25T23:00:00", End="2025-10-26T04:00:00", Submit="2025-10-25T20:00:00",
                 ElapsedRaw=str(6 * 3600), NodeList="gpu02")  # fmt: skip
    trace = read_text(text + around + "\n")
    assert auto_cluster(trace).describe() == "1x4:a100,1x1:a100 (5 GPUs in 2 nodes)"
    told = {odd.what: odd.count for odd in trace.odd}
    assert told["within the hour that the clock showed twice"] == 4
    assert "after the clock was changed (2025-10-26 03:00)" in told


def test_no_change_without_jobs_that_ran_through_it(read_text: Any) -> None:
    """An hour that one job was suspended is none, where others ran through the same night as ever."""
    times = {"Submit": "2025-10-25T22:00:00", "Start": "2025-10-26T00:00:00", "End": "2025-10-26T05:00:00"}
    plain = [row(str(n), **times, ElapsedRaw="18000") for n in (1, 2)]
    trace = read_text(dump(*plain, row("3", **times, ElapsedRaw="14400")))
    assert trace.odd == ()


def test_a_suspended_job_puts_no_clock_on(read_text: Any) -> None:
    """It stood still for an hour of a Sunday; others began and ended in each hour that a clock leaves out."""
    day = "2025-03-30T0"
    stood = row("1", Submit=day + "0:00:00", Start=day + "0:05:00", End=day + "4:05:00", ElapsedRaw="10800")
    hours = (
        row(
            str(10 + n),
            Submit=day + "0:00:00",
            Start=f"{day}{n}:10:00",
            End=f"{day}{n}:20:00",
            ElapsedRaw="600",
        )
        for n in (1, 2, 3)
    )
    assert read_text(dump(stood, *hours)).odd == ()
