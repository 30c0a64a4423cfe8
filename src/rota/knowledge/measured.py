"""Providers that learn from what is seen of running jobs: scaling curves, utilisation."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from rota.knowledge.given import Provides
from rota.knowledge.needs import Knowledge, Observation, Provenance, Provider, Table
from rota.knowledge.registry import Setup, Where, provides
from rota.knowledge.seen import JobObservations, by_size, efficiency, is_alone, shape_of
from rota.knowledge.step_speed import Training, fit_speed
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints
from rota.model.jobs import JobTable
from rota.table.state import State


class MeasuredScaling(Provides):
    """Speed by number of GPUs for each class of jobs, along a line through what was measured.

    Jobs of one workload and batch are a class, a job without a workload is one of its own.  Until a class was
    measured on two numbers of GPUs, its speed is taken to be in proportion to them.  A curve is of one type
    of GPU and one batch: those on which most numbers were measured.  Of jobs that choose their batch it is
    one of goodput, at the batches that they chose.
    """

    learns = True
    listens = True

    def __init__(
        self, jobs: JobTable, cluster: Cluster, provenance: Provenance = Provenance.MEASURED
    ) -> None:
        self.jobs = jobs
        self.cluster = cluster
        self._curve = np.zeros(len(jobs), dtype=np.int64)
        self._unit = np.ones(len(jobs))
        self._class = np.full(len(jobs), -1, dtype=np.int64)
        self._classes: dict[Hashable, int] = {}
        self._seen: dict[int, JobObservations] = {}
        """What was seen of each class."""
        self._code: dict[int, int] = {}
        """Curve of each class that was measured."""
        self._measured: list[Mapping[int, float]] = [{1: 1.0}]
        """Speed by number of GPUs of each curve; the first is in proportion."""
        self._most = 1
        """The most GPUs that a submitted job can use: curves end there."""
        self._table: Table | None = None
        super().__init__(Knowledge.SCALING, provenance, self.known())

    def attach(self, state: State) -> None:
        for row in range(state.submitted):
            self.submitted(row)

    def submitted(self, row: int) -> None:
        most = max(self.jobs.gpus.item(row), self.jobs.gpus_max.item(row))
        if most > self._most:
            self._most, self._table = most, None
        number = self._classes.setdefault(self._key(row), len(self._classes))
        self._class[row] = number
        self._join(np.array([row]), self._code.get(number, 0))

    def _key(self, row: int) -> Hashable:
        workload, batch = self.jobs.name_of("workload", row), self.jobs.batch_size.item(row)
        return (workload, batch if batch > 0.0 else 0.0) if workload else row

    def _join(self, rows: Ints, code: int) -> None:
        """`rows` go by the curve `code`."""
        self._curve[rows] = code
        self._unit[rows] = self.speed_on(np.maximum(self.jobs.gpus[rows], 1), self._measured[code])

    def observed(self, seen: Sequence[Observation]) -> None:
        changed = {self._class.item(one.row) for one in seen if self._hear(one)}
        for number in sorted(changed):
            job = self._seen[number]
            if job.take_news():
                self._draw(number, by_size(job.told_speeds)[0])

    def _hear(self, one: Observation) -> bool:
        """Take up an observation; True if it says how fast its class is."""
        speed = speed_seen(one)
        if not speed > 0.0 or not is_alone(one.grant):
            return False
        job = self._seen.setdefault(self._class.item(one.row), JobObservations())
        batch = one.batch_size
        if self.jobs.batch_max.item(one.row) > 0.0:  # it chooses: what it learns counts, at whatever batch
            initial = self.jobs.batch_size.item(one.row)
            speed, batch = speed * efficiency(batch, initial, one.noise), 0.0
        job.time(shape_of(self.cluster, one.grant, batch), speed)
        return True

    def _draw(self, number: int, sizes: Mapping[int, float]) -> None:
        """The curve of a class goes through `sizes`, if there are two."""
        if len(sizes) < 2:
            return
        code = self._code.setdefault(number, len(self._measured))
        self._measured[code : code + 1] = [sizes]
        self._table = None
        self._join(np.flatnonzero(self._class == number), code)

    def speed_on(self, counts: Ints, measured: Mapping[int, float]) -> Floats:
        """Speed of a class on each of `counts` devices."""
        return speed_on(counts, measured)

    def known(self) -> Table:
        if self._table is None:
            counts = np.arange(self._most + 1)
            rates = np.array([self.speed_on(counts, sizes) for sizes in self._measured])
            self._table = Table({"curve": self._curve, "unit": self._unit}, {"rates": rates})
        return self._table


def speed_seen(one: Observation) -> float:
    """Samples or steps per second as the program reports, else work per second; NaN if unknown."""
    if one.step_s > 0.0:
        return (one.batch_size if one.batch_size > 0.0 else 1.0) / one.step_s
    return one.work / (one.until_s - one.since_s) if one.until_s > one.since_s else math.nan


def speed_on(counts: Ints, measured: Mapping[int, float]) -> Floats:
    """Speed on each of `counts` devices: linear between measured numbers, and beyond the last of them too.

    More devices never make a job slower, nor more than in proportion faster than the most it was measured on.
    """
    sizes = [0, *sorted(measured)]
    speeds = np.maximum.accumulate([0.0, *(measured[size] for size in sizes[1:])])
    slope = (speeds[-1] - speeds[-2]) / (sizes[-1] - sizes[-2])
    beyond = np.maximum(counts - sizes[-1], 0) * min(slope, speeds[-1] / sizes[-1])
    on: Floats = np.interp(counts, sizes, speeds) + beyond
    return on


@provides(
    Knowledge.SCALING,
    Provenance.MEASURED,
    "measured rates on the numbers of GPUs on which jobs ran; in proportion to GPUs until there are two",
)
def measured_scaling(setup: Setup) -> Provider:
    return MeasuredScaling(setup.jobs, setup.cluster)


class FittedScaling(MeasuredScaling):
    """Scaling along Optimus' model of a step, once a class was measured on three numbers of GPUs."""

    def __init__(self, jobs: JobTable, cluster: Cluster) -> None:
        super().__init__(jobs, cluster, Provenance.PREDICTED)

    def speed_on(self, counts: Ints, measured: Mapping[int, float]) -> Floats:
        sizes = sorted(measured)
        model = fit_speed(Training.ALL_REDUCE, sizes, [measured[size] for size in sizes])
        if model is None:
            return speed_on(counts, measured)
        speeds = [measured.get(k, model.at(k) if k else 0.0) for k in counts.tolist()]
        never_slower: Floats = np.maximum.accumulate(speeds)
        return never_slower


