"""The input of Gavel's objectives: the jobs to divide time among, and what is known of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.model.columns import Floats, Ints
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot
from rota.solvers.division import Division, Tie, alone
from rota.stages.finish_time import equal_parts
from rota.stages.round_books import Shares
from rota.stages.round_demand import PairRates, RoundDemand
from rota.systems.gavel.entries import Entries, entries
from rota.table.occupancy import EPSILON

_LEAST_WEIGHT = 1e-7
"""Part of the largest weight that counts as none: less is beyond the digits of a linear program."""


@dataclass(frozen=True)
class ObjectiveRules:
    """What an objective reads, and which of its optima counts."""

    aware: bool
    """Rates differ by GPU type."""
    counts_work: bool
    """The work left matters."""
    pairs: bool
    """Two jobs may share the same GPUs."""
    by_tenant: bool
    """The cluster is divided between tenants first."""
    in_order_inside: bool
    """The jobs of a tenant are served by arrival, not by weight."""
    tie: Tie
    """The optimum at which programs end."""
    falls_back: bool
    """Where the point inside is not found, the largest sum does as well."""
    tolerance: float
    """Relative error of bisection."""
    alpha: float
    """Part of the waiting jobs that `allox` looks at."""


@dataclass(frozen=True)
class GavelProblem:
    """The jobs among which time is to be divided; columns run over them, in order of submission."""

    snapshot: Snapshot
    rules: ObjectiveRules
    rows: Ints
    gpus: Floats
    rates: Floats
    """Work per second on each type, [job, type]; every job has a type on which it is above 0."""
    seen: Floats
    """The rates that the objective sees, [job, type] (`seen_rates`)."""
    capacity: Floats
    pairs: PairRates | None
    """Rates of jobs that run side by side; None if no job shares."""
    own: Memory
    """What the objective remembers from one computation to the next; it writes here."""

    all_pairs: ClassVar[bool] = False
    """True if pairs that are worth nothing are entries too: see `entries`."""

    @classmethod
    def of(
        cls, snapshot: Snapshot, rules: ObjectiveRules, demand: RoundDemand, seen: Floats, own: Memory
    ) -> Self:
        """The jobs of `demand`, whose rates count as `seen`."""
        rows, gpus, rates, capacity, pairs = (
            demand.rows,
            demand.gpus,
            demand.rates,
            demand.capacity,
            demand.pairs,
        )
        return cls(snapshot, rules, rows, gpus, rates, seen, capacity, pairs, own)

    @cached_property
    def entries(self) -> Entries:
        """The jobs as a division of time, with the rates that the objective sees."""
        demand = RoundDemand(self.rows, self.gpus, self.rates, self.capacity, self.pairs)
        apart_by = np.zeros((0, 0)) if self.pairs is None else self._apart_by()
        return entries(demand, self.seen, apart_by, all_pairs=self.all_pairs)

    def _apart_by(self) -> Floats:
        """Features that distinguish jobs of one workload for the objective, [job, value]."""
        jobs = self.snapshot.jobs
        columns = [jobs.weight[self.rows]]
        if self.rules.by_tenant:
            columns.append(jobs.tenant[self.rows])
            if self.rules.in_order_inside:
                columns.append(self.rows)
        return np.column_stack(columns)

    @property
    def division(self) -> Division:
        return self.entries.division

    @cached_property
    def weights(self) -> Floats:
        """Parts of the largest weight, above 0; 1 for all if no job has any.

        A job with almost no weight is served behind all others.
        """
        column: Floats = self.snapshot.jobs.weight[self.rows]
        most = float(column.max(initial=0.0))
        return np.maximum(column / most, _LEAST_WEIGHT) if most > 0.0 else np.ones_like(column)

    @cached_property
    def work_left(self) -> Floats:
        """Work still to do, in the unit of the rates; at least a trace of it."""
        left: Floats = np.maximum(self.work_to_go, 1e-9 * self.rates.max(axis=1))
        return left

    @cached_property
    def work_to_go(self) -> Floats:
        """Work left; below 0 for a job that has done more than there is: where batch sizes change at
        round ends, all epochs may be over at once."""
        total_s = self.snapshot.know(Knowledge.DURATION)[self.rows]
        left: Floats = (total_s - self.snapshot.jobs.work_s(self.rows)) * self.rates.max(axis=1)
        return left

    @cached_property
    def work_done(self) -> Floats:
        """Work done so far, in the unit of the rates."""
        return self.snapshot.jobs.work_done(self.rows)

    @cached_property
    def age_s(self) -> Floats:
        """Seconds since submission."""
        age: Floats = self.snapshot.now - self.snapshot.jobs.submit_s[self.rows]
        return age

    @cached_property
    def deadline_in_s(self) -> Floats:
        """Seconds to the deadline, not finite where there is none."""
        left: Floats = self.snapshot.jobs.deadline_s[self.rows] - self.snapshot.now
        return left

    @cached_property
    def prices(self) -> Floats:
        """Price of a GPU-hour on each type, in the classes of its nodes; 1 for all if none is stated.

        InputError if it states one for some types only.
        """
        cluster = self.snapshot.cluster
        if not any(cluster.prices.get(name) for name in cluster.type_names):
            return np.ones(len(cluster.type_names))
        missing = next((name for name in cluster.type_names if not cluster.prices.get(name)), "")
        if missing:
            raise InputError.at(
                f"{missing} has no price, and objective=cost weighs types by it",
                field="prices",
                expected="prices for " + ", ".join(cluster.type_names) + ", or for none of them",
            )
        return np.array([cluster.gpu_price(code) for code in range(len(cluster.type_names))])

    @cached_property
    def tenants(self) -> list[str]:
        """The tenant at the top of each job's path."""
        table, top = self.snapshot.jobs.table, dict[int, str]()
        codes: list[int] = table.tenant[self.rows].tolist()
        for row, code in zip(self.rows.tolist(), codes, strict=True):
            if code not in top:
                top[code] = table.name_of("tenant", row).partition("/")[0]
        return [top[code] for code in codes]

    @cached_property
    def equal_share(self) -> Floats:
        """What each job obtains per second from time divided over the types in proportion to their GPUs."""
        rates: Floats = self.seen @ (self.capacity / self.capacity.sum())
        return rates

    @cached_property
    def isolated(self) -> Floats:
        """Fractions of each job if the cluster were split evenly among the jobs, [job, type]."""
        return equal_parts(self.capacity, self.gpus)

    @cached_property
    def isolated_rate(self) -> Floats:
        """Work per second of each job on its part if the cluster were split evenly among the jobs."""
        rates: Floats = (self.seen * self.isolated).sum(axis=1)
        return rates

    def by_class(self, values: Floats) -> Floats:
        """Sum of `values` over the jobs that each job of the division stands for."""
        if self.pairs is None:  # each stands for itself
            return values
        total: Floats = np.bincount(
            self.entries.classes, weights=values, minlength=len(self.division.counts)
        ).astype(np.float64)
        return total

    def mean(self, values: Floats) -> Floats:
        """Mean of `values` over the jobs that each job of the division stands for."""
        return values if self.pairs is None else self.by_class(values) / self.division.counts

    def by_job(self, fractions: Floats) -> Shares:
        """The fractions of a division without pairs, [job, type], as shares."""
        return Shares(alone(len(self.rows)), fractions)


