"""The figures of a trace: by hand on a small one, and as published for the public ones."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from play import trace_of
from rota.model.jobs import JobTable, Outcome, RecordedRun, Truth
from rota.model.trace import OddRows, Trace
from rota.traces import read
from rota.traces.describe import Description, describe
from shared_data import data, needs_shared

ODD = (OddRows("zero duration", "kept", 2, ("row 3 (job a)",)),)


def small() -> Trace:
    """Five jobs over 100 s: one on CPUs, one on half a GPU, one of 4 GPUs that fails once before."""
    jobs = JobTable.build(
        ["a", "b", "c", "d", "e"],
        submit_s=[0.0, 0.0, 20.0, 60.0, 100.0],
        gpus=[1, 1, 4, 0, 2],
        gpus_max=[1, 1, 8, 0, 2],
        gpu_share=[1.0, 0.5, 1.0, 1.0, 1.0],
        deadline_s=[50.0, np.nan, np.nan, np.nan, np.nan],
        limit_s=[900.0, 900.0, np.nan, np.nan, np.nan],
        tenant=[0, 0, 1, 1, 1],
        tenant_names=("x", "y", "unused"),
        group=[0, 0, 1, -1, -1],
        group_names=("g", "h", "unused"),
    )
    truth = Truth.build(
        [3600.0, 3600.0, 1800.0, 10.0, np.nan],
        outcome=[Outcome.COMPLETED] * 3 + [Outcome.FAILED, Outcome.CANCELLED],
        failures={2: (900.0,)},
    )
    observed = RecordedRun(np.array([5.0, 0.0, 35.0, np.nan, 100.0]), np.full(5, np.nan))
    return Trace(jobs, truth, "small", "hand", observed, ODD, {"zone": "none"})


def test_counts_shares_and_hours_by_hand() -> None:
    figures = describe(small())
    assert (figures.jobs, figures.cpu_jobs) == (5, 1)
    assert figures.gpu_hours == pytest.approx(1 + 0.5 + 2)
    assert figures.failing_gpu_hours == pytest.approx(1)
    assert figures.single_gpu_share == 2 / 4
    assert figures.single_gpu_time_share == pytest.approx(1.5 / 3.5)
    assert figures.fractional_share == 1 / 4
    assert figures.gpu_counts == {0: 1, 1: 2, 2: 1, 4: 1}
    assert (figures.tenants, figures.groups, figures.workloads) == (2, 2, 0)
    assert (figures.with_deadline, figures.with_limit, figures.elastic) == (1, 2, 1)
    assert figures.outcomes == {"COMPLETED": 3, "FAILED": 1, "CANCELLED": 1}
    assert figures.odd == ODD


def test_times_by_hand() -> None:
    figures = describe(small())
    assert (figures.first_submit_s, figures.last_submit_s, figures.span_s) == (0, 100, 100)
    assert figures.mean_demand_gpus == pytest.approx(4.5 * 3600 / 100)
    assert figures.gap_mean_s == 25
    assert figures.gap_cv == pytest.approx(np.std([0, 20, 40, 40]) / 25)
    assert figures.durations is not None
    assert figures.durations.p50_s == pytest.approx(2700)  # between 1800 and 3600
    assert figures.unknown_durations == 1
    assert figures.waits is not None
    assert figures.waits.p50_s == pytest.approx(2.5)  # of 5, 0, 15, 0


def test_the_dictionary_is_json() -> None:
    loaded = json.loads(json.dumps(describe(small()).to_dict(), allow_nan=False))
    assert loaded["gpu_hours"] == pytest.approx(3.5)
    assert loaded["gpu_counts"] == {"0": 1, "1": 2, "2": 1, "4": 1}
    assert loaded["odd"][0]["what"] == "zero duration"
    assert loaded["durations"]["p50_s"] == pytest.approx(2700)


def shown(figures: Description) -> str:
    out = io.StringIO()
    Console(file=out, width=140).print(figures)
    return out.getvalue()


def test_the_table_says_what_there_is_and_nothing_else() -> None:
    text = shown(describe(small()))
    assert "3.5 + 1 in attempts that fail" in text
    assert "50.00 % of jobs, 42.86 % of GPU time" in text
    assert "odd: zero duration" in text
    assert "row 3 (job a)" in text
    assert "workloads" not in text


@pytest.mark.parametrize("jobs", [0, 1])
def test_traces_too_small_for_some_figures(jobs: int) -> None:
    figures = describe(small().take(np.arange(jobs)))
    assert figures.jobs == jobs
    assert figures.gap_cv is None
    assert figures.mean_demand_gpus is None
    assert "jobs" in shown(figures)
    json.dumps(figures.to_dict(), allow_nan=False)


# Figures published with the traces: jobs, GPU-hours, single-GPU share, most GPUs, p50, p90, p99, busy GPUs.
ITP = [
    ("01", 1_595, 22_740.1, 0.9592, 64, 8287.0, 29917.4, 52940.1, 28.1),
    ("02", 5_778, 123_748.4, 0.8544, 64, 6181.5, 56614.5, 220013.4, 86.3),
    ("03", 3_011, 165_442.5, 0.3368, 64, 9856.0, 55108.0, 183638.7, 139.7),
    ("04", 15_802, 705_682.9, 0.7546, 64, 7949.0, 29000.6, 257688.4, 494.6),
    ("05", 3_629, 14_303.1, 0.9548, 8, 7699.0, 16586.2, 59785.4, 10.1),
    ("06", 2_396, 123_878.7, 0.4478, 64, 4320.5, 54299.5, 288586.5, 86.6),
    ("07", 12_699, 366_799.8, 0.7760, 16, 7399.0, 55216.4, 392447.9, 257.1),
    ("09", 11_134, 39_000.8, 1.0000, 1, 11764.0, 23033.0, 26104.7, 31.0),
    ("10", 260, 4_023.5, 0.7423, 16, 17761.0, 68253.9, 129549.6, 5.1),
]


def assert_figures(
    figures: Description, jobs: int, hours: float, single: float, most: int, *percentiles_s: float
) -> None:
    assert figures.jobs == jobs
    assert figures.gpu_hours == pytest.approx(hours, abs=0.05)
    assert figures.single_gpu_share == pytest.approx(single, abs=5e-5)
    assert max(figures.gpu_counts) == most
    assert figures.durations is not None
    found = (figures.durations.p50_s, figures.durations.p90_s, figures.durations.p99_s)
    assert found == pytest.approx(percentiles_s, abs=0.051)


@needs_shared
@pytest.mark.shared
@pytest.mark.parametrize("row", ITP, ids=lambda row: f"cluster{row[0]}")
@pytest.mark.parametrize("folder", ["raw", "with_deadlines"])
def test_itp_clusters(
    folder: str, row: tuple[str, int, float, float, int, float, float, float, float]
) -> None:
    number, *expected, busy = row
    figures = describe(read(data(f"itp_elasticflow/{folder}/cluster{number}.csv.gz")))
    assert_figures(figures, *expected)
    assert figures.mean_demand_gpus == pytest.approx(busy, abs=0.051)
    assert figures.with_deadline == (figures.jobs if folder == "with_deadlines" else 0)


@needs_shared
@pytest.mark.shared
def test_itp_testbed_subset() -> None:
    figures = describe(read(data("itp_elasticflow/with_deadlines/195job.csv.gz")))
    assert_figures(figures, 195, 5_489.8, 0.6051, 16, 15625.0, 43999.4, 141633.2)


@needs_shared
@pytest.mark.shared
def test_philly_list() -> None:
    figures = describe(read(data("philly/philly_jobs_pollux.csv.gz")))
    assert_figures(figures, 82_247, 978_078.5, 0.9317, 128, 1144.0, 11264.8, 254758.4)
    assert figures.single_gpu_time_share == pytest.approx(1 - 0.8193, abs=5e-5)
    assert figures.tenants == 15
    assert figures.span_s == 9_408_690  # 2017-09-04 10:30:41 to 2017-12-22 08:02:11
    assert figures.mean_demand_gpus == pytest.approx(374, abs=0.5)
    published = {1: 76627, 2: 1818, 4: 1870, 8: 1643, 12: 7, 16: 199, 24: 7, 32: 67, 64: 6, 128: 3}
    assert figures.gpu_counts == published


@needs_shared
@pytest.mark.shared
def test_openb_default() -> None:
    trace = read(data("alibaba_openb/openb_pod_list_default.csv.gz"))
    figures = describe(trace)
    assert (figures.jobs, figures.jobs - figures.cpu_jobs) == (8_152, 7_064)
    assert figures.fractional_share == pytest.approx(0.4357, abs=5e-5)
    assert figures.single_gpu_share == pytest.approx(0.4357 + 0.5537, abs=1e-4)
    assert figures.gpu_hours == pytest.approx(51_470.7, abs=0.05)
    assert float(trace.jobs.gpus @ trace.jobs.gpu_share) == pytest.approx(6_086.8, abs=0.05)
    assert figures.waits is not None
    assert (figures.waits.p50_s, figures.waits.p99_s) == pytest.approx((2, 889.6), abs=0.05)
    assert figures.outcomes == {"COMPLETED": 5193 + 192, "FAILED": 1870, "CANCELLED": 897}


def printed(trace: Trace) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(describe(trace))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_is_told_job_by_job_is_counted() -> None:
    """A trace of 30,000 jobs with a fact about each still takes a page."""
    modes = {str(row): "gns" if row % 3 else "static" for row in range(120)}
    steps = {str(row): [[row, 1.0]] for row in range(1000)}
    text = printed(replace(small(), facts={"zone": "UTC", "mode": modes, "steps": steps}))
    assert "gns: 80  static: 40" in text
    assert "1,000 entries" in text
    assert "UTC" in text
    assert len(text.splitlines()) < 40


def test_without_durations_nothing_is_said_of_gpu_time() -> None:
    jobs = JobTable.build(["a", "b"], submit_s=[0.0, 9.0], gpus=[1, 2])
    trace = Trace(jobs, Truth.build([np.nan, np.nan]), "small", "hand")
    lines = dict(describe(trace).lines())
    assert lines["GPU-hours"] == "unknown"
    assert lines["single-GPU"] == "50.00 % of jobs"
    assert "mean demand" not in lines


def test_few_gpu_hours_are_not_none() -> None:
    """Seconds of a GPU were 0.0 hours, as in a table whose hours somebody took for seconds."""
    short = trace_of("A 2x3 B 1x30")
    assert dict(describe(short).lines())["GPU-hours"] == "0.01"


def test_seconds_are_told_in_words() -> None:
    """`span_s 2120056.355798092` was a line that nobody could read; dates stand where the trace has them."""
    undated = dict(describe(replace(small(), facts={"span_s": 2120056.355798092})).lines())
    assert undated["span"] == "24d 12h"
    assert undated["submitted"].startswith("0 s to ")
    facts = {"epoch": "2025-12-31 23:59:30", "time_zone": "UTC"}
    dated = dict(describe(replace(trace_of("A 1x5 B 1x5@86400"), facts=facts)).lines())
    assert dated["submitted"] == "2025-12-31 23:59 to 2026-01-01 23:59 (1d)"
