"""How long the jobs of a running cluster will still take, by a source that is named.

A duration is the whole run time of a job at the requested allocation; what is left is that minus what has
been done.  Every estimate is conditional on what the job has run so far, since past runs that were shorter
say nothing about it any more.  The rules, in this order:

1. A value that was given for this job counts as it is.
2. A service does not end, unless the user stated a time limit.
3. `user`: the time limit times the part of theirs that completed jobs of the tenant have used, failing that
   those of all; the limit as it is where no job is on record with one.
   `predicted`: the run time of a completed job of the group, failing that of the tenant.
   `history`: none, all are drawn from the tenant's.
4. Without a value from there: the run time of a completed job of the tenant, failing that of any.
5. Without any past: the time limit, or the first guess of one hour.
6. A job that has outrun all of it is taken to be half done: it goes on for as long as it has run.

Where there are several values one is drawn in each possible future, so that what comes of them has a range;
of a tenant's and of all tenants' jobs those that asked for about as many GPUs go before the others.  A set
counts if `ENOUGH` of it ran longer than this job has.  No job is assumed to run beyond a time limit that is
still ahead.

The longest known run is not the longest possible: after n runs the next one is longer than all with
probability 1 / (n + 1), and may then be up to `LONGEST` times as long.

Jobs that have completed so far are short: the long ones still run.  Running jobs therefore count with what
they have run, as lengths that are known to be exceeded (Kaplan and Meier 1958).  Draws are not independent:
jobs that are submitted in one go are much alike, and there are weeks of long jobs and of short ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.random import Generator

from rota.errors import InputError
from rota.model.columns import Bools, Floats, Ints, read_only
from rota.model.job_columns import JobKind
from rota.model.jobs import JobTable
from rota.table.state import Phase, State

_NAMED = ("tenant", "group")
FIRST_GUESS_S = 3600.0
"""Run time of a job of which nothing is known."""
ENOUGH = 2
"""The nearest set is drawn from if at least this number of its completed jobs ran longer."""
MOST_DRAWN = 512
"""Values kept of a set: more would not change the result."""
LONGEST = 5.0
"""How many times as long as the longest job that is known another one may be."""
IN_ONE_GO_S = 900.0
"""Jobs of a tenant with equal requests, each within this time after the last one, are a series."""
ALIKE = 0.4
"""Correlation of durations within a series, as a part of the variance."""
AT_ONCE_BY_LIMIT, AT_ONCE = 0.2, 0.5
"""Correlation of durations among all jobs live at once: those with known limits, and others."""


class RemainingSource(StrEnum):
    """Sources of how long jobs take."""

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
    limit_s: Floats = field(default_factory=lambda: np.empty(0))
    """Time limits, NaN where none was stated; empty if none is on record."""
    is_over: Bools = field(default_factory=lambda: np.empty(0, dtype=bool))
    """False of a job that still runs, and will have run longer than `run_s`; empty if all are over."""

    def __post_init__(self) -> None:
        n = len(self.run_s)
        if not len(self.limit_s):
            object.__setattr__(self, "limit_s", np.full(n, math.nan))
        if not len(self.is_over):
            object.__setattr__(self, "is_over", np.ones(n, dtype=bool))
        columns = (self.tenant, self.group, self.gpus, self.limit_s, self.is_over)
        if any(len(column) != n for column in columns):
            raise ValueError(f"the past has {n} run times, but other columns of another length")

    @classmethod
    def none(cls) -> Past:
        """Nothing has completed yet."""
        return cls(np.empty(0), (), (), np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, state: State) -> Past:
        """The completed jobs of a table, and those that run."""
        phase = state.phase[: state.submitted]
        rows = np.flatnonzero((phase == Phase.COMPLETED) | (phase == Phase.RUNNING))
        jobs = state.jobs
        rows = rows[(phase[rows] == Phase.COMPLETED) | (jobs.kind[rows] != JobKind.SERVICE)]
        tenants, groups = ([jobs.name_of(which, row) for row in rows.tolist()] for which in _NAMED)
        is_over = phase[rows] == Phase.COMPLETED
        return cls(state.work_s(rows), tenants, groups, jobs.gpus[rows], jobs.limit_s[rows], is_over)

    def and_running(self, state: State) -> Past:
        """The past jobs that are over, and the running ones of a table."""
        now = Past.of(state)
        over, runs = self.is_over, ~now.is_over
        return Past(
            np.concatenate((self.run_s[over], now.run_s[runs])),
            [*_chosen(self.tenant, over), *_chosen(now.tenant, runs)],
            [*_chosen(self.group, over), *_chosen(now.group, runs)],
            np.concatenate((self.gpus[over], now.gpus[runs])),
            np.concatenate((self.limit_s[over], now.limit_s[runs])),
            np.concatenate((self.is_over[over], now.is_over[runs])),
        )

    @property
    def service_gpu_s(self) -> Floats:
        """GPU-seconds of each job that is over."""
        service: Floats = (self.run_s * self.gpus)[self.is_over]
        return service

    def longer(self, ran_s: float, keys: Sequence[Key]) -> tuple[Floats, Key] | None:
        """Run times beyond `ran_s` of the nearest set with `ENOUGH` of them, else with any, and that set."""
        return _beyond(self._runs, ran_s, keys)

    def by_limit(self, tenant: str, limit_s: float, ran_s: float) -> Floats | None:
        """Run times of a job with this limit, from the parts of theirs that its tenant's jobs, or all,
        used."""
        used = _beyond(self._used, ran_s / limit_s, [("tenant", tenant), ("all",)])
        return None if used is None else used[0] * limit_s

    @cached_property
    def _runs(self) -> Mapping[Key, Floats]:
        """Run times of each set, ascending."""
        sizes = [size_class(gpus) for gpus in self.gpus.tolist()]
        kinds: list[tuple[str, list[Sequence[object]]]] = [
            ("group", [self.group]),
            ("tenant", [self.tenant]),
            ("tenant", [self.tenant, sizes]),
            ("all", [sizes]),
            ("all", []),
        ]
        sets: dict[Key, Floats] = {}
        for name, columns in kinds:
            sets |= _split(name, columns, self.run_s, self.is_over)
        return sets

    @cached_property
    def _used(self) -> Mapping[Key, Floats]:
        """Part of their limit that the jobs of each set have used, ascending; 1 at most."""
        has = np.flatnonzero(self.limit_s > 0.0)
        part = np.minimum(self.run_s[has] / self.limit_s[has], 1.0)
        tenants = [self.tenant[place] for place in has.tolist()]
        over = self.is_over[has]
        return _split("tenant", [tenants], part, over) | _split("all", [], part, over)


Key = tuple[object, ...]
"""A set of completed jobs: `("tenant", "a", 3)` are those of tenant a that asked for 8 to 15 GPUs."""


def size_class(gpus: int) -> int:
    """Jobs of one class ask for about as many GPUs: from a power of two to less than the next."""
    return max(gpus, 1).bit_length() - 1


def _chosen(names: Sequence[str], which: Bools) -> list[str]:
    return [name for name, one in zip(names, which.tolist(), strict=True) if one]


def _split(
    name: str, columns: Sequence[Sequence[object]], values: Floats, is_over: Bools
) -> dict[Key, Floats]:
    """Values to draw from, in sets by the value of `columns`; jobs with an empty name belong to none.

    A set of which less than `ENOUGH` are over says nothing, unless all are.
    """
    keys: Iterable[Key] = zip(*columns, strict=True) if columns else repeat((), len(values))
    places: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        if "" not in key:
            places.setdefault((name, *key), []).append(place)
    return {
        key: read_only(to_draw_from(values[own], is_over[own]))
        for key, own in places.items()
        if is_over[own].all() or is_over[own].sum() >= ENOUGH
    }


def to_draw_from(values: Floats, is_over: Bools) -> Floats:
    """Ascending values, each as likely as the next, `MOST_DRAWN` at most.

    Those that are not over are lengths that will be exceeded: their part goes to what is longer, after the
    estimator of Kaplan and Meier.  Where nothing is longer, to the longest of all.
    """
    order = np.lexsort((~is_over, values))  # among equal values, those that are over come first
    values, is_over = values[order], is_over[order]
    if len(values) <= MOST_DRAWN and is_over.all():
        return values
    at_risk = np.arange(len(values), 0, -1)
    longer = np.cumprod(np.where(is_over, 1.0 - 1.0 / at_risk, 1.0))
    count = min(len(values), MOST_DRAWN)
    place = np.searchsorted(1.0 - longer, (np.arange(count) + 0.5) / count - 1e-12)
    drawn: Floats = values[np.minimum(place, len(values) - 1)]
    return drawn


def _beyond(sets: Mapping[Key, Floats], least: float, keys: Sequence[Key]) -> tuple[Floats, Key] | None:
    """Values above `least` of the first set that has `ENOUGH` of them, else of the first that has any."""
    some = None
    for key in keys:
        values = sets.get(key, _EMPTY)
        beyond = values[int(values.searchsorted(least, "right")) :]
        if len(beyond) >= ENOUGH:
            return beyond, key
        if len(beyond) and some is None:
            some = beyond, key
    return some


@dataclass(frozen=True)
class RemainingTimes:
    """Durations of some jobs."""

    rows: Ints
    told_s: Floats
    """The best single number for each: a value, or the mean of what is sampled from; inf if endless."""
    basis: tuple[Basis, ...]
    candidates: Mapping[int, Floats]
    """By place in `rows`: the run times from which one is drawn."""
    most_s: Floats
    """What no draw exceeds: the time limit where it is still ahead."""
    series: Ints
    """The number of the series that each belongs to."""

    def counts(self) -> dict[str, int]:
        """The number of jobs whose duration has each basis."""
        names = [basis.value for basis in self.basis]
        return {basis.value: names.count(basis.value) for basis in Basis if basis.value in names}

    def draw(self, rng: Generator) -> Floats:
        """One possible world: sampled durations are drawn, the others are what they are."""
        drawn = self.told_s.copy()
        count = len(self.rows)
        by_limit = np.array([basis is Basis.USER for basis in self.basis], dtype=bool)
        at_once = np.where(by_limit, AT_ONCE_BY_LIMIT, AT_ONCE)
        luck: Floats = np.sqrt(at_once) * rng.standard_normal()
        luck += math.sqrt(ALIKE) * rng.standard_normal(count)[self.series]
        luck += np.sqrt(1.0 - ALIKE - at_once) * rng.standard_normal(count)
        for place, values in self.candidates.items():
            part = 0.5 * math.erfc(-luck.item(place) / math.sqrt(2.0))
            drawn[place] = min(_at(values, part), self.most_s.item(place))
        return drawn


def _at(values: Floats, part: float) -> float:
    """The value below which `part` of all are: one more than are known is as likely to be the longest as any.

    How much longer than the longest known follows Pareto's law, with index 1 (half are twice as long) where
    the known lie a factor of e apart or more, with a thinner tail where they are alike; `LONGEST` at most.
    """
    place = int(part * (len(values) + 1))
    if place < len(values):
        return values.item(place)
    apart = min(math.log(values.item(-1) / values.item(0)), 1.0)
    beyond = max((len(values) + 1) * (1.0 - part), 1.0 / LONGEST)
    times: float = beyond**-apart
    return values.item(-1) * times


@dataclass(frozen=True)
class Durations:
    """The source of durations, and the values it estimates from."""

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
                if len(value) > 1:
                    candidates[place] = value
                value = float(np.minimum(value, most_s[place]).mean())
            told[place] = value if came_from is Basis.GIVEN else min(value, most_s.item(place))
            basis.append(came_from)
        return RemainingTimes(rows, told, tuple(basis), candidates, most_s, series_of(jobs, rows))

    def _value(self, jobs: JobTable, row: int, ran: float) -> tuple[float | Floats, Basis]:
        """A number, or values from which one is drawn, and the basis."""
        if row in self.given_s:
            return self.given_s[row], Basis.GIVEN
        limit = float(jobs.limit_s[row])
        if jobs.kind[row] == JobKind.SERVICE:
            return (limit, Basis.USER) if limit > ran else (math.inf, Basis.ENDLESS)
        return self._from_source(jobs, row, ran, limit)

    def _from_source(
        self, jobs: JobTable, row: int, ran: float, limit: float
    ) -> tuple[float | Floats, Basis]:
        tenant = jobs.name_of("tenant", row)
        if self.source is RemainingSource.USER and not math.isnan(limit):
            return self._from_limit(tenant, ran, limit)
        size = size_class(jobs.gpus.item(row))
        keys: list[Key] = [("tenant", tenant, size), ("tenant", tenant), ("all", size), ("all",)]
        if self.source is RemainingSource.PREDICTED:
            keys.insert(0, ("group", jobs.name_of("group", row)))
        longer = self.past.longer(ran, keys)
        if longer is not None:
            values, key = longer
            is_like = self.source is RemainingSource.PREDICTED and key[0] != "all"
            return values, Basis.PREDICTED if is_like else Basis.HISTORY
        if len(self.past.run_s):
            return _as_long_again(ran)
        if not math.isnan(limit):
            return (limit, Basis.USER) if limit > ran else _as_long_again(ran)
        return (FIRST_GUESS_S, Basis.GUESS) if ran < FIRST_GUESS_S else _as_long_again(ran)

    def _from_limit(self, tenant: str, ran: float, limit: float) -> tuple[float | Floats, Basis]:
        if limit <= ran:
            return _as_long_again(ran)
        used = self.past.by_limit(tenant, limit, ran)
        return (limit if used is None else used), Basis.USER


_EMPTY: Floats = np.empty(0)


def series_of(jobs: JobTable, rows: Ints) -> Ints:
    """For each of `rows` the number of its series: same tenant, group and GPUs, one soon after the other."""
    newest: dict[tuple[int, ...], tuple[float, int]] = {}
    series = np.empty(len(rows), dtype=np.int64)
    for place in np.argsort(jobs.submit_s[rows], kind="stable").tolist():
        row = rows.item(place)
        kin = (jobs.tenant.item(row), jobs.group.item(row), jobs.gpus.item(row))
        at_s = jobs.submit_s.item(row)
        last_s, number = newest.get(kin, (-math.inf, place))
        series[place] = number if at_s - last_s <= IN_ONE_GO_S else place
        newest[kin] = at_s, series.item(place)
    return series


def _as_long_again(ran: float) -> tuple[float, Basis]:
    return 2.0 * ran, Basis.OUTRUN


def parse_source(text: str) -> RemainingSource:
    """The provider called `text`; InputError lists those available."""
    try:
        return RemainingSource(text)
    except ValueError:
        raise InputError.at(
            f"{text!r} is no source of durations", field="--duration", expected=", ".join(RemainingSource)
        ) from None
