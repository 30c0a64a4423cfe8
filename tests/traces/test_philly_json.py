"""The original Philly log: attempts become failures and a last run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rota.model.jobs import Outcome

DAY = "2017-10-01 "


def attempt(start: str | None, end: str | None, gpus: int = 2) -> dict[str, Any]:
    detail = [{"ip": "m1", "gpus": [f"gpu{i}" for i in range(gpus)]}]
    return {"start_time": start and DAY + start, "end_time": end and DAY + end, "detail": detail}


def entry(id: str, *attempts: Any, status: str = "Pass", at: str = "08:00:00") -> dict[str, Any]:
    return {
        "jobid": id,
        "vc": "vc1",
        "user": "u",
        "status": status,
        "submitted_time": DAY + at,
        "attempts": attempts,
    }


def test_attempts(read_text: Any) -> None:
    trace = read_text(
        json.dumps(
            [
                entry("plain", attempt("08:01:00", "08:11:00")),
                entry(
                    "retried",
                    attempt("08:00:10", "08:00:40", 4),
                    attempt("09:00:00", "10:00:00"),
                    status="Failed",
                ),
                entry("killed", attempt("08:30:00", "08:30:05", 0), status="Killed"),
            ]
        )
    )
    assert trace.truth.duration_s.tolist() == [600.0, 3600.0, 5.0]
    assert trace.truth.failures == {1: (30.0,)}
    assert trace.truth.outcome.tolist() == [Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED]
    assert trace.jobs.gpus.tolist() == [2, 2, 0]
    assert trace.observed is not None
    assert trace.observed.start_s.tolist() == [60.0, 10.0, 1800.0]
    assert trace.observed.end_s.tolist() == [660.0, 7200.0, 1805.0]
    assert trace.jobs.job(0).tenant == "vc1/u"
    assert {(odd.what, odd.done) for odd in trace.odd} == {
        ("attempts with different GPU counts", "kept, with that of the last"),
        ("no GPU asked for", "kept as CPU jobs"),
    }


# a job with one oddity, among ordinary ones; how it is counted, its run times, or that it is gone
@pytest.mark.parametrize(
    ("attempts", "what", "runs"),
    [
        ((), "no attempt", None),
        ((attempt(None, None),), "no attempt", None),
        ((attempt(None, "08:05:00"), attempt("08:10:00", "08:10:30")), "attempt without start", (30.0,)),
        ((attempt("08:10:00", None),), "still running at the end of the log", (6600.0,)),
        (
            (attempt("08:10:00", None), attempt("08:20:00", "08:21:00")),
            "earlier attempt without end",
            (0.0, 60.0),
        ),
    ],
)
def test_odd_attempts(read_text: Any, attempts: Any, what: str, runs: tuple[float, ...] | None) -> None:
    """The last stamp of the log is 10:00:00, the end of the job beside it."""
    trace = read_text(json.dumps([entry("beside", attempt("09:00:00", "10:00:00")), entry("odd", *attempts)]))
    assert what in {odd.what for odd in trace.odd}
    if runs is None:
        assert list(trace.jobs.ids) == ["beside"]
    else:
        assert (*trace.truth.failures.get(1, ()), float(trace.truth.duration_s[1])) == runs


def test_the_first_job_that_is_kept_is_at_zero(read_text: Any) -> None:
    trace = read_text(
        json.dumps([entry("gone", at="00:00:00"), entry("kept", attempt("08:01:00", "08:02:00"))])
    )
    assert trace.jobs.submit_s.tolist() == [0.0]
    assert trace.facts["epoch"] == "2017-10-01 08:00:00"
    assert np.isfinite(trace.truth.duration_s).all()
