"""When one job is expected to start, under the policy in force: shown by `rota why` and a dry run.

The moment is forked as for a forecast, but each fork ends when the job has started.  A first look, at few
futures without new jobs, says how far ahead to look; then new jobs come in every future, as they did in some
stretch of the past: a policy that is not first come, first served lets some of them go first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rota.errors import InputError
from rota.forecast.compare import Range, policy_in_force, ranges, why_endless
from rota.forecast.futures import JOBS_SAMPLED, ForecastCase, ForecastRequest, Run, make_case, play_all
from rota.forecast.sampling import SampledArrivals, future_of
from rota.model.units import plural
from rota.model.words import BASES
from rota.scheduler.moments.frozen import Frozen
from rota.scheduler.policy import PolicySpec
from rota.table.state import Phase

FIRST_LOOK = 3
"""Number of futures that decide how far ahead to look."""
OUTSIDE = 0.05
"""Part of the futures in which it starts before the stated range, and as many after it."""
AHEAD = 4.0
"""How far ahead to look, in multiples of the latest start in the first look."""


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
    runs, come = _runs(moment, case, spec, asked, place)
    start = ranges(np.array([[run.start_s[place]] for run in runs]), OUTSIDE)[0]
    if start.at_s is None:
        waiting = [run for run in runs if np.isinf(run.start_s[place])]
        return StartEstimate(start, None, f"it {why_endless(case, waiting, row)}")
    return StartEstimate(start, _position(case, runs, place), _basis(case, len(runs), str(spec), come))


def _runs(
    moment: Frozen, case: ForecastCase, spec: PolicySpec, asked: ForecastRequest, place: int
) -> tuple[list[Run], bool]:
    """Futures of the moment until the live job at `place` has started, and whether new jobs come in them."""
    begin_s, row = time.monotonic(), int(case.rows[place])
    few = replace(case, draws=case.draws[:FIRST_LOOK])
    part_s = asked.budget_s / 4.0 if len(case.draws) > 1 else asked.budget_s
    first = play_all(few, spec, moment.memory, part_s, until_start=row)
    if first[0].is_cut and len(case.draws) > 1:  # a long queue: use the time left without new jobs
        return play_all(case, spec, moment.memory, asked.budget_s - part_s, until_start=row), False
    ahead_s = max(run.start_s.item(place) for run in first) - case.state.now
    arrivals = SampledArrivals.of(case.state, asked.durations, case.units)
    left_s = asked.budget_s - (time.monotonic() - begin_s)
    if not arrivals.tell(ahead_s):
        rest = replace(case, draws=case.draws[len(first) :])
        return first + play_all(rest, spec, moment.memory, left_s, until_start=row), False
    samples = max(min(asked.samples, JOBS_SAMPLED // len(case.rows)), 1)
    deadline_s = begin_s + asked.budget_s
    ahead_s = min(AHEAD * ahead_s, arrivals.span_s)
    runs: list[Run] = []
    while len(runs) < samples and (not runs or time.monotonic() < deadline_s):
        until_s = case.state.now + ahead_s
        future = future_of(moment, asked, arrivals, until_s, asked.seed, len(runs))
        left_s = max(deadline_s - time.monotonic(), 0.0)
        run = play_all(future, spec, moment.memory, left_s, until_start=row)[0]
        if run.is_cut:
            break  # the time is over, and a run that was cut off would distort the range
        if run.start_s.item(place) > until_s and ahead_s < arrivals.span_s:
            ahead_s = min(AHEAD * ahead_s, arrivals.span_s)  # it would have waited for more of them
        else:
            runs.append(run)
    return (runs, True) if runs else (first, False)


def _position(case: ForecastCase, runs: Sequence[Run], place: int) -> int:
    """The median over the runs of one more than the live jobs that start before it."""
    waits = case.state.phase[case.rows] != Phase.RUNNING
    earlier = case.rows < case.rows[place]
    before = []
    for run in runs:
        starts, own = run.start_s[: len(case.rows)], run.start_s[place]
        sooner = (starts < own) | ((starts == own) & earlier)
        before.append(int((sooner & waits).sum()))
    return 1 + int(np.quantile(before, 0.5, method="inverted_cdf"))


def _basis(case: ForecastCase, samples: int, policy: str, come: bool) -> str:
    """The source of the durations behind the estimate, and which further jobs were assumed to come."""
    counts = case.estimate.counts()
    parts = ", ".join(f"{count} {BASES[basis]}" for basis, count in counts.items())
    times = f", {samples} samples" if samples > 1 else ""
    jobs = plural(len(case.rows), "job")
    others = "; others come as they have before" if come else ""
    return f"simulated under {policy} with the durations of {jobs}: {parts}{others}{times}"
