"""The trace that is replayed: with drawn sizes and deadlines, without jobs that a table of speeds lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike

import numpy as np

from rota.errors import InputError
from rota.knowledge.unmeasured import UnmeasuredError
from rota.model.trace import DROPPED, EXAMPLES, OddRows, Trace
from rota.model.units import plural
from rota.traces import read
from rota.traces.deadlines import DrawnDeadlines, parse_deadlines, with_deadlines
from rota.traces.elastic import ElasticSizes, make_elastic, parse_sizes
from rota.worlds.simulated.speed import SpeedModel

_TOO_MANY = 0.5
"""A table that lacks this part of the jobs probably belongs to another trace."""


def trace_as_asked(
    trace: str | PathLike[str] | Trace,
    format: str | None,
    *,
    elastic: str | ElasticSizes | None,
    deadlines: str | DrawnDeadlines | None,
    seed: int = 0,
) -> Trace:
    """The trace itself or in a file; missing deadlines are drawn from `seed`.  Raises InputError."""
    whole = trace if isinstance(trace, Trace) else read(trace, format)
    if elastic is not None:
        whole = make_elastic(whole, parse_sizes(elastic) if isinstance(elastic, str) else elastic)
    if deadlines is not None:
        drawn = parse_deadlines(deadlines) if isinstance(deadlines, str) else deadlines
        whole = with_deadlines(whole, drawn, seed)
    return whole


def measured_jobs(
    trace: Trace, make: Callable[[Trace], SpeedModel | None]
) -> tuple[Trace, SpeedModel | None]:
    """`trace` without the jobs that the tables of `make` do not know, and its speeds.

    `Trace.odd` counts the jobs that are left out.
    Raises InputError, with the first of them, if half or more of the jobs are unknown.
    """
    left, total = trace, len(trace)
    while True:
        try:
            return left, make(left)
        except UnmeasuredError as error:
            kept = np.ones(len(left), dtype=np.bool_)
            kept[list(error.rows)] = False
            unknown = total - int(kept.sum())
            if unknown >= _TOO_MANY * total:
                many = f"; {unknown:,} of {plural(total, 'job')} are unknown to it" if unknown > 1 else ""
                raise InputError(f"{error}{many}") from None
            examples = tuple(f"job {left.jobs.ids[row]}" for row in error.rows[:EXAMPLES])
            done = f"{DROPPED}expected {error.expected}"
            odd = OddRows(
                f"job {left.jobs.ids[error.rows[0]]} {error.problem}", done, len(error.rows), examples
            )
            left = replace(left.take(np.flatnonzero(kept)), odd=(*left.odd, odd))
