"""Speed of jobs whose batch size changes as they train, from a table of throughputs and their courses.

`RegimeSpeed` changes the batch size where an epoch ends, and counts work in samples.  `StepRegimeSpeed`
counts it in iterations and changes the batch size at the end of a round, as Shockwave's simulator does.
Both remember where each job is, so each run uses its own copy (`fresh`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np

from rota.errors import InputError
from rota.knowledge.given import Given, Provides
from rota.knowledge.needs import Knowledge, Provenance, Table
from rota.knowledge.regimes import Course, classes_of, profile_of
from rota.knowledge.throughput import ThroughputTable, accepted, only_where_measured, with_batch
from rota.model.cluster import Cluster
from rota.model.columns import Array, Floats
from rota.model.grants import Grant
from rota.model.trace import Trace
from rota.table.state import State
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed_table import ThroughputSpeed
from rota.worlds.simulated.stretches import Sight


class RegimeSpeed(ThroughputSpeed):
    """Rate in samples per second, by GPU type, number of GPUs and batch size; that changes between epochs."""

    def __init__(
        self,
        trace: Trace,
        cluster: Cluster,
        table: ThroughputTable,
        courses: Sequence[Course],
        slowdowns: Slowdowns | None = None,
    ) -> None:
        """InputError names a batch size of a job that the table does not know.

        Of `asks`, what it does not know is left out.
        """
        super().__init__(trace, cluster, table, slowdowns)
        self.facts = _Facts(trace, cluster, table, courses)
        self.jobs = only_where_measured(trace.jobs, self.facts.everywhere * self.rates, cluster)
        self._begin()

    @property
    def alone_s(self) -> Floats:
        """Seconds that each job takes at its request, through all its regimes."""
        return self.facts.alone_s

    def fresh(self) -> Self:
        """A copy for the beginning of a run."""
        new = copy(self)
        new._begin()
        return new

    def _begin(self) -> None:
        facts, jobs = self.facts, len(self.facts.courses)
        self.batch_now = np.array([course.regimes[0].batch for course in facts.courses])
        """Present batch size of each job."""
        self.rates = np.array([facts.rates[row][batch] for row, batch in enumerate(self.batch_now.tolist())])
        self._codes = [facts.codes[row][batch] for row, batch in enumerate(self.batch_now.tolist())]
        self.per_epoch = self._work_per_epoch()
        """Work of an epoch of each job at its present batch size."""
        self.per_s = self._work_per_s()
        self.seen = np.zeros((jobs, facts.told.shared["modes"].shape[1]))
        """Epochs of each job in each of its modes, the present one included."""
        self.epoch = np.zeros(jobs, dtype=np.int64)
        """How many epochs that are, which may be fewer than have begun."""
        self._count()
        self.knowledge = {
            **self.knowledge,
            Knowledge.THROUGHPUT: _Follows(Knowledge.THROUGHPUT, self._throughput),
            Knowledge.DURATION: self._duration(),
            Knowledge.REGIMES: _RegimesTold(self),
        }

    def _count(self) -> None:
        """All the work of each job."""
        self.iterations = np.array([course.epochs for course in self.facts.courses]) * self.per_epoch

    def _work_per_epoch(self) -> Floats:
        return np.array([course.samples for course in self.facts.courses])

    def _work_per_s(self) -> Floats:
        """Work per second at the request; NaN where it changes."""
        steady = np.array([len(course.batches) == 1 for course in self.facts.courses])
        return np.where(steady, self.rates.max(axis=1) * self.batch_now, math.nan)

    def _throughput(self) -> Floats:
        rates: Floats = self.rates * self.batch_now[:, None]
        return rates

    def _duration(self) -> Provides:
        return Given(Knowledge.DURATION, self.facts.alone_s)

    def lasting(self, row: int, grant: Grant) -> float:
        """NaN: every rate ends with its regime."""
        return math.nan

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        course = self.facts.courses[row]
        epoch = at.done / course.samples
        batch = course.at(epoch)
        self._use(row, batch)
        rate, _, until_s = super().pace(row, grant, beside, at)
        ends = next((one.first for one in course.regimes if one.first > epoch), math.inf)
        return Pace(rate * batch, ends * course.samples, until_s)

    def _use(self, row: int, batch: float) -> None:
        """Set the batch size with which `row` works from now on."""
        if batch != self.batch_now.item(row):
            self.batch_now[row] = batch
            self.rates[row] = self.facts.rates[row][batch]
            self._codes[row] = self.facts.codes[row][batch]

    def sight(self, row: int) -> Sight:
        """What the program of `row` would say of its batch size."""
        return Sight(batch_size=self.batch_now.item(row))

    def note(self, row: int, epochs: float) -> None:
        """`row` has done `epochs` epochs: count the whole ones, and the present one, by mode."""
        modes, course = self.facts.modes[row], self.facts.courses[row]
        for epoch in range(self.epoch.item(row), int(min(epochs, course.epochs - 1.0)) + 1):
            self.seen[row, modes[course.at(epoch)]] += 1.0
            self.epoch[row] = epoch + 1


FAILED_ROUNDS = 5
"""Rounds in which a job does nothing before it is given up; one that has all its steps is done by then."""


class StepRegimeSpeed(RegimeSpeed):
    """Rate in iterations per second; programs ask for other batch sizes, and get them at the end of a round.

    What a program asks for at the end of a round it gets at the end of the next in which it runs.  The epochs
    it has to do remain: epochs done, a begun one included, and epochs in all count in new iterations.
    A job that has done more than there is by that count fails every round, and is done when the fifth begins.
    What is left to do counts at the present batch size, to policies as well, which see that such a job has
    done more than there is.
    """

    def _begin(self) -> None:
        super()._begin()
        self._wishes: dict[int, float] = {}
        """Batch sizes that jobs have asked for."""
        self._failed: dict[int, int] = {}
        """Rounds failed so far by jobs that have done more than there is."""

    def _count(self) -> None:
        self.iterations = self.facts.iterations.copy()
        """Iterations of each job at its present batch size."""

    def _work_per_epoch(self) -> Floats:
        return np.array(
            [_steps(course, batch) for course, batch in zip(self.facts.courses, self.batch_now, strict=True)]
        )

    def _work_per_s(self) -> Floats:
        per_s: Floats = self.rates.max(axis=1)
        return per_s

    def _throughput(self) -> Floats:
        return self.rates.copy()

    def _duration(self) -> Provides:
        return _Follows(Knowledge.DURATION, lambda: self.iterations / self.per_s)

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        if row in self._failed:
            return Pace(0.0)
        return ThroughputSpeed.pace(self, row, grant, beside, at)

    def rebase(self, row: int, done: float, total: float) -> tuple[float, float] | None:
        """The end of a round: the requested change happens, then the program may request another."""
        if row in self._failed:
            self._failed[row] += 1
            if self._failed[row] < FAILED_ROUNDS - 1:
                return None
            del self._failed[row]
            return self.iterations.item(row), self.iterations.item(row)
        wish = self._wishes.pop(row, None)
        counted = None
        if wish is not None:
            done, total = counted = self._change(row, int(done), int(total), wish)
        course, epoch = self.facts.courses[row], math.ceil(done / self.per_epoch.item(row))
        asked = course.wish(epoch, self.batch_now.item(row))
        if asked in self.facts.rates[row]:
            self._wishes[row] = asked
        if counted is None or done < total:
            return counted
        self._failed[row] = 0
        return done, done + 1.0  # not done yet: in the fifth round from now

    def _change(self, row: int, done: int, total: int, batch: float) -> tuple[float, float]:
        """Work done and in all with another batch size; the number of epochs stays."""
        self.note(row, done / self.per_epoch.item(row))
        course, old = self.facts.courses[row], self.batch_now.item(row)
        before, after = _steps(course, old), _steps(course, batch)
        epochs = -(-total // before)
        total = math.ceil(total * old / batch)
        if -(-total // after) != epochs:
            total = epochs * after
        self._use(row, batch)
        self.per_epoch[row], self.per_s[row], self.iterations[row] = after, self.rates[row].max(), total
        return float(-(-done // before) * after), float(total)

    def note(self, row: int, epochs: float) -> None:
        """The epochs since the last were done with the present batch size."""
        upto = int(min(epochs, self.facts.courses[row].epochs - 1.0)) + 1
        mode = self.facts.modes[row][self.batch_now.item(row)]
        self.seen[row, mode] += max(upto - self.epoch.item(row), 0)
        self.epoch[row] = max(upto, self.epoch.item(row))


def _steps(course: Course, batch: float) -> int:
    """Iterations of an epoch."""
    return math.ceil(course.samples / batch)


class _Facts:
    """What does not change in a run: the courses, and how fast each job is in each of its modes."""

    def __init__(
        self, trace: Trace, cluster: Cluster, table: ThroughputTable, courses: Sequence[Course]
    ) -> None:
        place = {name: i for i, name in enumerate(table.workloads)}
        sizes, accepts = table.by_size(cluster.type_names), accepted(trace.jobs, cluster)
        self.iterations = trace.truth.iterations
        self.courses: list[Course] = []
        self.codes: list[dict[float, int]] = []
        """Workload of the table by batch size, for each job."""
        self.rates: list[dict[float, Floats]] = []
        """Iterations per second by GPU type, by batch size, for each job."""
        for row, course in enumerate(courses):
            model = trace.jobs.name_of("workload", row).removesuffix(with_batch("", course.regimes[0].batch))
            gpus, takes = trace.jobs.gpus.item(row), accepts[row]
            codes, rates = {}, {}
            for batch in course.modes:
                code = place.get(with_batch(model, batch), -1)
                of_types = sizes[code] if code >= 0 else [{}] * len(takes)
                rate = takes * [of_type.get(gpus, 0.0) for of_type in of_types]
                if rate.any():
                    codes[batch], rates[batch] = code, rate
                elif batch in course.batches:
                    raise InputError.at(
                        f"job {trace.jobs.ids[row]} comes to use batch size {batch:g}, and "
                        f"{with_batch(model, batch)!r} on {gpus} GPUs is not measured",
                        file=table.source,
                        expected="a row for it on a type that the cluster has and the job accepts",
                    )
            self.codes.append(codes)
            self.rates.append(rates)
            self.courses.append(replace(course, asks=tuple(one for one in course.asks if one.batch in rates)))
        self.modes = [{batch: i for i, batch in enumerate(course.modes)} for course in self.courses]
        """Place of each batch size among the modes of a job."""
        self.everywhere = np.array([np.all(list(rates.values()), axis=0) for rates in self.rates])
        """True on types on which all batch sizes of a job are measured, [job, type]."""
        self.alone_s = np.array([self._alone_s(row) for row in range(len(courses))])
        """Seconds that each job takes at its request, through all its regimes."""
        self.told = classes_of(
            [
                profile_of(course, [self.epoch_s(row, batch) for batch in course.modes])
                for row, course in enumerate(self.courses)
            ]
        )

    def epoch_s(self, row: int, batch: float) -> float:
        """Seconds of an epoch with a batch size, at the request on the fastest type."""
        return self.courses[row].samples / batch / float(self.rates[row][batch].max())

    def _alone_s(self, row: int) -> float:
        course = self.courses[row]
        ahead = [regime for regime in course.regimes if regime.first < course.epochs]
        ends = [*(regime.first for regime in ahead[1:]), course.epochs]
        return sum(
            (end - regime.first) * self.epoch_s(row, regime.batch)
            for regime, end in zip(ahead, ends, strict=True)
        )


class _Follows(Provides):
    """What the world is now, read again each time."""

    learns = True

    def __init__(self, kind: Knowledge, now: Callable[[], Floats]) -> None:
        super().__init__(kind, Provenance.ORACLE, now())
        self._now = now

    def known(self) -> Array:
        return self._now()


class _RegimesTold(Provides):
    """Where each job is on its course."""

    learns = True

    def __init__(self, speed: RegimeSpeed) -> None:
        super().__init__(Knowledge.REGIMES, Provenance.ORACLE, Table())
        self._speed = speed
        self._state: State | None = None

    def attach(self, state: State) -> None:
        self._state = state

    def known(self) -> Table:
        speed, facts = self._speed, self._speed.facts
        modes = [facts.modes[row][batch] for row, batch in enumerate(speed.batch_now.tolist())]
        if self._state is not None:
            progress, rows = self._state.progress, np.arange(self._state.submitted)
            epochs = progress.done(rows, self._state.now) / speed.per_epoch[rows] + 1e-9
            for row in np.flatnonzero(epochs.astype(np.int64) >= speed.epoch[rows]).tolist():
                speed.note(row, epochs.item(row))
        by_row = {
            "class": facts.told.of_row,
            "epochs": np.array([course.epochs for course in facts.courses]),
            "per_epoch": speed.per_epoch.copy(),
            "mode": np.array(modes, dtype=np.int64),
            "seen": speed.seen.copy(),
        }
        return Table(by_row, facts.told.shared)
