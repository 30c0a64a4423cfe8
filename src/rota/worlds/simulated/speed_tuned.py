"""Jobs that choose their batch by what they have measured themselves, on step times as they were measured.

The inside of a job in the simulators of Pollux (OSDI 2021) and Sia (SOSP 2023).  A job times its steps on
every configuration it runs on, fits the seven parameters of step times on that type of GPU (`step_fit`), and
takes the batch that is best by its own fit: when it gets other GPUs, when an epoch ends, and at each
tick at which something is new.  Before it has timed a step there it takes the smallest batch its GPUs share.
Policies receive what it has learnt: fits, statistics of the gradient, the number of GPUs it was timed on.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Self

import numpy as np

from rota.knowledge.given import Provides
from rota.knowledge.goodput import BatchSplit
from rota.knowledge.goodput_sizes import GoodputSizes
from rota.knowledge.needs import Knowledge, Provenance, Provider, Table
from rota.knowledge.step_fit import StepSample
from rota.knowledge.step_tables import MeasuredWorkload, StepSeconds, StepTable, StepTables, shape_of
from rota.knowledge.step_times import StepTimes
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints, read_only
from rota.model.grants import Grant
from rota.model.jobs import JobTable
from rota.model.trace import Trace
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed_steps import StepTableSpeed
from rota.worlds.simulated.stretches import Sight


class BatchBounds(StrEnum):
    """Which system's jobs: what bounds the batch of one GPU."""

    POLLUX = "pollux"  # what any placement of that type allows
    SIA = "sia"  # what this very placement allows


@dataclass
class _Running:
    """How a job works on what it holds, and since when."""

    devices: tuple[int, ...]
    shape: tuple[int, ...]
    kind: int
    batch: BatchSplit
    epoch: int
    done: float
    now: float
    timed: tuple[int, BatchSplit] | None = None
    """Epoch and batch that it has timed completely."""
    heard: float = -math.inf
    """When its observations were last noted before its rate was read."""


