"""What differs from one possible future to the next: how wrong estimates are, and which jobs come.

The draws of future number r depend on r and the seed alone, not on the agreement: a difference between two
agreements is then due to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from rota.errors import InputError
from rota.forecast.altered import with_arrivals
from rota.forecast.futures import ForecastCase, ForecastRequest, make_case
from rota.forecast.remaining import Durations, RemainingTimes
from rota.forecast.units import WorkUnits
from rota.knowledge.needs import Knowledge, Provenance
from rota.model.columns import Floats, Ints
from rota.model.jobs import JobTable
from rota.scheduler.moments.frozen import Frozen
from rota.table.state import State
from rota.worlds.simulated.faults import Breakdowns, Fault, random_faults

ENOUGH = 30
"""The number of past jobs of a tenant from which on their own ratios are drawn from."""
MOST_ARRIVALS = 20_000
"""Jobs that are drawn for one future at most."""
DAY_S = 86400.0
DAYS = 3
"""Days of past from which on a stretch begins at the same hour as the moment."""


MOST_SIGMA = 20.0
"""With this spread one of six jobs takes 500 million times as long as estimated; beyond, numbers overflow."""


@dataclass(frozen=True)
class Misjudgement:
    """Ratio of what is really left of a job to its estimate: the estimate is the median."""

    sigma: float = 0.3
    """Standard deviation of its logarithm."""
    ratios: Mapping[str, Floats] = field(default_factory=dict)
    """Ratios of past jobs by tenant: those of a tenant with at least `ENOUGH` are drawn from instead."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.sigma <= MOST_SIGMA:
            raise InputError(f"sigma: {self.sigma:g} is no spread; expected 0 to {MOST_SIGMA:g}")

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
_NOBODY: Ints = np.empty(0, dtype=np.int64)


def drawn_totals(
    times: RemainingTimes, done_s: Floats, is_sampled: Mapping[int, float], ratios: Floats
) -> Floats:
    """How long each of `times` really takes, in seconds at its request.

    What has been done counts as it is, and `ratios` scale what is left of it; a run time that was drawn from
    past jobs (`is_sampled`, by place) is real already.
    """
    totals: Floats = done_s + np.maximum(times.told_s - done_s, 0.0) * ratios
    for place, total_s in is_sampled.items():
        totals[place] = max(total_s, done_s.item(place))
    return totals


class JoinedMoment(NamedTuple):
    """A moment with jobs to come."""

    moment: Frozen
    like: Ints
    """Row of the moment that each of them is like."""
    run_s: Floats
    """How long each takes."""


