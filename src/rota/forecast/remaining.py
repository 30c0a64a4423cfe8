"""How long the jobs of a running cluster will still take, by somebody who is named.

A duration is the whole run time of a job at the requested allocation; what is left is that minus what has
been done.  Every estimate is conditional on what the job has run so far, since past runs that were shorter
say nothing about it any more.  The rules, in this order:

1. A value that somebody gave for this job counts as it is.
2. A service does not end, unless the user stated a time limit.
3. `user`: the time limit.  `predicted`: the mean of the completed jobs of the group, failing that of the
   tenant, that ran longer than this one has.  `history`: none, all are sampled.
4. Without a value from there: sampled from the tenant's completed jobs that ran longer than this one has,
   failing that from those of all tenants.
5. Without any past: the time limit, or the first guess of one hour.
6. A job that has outrun all of it is taken to be half done: it goes on for as long as it has run.

Nobody is taken to run beyond a time limit that is still ahead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.random import Generator

from rota.errors import InputError
from rota.model.columns import Floats, Ints, read_only
from rota.model.job_columns import JobKind
from rota.model.jobs import JobTable
from rota.table.state import Phase, State

_NAMED = ("tenant", "group")
FIRST_GUESS_S = 3600.0
"""Run time of a job about which nobody knows anything."""


class RemainingSource(StrEnum):
    """Who is asked how long jobs take."""

    USER = "user"
    PREDICTED = "predicted"
    HISTORY = "history"


class Basis(StrEnum):
    """Where the duration of one job came from."""

    GIVEN = "given"
    USER = "user"
    PREDICTED = "predicted"
    HISTORY = "history"  # sampled
    OUTRUN = "outrun"  # has run longer than anything known: as long again
    GUESS = "guess"
    ENDLESS = "endless"


@dataclass(frozen=True)
class Past:
    """Completed jobs, one entry of each column per job, in any order; some thousand of them are enough."""

    run_s: Floats
    """Seconds run, at the requested allocation."""
    tenant: Sequence[str]
    group: Sequence[str]
    """Recurring series the job belonged to; empty if none."""
    gpus: Ints
    """GPUs requested."""

    def __post_init__(self) -> None:
        n = len(self.run_s)
        if not len(self.tenant) == len(self.group) == len(self.gpus) == n:
            raise ValueError(f"the past has {n} run times, but other columns of another length")

    @classmethod
    def none(cls) -> Past:
        """Nothing has completed yet."""
        return cls(np.empty(0), (), (), np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, state: State) -> Past:
        """The completed jobs of a table."""
        rows = np.flatnonzero(state.phase[: state.submitted] == Phase.COMPLETED)
        jobs = state.jobs
        tenants, groups = ([jobs.name_of(which, row) for row in rows.tolist()] for which in _NAMED)
        return cls(state.work_s(rows), tenants, groups, jobs.gpus[rows])

    @cached_property
    def all(self) -> Floats:
        """Run times, ascending."""
        return read_only(np.sort(self.run_s))

    @cached_property
    def by_tenant(self) -> Mapping[str, Floats]:
        """Run times of each tenant, ascending."""
        return _split(self.tenant, self.run_s)

    @cached_property
    def by_group(self) -> Mapping[str, Floats]:
        """Run times of each group, ascending."""
        return _split(self.group, self.run_s)

    @property
    def service_gpu_s(self) -> Floats:
        """GPU-seconds of each job."""
        service: Floats = self.run_s * self.gpus
        return service


def _split(names: Sequence[str], run_s: Floats) -> dict[str, Floats]:
    kinds, codes = np.unique(np.asarray(names, dtype=str), return_inverse=True)
    return {
        str(name): read_only(np.sort(run_s[codes == code])) for code, name in enumerate(kinds) if str(name)
    }


@dataclass(frozen=True)
class RemainingTimes:
    """Durations of some jobs."""

    rows: Ints
    told_s: Floats
    """The best single number for each: a value, or the mean of what is sampled from; inf if endless."""
    basis: tuple[Basis, ...]
    candidates: Mapping[int, Floats]
    """By place in `rows`: the run times one of which is drawn."""
    most_s: Floats
    """What no draw exceeds: the time limit where it is still ahead."""

    def counts(self) -> dict[str, int]:
        """How many jobs got their duration from where."""
        names = [basis.value for basis in self.basis]
        return {basis.value: names.count(basis.value) for basis in Basis if basis.value in names}

    def draw(self, rng: Generator) -> Floats:
        """One possible world: sampled durations are drawn, the others are what they are."""
        drawn = self.told_s.copy()
        for place, values in self.candidates.items():
            value = values.item(int(rng.random() * len(values)))
            drawn[place] = min(value, self.most_s.item(place))
        return drawn


@dataclass(frozen=True)
class Durations:
    """Who says how long jobs take, and what there is to say it from."""

    source: RemainingSource = RemainingSource.USER
    past: Past = field(default_factory=Past.none)
    given_s: Mapping[int, float] = field(default_factory=dict)
    """Whole durations by row that need no provider (a program that reports its total steps)."""

    def estimate(self, jobs: JobTable, rows: Ints, ran_s: Floats) -> RemainingTimes:
        """Durations of `rows` of `jobs`, which have done `ran_s` seconds of work each."""
        told, basis = np.empty(len(rows)), list[Basis]()
        limits = jobs.limit_s[rows]
        most_s = np.where(limits > ran_s, limits, math.inf)
        candidates: dict[int, Floats] = {}
        for place, (row, ran) in enumerate(zip(rows.tolist(), ran_s.tolist(), strict=True)):
            value, came_from = self._value(jobs, row, ran)
            if isinstance(value, np.ndarray):
                candidates[place] = value
                value = float(np.minimum(value, most_s[place]).mean())
            told[place] = value if came_from is Basis.GIVEN else min(value, most_s.item(place))
            basis.append(came_from)
        return RemainingTimes(rows, told, tuple(basis), candidates, most_s)

    def _value(self, jobs: JobTable, row: int, ran: float) -> tuple[float | Floats, Basis]:
        """A number, or what to draw one from, with where it came from."""
        if row in self.given_s:
            return self.given_s[row], Basis.GIVEN
        limit = float(jobs.limit_s[row])
        if jobs.kind[row] == JobKind.SERVICE:
            return (limit, Basis.USER) if limit > ran else (math.inf, Basis.ENDLESS)
        return self._from_source(jobs, row, ran, limit)

    def _from_source(
        self, jobs: JobTable, row: int, ran: float, limit: float
    ) -> tuple[float | Floats, Basis]:
        if self.source is RemainingSource.USER and not math.isnan(limit):
            return (limit, Basis.USER) if limit > ran else _as_long_again(ran)
        tenant = self.past.by_tenant.get(jobs.name_of("tenant", row), _EMPTY)
        if self.source is RemainingSource.PREDICTED:
            group = self.past.by_group.get(jobs.name_of("group", row), _EMPTY)
            longer = _first_longer(ran, group, tenant)
            if longer is not None:
                return float(longer.mean()), Basis.PREDICTED
        longer = _first_longer(ran, tenant, self.past.all)
        if longer is not None:
            return longer, Basis.HISTORY
        if len(self.past.all):
            return _as_long_again(ran)
        if not math.isnan(limit):
            return (limit, Basis.USER) if limit > ran else _as_long_again(ran)
        return (FIRST_GUESS_S, Basis.GUESS) if ran < FIRST_GUESS_S else _as_long_again(ran)


_EMPTY: Floats = np.empty(0)


def _first_longer(ran: float, *pasts: Floats) -> Floats | None:
    """What the first of `pasts` that has any run longer than `ran` has of them."""
    for past in pasts:
        place = int(past.searchsorted(ran, "right"))
        if place < len(past):
            return past[place:]
    return None


def _as_long_again(ran: float) -> tuple[float, Basis]:
    return 2.0 * ran, Basis.OUTRUN


def parse_source(text: str) -> RemainingSource:
    """The provider called `text`; InputError lists those there are."""
    try:
        return RemainingSource(text)
    except ValueError:
        raise InputError.at(
            f"{text!r} is no source of durations", field="--duration", expected=", ".join(RemainingSource)
        ) from None
