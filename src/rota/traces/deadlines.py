"""Deadlines for the jobs of a trace that knows none, drawn around their durations.

Source    Gu et al., "ElasticFlow", ASPLOS 2023, section 6.1: the moment of submission plus the duration at
          the GPUs asked for, times a factor drawn evenly between 0.5 and 1.5

`0.5:1.5` gives a deadline to every job without one; `0.5:1.5:30%` to 30 % of them, chosen at random.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from rota.errors import InputError
from rota.model.columns import read_only
from rota.model.trace import Trace


@dataclass(frozen=True)
class DrawnDeadlines:
    """Parameters for drawing deadlines."""

    least: float
    """Smallest factor on a job's duration."""
    most: float
    share: float = 1.0
    """Part of the jobs that get a deadline."""

    def __str__(self) -> str:
        return f"{self.least:g}:{self.most:g}" + ("" if self.share == 1.0 else f":{100 * self.share:g}%")


def parse_deadlines(text: str) -> DrawnDeadlines:
    """Read `0.5:1.5` or `0.5:1.5:30%`."""
    match = re.fullmatch(r"([\d.]+):([\d.]+)(?::([\d.]+)%)?", text.strip())
    try:
        if match is None:
            raise ValueError
        least, most, share = float(match[1]), float(match[2]), float(match[3] or 100.0) / 100.0
        if not (0.0 < least <= most and 0.0 < share <= 1.0):
            raise ValueError
    except ValueError:
        expected = "LEAST:MOST[:PART%], factors of the duration such as 0.5:1.5 or 1.2:3:50%"
        raise InputError.at(f"{text!r} is no range", field="--deadlines", expected=expected) from None
    return DrawnDeadlines(least, most, share)


def with_deadlines(trace: Trace, drawn: DrawnDeadlines, seed: int = 0) -> Trace:
    """`trace` with deadlines for jobs of known duration that have none; its source records this.

    Equal seeds draw equal deadlines; jobs with a deadline of their own keep it.
    """
    rng, jobs = np.random.default_rng(seed), trace.jobs
    factor = rng.uniform(drawn.least, drawn.most, len(trace))
    chosen = (rng.random(len(trace)) < drawn.share) & np.isnan(jobs.deadline_s)
    due_s = jobs.submit_s + factor * np.asarray(trace.truth.duration_s)
    deadline_s = read_only(np.where(chosen, due_s, jobs.deadline_s))
    return replace(
        trace, jobs=replace(jobs, deadline_s=deadline_s), source=f"{trace.source} (deadlines {drawn})"
    )
