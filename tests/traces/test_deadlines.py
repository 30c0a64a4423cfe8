"""Deadlines drawn for traces that know none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import trace_of
from rota.errors import InputError
from rota.traces.deadlines import parse_deadlines, with_deadlines

JOBS = " ".join(f"J{i} 1x{10 + i}@{i}" for i in range(200))


def test_factors_lie_in_the_range():
    trace = trace_of(JOBS)
    drawn = with_deadlines(trace, parse_deadlines("0.5:1.5"), seed=3)
    factor = (drawn.jobs.deadline_s - trace.jobs.submit_s) / trace.truth.duration_s
    assert factor.min() >= 0.5
    assert factor.max() <= 1.5
    assert factor.std() > 0.2
    again = with_deadlines(trace, parse_deadlines("0.5:1.5"), seed=3)
    assert np.array_equal(drawn.jobs.deadline_s, again.jobs.deadline_s)
    assert "deadlines 0.5:1.5" in drawn.source


def test_a_part_of_the_jobs_and_their_own():
    trace = trace_of(JOBS)
    own = np.full(len(trace), np.nan)
    own[:5] = 1000.0
    trace = replace(trace, jobs=replace(trace.jobs, deadline_s=own))
    drawn = with_deadlines(trace, parse_deadlines("1:2:30%")).jobs.deadline_s
    assert (drawn[:5] == 1000.0).all()
    assert 35 <= (~np.isnan(drawn[5:])).sum() <= 80


@pytest.mark.parametrize("text", ["", "1", "2:1", "0:1", "1:2:0%", "1:2:120%", "1:2:30", "a:b", "1..2:3"])
def test_what_is_no_range(text):
    with pytest.raises(InputError, match=r"--deadlines.*LEAST:MOST"):
        parse_deadlines(text)