class TunedSpeed(StepTableSpeed):
    """Rate by workload, GPUs on each node, type and epoch; the batch is named, or the job's own choice."""

    def __init__(
        self,
        trace: Trace,
        cluster: Cluster,
        tables: StepTables,
        slowdowns: Slowdowns | None = None,
        *,
        tuning: BatchBounds = BatchBounds.SIA,
        tick_s: float = 60.0,
    ) -> None:
        super().__init__(trace, cluster, tables, slowdowns)
        self.jobs = _with_ranges(self.jobs, self.workloads)
        """The jobs, each with the batch sizes that its workload was measured with for its own."""
        self.tuning = tuning
        self.tick_s = tick_s
        self._running: dict[int, _Running] = {}
        self._sizes: dict[tuple[int, int], GoodputSizes] = {}
        self.learnt = Learnt(self.workloads, self._types)

    @cached_property
    def knowledge(self) -> Mapping[Knowledge, Provider]:
        """What this world is made of, and what its jobs have learnt."""
        return {**super().knowledge, Knowledge.GOODPUT: self.learnt}

    def fresh(self) -> Self:
        """A copy for the beginning of a run, when no job has learnt anything."""
        new = super().fresh()
        new._running, new.learnt = {}, Learnt(new.workloads, new._types)
        return new

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        workload = self.workloads[row]
        epochs = workload.epochs
        epoch = min(bisect_right(epochs.ends, at.done), len(epochs) - 1)
        own = self._follow(row, grant, at)
        own.epoch = epoch
        seconds = self._times(row, own).at(own.shape, own.batch.local)
        gpus = sum(own.shape)
        goodput = workload.goodput(seconds, gpus, own.batch, epoch)
        goodput = goodput if goodput > 0.0 else 0.0
        factor, _, until_s = self.efficiency.of(row, grant, beside, at)
        self._sights[row] = _sight(workload, seconds, gpus, own, factor)
        self.batch_now[row] = own.batch.total(gpus)
        if own.timed != (epoch, own.batch):
            until_s = min(until_s, (math.floor(at.now / self.tick_s) + 1.0) * self.tick_s)
        return Pace(goodput * factor, epochs.ends[epoch], until_s)

    def _follow(self, row: int, grant: Grant, at: At) -> _Running:
        """How `row` works from now on, after noting what it saw since the last call."""
        own = self._running.get(row)
        if own is None or own.devices != grant.devices:
            shape = shape_of(Counter(self._node_of[device] for device in grant.devices).values())
            kind = self._type_of[grant.devices[0]]
            own = _Running(grant.devices, shape, kind, BatchSplit(1), 0, at.done, at.now)
            own.batch = self._choose(row, own, grant.batch_size)
            self._running[row] = own
        elif at.now > own.now and at.done > own.done:
            if own.heard != at.now:
                self._time(row, own)
            own.batch = self._choose(row, own, grant.batch_size)
        own.done, own.now = at.done, at.now
        return own

    def hear(self, rows: Iterable[tuple[int, float]], now: float) -> None:
        """The rates of `rows`, given with the work each has done by `now`, are about to be read.

        What they have seen is noted in one go, so that a single fit serves all of them.
        """
        for row, done in rows:
            own = self._running.get(row)
            if own is not None and now > own.now and done > own.done:
                self._time(row, own)
                own.heard = now

    def _times(self, row: int, own: _Running) -> StepTable:
        times = self.workloads[row].times_on(self._types[own.kind])
        assert times is not None, "a job runs on a type on which it was not measured"
        return times

    def _time(self, row: int, own: _Running) -> None:
        """Note that a job has worked for a while: it has timed its steps and measured its gradient noise."""
        own.timed = own.epoch, own.batch
        seconds = self._times(row, own).at(own.shape, own.batch.local)
        noise = self.workloads[row].epochs.noise(own.batch.total(sum(own.shape)), own.epoch)
        self.learnt.hear(row, own.kind, own.shape, own.batch, seconds, noise.scale(self._initial(row)))

    def _initial(self, row: int) -> int:
        return self.workloads[row].epochs.initial

    # -- the batch ---------------------------------------------------------------------------------

    def _choose(self, row: int, own: _Running, named: float) -> BatchSplit:
        """The named batch, or the best by the job's own fit, as the authors' jobs choose it."""
        workload, times, gpus = self.workloads[row], self._times(row, own), sum(own.shape)
        if not math.isnan(named):
            return workload.split(times, gpus, named)
        most = self._local_most(workload, times, own.shape)
        fit, noise = self.learnt.fit(row, own.kind), self.learnt.noise(row)
        if fit is None or noise is None:
            wanted = workload.usual(times, gpus)
            local = math.ceil(wanted / gpus - 1e-8)
            passes = max(
                math.ceil(local / most - 1e-8) - 1, int(gpus == 1 and wanted > workload.epochs.initial)
            )
            batch = BatchSplit(math.ceil(local / (passes + 1) - 1e-8), passes)
        else:
            key = len(own.shape), gpus
            if key not in self._sizes:
                self._sizes[key] = GoodputSizes(np.array([key[0]]), np.array([key[1]]), clips=False)
            epochs = workload.epochs
            limits = np.array([epochs.initial, epochs.most, times.local_least, most, 1.0])
            best = self._sizes[key].of(fit, limits, noise)
            batch = BatchSplit(max(best.local.item(0), 1), best.passes.item(0))
        local = batch.local
        if self.tuning is BatchBounds.SIA:
            local = min(local, times.most_of(gpus))
        return batch._replace(local=min(local, workload.epochs.most // (gpus * (batch.accumulated + 1))))

    def _local_most(self, workload: MeasuredWorkload, times: StepTable, shape: tuple[int, ...]) -> int:
        """Largest batch of one GPU in one pass."""
        return times.most_on(shape) if self.tuning is BatchBounds.SIA else workload.most_on(times)


def _sight(
    workload: MeasuredWorkload, seconds: StepSeconds, gpus: int, own: _Running, factor: float
) -> Sight:
    total = own.batch.total(gpus)
    scale = workload.epochs.noise(total, own.epoch).scale(workload.epochs.initial)
    slow = factor or math.nan
    return Sight(
        seconds.of(own.batch) / slow,
        total,
        scale,
        own.batch.accumulated,
        (seconds.step_s - seconds.sync_s) / slow,
    )


def _with_ranges(jobs: JobTable, workloads: Sequence[MeasuredWorkload]) -> JobTable:
    least, most = (
        read_only(np.array([getattr(one.epochs, name) for one in workloads], dtype=np.float64))
        for name in ("initial", "most")
    )
    return replace(jobs, batch_min=least, batch_max=most)


class Learnt(Provides):
    """What jobs have learnt of their goodput, as a table: every job is a class by itself."""

    learns = True

    def __init__(self, workloads: Sequence[MeasuredWorkload], types: Sequence[str]) -> None:
        jobs = len(workloads)
        self.times = StepTimes[tuple[int, int]](news=0.0)
        self._fits = np.full((jobs, len(types), 7), math.nan)
        self._noise: Floats = np.tile(np.array([math.inf, 1.0, math.nan]), (jobs, 1, 1))
        self._profiled: Ints = np.zeros((jobs, len(types)), dtype=np.int64)
        self._fixed = _limits(workloads, types)
        self._initial = [workload.epochs.initial for workload in workloads]
        self._dirty: set[tuple[int, int]] = set()
        self._table: Table | None = None
        super().__init__(Knowledge.GOODPUT, Provenance.MEASURED, self.known())

    def hear(
        self,
        row: int,
        kind: int,
        shape: tuple[int, ...],
        batch: BatchSplit,
        seconds: StepSeconds,
        noise: float,
    ) -> None:
        """`row` has timed its steps, and measured the noise of its gradient, in examples."""
        gpus, key = sum(shape), (row, kind)
        sample = StepSample(len(shape), gpus, batch.local, 0, seconds.step_s, seconds.step_s - seconds.sync_s)
        if self.times.add(key, sample):
            self._dirty.add(key)
        self._noise[row, 0, 1:] = (1.0, noise / self._initial[row]) if math.isfinite(noise) else (0.0, 1.0)
        self._profiled[row, kind] = max(self._profiled[row, kind], gpus)
        self._table = None

    def fit(self, row: int, kind: int) -> Floats | None:
        """The parameters [7] of its steps on a type; None if it has not run there."""
        fit: Floats | None = self.times.fit((row, kind))
        return fit

    def noise(self, row: int) -> float | None:
        """Noise scale of its gradient in examples; None before it has run."""
        _, sqr, var = self._noise[row, 0].tolist()
        if math.isnan(var):
            return None
        return var / sqr * self._initial[row] if sqr else math.inf

    def ended(self, row: int, ran_s: float) -> None:
        for kind in range(self._fits.shape[1]):
            self.times.forget((row, kind))

    def known(self) -> Table:
        if self._table is None:
            for row, kind in sorted(self._dirty):
                self._fits[row, kind] = self.times.fit((row, kind))
            self._dirty.clear()
            noise = np.nan_to_num(self._noise, nan=0.0, posinf=math.inf)
            shared = {"fits": self._fits.copy(), "noise": noise, **self._fixed}
            by_row = {"class": np.arange(len(self._fits)), "profiled": self._profiled.copy()}
            self._table = Table(by_row, shared)
        return self._table


def _limits(workloads: Sequence[MeasuredWorkload], types: Sequence[str]) -> dict[str, Floats]:
    """Limits of batches, by type too, and what one GPU of each type does."""
    jobs = len(workloads)
    limits, local, alone = (
        np.zeros((jobs, 5)),
        np.ones((jobs, len(types), 2)),
        np.full((jobs, len(types)), np.nan),
    )
    for row, workload in enumerate(workloads):
        measured = [workload.times_on(name) for name in types]
        for kind, times in enumerate(measured):
            if times is not None:
                local[row, kind] = times.local_least, workload.most_on(times)
                alone[row, kind] = times.alone()
        least = min(times.local_least for times in measured if times is not None)
        most = max(workload.most_on(times) for times in measured if times is not None)
        limits[row] = workload.epochs.initial, workload.epochs.most, least, most, 1.0
    return {"limits": limits, "local": local, "alone": alone}
