"""Step functions: exact where they are exact, and no extreme lost where they are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_toys import four_policies, record

from rota.reports.gantt import occupancy_grid
from rota.reports.occupancy import free_and_stranded, granted, held_devices, waiting, whole_run
from rota.reports.series import Steps, binned, cdf

EVENTS = st.lists(st.tuples(st.integers(0, 50), st.integers(-3, 3)), min_size=1, max_size=30)


def test_queue_counts_those_who_hold_nothing() -> None:
    # job 0 is preempted from 20 to 30; job 1 is rejected; job 2 never ends; job 3 is CPU only
    jobs = [
        {"submit_s": 0.0, "start_s": 10.0, "finish_s": 40.0, "gpus": 1},
        {"submit_s": 5.0, "finish_s": 5.0, "gpus": 99, "state": "REJECTED"},
        {"submit_s": 15.0, "start_s": 30.0, "gpus": 1, "state": "RUNNING"},
        {"submit_s": 20.0, "start_s": 22.0, "finish_s": 25.0, "gpus": 0},
    ]
    intervals = [
        {"job": 0, "start_s": 10.0, "end_s": 20.0, "devices": [0], "end": "preempted"},
        {"job": 0, "start_s": 30.0, "end_s": 40.0, "devices": [0]},
        {"job": 2, "start_s": 30.0, "end_s": 50.0, "devices": [1], "end": "running"},
    ]
    queue = waiting(record(jobs, intervals))
    at = {0: 1, 10: 0, 15: 1, 20: 3, 22: 2, 26: 2, 30: 0, 49: 0}
    assert {t: queue.at(np.array([float(t)]))[0] for t in at} == at


@given(EVENTS, st.integers(1, 12))
def test_bins_keep_the_integral_and_the_extremes(events: list[tuple[int, int]], bins: int) -> None:
    steps = Steps.from_events(*(np.array(column, dtype=float) for column in zip(*events, strict=True)))
    coarse = binned(steps, 0.0, 51.0, bins)
    assert coarse.mean.sum() * 51 / bins == pytest.approx(steps.integral(0.0, 51.0), abs=1e-6)
    seen = steps.within(0.0, 51.0).value
    assert (coarse.low.min(), coarse.high.max()) == (seen.min(), seen.max())
    assert (coarse.low <= coarse.mean + 1e-9).all()
    assert (coarse.mean <= coarse.high + 1e-9).all()


def test_a_moment_is_one_step() -> None:
    steps = Steps.from_events(np.array([3.0, 3.0, 5.0]), np.array([2.0, -1.0, -1.0]))
    assert steps.time_s.tolist() == [3.0, 5.0]
    assert steps.value.tolist() == [1.0, 0.0]
    assert steps.at(np.array([2.9, 3.0, 4.9, 5.0])).tolist() == [0.0, 1.0, 1.0, 0.0]


def test_cdf_keeps_both_ends() -> None:
    many = cdf(np.arange(10_000.0)[::-1], points=100)
    assert (many.value[0], many.value[-1], many.share[-1], len(many.value)) == (0.0, 9999.0, 1.0, 100)
    assert many.share == pytest.approx((many.value + 1) / 10_000)
    assert len(cdf(np.zeros(0)).value) == 0


def test_devices_shared_by_two_jobs_are_held_once() -> None:
    jobs = [{"submit_s": 0.0, "start_s": 0.0, "finish_s": 9.0, "gpus": 1}] * 3
    intervals = [
        {"job": 0, "start_s": 0.0, "end_s": 4.0, "devices": [5]},
        {"job": 1, "start_s": 2.0, "end_s": 6.0, "devices": [5]},
        {"job": 2, "start_s": 7.0, "end_s": 9.0, "devices": [5]},
    ]
    held = held_devices(record(jobs, intervals, nodes=(4, 4)))
    assert held.rows() == [(1, 0.0, 6.0), (1, 7.0, 9.0)]


def test_three_ways_of_counting_agree() -> None:
    """Granted GPU-seconds, free GPUs and the node grid come by different roads to one number."""
    run = four_policies(200, (8, 8, 4), span_s=40_000.0, mean_s=3000.0)[1]
    span = whole_run(run)
    total = run.jobs["service_gpu_s"].sum()
    free, stranded = free_and_stranded(run)
    grid = occupancy_grid(run, span, np.arange(3), 77)
    assert granted(run).integral(span.start_s, span.end_s) == pytest.approx(total)
    assert 20 * span.length_s - free.integral(span.start_s, span.end_s) == pytest.approx(total)
    assert grid.sum() * span.length_s / 77 == pytest.approx(total)
    assert 0 < stranded.integral(span.start_s, span.end_s) < free.integral(span.start_s, span.end_s)
    assert (grid <= np.array([[8], [8], [4]]) + 1e-9).all()
