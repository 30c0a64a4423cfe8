"""Least attained service first: serve the job that has received least, without knowing durations.

Paper     Nuyens and Wierman, "The Foreground-Background queue", 2008, for one server; with GPUs counted in:
          Gu et al., "Tiresias", NSDI 2019 (continuous 2D-LAS)
Decides   order, preemption
Needs     nothing about the future
Idea      1. Service received is GPUs times seconds run.
          2. The running set is rebuilt in order of service; jobs that do not fit are skipped.
          3. With exact service two equal jobs would swap without end, so service counts in whole quanta:
             inside a quantum running jobs come first, then jobs submitted earlier.
Departs   With `every`, service counts exactly but is compared at intervals only, as in papers' examples.
          A job that made no progress in a quantum, since its start took as long or a stop undid it, has
          longer quanta.
Checked   systems/tiresias.md, example 1; equals a twin that looks every second on 60 random workloads
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.model.grants import Grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.levels import ServiceMetric
from rota.stages.place import Placement
from rota.stages.priority import ByPriority, Drift
from rota.stages.turn_lengths import TurnLengths
from rota.systems.las.quanta import Quanta


@dataclass(frozen=True)
class LasParameters:
    """Parameters of `las`."""

    quantum: float = 3600.0
    """Service that counts as one step, in GPU-seconds (in seconds with `metric=time`)."""
    every: float = 0.0
    """Seconds between rankings by exact service (and at events) instead of quanta; 0 ranks by quanta."""
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


class TurnsByService(TurnLengths):
    """A turn of `las` is a quantum of service, or the time between two looks."""

    def __init__(self, snapshot: Snapshot, memory: Memory, parameters: LasParameters) -> None:
        super().__init__(snapshot, memory, parameters.every or parameters.quantum)
        self.divides = not parameters.every and parameters.metric is ServiceMetric.GPU_TIME

    def of_running(self) -> list[int]:
        """Running rows that have longer turns; ended ones are forgotten now and then."""
        snapshot = self.snapshot
        if len(self.turns) > 2 * (len(snapshot.grants) + snapshot.waiting_count):
            self.forget({*snapshot.running.tolist(), *snapshot.waiting.tolist()})
        return [row for row in self.longer if row in snapshot.grants]

    def usual_s(self, row: int) -> float:
        """A quantum is used up the sooner the more GPUs a job has."""
        rate: float = self.snapshot.by_row.rate_of[row] if self.divides else 1.0
        return self.turn_s / (rate or 1.0)


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
        self.quanta = Quanta(p.quantum, by_gpus=p.metric is ServiceMetric.GPU_TIME)
        if p.every:
            self.inner = ByPriority(self._exact, preemptive=True, drifts=Drift.RUNNING, placement=p.placement)
        else:  # a key changes only at a quantum, and that is reported
            self.inner = ByPriority(self.quanta.key, preemptive=True, placement=p.placement)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if not snapshot.waiting_count:
            return Decision(memory, wake=Wake(if_waiting=True))
        every = self.parameters.every
        turns = None if snapshot.is_steady else TurnsByService(snapshot, memory, self.parameters)
        longer = turns.of_running() if turns else []
        self.quanta.ahead = set(filter(turns.goes_on, longer)) if turns else set()
        if not every:
            for row in (*self.quanta.update(snapshot), *longer):
                self.inner.move(snapshot, row)
        grants, preempt = self.inner.choose(snapshot)
        at_s = (
            (math.floor(snapshot.now / every) + 1) * every
            if every
            else self._next_swap(snapshot, grants, preempt)
        )
        if turns:
            turns.end_all(preempt, grants)
            at_s = min([at_s, *map(turns.until_s, self.quanta.ahead)])
        wake = Wake(at_s=at_s, if_waiting=True)
        return Decision(memory, grants, preempt, wake=wake, ranking=self.inner)

    def _exact(self, snapshot: Snapshot, rows: Any) -> Any:
        """Service received, for one row or an array; below 0 for rows whose longer turns continue."""
        by_time, jobs = self.parameters.metric is ServiceMetric.TIME, snapshot.jobs
        received = jobs.ran_s(rows) if by_time else jobs.service_gpu_s(rows)
        ahead = self.quanta.ahead
        if not ahead:
            return received
        if isinstance(rows, int):
            return -1.0 if rows in ahead else received
        return np.where([row in ahead for row in rows.tolist()], -1.0, received)

    # -- when to look again ------------------------------------------------------------------------

    def _next_swap(self, snapshot: Snapshot, grants: Sequence[Grant], preempt: Sequence[int]) -> float:
        """The first moment at which a job that runs now falls behind one that waits."""
        least = self._least_waiting(snapshot, {grant.job for grant in grants}, preempt)
        if least == math.inf:
            return math.inf
        delay_s = self.quanta.delay_s(snapshot, least, grants, preempt)
        return max(snapshot.now + delay_s, math.nextafter(snapshot.now, math.inf))

    def _least_waiting(self, snapshot: Snapshot, started: set[int], preempt: Sequence[int]) -> float:
        """Whole quanta received by the first of the jobs that will wait; infinite if none will."""
        if snapshot.plain and self.inner.spreads and snapshot.waiting_gpus <= snapshot.occupancy.free.total:
            return math.inf  # all of them start now; elsewhere the free GPUs may be none of theirs
        self.inner.order.sync(snapshot)
        first = next((key for key, row in self.inner.order.in_order() if row not in started), math.inf)
        for row in preempt:
            first = min(first, self.quanta.key(snapshot, row))
        return float(first // 2) if first < math.inf else math.inf
