"""What differs from one possible future to the next: how wrong estimates are, and who else comes.

The draws of future number r depend on r and the seed alone, not on the agreement that is asked about: what
differs between two agreements is then due to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from rota.errors import InputError
from rota.forecast.altered import with_arrivals
from rota.forecast.remaining import Durations, RemainingTimes
from rota.model.columns import Floats, Ints
from rota.model.jobs import JobTable
from rota.scheduler.moments.frozen import Frozen
from rota.table.state import State

ENOUGH = 30
"""Past jobs of a tenant from which on their own ratios are drawn from."""
MOST_ARRIVALS = 20_000
"""Jobs that are drawn for one future at most."""


@dataclass(frozen=True)
class Misjudgement:
    """Ratio of what is really left of a job to what is estimated: the estimate is the median."""

    sigma: float = 0.3
    """Standard deviation of its logarithm."""
    ratios: Mapping[str, Floats] = field(default_factory=dict)
    """Ratios of past jobs by tenant: those of a tenant with at least `ENOUGH` are drawn from instead."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.sigma < math.inf:
            raise InputError.at(f"{self.sigma:g} is no spread", field="sigma", expected="0 or more")

    def draw(self, jobs: JobTable, rows: Ints, rng: Generator) -> Floats:
        """A ratio for each of `rows`."""
        drawn = np.exp(self.sigma * rng.standard_normal(len(rows)))
        if not self.ratios:
            return drawn
        place = rng.random(len(rows))
        for i, row in enumerate(rows.tolist()):
            past = self.ratios.get(jobs.name_of("tenant", row), _NONE)
            if len(past) >= ENOUGH:
                drawn[i] = past.item(int(place[i] * len(past)))
        return drawn


_NONE: Floats = np.empty(0)


def drawn_totals(
    times: RemainingTimes, done_s: Floats, is_sampled: Mapping[int, float], ratios: Floats
) -> Floats:
    """How long each of `times` really takes, in seconds at its request.

    What has been done counts as it is, `ratios` change what is left of it; a run time that was drawn from
    past jobs (`is_sampled`, by place) is one already.
    """
    totals: Floats = done_s + np.maximum(times.told_s - done_s, 0.0) * ratios
    for place, total_s in is_sampled.items():
        totals[place] = max(total_s, done_s.item(place))
    return totals


@dataclass(frozen=True)
class Arrivals:
    """Jobs to come: a Poisson process, each like one of those that have come so far."""

    per_s: float
    rows: Ints
    """Rows of the moment that are drawn from."""
    run_s: Floats
    """How long each of them takes at its request, as far as is known."""

    @classmethod
    def of(cls, state: State, durations: Durations) -> Arrivals:
        """As often as so far, and like all that were submitted; none if less than two were."""
        count = state.submitted
        submit_s = state.jobs.submit_s[:count]
        span_s = state.now - submit_s.min(initial=state.now)
        rows = np.arange(count)
        work_s = state.work_s(rows)
        told = durations.estimate(state.jobs, rows, work_s)
        is_live = np.isin(rows, np.concatenate((state.waiting.rows, state.running.rows, [*state.held])))
        run_s = np.where(is_live | (work_s <= 0.0), told.told_s, work_s)
        ends = np.isfinite(run_s)
        rate = float((count - 1) / span_s) if span_s > 0.0 else 0.0
        return cls(rate if ends.any() else 0.0, rows[ends], run_s[ends])

    def join(self, moment: Frozen, until_s: float, rng: Generator) -> tuple[Frozen, Floats]:
        """The moment with those that come until `until_s`, and how long each of them is said to take."""
        now = float(moment.packed["state"]["now"])
        span_s = until_s - now
        if not (self.per_s > 0.0 and 0.0 < span_s < math.inf):
            return moment, _NONE
        count = min(int(rng.poisson(self.per_s * span_s)), MOST_ARRIVALS)
        submit_s = np.sort(now + span_s * rng.random(count))
        drawn = rng.integers(0, len(self.rows), count)
        return with_arrivals(moment, self.rows[drawn], submit_s), self.run_s[drawn]
