"""Providers of job durations: the simulator's truth, with or without error, the user's limit, the past."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Given, Provides
from rota.knowledge.needs import Knowledge, Observation, Provenance, Provider, Table
from rota.knowledge.registry import Past, Setup, Where, provides
from rota.knowledge.seen import NEWS, is_alone
from rota.model.columns import Array, Floats
from rota.model.jobs import JobTable
from rota.table.state import State

FIRST_GUESS_S = 3600.0
"""Duration of a job of which nothing is known."""


@provides(
    Knowledge.DURATION,
    Provenance.ORACLE,
    "the true duration, at the speeds of the world",
    where={Where.SIMULATED},
)
def oracle_duration(setup: Setup) -> Provider | None:
    """The truth; a speed model knows better than the trace how long a job takes."""
    if Knowledge.DURATION in setup.offered:
        return setup.offered[Knowledge.DURATION]
    return None if setup.truth is None else Given(Knowledge.DURATION, setup.truth.duration_s)


SPREAD = 0.5
"""Standard deviation of the logarithm of a noisy duration: two of three are within a factor of 1.6."""


class Misjudged(Provides):
    """The values of `truth`, each job's times a factor of its own; the factor does not change."""

    def __init__(self, truth: Provider, factors: Floats) -> None:
        super().__init__(truth.kind, Provenance.NOISY, factors)
        self.truth, self.factors = truth, factors
        self.learns, self.listens = truth.learns, truth.listens

    def attach(self, state: State) -> None:
        self.truth.attach(state)

    def known(self) -> Array:
        values = self.truth.known()
        assert not isinstance(values, Table), "durations are a column"
        return values * self.factors

    def submitted(self, row: int) -> None:
        self.truth.submitted(row)

    def ended(self, row: int, ran_s: float) -> None:
        self.truth.ended(row, ran_s)

    def observed(self, seen: Sequence[Observation]) -> None:
        self.truth.observed(seen)


@provides(
    Knowledge.DURATION,
    Provenance.NOISY,
    "the truth times a random factor: log-normal, median 1, with this spread of its logarithm (default 0.5)",
    where={Where.SIMULATED},
    argument="SPREAD",
)
def noisy_duration(setup: Setup, argument: str) -> Provider | None:
    """For measuring how much a result depends on correct estimates; drawn with the seed of the run."""
    truth = oracle_duration(setup)
    if truth is None:
        return None
    try:
        spread = float(argument or SPREAD)
        if not 0.0 <= spread < np.inf:
            raise ValueError
    except ValueError:
        raise InputError.at(
            f"duration=noisy:{argument} has no spread", field="--knowledge", expected="0 or more, such as 0.5"
        ) from None
    drawn = np.random.default_rng(setup.seed).standard_normal(len(setup.jobs))
    return Misjudged(truth, np.exp(spread * drawn))


class ExpectedDuration(Provides):
    """Seconds of running at the requested allocation: the user's limit, or the mean of similar jobs.

    From users, a job without a limit is predicted.  A prediction is the mean of the jobs of its group that
    have completed, failing that of its tenant, of all; failing that its limit, or an hour.  It is made at
    submission and not revised: an order built on it stays put.
    """

    learns = True

    def __init__(self, jobs: JobTable, provenance: Provenance, past: Past = ()) -> None:
        values = np.where(np.isnan(jobs.limit_s), FIRST_GUESS_S, jobs.limit_s)
        super().__init__(Knowledge.DURATION, provenance, values)
        self.jobs = jobs
        self.seconds = values
        self._heeds_limit = provenance is not Provenance.PREDICTED
        self._sums: dict[tuple[str, str], tuple[int, float]] = {}
        for tenant, group, runs in past:
            for ran_s in runs:
                self._add(tenant, group, ran_s)

    def attach(self, state: State) -> None:
        for row in range(state.submitted):
            self.submitted(row)

    def submitted(self, row: int) -> None:
        limit: float = self.jobs.limit_s.item(row)
        has_limit = limit == limit  # not NaN
        self.seconds[row] = limit if has_limit else FIRST_GUESS_S
        if self._heeds_limit and has_limit:
            return
        for key in _keys(self.jobs.name_of("tenant", row), self.jobs.name_of("group", row)):
            if key in self._sums:
                count, total = self._sums[key]
                self.seconds[row] = total / count
                return

    def ended(self, row: int, ran_s: float) -> None:
        self._add(self.jobs.name_of("tenant", row), self.jobs.name_of("group", row), ran_s)

    def _add(self, tenant: str, group: str, ran_s: float) -> None:
        for key in _keys(tenant, group):
            count, total = self._sums.get(key, (0, 0.0))
            self._sums[key] = (count + 1, total + ran_s)


