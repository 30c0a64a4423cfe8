"""A trace with every submission moved a little: an equal load with another course of events.

A policy's result on one trace depends partly on luck, such as which of two jobs came a minute earlier.
Replays of shaken traces show how much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rota.model.columns import Floats, read_only
from rota.model.job_columns import Deadline
from rota.model.trace import Trace

MOST_S = 1800.0
"""Most seconds that a submission is moved."""
MOST_PART = 0.01
"""Largest move as a part of the time between the first and the last submission; the smaller bound applies."""


def shaken(trace: Trace, seed: int) -> Trace:
    """`trace` with each submission moved independently, and its rows in their new order.

    Deadlines move with their jobs. The recorded run is dropped, because it belongs to the original
    submissions.
    """
    submit_s = trace.jobs.submit_s
    if not len(trace):
        return replace(trace, observed=None)
    first_s, last_s = float(submit_s.min()), float(submit_s.max())
    most_s = min(MOST_S, MOST_PART * (last_s - first_s))
    drawn = np.random.default_rng(seed).uniform(-most_s, most_s, len(trace))
    moved_s = np.clip(submit_s + drawn, first_s, last_s)
    for row in sorted(trace.jobs.after):  # no job comes before those that it has to wait for
        moved_s[row] = max([moved_s.item(row), *moved_s[list(trace.jobs.after[row])].tolist()])
    jobs = replace(
        trace.jobs,
        submit_s=read_only(moved_s),
        deadline_s=read_only(trace.jobs.deadline_s + moved_s - submit_s),
        deadlines=_moved(trace.jobs.deadlines, moved_s - submit_s),
    )
    return replace(trace, jobs=jobs, observed=None).by_submission()


def _moved(deadlines: Mapping[int, tuple[Deadline, ...]], by_s: Floats) -> Mapping[int, tuple[Deadline, ...]]:
    return {
        row: tuple(one._replace(at_s=one.at_s + by_s.item(row)) for one in several)
        for row, several in deadlines.items()
    }
