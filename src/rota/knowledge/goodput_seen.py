"""Goodput as it is learnt while jobs run: step times by size and batch, and the noise of the gradient.

Every job is a class by itself, as the agents of Pollux and Sia see it.  Its fits (`rota.knowledge.step_fit`)
are of what was seen of it on each type of GPU, NaN on types on which it has not run; sizes it has not run on
are as good as they can be.  Limits of batches are those that the world's profiles state, or what a job asked
for: between its batch size and the most it may have, at least one example on each GPU, and on one GPU no more
than its program says it bears, or than was seen.  A job that says no batch size has one that cannot change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rota.knowledge.given import Provides
from rota.knowledge.needs import Knowledge, Observation, Provenance, Provider, Table
from rota.knowledge.registry import Setup, provides
from rota.knowledge.seen import NEWS, is_alone
from rota.knowledge.step_fit import PARAMETERS, StepSample
from rota.knowledge.step_times import StepTimes
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.jobs import JobTable
from rota.table.state import State

_NO_BATCH = 5040.0
"""Batch of a job that states none: numbers of GPUs up to ten divide it, and others nearly do."""


class SeenGoodput(Provides):
    """What running jobs report, as a table like `goodput_table`.

    A further column is `profiled` [job, type], the most GPUs that each was seen on, 0 for none.
    """

    learns = True
    listens = True

    def __init__(self, jobs: JobTable, cluster: Cluster, stated: Table | None = None) -> None:
        """`stated` are profiles with limits; the rest of them is not used."""
        self.jobs, self.cluster = jobs, cluster
        self._types = max(1, len(cluster.type_names))
        self.times = StepTimes[tuple[int, int]]()
        self._limits = np.array([_limits_of(jobs, row) for row in range(len(jobs))]).reshape(-1, 5)
        self._is_stated = stated is not None
        if stated is not None:
            self._limits = np.array(stated.shared["limits"][stated.by_row["class"]])
        self._fits = np.full((len(jobs), self._types, PARAMETERS), math.nan)
        self._noise = np.tile(np.array([math.inf, 1.0, 0.0]), (len(jobs), 1, 1))
        self._profiled = np.zeros((len(jobs), self._types), dtype=np.int64)
        self._class = np.arange(len(jobs))
        self._table: Table | None = None
        super().__init__(Knowledge.GOODPUT, Provenance.MEASURED, self.known())

    def attach(self, state: State) -> None:
        for row in range(state.submitted):
            self.submitted(row)

    def submitted(self, row: int) -> None:
        if not self._is_stated:
            self._set_limits(row, _limits_of(self.jobs, row))

    def ended(self, row: int, ran_s: float) -> None:
        for kind in range(self._types):
            self.times.forget((row, kind))

    def observed(self, seen: Sequence[Observation]) -> None:
        for one in seen:
            if is_alone(one.grant):
                self._hear(one)
        for row, kind in self.times.refit():
            self._fits = self._own(self._fits)
            self._fits[row, kind] = self.times.fit((row, kind))

    def _hear(self, one: Observation) -> None:
        """Take up its steps, the noise of its gradient, and what its GPUs bear."""
        row, devices = one.row, list(one.grant.devices)
        kind = self.cluster.device_type.item(devices[0])
        step_s, batch, passes = _step_of(one, self._limits[row])
        local = batch / (len(devices) * (passes + 1))
        self._bears(one, local)
        nodes = len(set(self.cluster.device_node[devices].tolist()))
        self.times.add((row, kind), StepSample(nodes, len(devices), local, passes, step_s, one.gradient_s))
        if step_s > 0.0 and len(devices) > self._profiled[row, kind]:
            self._profiled[row, kind] = len(devices)
            self._table = None
        if one.noise >= 0.0:
            var = one.noise / self._limits[row, 0]
            if abs(var - self._noise[row, 0, 2]) > NEWS * self._noise[row, 0, 2]:
                self._noise = self._own(self._noise)
                self._noise[row, 0, 1:] = (1.0, var) if math.isfinite(var) else (0.0, 1.0)

    def _bears(self, one: Observation, local: float) -> None:
        """Limits that were not stated are what the program reports, or has shown."""
        if self._is_stated:
            return
        limits = self._limits[one.row].copy()
        limits[3] = one.local_most if one.local_most > 0.0 else max(limits[3], math.ceil(local))
        limits[4] = max(limits[4], float(not math.isnan(one.passes)))
        self._set_limits(one.row, limits)

    def _set_limits(self, row: int, limits: Floats | Sequence[float]) -> None:
        if not np.array_equal(self._limits[row], limits):
            self._limits = self._own(self._limits)
            self._limits[row] = limits

    def _own(self, array: Floats) -> Floats:
        """`array` to be changed: a copy of the published one, which is read-only."""
        self._table = None
        return array if array.flags.writeable else array.copy()

    def known(self) -> Table:
        if self._table is None:
            shared = {"fits": self._fits, "limits": self._limits, "noise": self._noise}
            self._table = Table({"class": self._class, "profiled": self._profiled}, shared)
        return self._table


def _limits_of(jobs: JobTable, row: int) -> list[float]:
    """The range in which the job may choose its batch, from its request."""
    asked, least, most = (column.item(row) for column in (jobs.batch_size, jobs.batch_min, jobs.batch_max))
    initial = asked if asked > 0.0 else (least if least > 0.0 else _NO_BATCH)
    most = max(most, initial) if most > 0.0 else initial
    each = math.ceil(initial / max(jobs.gpus.item(row), 1) - 1e-9)
    return [initial, most, 1.0, float(initial if most == initial else each), 0.0]


def _step_of(one: Observation, limits: Floats) -> tuple[float, float, int]:
    """Seconds of a step, its batch size and accumulated passes; from work per second where unreported."""
    passes = 0 if math.isnan(one.passes) else int(one.passes)
    batch = one.batch_size if one.batch_size > 0.0 else float(limits[0])
    if one.step_s > 0.0:
        return one.step_s, batch, passes
    seconds = one.until_s - one.since_s
    is_told = one.work > 0.0 and seconds > 0.0
    return (seconds / one.work if is_told else math.nan), batch, passes


@provides(
    Knowledge.GOODPUT,
    Provenance.MEASURED,
    "fits through measurements on the sizes on which a job ran; perfect scaling on others",
)
def measured_goodput(setup: Setup) -> Provider:
    profiles = setup.offered.get(Knowledge.GOODPUT)
    stated = profiles.known() if profiles is not None else None
    return SeenGoodput(setup.jobs, setup.cluster, stated if isinstance(stated, Table) else None)