def _keys(tenant: str, group: str) -> list[tuple[str, str]]:
    """Keys of the jobs it resembles, nearest first; a job without a group resembles those of its tenant."""
    return [*([("group", group)] if group else []), ("tenant", tenant), ("all", "")]


@provides(Knowledge.DURATION, Provenance.USER, "the time limit; as predicted for jobs without one")
def user_duration(setup: Setup) -> Provider:
    """In a simulation at least one job must state a limit; on a live cluster such jobs may still come."""
    if setup.truth is not None and np.isnan(setup.jobs.limit_s).all():
        raise InputError(
            f"{setup.origin}: no job states a time limit, so durations cannot come from users; "
            "expected --knowledge duration=oracle or predicted"
        )
    return ExpectedDuration(setup.jobs, Provenance.USER, setup.past)


@provides(
    Knowledge.DURATION,
    Provenance.PREDICTED,
    "the mean of completed jobs of its group, else of its tenant, else of all; else its limit, else an hour",
)
def predicted_duration(setup: Setup) -> Provider:
    return ExpectedDuration(setup.jobs, Provenance.PREDICTED, setup.past)


class MeasuredDuration(ExpectedDuration):
    """All the work that a program reports, at the speed at which it was seen on the GPUs that it asked for.

    The newest look counts, if it says something new.  As long as a job was not seen so, or reports nothing,
    its duration is what users say.
    """

    listens = True

    def __init__(self, jobs: JobTable, past: Past = ()) -> None:
        super().__init__(jobs, Provenance.MEASURED, past)
        self._seen: set[int] = set()

    def attach(self, state: State) -> None:
        self._table = state
        super().attach(state)

    def submitted(self, row: int) -> None:
        if row not in self._seen:
            super().submitted(row)

    def observed(self, seen: Sequence[Observation]) -> None:
        news = {one.row: one.total / _work_per_s(one) for one in seen if self._says_how_long(one)}
        news = {row: seconds for row, seconds in news.items() if self._is_news(row, seconds)}
        if not news:
            return
        # A caller that already has the column keeps it as it was.
        self.values = self.seconds = self.seconds.copy()
        for row, seconds in news.items():
            self.seconds[row] = seconds
            self._seen.add(row)
            self._table.log.append(row)  # ordered lists of jobs have to look at it again

    def _says_how_long(self, one: Observation) -> bool:
        """True if it was alone on the GPUs that it asked for, and both its work and its speed are known."""
        is_as_asked = is_alone(one.grant) and len(one.grant.devices) == self.jobs.gpus.item(one.row)
        return is_as_asked and 0.0 < one.total < math.inf and _work_per_s(one) > 0.0

    def _is_news(self, row: int, seconds: float) -> bool:
        return row not in self._seen or abs(seconds - self.seconds.item(row)) >= NEWS * seconds


def _work_per_s(one: Observation) -> float:
    """Speed in the unit of `total`; NaN if unknown."""
    if one.work > 0.0:
        return one.work / (one.until_s - one.since_s) if one.until_s > one.since_s else math.nan
    return 1.0 / one.step_s if one.step_s > 0.0 else math.nan


@provides(
    Knowledge.DURATION,
    Provenance.MEASURED,
    "the work that its program reports, at its measured speed; until then as users say",
)
def measured_duration(setup: Setup) -> Provider:
    return MeasuredDuration(setup.jobs, setup.past)
