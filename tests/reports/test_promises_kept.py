"""Promised deadlines in reports: kept, broken and by whom, and the picture of the time to spare."""

from __future__ import annotations

import numpy as np
import pytest
from report_toys import record

from rota.reports.deadlines_kept import Promises, kept_over_time
from rota.reports.figures import kept_chart, slack_chart
from rota.reports.report import render
from rota.reports.sample import Sample
from rota.reports.summary import summarise

JOBS = [
    {"submit_s": 0.0, "finish_s": 50.0, "promised_s": 80.0, "state": "COMPLETED"},
    {"submit_s": 0.0, "finish_s": 70.0, "promised_s": 70.0, "state": "COMPLETED"},
    {"submit_s": 0.0, "finish_s": 40.0, "promised_s": 30.0, "state": "COMPLETED"},
    {"submit_s": 10.0, "finish_s": 90.0, "promised_s": 60.0, "state": "COMPLETED"},
    {"submit_s": 0.0, "finish_s": 20.0, "promised_s": 90.0, "state": "FAILED"},
    {"submit_s": 0.0, "finish_s": 95.0, "promised_s": None, "state": "COMPLETED"},
]
LOST = [{"job": 5, "start_s": 0.0, "end_s": 45.0, "devices": [0], "end": "lost"}]


def test_who_broke_a_promise() -> None:
    """Job 3 was on its way when a node was lost, job 2 was to be done before."""
    summary = summarise(record(JOBS, LOST)).values
    assert summary["promises"] == 5
    assert summary["promises_kept_share"] == pytest.approx(2 / 5)
    assert summary["promises_broken_by_faults"] == 1
    assert summary["promises_broken_by_jobs"] == 1
    assert summary["promises_broken_otherwise"] == 1


def test_without_promises_there_is_no_share_and_no_picture() -> None:
    plain = record([{**job, "promised_s": None} for job in JOBS])
    summary = summarise(plain).values
    assert (summary["promises"], summary["promises_kept_share"]) == (0, None)
    assert slack_chart([plain]) is None
    assert kept_chart([plain]) is None


def test_promises_are_settled_one_by_one() -> None:
    """When its job ends, or when the moment passes: at 20 (failed), 30 and 60 (late), 50 and 70 (kept)."""
    steps = kept_over_time(Sample.of(record(JOBS, LOST)), 0.0)
    assert steps is not None
    assert steps.time_s.tolist() == [0.0, 20.0, 30.0, 50.0, 60.0, 70.0]
    assert steps.value == pytest.approx([1.0, 0.0, 0.0, 1 / 3, 1 / 4, 2 / 5])
    chart = kept_chart([record(JOBS, LOST, policy="elasticflow")])
    assert chart is not None
    assert chart.text == "Promises kept, of those settled so far. In the end: elasticflow 40%."


def test_the_picture_begins_with_what_was_broken_or_just_kept() -> None:
    made = Promises.of(Sample.of(record(JOBS, LOST)))
    np.testing.assert_array_equal(made.kept, [True, True, False, False, False])
    chart = slack_chart([record(JOBS, LOST, policy="elasticflow")])
    assert chart is not None
    curve = chart.curves[0]
    assert (curve.y[0], curve.y[-1]) == (pytest.approx(4 / 5), 1.0)
    assert chart.text == "Promised deadlines kept: elasticflow 2 of 5. Median time to spare: elasticflow 15s."
    assert "Promised deadlines" in render([record(JOBS, LOST, policy="elasticflow")])
