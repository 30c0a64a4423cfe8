"""Traces that the simulated world cannot replay, and why."""

from __future__ import annotations

from rota.errors import InputError
from rota.model.trace import Trace


def refuse_unknown_durations(trace: Trace, total: list[float]) -> None:
    """Raise if a trace lacks durations and no speed model states the work."""
    for row, work in enumerate(total):
        if not work >= 0.0:
            raise InputError(
                f"{trace.source}: job {trace.jobs.ids[row]} has no duration "
                f"({trace.facts.get('duration', 'the cell is empty')}); expected a duration for each job, "
                "or, for a trace with iterations, --throughput with iterations per second"
            )


def refuse_uncounted_failures(trace: Trace, per_s: list[float]) -> None:
    """Raise if a job with failing attempts, recorded in seconds of work, has work in another unit."""
    row = next((row for row in trace.truth.failures if per_s[row] != per_s[row]), None)
    if row is not None:
        raise InputError(
            f"{trace.source}: job {trace.jobs.ids[row]} has attempts that fail after some seconds of work, "
            "and its speed model counts no seconds; expected --no-failures"
        )
