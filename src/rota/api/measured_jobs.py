"""The jobs of a trace that a table of speeds knows; the others are left out and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rota.errors import InputError
from rota.knowledge.unmeasured import UnmeasuredError
from rota.model.trace import DROPPED, EXAMPLES, OddRows, Trace
from rota.model.units import plural
from rota.worlds.simulated.speed import SpeedModel

_TOO_MANY = 0.5
"""Part of the jobs from which on a table is rather of another trace."""


def measured_jobs(
    trace: Trace, make: Callable[[Trace], SpeedModel | None]
) -> tuple[Trace, SpeedModel | None]:
    """`trace` without the jobs that the tables of `make` do not know, and its speeds.

    `Trace.odd` counts those that are left out.
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
