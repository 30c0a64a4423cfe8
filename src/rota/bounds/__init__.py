"""Entries beside the policies: bounds no schedule can beat, an ideal of fairness, what was observed.

None of these is a system: they see the future, divide GPUs at will, or only replay what a trace recorded. So
none makes decisions that a guard would pass; each turns a trace and a cluster into a record at once.

Bounds take jobs at the durations of the trace; elastic ones speed up in proportion to their GPUs.  A run with
another speed model, or that gives failing jobs up before the trace did, may finish earlier.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from difflib import get_close_matches

import numpy as np

from rota.bounds import all_at_once, fluid_share, srtf_relaxed
from rota.bounds.demand import RelaxedDemand, Schedule, demand_of
from rota.bounds.recorded import has_observed, observed
from rota.bounds.table import JobOutcomes, record_of
from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.record import BOUND as PREFIX
from rota.model.record import Record
from rota.model.trace import Trace

__all__ = ["NAMES", "PREFIX", "SUMMARIES", "compute", "has_observed", "observed"]

_BOUNDS: dict[str, tuple[Callable[[RelaxedDemand], Schedule], str]] = {
    "bound:all_at_once": (all_at_once.schedule, "Every job starts when submitted, as if GPUs had no end"),
    "bound:srtf_relaxed": (
        srtf_relaxed.schedule,
        "Below the mean JCT of any schedule: shortest first, relaxed",
    ),
    "bound:fluid_share": (fluid_share.schedule, "Every job holds its fair share of the GPUs at any moment"),
}

NAMES: tuple[str, ...] = tuple(_BOUNDS)
"""Names that `compute` knows; they are the policy names of the records."""

SUMMARIES: dict[str, str] = {name: summary for name, (_, summary) in _BOUNDS.items()}
"""One line of description for each name."""


def compute(name: str, trace: Trace, cluster: Cluster) -> Record:
    """The record of bound `name` (`bound:srtf_relaxed`, or without the prefix).

    Jobs that could never fit are rejected as a world does.  Raises InputError for an unknown name, or if
    the trace does not say how long a job runs.
    """
    key = name if name.startswith(PREFIX) else PREFIX + name
    if key not in _BOUNDS:
        close = get_close_matches(key, NAMES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(NAMES)}"
        raise InputError(f"there is no bound {name!r}; {hint}")
    began = time.process_time()
    demand = demand_of(trace, cluster)
    schedule = _BOUNDS[key][0](demand)
    seconds = time.process_time() - began
    return record_of(key, trace, cluster, _outcomes(demand, schedule), engine_seconds=seconds)


def _outcomes(demand: RelaxedDemand, schedule: Schedule) -> JobOutcomes:
    """Finished jobs did all their work from start to finish; a job that never fits is rejected at once."""
    ends = np.isfinite(schedule.finish_s)
    finish_s = np.where(ends, schedule.finish_s, np.nan)
    return JobOutcomes(
        start_s=np.where(ends, schedule.start_s, np.nan),
        finish_s=finish_s,
        until_s=finish_s,
        service_gpu_s=np.where(ends, demand.work_gpu_s, 0.0),
        rejected=~demand.feasible,
    )
