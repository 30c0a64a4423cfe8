"""EDF: the examples of its page, and sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import finishes, play, trace_of

NONE = np.nan


@pytest.mark.parametrize(
    ("jobs", "due_s", "ends"),
    [
        ("A 4x10 B 4x5@1", (30.0, 10.0), {"A": 15, "B": 6}),
        ("A 4x10 B 4x5@1", (12.0, 20.0), {"A": 10, "B": 15}),
        ("A 4x10 B 4x5", (5.0, 10.0), {"A": 10, "B": 15}),
        ("A 2x10 B 4x5", (NONE, 20.0), {"A": 15, "B": 5}),
        ("A 2x10 B 2x10 C 4x5", (NONE, 40.0, 50.0), {"A": 10, "B": 10, "C": 15}),
    ],
    ids=[
        "preempts",
        "is due first",
        "late comes first all the same",
        "no deadline",
        "what does not fit is passed by",
    ],
)
def test_examples_of_the_page(jobs, due_s, ends):
    trace = trace_of(jobs)
    trace = replace(trace, jobs=replace(trace.jobs, deadline_s=np.array(due_s)))
    assert finishes(play("edf", trace)) == pytest.approx(ends)


@pytest.mark.parametrize("size", ["fastest", "most"])
def test_sizes_in_order_of_deadlines(size):
    """Speed in proportion: the first takes all four GPUs, the second follows."""
    trace = trace_of("A 1x8 B 1x8", gpus_min=1, gpus_max=4)
    trace = replace(trace, jobs=replace(trace.jobs, deadline_s=np.array([30.0, 20.0])))
    assert finishes(play(f"edf:size={size}", trace)) == pytest.approx({"B": 2.0, "A": 4.0})
