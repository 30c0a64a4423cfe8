"""Traces with submissions moved a little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import trace_of
from rota.model.job_columns import Deadline
from rota.traces.shaking import MOST_PART, shaken

TRACE = trace_of(" ".join(f"J{i} 1x{10 + i}@{40 * i}" for i in range(100)))
SPAN_S = 40.0 * 99


def by_id(trace):
    return dict(zip(trace.jobs.ids, trace.jobs.submit_s.tolist(), strict=True))


def test_moves_a_little_and_keeps_the_jobs():
    moved = shaken(TRACE, 1)
    before, after = by_id(TRACE), by_id(moved)
    change = np.array([after[id] - before[id] for id in before])
    assert np.abs(change).max() <= MOST_PART * SPAN_S
    assert change.std() > 0.3 * MOST_PART * SPAN_S
    assert (np.diff(moved.jobs.submit_s) >= 0).all()
    assert moved.jobs.submit_s.min() >= 0.0
    assert moved.jobs.submit_s.max() <= SPAN_S, "the load stays what it was"
    durations = dict(zip(moved.jobs.ids, moved.truth.duration_s.tolist(), strict=True))
    assert durations == dict(zip(TRACE.jobs.ids, TRACE.truth.duration_s.tolist(), strict=True))


def test_a_seed_is_a_course_of_events():
    assert by_id(shaken(TRACE, 1)) == by_id(shaken(TRACE, 1)) != by_id(shaken(TRACE, 2))


def test_deadlines_move_along_and_nobody_overtakes_whom_it_waits_for():
    row = 50
    jobs = replace(
        TRACE.jobs,
        deadline_s=TRACE.jobs.submit_s + 100.0,
        deadlines={row: (Deadline(2100.0, 1.0), Deadline(2200.0, 0.5))},
        after={row: (row - 1,)},
    )
    for seed in range(20):
        moved = shaken(replace(TRACE, jobs=jobs), seed).jobs
        assert np.allclose(moved.deadline_s - moved.submit_s, 100.0)
        (now,) = (place for place, id in enumerate(moved.ids) if id == f"J{row}")
        ahead_s = [one.at_s - moved.submit_s[now] for one in moved.deadlines[now]]
        assert ahead_s == pytest.approx([100.0, 200.0])
        (before,) = moved.after[now]
        assert moved.ids[before] == f"J{row - 1}"
        assert before < now


def test_an_empty_trace_stays_empty():
    nobody = TRACE.take(np.array([], dtype=np.int64))
    assert len(shaken(nobody, 1)) == 0