@dataclass(frozen=True)
class SampledArrivals:
    """Jobs to come: those of some stretch of the past once more, from the same hour of the day.

    So they keep their bursts and what each asks for (a circular block bootstrap).  Where less than `ENOUGH`
    have come, they come at the same mean rate, each like any of the past jobs.
    """

    per_s: float
    rows: Ints
    """Rows of the moment that are drawn from, in order of submission."""
    run_s: Floats
    """How long each of them takes at its request, as far as is known."""
    submit_s: Floats
    """When each came, counted from the first."""
    span_s: float
    """Seconds from the first until the moment."""

    @classmethod
    def of(cls, state: State, durations: Durations, units: WorkUnits | None = None) -> SampledArrivals:
        """Arrivals as frequent as so far, and like all that were submitted; none if less than two were.

        `units` are the units of their work; seconds run where their work has no lasting unit.
        """
        count = state.submitted
        submit_s = state.jobs.submit_s[:count]
        span_s = state.now - submit_s.min(initial=state.now)
        rows = np.arange(count)
        work_s = state.work_s(rows) if units is None else units.done_s(state, rows)
        told = durations.estimate(state.jobs, rows, work_s)
        is_live = np.isin(rows, np.concatenate((state.waiting.rows, state.running.rows, [*state.held])))
        run_s = np.where(is_live | (work_s <= 0.0), told.told_s, work_s)
        ends = np.isfinite(run_s)
        rate = float((count - 1) / span_s) if span_s > 0.0 else 0.0
        rows = rows[ends]
        came_s = submit_s[rows] - (state.now - span_s)
        return cls(rate if len(rows) else 0.0, rows, run_s[rows], came_s, float(span_s))

    def tell(self, ahead_s: float) -> bool:
        """True if enough jobs came, over a time long enough, to predict which come within `ahead_s`."""
        return len(self.rows) >= ENOUGH and 0.0 < ahead_s <= self.span_s

    def join(self, moment: Frozen, until_s: float, rng: Generator) -> JoinedMoment:
        """The moment with the jobs that come until `until_s`."""
        now = float(moment.packed["state"]["now"])
        ahead_s = until_s - now
        if not (self.per_s > 0.0 and 0.0 < ahead_s < math.inf):
            return JoinedMoment(moment, _NOBODY, _NONE)
        draw = self._again if len(self.rows) >= ENOUGH else self._any
        places, after_s = draw(ahead_s, rng)
        rows = self.rows[places]
        return JoinedMoment(with_arrivals(moment, rows, now + after_s), rows, self.run_s[places])

    def _any(self, ahead_s: float, rng: Generator) -> tuple[Ints, Floats]:
        """Places in `rows`, and seconds from the moment on, at the same mean rate as so far."""
        count = min(int(rng.poisson(self.per_s * ahead_s)), MOST_ARRIVALS)
        after_s = np.sort(ahead_s * rng.random(count))
        return rng.integers(0, len(self.rows), count), after_s

    def _again(self, ahead_s: float, rng: Generator) -> tuple[Ints, Floats]:
        """Places and seconds of the stretch from some moment of the past on; the past is treated as a
        circle."""
        days = int(self.span_s // DAY_S)
        back_s = DAY_S * rng.integers(1, days + 1) if days >= DAYS else self.span_s * rng.random()
        begin_s = self.span_s - back_s
        after_s = np.mod(self.submit_s - begin_s, self.span_s)
        order = np.argsort(after_s, kind="stable")
        rounds = range(math.ceil(min(ahead_s / self.span_s, MOST_ARRIVALS)))
        places = np.concatenate([order for _ in rounds])
        after_s = np.concatenate([after_s[order] + number * self.span_s for number in rounds])
        within = np.flatnonzero(after_s < ahead_s)[:MOST_ARRIVALS]
        return places[within], after_s[within]


def future_of(
    moment: Frozen,
    asked: ForecastRequest,
    arrivals: SampledArrivals | None,
    until_s: float,
    seed: int,
    number: int,
    breakdowns: Breakdowns | None = None,
) -> ForecastCase:
    """Future `number` of a moment: with the jobs that come and the nodes that are lost until `until_s`, and
    one draw of all durations."""
    known = len(moment.packed["jobs"]["ids"])
    come = JoinedMoment(moment, _NOBODY, _NONE)
    if arrivals is not None:
        come = arrivals.join(moment, until_s, np.random.default_rng([seed, number, 1]))
    given = {**asked.durations.given_s, **dict(enumerate(come.run_s.tolist(), known))}
    durations = replace(asked.durations, given_s=given)
    case = make_case(come.moment, replace(asked, durations=durations, samples=1), 1)
    drawn = case.estimate.draw(np.random.default_rng([seed, number, 2]))
    told_s = _as_told(case.told_s, moment, come.like, known)
    faults = _faults(case.state, breakdowns, until_s, np.random.default_rng([seed, number, 6]))
    return replace(case, draws=(drawn,), told_s=told_s, faults=faults)


def _faults(state: State, breakdowns: Breakdowns | None, until_s: float, rng: Generator) -> tuple[Fault, ...]:
    """Losses of the nodes that are there at the moment; what is away stays away."""
    if breakdowns is None:
        return ()
    drawn = random_faults(state.cluster, until_s - state.now, rng, **breakdowns._asdict())
    away = {*state.occupancy.down_nodes, *state.cluster.gone}
    there = (fault for fault in drawn if fault.node not in away)
    return tuple(Fault(one.node, state.now + one.at_s, state.now + one.until_s) for one in there)


def _as_told(told_s: Floats, moment: Frozen, like: Ints, known: int) -> Floats:
    """Durations that the policy receives for jobs to come: those of the jobs they are like, not the truth."""
    entry: Any = moment.packed["knowledge"].get(Knowledge.DURATION.value)
    if not entry or entry["provenance"] == Provenance.ORACLE:
        return told_s
    as_told = told_s.copy()
    as_told[known:] = np.asarray(entry["values"])[like]
    return as_told
