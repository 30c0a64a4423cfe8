"""Least attained service first: serve whoever has received least, without knowing durations.

Paper     Nuyens and Wierman, "The Foreground-Background queue", 2008, for one server; with GPUs counted in:
          Gu et al., "Tiresias", NSDI 2019 (continuous 2D-LAS)
Decides   order, preemption
Needs     nothing about the future
Idea      1. Service received is GPUs times seconds run.
          2. The running set is rebuilt in order of service; what does not fit is skipped.
          3. Undiscretised, two equal jobs would swap without end, so service counts in whole quanta:
             inside a quantum running jobs stand first, then those submitted earlier.
Departs   With `every`, service counts exactly but is looked at only so often, as in papers' examples.
Checked   systems/tiresias.md, example 1; equals a twin that looks every second on 60 random workloads
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.model.columns import Floats, Ints
from rota.model.grants import Grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.levels import ServiceMetric
from rota.scheduler.stages.place import Placement
from rota.scheduler.stages.priority import ByPriority, Drift
from rota.table.state import Phase

_RUNNING = int(Phase.RUNNING)
_NEARLY = 1e-6
"""Quanta by which service may fall short of a whole one and still count as having reached it."""


@dataclass(frozen=True)
class LasParameters:
    """Parameters of `las`."""

    quantum: float = 3600.0
    """Service that counts as one step, in GPU-seconds (in seconds with `metric=time`)."""
    every: float = 0.0
    """Rank by exact service every so many seconds instead, and at events; 0 ranks by quanta."""
    metric: ServiceMetric = ServiceMetric.GPU_TIME
    """Service in GPU-seconds, or in seconds run."""
    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""

    def __post_init__(self) -> None:
        if not 0.0 < self.quantum < math.inf:
            raise InputError(
                f"policy 'las': quantum={self.quantum:g} would never stop switching between equal jobs; "
                "expected a number of GPU-seconds above 0"
            )
        if not 0.0 <= self.every < math.inf:
            raise InputError(f"policy 'las': every={self.every:g} is no time; expected 0 or more seconds")


@register(
    "las",
    "Least attained GPU-time first, preemptive",
    paper="NSDI 2019",
    levers={Lever.PREEMPT, Lever.MIGRATE},
    parameters=LasParameters,
    rotates=True,
)
class Las:
    """Least attained service first."""

    def __init__(self, parameters: LasParameters | None = None) -> None:
        self.parameters = p = parameters or LasParameters()
        key = self._exact if p.every else self._steps
        self.inner = ByPriority(key, preemptive=True, drifts=Drift.RUNNING, placement=p.placement)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if not snapshot.waiting_count:
            return Decision(memory, wake=Wake(if_waiting=True))
        grants, preempt = self.inner.choose(snapshot)
        every = self.parameters.every
        at_s = (
            (math.floor(snapshot.now / every) + 1) * every
            if every
            else self._next_swap(snapshot, grants, preempt)
        )
        wake = Wake(at_s=at_s, if_waiting=True)
        return Decision(memory, grants, preempt, wake=wake, ranking=self.inner)

    # -- the order ---------------------------------------------------------------------------------

    def _exact(self, snapshot: Snapshot, rows: Any) -> Any:
        """Service received; one row or an array of rows."""
        if self.parameters.metric is ServiceMetric.TIME:
            return snapshot.jobs.ran_s(rows)
        return snapshot.jobs.service_gpu_s(rows)

    def _steps(self, snapshot: Snapshot, rows: Any) -> Any:
        """Twice the whole quanta received, and one more for a job that does not run."""
        quanta = self._exact(snapshot, rows) / self.parameters.quantum + _NEARLY
        if isinstance(rows, np.ndarray):
            return 2.0 * np.floor(quanta) + (snapshot.by_row.phase[rows] != _RUNNING)
        return 2.0 * math.floor(quanta) + (snapshot.by_row.phase.item(rows) != _RUNNING)

    # -- when to look again ------------------------------------------------------------------------

    def _next_swap(self, snapshot: Snapshot, grants: Sequence[Grant], preempt: Sequence[int]) -> float:
        """The first moment at which a job that runs now falls behind one that waits."""
        least = self._least_waiting(snapshot, {grant.job for grant in grants}, preempt)
        if least == math.inf:
            return math.inf
        rows = snapshot.running_unsorted
        delays = self._delays(snapshot, rows, snapshot.by_row.service_rate[rows], least)
        if preempt and rows.item(int(delays.argmin())) in preempt:
            delays[np.isin(rows, preempt)] = math.inf
        if grants:
            started = np.array([grant.job for grant in grants])
            rates = np.array([len(grant.devices) * grant.share for grant in grants])
            delays = np.append(delays, self._delays(snapshot, started, rates, least))
        moment = snapshot.now + float(delays.min(initial=math.inf))
        return max(moment, math.nextafter(snapshot.now, math.inf))

    def _delays(self, snapshot: Snapshot, rows: Ints, rates: Floats, least: float) -> Floats:
        """Seconds of running until each of `rows` has received a quantum more than it and than `least`."""
        quantum, service = self.parameters.quantum, self._exact(snapshot, rows)
        quanta = np.maximum(np.floor(service / quantum + _NEARLY), least) + 1.0
        left: Floats = quanta * quantum - service
        if self.parameters.metric is ServiceMetric.TIME:
            return left
        delays = np.full(len(rows), math.inf)  # stays so for jobs without GPUs: they receive nothing
        np.divide(left, rates, out=delays, where=rates > 0)
        return delays

    def _least_waiting(self, snapshot: Snapshot, started: set[int], preempt: Sequence[int]) -> float:
        """Whole quanta received by the first of the jobs that will wait; infinite if none will."""
        if snapshot.waiting_gpus <= snapshot.occupancy.free.total:
            return math.inf
        self.inner.order.sync(snapshot)
        first = next((key for key, row in self.inner.order.in_order() if row not in started), math.inf)
        for row in preempt:
            first = min(first, self._steps(snapshot, row))
        return first // 2 if first < math.inf else math.inf
