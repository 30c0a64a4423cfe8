"""Chronus workloads: minutes, strict and soft deadlines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rota.model.job_columns import Deadline
from rota.traces import read
from shared_data import data, needs_shared, reference

HEAD = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,"
    "expect_time_list,expect_value_list,best_effort,job_type\n"
)


def test_kinds_of_deadline(read_text: Any) -> None:
    trace = read_text(
        HEAD
        + "0,vc_a,1,2,900,vgg16,30,1,40-60,10-8,0,soft\n"
        + "1,vc_b,0,1,900,vgg16,30,1,40,10,0,strict\n"
        + "2,vc_a,4,3,900,alexnet,30,1,3,10,1,best\n"
    )
    assert list(trace.jobs.ids) == ["1", "0", "2"]
    assert trace.jobs.submit_s.tolist() == [60, 120, 180]
    assert trace.jobs.deadline_s.tolist() == pytest.approx([60 + 2400, 120 + 2400, np.nan], nan_ok=True)
    assert trace.jobs.deadlines == {1: (Deadline(2520.0, 10.0), Deadline(3720.0, 8.0))}
    assert trace.truth.duration_s.tolist() == [1800] * 3
    assert {odd.what: odd.count for odd in trace.odd} == {
        "no GPU asked for": 1,
        "submitted before the row above it": 1,
    }


@needs_shared
@pytest.mark.shared
def test_the_strict_file() -> None:
    trace = read(data("chronus/trace_job_Philly_SLO.csv.gz"))
    slack = (trace.jobs.deadline_s - trace.jobs.submit_s) / trace.truth.duration_s
    minutes = trace.truth.duration_s / 60
    assert (trace.format, len(trace)) == ("chronus", 30940)
    assert {odd.what: odd.count for odd in trace.odd}["no GPU asked for"] == 205
    assert np.median(slack) == pytest.approx(1.967, abs=6e-4)
    assert np.percentile(minutes, [50, 90, 99]) == pytest.approx([60, 675.1, 3222], abs=0.06)
    assert np.mean(trace.jobs.gpus == 1) == pytest.approx(0.9153, abs=6e-5)


@needs_shared
@pytest.mark.shared
def test_the_mixed_file() -> None:
    trace = read(data("chronus/trace_job_Philly_MIX2.csv.gz"))
    soft = trace.jobs.deadlines
    assert (len(trace), len(soft), int(np.isnan(trace.jobs.deadline_s).sum())) == (30940, 18525, 3139)
    assert {odd.what: odd.count for odd in trace.odd}["no GPU asked for"] == 194


@needs_shared
@pytest.mark.shared
def test_the_first_500() -> None:
    assert (
        len(read(reference("tiresias-elasticflow-lucid/workloads/chronus_phillySLO_first500.csv.gz"))) == 500
    )
