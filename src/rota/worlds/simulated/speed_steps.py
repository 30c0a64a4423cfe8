"""Speed by what was measured: seconds of a step by placement of the GPUs, progress by epoch and batch size.

The truth of Pollux' and Sia's simulators.  Work is counted in examples at the smallest batch size
(`rota.knowledge.goodput`), so that its rate changes with every epoch; a job is done with the last.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Self

import numpy as np

from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provider
from rota.knowledge.scaling import given_scaling
from rota.knowledge.step_tables import MeasuredWorkload, StepTable, StepTables, shape_of, whole_nodes
from rota.knowledge.throughput import accepted, given_throughput
from rota.knowledge.unmeasured import UnmeasuredError
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints
from rota.model.grants import Grant
from rota.model.trace import Trace
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.slowdowns import Efficiency, Slowdowns
from rota.worlds.simulated.step_knowledge import StepClass, StepConvergence, step_scaling
from rota.worlds.simulated.stretches import Sight

_Found = tuple[float, Sight]


class StepTableSpeed:
    """Rate by workload, GPUs on each node, type, batch and epoch.

    The batch is the one that the grant names, otherwise the one that the job asks for, otherwise the
    smallest that its GPUs can share.  Across several types the slowest sets the pace.
    """

    def __init__(
        self, trace: Trace, cluster: Cluster, tables: StepTables, slowdowns: Slowdowns | None = None
    ) -> None:
        """InputError names a job whose workload was not measured, or not on the GPUs it asks for."""
        self.jobs = trace.jobs
        self.cluster = cluster
        self.workloads = [_workload_of(trace, row, tables) for row in range(len(trace))]
        self.batch_now = np.full(len(trace), math.nan)
        """Batch size with which each job works since its rate was last asked for."""
        self._sights: dict[int, Sight] = {}
        self._types = [name.casefold() for name in cluster.type_names]
        self._type_of: list[int] = cluster.device_type.tolist()
        self._node_of: list[int] = cluster.device_node.tolist()
        self._found: dict[tuple[object, ...], list[_Found]] = {}
        self._last: dict[int, tuple[Grant, list[list[_Found]]]] = {}
        """What each row was last seen with, and what it does with it in each epoch."""
        self.efficiency = Efficiency(trace.jobs, cluster, slowdowns or Slowdowns())
        for workload in {id(one): one for one in self.workloads}.values():
            for times in {id(one): one for one in map(workload.times_on, self._types) if one}.values():
                times.prepare()
        self._node_gpus = [self._largest_node(kind) for kind in range(len(self._types))]
        rates = self._asked(accepted(trace.jobs, cluster).tolist(), tables.source)
        self.per_s = np.full(len(trace), math.nan)
        self._throughput, self._alone_s = rates[:, :, 0], rates[:, :, 1]

    @cached_property
    def knowledge(self) -> Mapping[Knowledge, Provider]:
        """What this world is made of."""
        classes, of_row = self._classes()
        most, node_gpus = self.cluster.gpus, max(self._node_gpus)
        return {
            **self.efficiency.knowledge,
            Knowledge.THROUGHPUT: given_throughput(self._throughput),
            Knowledge.DURATION: Given(Knowledge.DURATION, self._alone_s.min(axis=1)),
            Knowledge.SCALING: given_scaling(step_scaling(classes, of_row, node_gpus, most)),
            Knowledge.CONVERGENCE: StepConvergence(classes, of_row),
        }

    def fresh(self) -> Self:
        """A copy for the beginning of a run: what is left of jobs belongs to one run."""
        new = copy(self)
        new.__dict__.pop("knowledge", None)
        new.batch_now, new._sights, new._last = np.full(len(self.workloads), math.nan), {}, {}
        return new

    def _classes(self) -> tuple[list[StepClass], Ints]:
        """Jobs with equal workload, GPUs and batch, each on the type on which they are fastest; the class of
        each row."""
        codes: dict[tuple[object, ...], int] = {}
        classes: list[StepClass] = []
        of_row = np.zeros(len(self.workloads), dtype=np.int64)
        for row, kind in enumerate(self._alone_s.argmin(axis=1).tolist()):
            gpus, wanted = self.jobs.gpus.item(row), self._wanted(row, Grant(row, ()))
            key = self.jobs.workload.item(row), kind, gpus, wanted
            if key not in codes:
                codes[key] = len(classes)
                classes.append(self._class(row, kind, wanted))
            of_row[row] = codes[key]
        return classes, of_row

    def _class(self, row: int, kind: int, wanted: float | None) -> StepClass:
        workload, gpus = self.workloads[row], self.jobs.gpus.item(row)
        times = workload.times_on(self._types[kind])
        assert times is not None, "a job without times was refused"
        shape = shape_of(whole_nodes(gpus, self._node_gpus[kind]))
        goodputs = [goodput for goodput, _ in self._course(row, kind, shape, wanted)]
        return StepClass(
            workload, times, workload.usual(times, gpus) if wanted is None else wanted, gpus, goodputs
        )

    def total(self, trace: Trace) -> Floats:
        return np.array([workload.epochs.ends[-1] for workload in self.workloads])

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        epochs = self.workloads[row].epochs
        epoch = min(bisect_right(epochs.ends, at.done), len(epochs) - 1)
        goodput, seen = self.on(row, epoch, grant)
        factor, _, until_s = self.efficiency.of(row, grant, beside, at)
        self.batch_now[row] = seen.batch_size
        self._sights[row] = seen if factor == 1.0 else _slowed(seen, factor)
        return Pace(goodput * factor, epochs.ends[epoch], until_s)

    def sight(self, row: int) -> Sight:
        """What the program of `row` would say of its steps, at the rate that was last asked for."""
        return self._sights.get(row, Sight())

    def on(self, row: int, epoch: int, grant: Grant) -> _Found:
        """Examples at M0 per second under `grant`, and how the steps look; 0 where not measured."""
        last = self._last.get(row)
        if last is None or last[0] is not grant:
            last = self._last[row] = grant, self._courses_on(row, grant)
        courses = last[1]
        return courses[0][epoch] if len(courses) == 1 else min(course[epoch] for course in courses)

    def _courses_on(self, row: int, grant: Grant) -> list[list[_Found]]:
        """What `row` does in each of its epochs under `grant`, for each type that it holds."""
        kinds = {self._type_of[device] for device in grant.devices}
        shape = shape_of(Counter(self._node_of[device] for device in grant.devices).values())
        return [self._course(row, kind, shape, self._wanted(row, grant)) for kind in sorted(kinds)]

    def _wanted(self, row: int, grant: Grant) -> float | None:
        """The requested batch size, by the grant or by the job."""
        batch_size = self.jobs.batch_size.item(row) if math.isnan(grant.batch_size) else grant.batch_size
        return None if math.isnan(batch_size) else batch_size

    def _course(self, row: int, kind: int, shape: tuple[int, ...], wanted: float | None) -> list[_Found]:
        """What a job like `row` does in each of its epochs on GPUs of one type with this placement."""
        key = self.jobs.workload.item(row), kind, shape, wanted
        course = self._found.get(key)
        if course is None:
            workload = self.workloads[row]
            times = workload.times_on(self._types[kind])
            nothing = [(0.0, Sight())] * len(workload.epochs)
            course = self._found[key] = nothing if times is None else _course(workload, times, shape, wanted)
        return course

    # -- at the requested allocation ---------------------------------------------------------------

    def _asked(self, accepts: list[list[bool]], source: str) -> Floats:
        """[job, type, 2]: steps per second in its first epoch on the GPUs that it asked for, on as few nodes
        as these need, and seconds that it takes on them; 0 and infinite where it cannot run."""
        rates = np.zeros((len(accepts), len(self._types), 2))
        rates[:, :, 1] = math.inf
        node_gpus = self._node_gpus
        known: dict[tuple[object, ...], tuple[float, float]] = {}
        for row, takes in enumerate(accepts):
            gpus, wanted = self.jobs.gpus.item(row), self._wanted(row, Grant(row, ()))
            for kind in range(len(takes)) if gpus else ():
                key = self.jobs.workload.item(row), kind, gpus, wanted
                if takes[kind] and node_gpus[kind]:
                    if key not in known:
                        known[key] = self._alone(row, kind, whole_nodes(gpus, node_gpus[kind]), wanted)
                    rates[row, kind] = known[key]
        idle = np.flatnonzero(~rates[:, :, 0].any(axis=1))
        if len(idle):
            row = int(idle[0])
            raise UnmeasuredError.of(
                self.jobs,
                idle,
                f"({self.jobs.name_of('workload', row)}) on {self.jobs.gpus.item(row)} GPUs with a batch of "
                f"{self.jobs.batch_size.item(row):g} was not measured on any type it accepts",
                file=source,
                expected="a size that some row, or two of them around it, are of",
            )
        return rates

    def _largest_node(self, kind: int) -> int:
        nodes = self.cluster.device_node[self.cluster.device_type == kind]
        return int(np.bincount(nodes).max()) if len(nodes) else 0

    def _alone(
        self, row: int, kind: int, parts: tuple[int, ...], wanted: float | None
    ) -> tuple[float, float]:
        """Steps per second in the first epoch, and seconds for all of them."""
        epochs, shape = self.workloads[row].epochs, shape_of(parts)
        course = self._course(row, kind, shape, wanted)
        if not course[0][0] > 0.0:
            return 0.0, math.inf
        lengths = np.diff(epochs.ends, prepend=0.0)
        seconds = sum(length / goodput for length, (goodput, _) in zip(lengths, course, strict=True))
        return 1.0 / course[0][1].step_s, float(seconds)


def _course(
    workload: MeasuredWorkload, times: StepTable, shape: tuple[int, ...], wanted: float | None
) -> list[_Found]:
    """Goodput and sight of a workload in each epoch, on GPUs of one type; 0 where not measured."""
    gpus, epochs = sum(shape), workload.epochs
    batch = workload.split(times, gpus, workload.usual(times, gpus) if wanted is None else wanted)
    seconds, total = times.at(shape, batch.local), batch.total(gpus)
    if not seconds.of(batch) > 0.0:
        return [(0.0, Sight())] * len(epochs)
    goodputs = [workload.goodput(seconds, gpus, batch, epoch) for epoch in range(len(epochs))]
    scales = [epochs.noise(total, epoch).scale(epochs.initial) for epoch in range(len(epochs))]
    return [
        (goodput, Sight(seconds.of(batch), total, scale))
        for goodput, scale in zip(goodputs, scales, strict=True)
    ]


def _slowed(seen: Sight, factor: float) -> Sight:
    return seen._replace(step_s=seen.step_s / factor if factor else math.nan)


def _workload_of(trace: Trace, row: int, tables: StepTables) -> MeasuredWorkload:
    name = trace.jobs.name_of("workload", row)
    if name not in tables.workloads:
        names = [trace.jobs.name_of("workload", job) for job in range(len(trace))]
        raise UnmeasuredError.of(
            trace.jobs,
            [job for job, known in enumerate(names) if known not in tables.workloads],
            f"runs {name!r}, which was not measured",
            file=tables.source,
            expected=f"one of {', '.join(list(tables.workloads)[:6])}",
        )
    return tables.workloads[name]
