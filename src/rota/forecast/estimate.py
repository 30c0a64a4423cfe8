"""When one job is expected to start, under the policy in force: what `rota why` and a dry run tell.

The moment is forked as for a forecast, but each fork ends when the job has started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.errors import InputError
from rota.forecast.compare import Range, policy_in_force, ranges, why_endless
from rota.forecast.futures import Case, ForecastRequest, Run, make_case, play_all
from rota.model.units import plural
from rota.scheduler.moments.frozen import Frozen
from rota.table.state import Phase


@dataclass(frozen=True)
class StartEstimate:
    """When one job is expected to start; moments in seconds since the world's epoch."""

    start: Range
    position: int | None
    """Among the jobs that do not run now, in order of expected start; 1 is the next.

    None if it runs, or if it does not start.
    """
    basis: str
    """Where the estimate comes from, or why there is none."""


def estimate_start(moment: Frozen, row: int, asked: ForecastRequest | None = None) -> StartEstimate:
    """When `row` (which may be one that `with_job` has appended) starts next.

    A job that runs has its first start.  Raises InputError if `row` does not live at the moment.
    """
    asked = asked or ForecastRequest()
    spec = policy_in_force(moment)
    case = make_case(moment, asked, 1, asked.extra_gpus)
    place = int(np.searchsorted(case.rows, row))
    if place == len(case.rows) or case.rows[place] != row:
        raise InputError.at(f"job {row} does not live at this moment", field="row", expected="a live job")
    if case.state.phase[row] == Phase.RUNNING:
        return StartEstimate(Range(case.state.first_start_s.item(row)), None, "it runs")
    runs = play_all(case, spec, moment.memory, asked.budget_s, until_start=row)
    start = ranges(np.array([[run.start_s[place]] for run in runs]))[0]
    if start.at_s is None:
        waiting = [run for run in runs if np.isinf(run.start_s[place])]
        return StartEstimate(start, None, f"it {why_endless(case, waiting, row)}")
    return StartEstimate(start, _position(case, runs, place), _basis(case, len(runs), str(spec)))


def _position(case: Case, runs: Sequence[Run], place: int) -> int:
    """The median over the runs of one more than the jobs that start before it."""
    waits = case.state.phase[case.rows] != Phase.RUNNING
    earlier = case.rows < case.rows[place]
    before = []
    for run in runs:
        own = run.start_s[place]
        sooner = (run.start_s < own) | ((run.start_s == own) & earlier)
        before.append(int((sooner & waits).sum()))
    return 1 + int(np.quantile(before, 0.5, method="inverted_cdf"))


_WORDS = {
    "given": "told by the job",
    "user": "from time limits",
    "predicted": "from similar jobs",
    "history": "drawn from past jobs",
    "outrun": "longer than all known runs",
    "guess": "guessed",
    "endless": "without end",
}


def _basis(case: Case, samples: int, policy: str) -> str:
    """Whose durations the estimate stands on."""
    counts = case.estimate.counts()
    parts = ", ".join(f"{count} {_WORDS[basis]}" for basis, count in counts.items())
    times = f", {samples} samples" if samples > 1 else ""
    jobs = plural(len(case.rows), "job")
    return f"simulated under {policy} with the durations of {jobs}: {parts}{times}"