@provides(
    Knowledge.SCALING,
    Provenance.PREDICTED,
    "Optimus' model of a step, fitted to rates on three numbers of GPUs; until then as measured",
)
def fitted_scaling(setup: Setup) -> Provider:
    return FittedScaling(setup.jobs, setup.cluster)


class MeasuredUtilisation(Provides):
    """Part of its devices that each job keeps busy; all of them until it was watched for long enough."""

    learns = True
    listens = True

    def __init__(self, jobs: JobTable) -> None:
        self._busy = np.ones(len(jobs))
        self._seen: dict[int, JobObservations] = {}
        super().__init__(Knowledge.UTILISATION, Provenance.MEASURED, self._busy)

    def observed(self, seen: Sequence[Observation]) -> None:
        for one in seen:
            if one.busy == one.busy and is_alone(one.grant):
                job = self._seen.setdefault(one.row, JobObservations())
                job.look(one.busy, one.until_s - one.since_s)
                if job.take_news():
                    self._busy[one.row] = job.told


@provides(
    Knowledge.UTILISATION,
    Provenance.MEASURED,
    "samples taken while a job is alone on its devices; full until it was sampled for a minute",
    where={Where.LIVE},
)
def measured_utilisation(setup: Setup) -> Provider:
    return MeasuredUtilisation(setup.jobs)


@provides(
    Knowledge.UTILISATION,
    Provenance.ASSUMED,
    "every job keeps its devices fully busy",
    where={Where.SIMULATED},
)
def assumed_utilisation(setup: Setup) -> Provider:
    return Provides(Knowledge.UTILISATION, Provenance.ASSUMED, np.ones(len(setup.jobs)))