Objective = Callable[[GavelProblem], Shares]
"""The answer of an objective."""


def seen_rates(rates: Floats, rules: ObjectiveRules) -> Floats:
    """Rates as the objective sees them, [job, type].

    Without `aware` all types are equally fast: 1 wherever a job runs; with objectives that count work, its
    rate on the first type on which it runs.
    """
    return rates if rules.aware else np.where(rates > 0.0, blind_rates(rates, rules), 0.0)


def blind_rates(rates: Floats, rules: ObjectiveRules) -> Floats:
    """The rate that stands for all types, [job, 1]."""
    if not rules.counts_work:
        return np.ones((len(rates), 1))
    first: Floats = rates[np.arange(len(rates)), (rates > 0.0).argmax(axis=1)]
    return first[:, None]


def settled(problem: GavelProblem, needs: Floats) -> tuple[dict[int, int], Floats]:
    """The types that jobs were given before, by row, and the GPUs of each that this leaves, of `needs` [job].

    Where GPUs were lost since, jobs that run there stay first, then earlier ones; the others count as having
    been given no type.
    """
    here = {row: place for place, row in enumerate(problem.rows.tolist())}
    before = {row: kind for row, kind in problem.own.get("kinds", {}).items() if row in here}
    left, kind_of = problem.capacity.copy(), dict[int, int]()
    for row, kind in sorted(before.items(), key=lambda one: (not _runs_on(problem.snapshot, *one), one)):
        takes = needs[here[row]]
        if left[kind] >= takes - EPSILON:
            left[kind] -= takes
            kind_of[row] = kind
    return kind_of, left


def _runs_on(snapshot: Snapshot, row: int, kind: int) -> bool:
    """True if the job runs on GPUs of this type at present."""
    grant = snapshot.grants.get(row)
    return grant is not None and snapshot.cluster.device_type.item(grant.devices[0]) == kind
