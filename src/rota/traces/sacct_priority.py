"""Priorities of jobs, inferred from the QOS in a Slurm accounting dump.

A dump has the QOS of each job and the priority that the scheduler gave it, but not the priority of the QOS
itself. The scheduler's priority is a sum of age, size, share and QOS; a QOS is ranked above another if nearly
all of its jobs had a higher sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rota.model.columns import Floats
from rota.traces.table import TextTable, is_blank

BY_AGE = 2**31
"""Priorities above this count down from 2^32, one for each job: they only reflect the order of submission."""


def levels_of(jobs: TextTable) -> dict[str, Any]:
    """The column `priority`: the level of each job's QOS, 0 for the lowest; empty if unknown."""
    if not (jobs.has("QOS") and jobs.has("Priority")):
        return {}
    qos = jobs.text("QOS").str.strip_chars().to_list()
    cells = jobs.text("Priority").str.strip_chars()
    noted = np.full(len(jobs), np.nan)
    known = ~is_blank(cells)
    noted[known] = jobs.take(known).floats("Priority")
    noted[(noted == 0) | (noted >= BY_AGE)] = np.nan  # a held job has 0
    level = _levels({name: noted[[one == name for one in qos]] for name in set(qos)})
    return (
        {"priority": np.array([level[name] for name in qos], dtype=np.int64)} if any(level.values()) else {}
    )


def _levels(noted: dict[str, Floats]) -> dict[str, int]:
    """Level of each name: a new level begins if the lower quartile is above all upper quartiles before it."""
    known = {name: values[~np.isnan(values)] for name, values in noted.items()}
    bounds = {name: np.percentile(values, [25, 50, 75]) for name, values in known.items() if len(values)}
    level = dict.fromkeys(noted, 0)
    now, upper = 0, np.inf
    for name in sorted(bounds, key=lambda one: bounds[one][1]):
        low, _, high = bounds[name]
        if low > upper:
            now, upper = now + 1, high
        else:
            upper = high if upper == np.inf else max(upper, high)
        level[name] = now
    return level
