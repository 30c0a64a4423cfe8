"""Which deadline can be promised to a job: many futures of a moment, with the job and without it.

Source    Betser, "Improving Service Level Agreements for a Job Scheduler by Visualizing Simulations", M.Eng.
          thesis, MIT 2012: choose an agreement by seeing what the scheduler would do; all formulas are ours

`promise` plays the policy in force on from the moment, once for each agreement and sample, and once without
the job: estimates are wrong by a drawn factor, other jobs come, and the same number of a sample means the
same draws for all.  A job that is not done within the horizon, is refused or is cancelled is late.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from rota.errors import InputError
from rota.forecast.altered import with_job
from rota.forecast.compare import policy_in_force
from rota.forecast.futures import ForecastRequest, Run, make_case, play_all
from rota.forecast.sampling import Misjudgement, SampledArrivals, drawn_totals, future_of
from rota.knowledge.reward import ByDeadline, Reward, by_steps
from rota.model.columns import Floats, Ints
from rota.model.jobs import JobTable, PlainJob
from rota.scheduler.loop import Loop
from rota.scheduler.moments.frozen import Frozen
from rota.scheduler.policy import PolicySpec
from rota.worlds.simulated.faults import Breakdowns

HORIZON = 3.0
"""How far is looked ahead, in times that the latest deadline lies ahead."""


@dataclass(frozen=True)
class PromiseRequest:
    """How the futures are drawn and judged."""

    asked: ForecastRequest = field(default_factory=ForecastRequest)
    """Durations, costs and rules as for a forecast; its samples and its budget do not count."""
    runs: int = 200
    cpu_s: float = math.inf
    """CPU seconds after which no further future is begun; with it the answer depends on the machine."""
    misjudgement: Misjudgement = field(default_factory=Misjudgement)
    arrivals: bool = True
    """New jobs come, like those before and as often."""
    breakdowns: Breakdowns | None = None
    """Nodes are lost and come back; None for none."""
    target: float = 0.9
    """Chance that makes a promise."""
    least: float = 0.5
    """Chance below which an agreement is better refused."""
    seed: int = 1
    until_s: float = math.nan
    """Moment up to which to look; NaN for `HORIZON`."""


class Interval(NamedTuple):
    """A fraction with its 95 % interval."""

    share: float
    low: float
    high: float


def wilson(hits: int, of: int, z: float = 1.96) -> Interval:
    """The share of `hits` and its interval after Wilson, without correction for continuity."""
    share, spread = hits / of, z * z / of
    middle = share + spread / 2.0
    half = z * math.sqrt(share * (1.0 - share) / of + spread / of / 4.0)
    return Interval(share, (middle - half) / (1.0 + spread), (middle + half) / (1.0 + spread))


class NeighbourForecast(NamedTuple):
    """What the new job means for another one; moments in seconds, infinite if it is not done."""

    id: str
    due_s: float
    """NaN without a deadline."""
    before_s: float
    """Median end without the new job."""
    after_s: float
    chance_before: float
    """Chance of being in time; NaN without a deadline."""
    chance_after: float


@dataclass(frozen=True)
class PromiseForecast:
    """One agreement, and what would become of it."""

    agreement: ByDeadline
    reached_s: Floats
    """For each sample, when the part of the work that counts was done; infinite if it was not."""
    chance: Interval
    reward: float
    """Mean reward over the samples."""
    gpu_hours: float
    """Mean GPU-hours used by its end or the horizon."""
    externality: float
    """Mean reward that the other jobs gain because of it, or lose (below 0), together."""
    delay_s: float
    """Mean delay of the other jobs, over those that are done both with it and without it."""
    others: tuple[NeighbourForecast, ...]
    """The jobs that end at another time because of it."""

    def reached_by(self, share: float) -> float:
        """The moment by which this share of the samples is done; infinite if fewer ever are."""
        place = max(math.ceil(share * len(self.reached_s) - 1e-9), 1) - 1
        return float(np.sort(self.reached_s)[place])


@dataclass(frozen=True)
class PromiseOutlook:
    """The answer: all agreements, in the order of the request."""

    now_s: float
    policy: str
    promises: tuple[PromiseForecast, ...]
    runs: int
    """The number of futures behind each agreement."""
    arrivals_per_s: float
    target: float
    least: float

    @property
    def accepted(self) -> tuple[PromiseForecast, ...]:
        """The agreements that can be promised: even the lower end of the chance is at least the target."""
        return tuple(one for one in self.promises if one.chance.low >= self.target)

    @property
    def pick(self) -> PromiseForecast:
        """The agreement with the earliest deadline that reaches the target, else that of the best chance."""
        good = [one for one in self.promises if one.chance.share >= self.target]
        if good:
            return min(good, key=lambda one: (one.agreement.deadline_s, -one.reward))
        return max(self.promises, key=lambda one: one.chance.share)

    @property
    def is_picked_in_time(self) -> bool:
        """False if `pick` is only the best of those that miss the target."""
        return self.pick.chance.share >= self.target

    def offer_s(self, promise: PromiseForecast) -> float:
        """The deadline to offer in place of one that is better refused: kept in `target` of its samples."""
        return promise.reached_by(self.target)


def promise(
    moment: Frozen,
    job: PlainJob,
    agreements: Sequence[ByDeadline],
    request: PromiseRequest | None = None,
    types: tuple[str, ...] = (),
) -> PromiseOutlook:
    """What each of `agreements` would come to for `job`, submitted at `moment` under the policy in force.

    `types` are the GPU types it accepts, none for any.  Raises InputError without an agreement, or for one
    whose deadline is over.
    """
    request = request or PromiseRequest()
    futures = _Futures(moment, job, agreements, request, types)
    began_s = time.process_time()
    made: list[tuple[_Future, list[_Future]]] = []
    while len(made) < request.runs and not (made and time.process_time() - began_s > request.cpu_s):
        made.append(futures.play(len(made)))
    without = [one for one, _ in made]
    return PromiseOutlook(
        now_s=futures.now,
        policy=str(futures.spec),
        promises=tuple(
            _promise(agreement, [each[place] for _, each in made], without, futures)
            for place, agreement in enumerate(agreements)
        ),
        runs=len(made),
        arrivals_per_s=futures.arrivals.per_s if futures.arrivals else 0.0,
        target=request.target,
        least=request.least,
    )


# -- futures ---------------------------------------------------------------------------------------


class _Future(NamedTuple):
    """One future, by row of the jobs that lived at the moment."""

    finish_s: Floats
    reached_s: float
    gpu_s: float


class _Milestone:
    """Notes when a job has done an amount of work."""

    def __init__(self, row: int, work: float) -> None:
        """`work` is in the unit of the job."""
        self.row, self.work = row, work
        self.reached_s = math.inf
        self._rate = 0.0

    def __call__(self, loop: Loop) -> None:
        progress, now = loop.state.progress, loop.state.now
        done = progress.done(self.row, now)
        if self.reached_s == math.inf and done >= self.work * (1.0 - 1e-9):
            over_s = (done - self.work) / self._rate if self._rate else 0.0
            self.reached_s = now - max(over_s, 0.0)
        self._rate = progress.rate.item(self.row)


class _Futures:
    """All futures of a moment, by number."""

    def __init__(
        self,
        moment: Frozen,
        job: PlainJob,
        agreements: Sequence[ByDeadline],
        request: PromiseRequest,
        types: tuple[str, ...],
    ) -> None:
        self.moment, self.request = moment, request
        self.spec: PolicySpec = policy_in_force(moment)
        self.row = len(moment.packed["jobs"]["ids"])
        self.now = float(moment.packed["state"]["now"])
        if not agreements:
            raise InputError("there is no agreement to ask about; give at least one deadline")
        if min(one.deadline_s for one in agreements) <= self.now:
            raise InputError("a deadline is over already; ask about moments to come")
        ahead_s = max(one.deadline_s for one in agreements) - self.now
        self.until_s = self.now + HORIZON * ahead_s if math.isnan(request.until_s) else request.until_s
        self.agreements = agreements
        self.moments = [
            with_job(moment, replace(job, deadline_s=one.deadline_s), types) for one in agreements
        ]
        case = make_case(moment, request.asked, 1)
        self.jobs, self.rows = case.state.jobs, case.rows
        self.arrivals = (
            SampledArrivals.of(case.state, request.asked.durations, case.units) if request.arrivals else None
        )

    def play(self, number: int) -> tuple[_Future, list[_Future]]:
        """Future `number` without the job, and under each agreement."""
        without = self._play(number, self.moment, None)
        done: list[_Future] = []
        for moment, agreement in zip(self.moments, self.agreements, strict=True):
            same = next((i for i in range(len(done)) if self._is_like(self.agreements[i], agreement)), None)
            done.append(self._play(number, moment, agreement) if same is None else done[same])
        return without, done

    def _is_like(self, one: ByDeadline, other: ByDeadline) -> bool:
        """True if the job fares alike under both: no policy can tell them apart."""
        if one.min_fraction != other.min_fraction:
            return False
        return not self.spec.heeds_deadlines or one == other

    def _play(self, number: int, moment: Frozen, agreement: ByDeadline | None) -> _Future:
        """One future, with the job if there is an `agreement`."""
        known = len(moment.packed["jobs"]["ids"])
        asked = replace(self.request.asked, budget_s=math.inf, until_s=self.until_s)
        request = self.request
        case = future_of(moment, asked, self.arrivals, self.until_s, request.seed, number, request.breakdowns)
        done_s = case.done_s
        sampled = case.draws[0]
        totals = drawn_totals(
            case.estimate,
            done_s,
            {place: sampled.item(place) for place in case.estimate.candidates},
            self._ratios(number, case.state.jobs, case.rows, known, agreement is not None),
        )
        milestone, watch = None, None
        if agreement is not None and agreement.min_fraction < 1.0:
            place = int(np.searchsorted(case.rows, self.row))
            part_s = agreement.min_fraction * totals.item(place)
            milestone = watch = _Milestone(self.row, case.units.work(self.row, part_s))
        run = play_all(replace(case, draws=(totals,)), self.spec, moment.memory, math.inf, watch=watch)[0]
        return self._read(run, case.rows, milestone, agreement is not None)

    def _ratios(self, number: int, jobs: JobTable, rows: Ints, known: int, has_job: bool) -> Floats:
        """The error ratio of each estimate: equal for a row of the moment with and without the new job."""
        ratios = np.ones(len(rows))
        parts = ((3, rows < self.row), (4, (rows == self.row) & has_job), (5, rows >= known))
        for stream, chosen in parts:
            if chosen.any():
                rng = np.random.default_rng([self.request.seed, number, stream])
                ratios[chosen] = self.request.misjudgement.draw(jobs, rows[chosen], rng)
        return ratios

    def _read(self, run: Run, rows: Ints, milestone: _Milestone | None, has_job: bool) -> _Future:
        old = rows < self.row
        if not has_job:
            return _Future(run.finish_s[old], math.inf, 0.0)
        place = int(np.searchsorted(rows, self.row))
        reached_s = run.finish_s.item(place) if milestone is None else milestone.reached_s
        return _Future(run.finish_s[old], reached_s, run.gpu_s.item(place))


# -- what they come to -----------------------------------------------------------------------------


def _promise(
    agreement: ByDeadline, made: Sequence[_Future], without: Sequence[_Future], futures: _Futures
) -> PromiseForecast:
    reached = np.array([one.reached_s for one in made])
    before = np.array([one.finish_s for one in without])
    after = np.array([one.finish_s for one in made])
    both = np.isfinite(before) & np.isfinite(after)
    hits = int((reached <= agreement.deadline_s).sum())
    return PromiseForecast(
        agreement=agreement,
        reached_s=reached,
        chance=wilson(hits, len(made)),
        reward=float(np.mean(agreement.reward.at(reached))),
        gpu_hours=float(np.mean([one.gpu_s for one in made])) / 3600.0,
        externality=_externality(futures.jobs, futures.rows, before, after),
        delay_s=float((after[both] - before[both]).mean()) if both.any() else 0.0,
        others=_neighbours(futures.jobs, futures.rows, before, after),
    )


def reward_of(jobs: JobTable, row: int) -> Reward | None:
    """The value of `row` over time: its values, 1 by its deadline; None if it has none."""
    several = jobs.deadlines.get(row, ())
    if several:
        return by_steps(several)
    due_s = jobs.deadline_s.item(row)
    return None if math.isnan(due_s) else ByDeadline(due_s).reward


def _externality(jobs: JobTable, rows: Ints, before: Floats, after: Floats) -> float:
    """Mean over the samples of the reward that `rows` gain together."""
    gained = 0.0
    for place, row in enumerate(rows.tolist()):
        reward = reward_of(jobs, row)
        if reward is not None:
            gained += float(np.mean(reward.at(after[:, place]) - reward.at(before[:, place])))
    return gained


def _neighbours(jobs: JobTable, rows: Ints, before: Floats, after: Floats) -> tuple[NeighbourForecast, ...]:
    """Jobs that end at another time in some sample, the most delayed first."""
    moved = np.flatnonzero((before != after).any(axis=0))
    neighbours = []
    for place in moved.tolist():
        due_s = jobs.deadline_s.item(rows.item(place))
        has_none = math.isnan(due_s)
        ends = [np.quantile(side[:, place], 0.5, method="inverted_cdf") for side in (before, after)]
        chances = [
            math.nan if has_none else float((side[:, place] <= due_s).mean()) for side in (before, after)
        ]
        neighbours.append(
            NeighbourForecast(jobs.ids[rows.item(place)], due_s, float(ends[0]), float(ends[1]), *chances)
        )
    return tuple(sorted(neighbours, key=lambda one: (_delay_s(one) * -1.0, one.id)))


def _delay_s(one: NeighbourForecast) -> float:
    return 0.0 if one.before_s == one.after_s else one.after_s - one.before_s
