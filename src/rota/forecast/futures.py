"""Forks of one moment, one after the other: what each of them did to the jobs that live.

All forks of a forecast share the estimates; where durations are sampled, fork number i of every policy meets
the same draw, so that policies differ by what they do and not by luck.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rota.forecast.altered import with_gpus
from rota.forecast.fork import ForkRecorder, Origin, fork, live_rows
from rota.forecast.held import Wait, waits_of
from rota.forecast.remaining import Durations, RemainingSource, RemainingTimes
from rota.forecast.units import WorkUnits
from rota.knowledge.needs import Provenance
from rota.model.columns import Floats, Ints
from rota.scheduler.decision import Event, Memory, Wake
from rota.scheduler.loop import Loop, Rules
from rota.scheduler.moments.frozen import Frozen
from rota.scheduler.policy import PolicySpec
from rota.table.state import Phase, State
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault

MOST_EVENTS = 200_000
"""Events of one fork after which it is cut off: policies that take turns look at the clock often."""
JOBS_SAMPLED = 30_000
"""Jobs times policies times samples that a forecast may cost: larger queues get fewer samples."""


@dataclass(frozen=True)
class ForecastRequest:
    """How to make a forecast, besides the moment and the policies."""

    durations: Durations = field(default_factory=Durations)
    extra_gpus: int = 0
    """GPUs added to those of the moment, on nodes of the commonest shape."""
    costs: Costs = field(default_factory=Costs)
    waits: Mapping[int, Wait] | None = None
    """What held jobs wait for; for rows not in it, the dependencies in the moment's table, else a person."""
    rules: Rules | None = None
    """Further rules of the world, such as a least run time before preemption."""
    wake: Wake | None = None
    """When the policy in force wants to be called; None calls it at the moment itself."""
    samples: int = 20
    """Forks of each policy where any duration is sampled; fewer if the queue is long."""
    seed: int = 1
    until_s: float = math.inf
    """Moment up to which to look."""
    budget_s: float = math.inf
    """Seconds that the answer may take, shared equally by the policies: then no further sample is begun, and
    a policy that has not finished its first one is cut off.  With a budget the answer depends on the machine.
    """


class Run(NamedTuple):
    """One fork, simulated to its end; columns over the live rows, inf where a moment never comes."""

    start_s: Floats
    finish_s: Floats
    wait_s: Floats
    jct_s: Floats
    ended: dict[int, Phase]
    """How each job that left did so."""
    gpu_s: Floats
    """GPU-seconds that each has received by then."""
    preemptions: int
    is_cut: bool
    now_s: float
    """Where it stopped."""


@dataclass(frozen=True)
class ForecastCase:
    """Everything that all forks of a forecast share."""

    origin: Origin
    state: State
    rows: Ints
    """The jobs that live at the moment."""
    units: WorkUnits
    done_s: Floats
    """Work that each of them has done, in seconds at its request."""
    estimate: RemainingTimes
    told_s: Floats
    """Durations that policies receive if they need them, for every row."""
    draws: tuple[Floats, ...]
    """Durations of the live rows in each sample."""
    provenance: Provenance
    cause: int
    asked: ForecastRequest
    faults: tuple[Fault, ...] = ()
    """Nodes that will be lost."""


def make_case(moment: Frozen, asked: ForecastRequest, policies: int, extra_gpus: int = 0) -> ForecastCase:
    """What the forks of `moment` under `policies` policies share; the same for the same seed."""
    packed = with_gpus(moment.packed, extra_gpus)
    durations = asked.durations
    origin = Origin(packed, waits_of(packed, asked.waits), durations.past, asked.costs, asked.rules)
    state = origin.state()
    rows = live_rows(state)
    units = origin.units(state)
    done_s = units.done_s(state, rows)
    estimate = durations.estimate(state.jobs, rows, done_s)
    samples = 1
    if estimate.candidates:
        affordable = JOBS_SAMPLED // max(len(rows) * policies, 1)
        samples = max(min(asked.samples, affordable), 1)
    draws = tuple(estimate.draw(np.random.default_rng([asked.seed, i])) for i in range(samples))
    over_s = state.ran_s(np.arange(len(state.jobs)))  # seconds run by every job; live ones are set below
    told_s = over_s.copy()
    told_s[rows] = estimate.told_s
    return ForecastCase(
        origin=origin,
        state=state,
        rows=rows,
        units=units,
        done_s=done_s,
        estimate=estimate,
        told_s=told_s,
        draws=draws,
        provenance=Provenance.USER if durations.source is RemainingSource.USER else Provenance.PREDICTED,
        cause=int(packed["cause"]) | (int(Event.CAPACITY) if extra_gpus else 0),
        asked=asked,
    )


def play_all(
    case: ForecastCase,
    spec: PolicySpec,
    memory: Memory | None,
    budget_s: float,
    until_start: int = -1,
    watch: Callable[[Loop], None] | None = None,
) -> list[Run]:
    """A run for each draw, fewer if `budget_s` is over; with a `memory` it is the policy in force.

    With a row, `until_start`, each run ends when that job has started, or can start no more.  `watch` is
    shown the loop after each event.
    """
    deadline_s = time.monotonic() + budget_s
    runs: list[Run] = []
    for drawn in case.draws:
        run = _play(case, spec, memory, drawn, deadline_s, until_start, watch)
        if runs and time.monotonic() > deadline_s:
            break  # a run that was cut off would distort the ranges
        runs.append(run)
    return runs


def _play(
    case: ForecastCase,
    spec: PolicySpec,
    memory: Memory | None,
    drawn: Floats,
    deadline_s: float,
    until_start: int,
    watch: Callable[[Loop], None] | None,
) -> Run:
    goes_on_itself = memory is not None
    total_s = case.told_s.copy()
    total_s[case.rows] = drawn
    loop, recorder = fork(
        case.origin,
        spec.make(),
        total_s,
        case.told_s,
        source=case.provenance,
        memory=memory,
        wake=case.asked.wake if goes_on_itself else None,
        cause=case.cause,
        seed=case.origin.packed["seed"] if goes_on_itself else case.asked.seed,
        faults=case.faults,
    )
    preempted = int(loop.state.preemptions.sum())
    is_cut = _drive(loop, case.asked.until_s, deadline_s, until_start, watch)
    return _read(case, loop, recorder, preempted, is_cut)


def _drive(
    loop: Loop,
    until_s: float,
    deadline_s: float,
    until_start: int,
    watch: Callable[[Loop], None] | None,
) -> bool:
    """Run until nothing more happens; True if the fork had to be cut off before."""
    events, phase = 0, loop.state.phase
    while loop.step(until_s):
        events += 1
        if watch is not None:
            watch(loop)
        if until_start >= 0 and phase.item(until_start) >= Phase.RUNNING:
            return False
        if events >= MOST_EVENTS or time.monotonic() > deadline_s:
            return True
    return False


def _read(case: ForecastCase, loop: Loop, recorder: ForkRecorder, preempted: int, is_cut: bool) -> Run:
    """What the fork did to each live job."""
    state, rows = loop.state, case.rows
    start = np.full(len(rows), math.inf)
    finish = np.full(len(rows), math.inf)
    ended: dict[int, Phase] = {}
    for place, row in enumerate(rows.tolist()):
        if case.state.phase[row] == Phase.RUNNING:
            start[place] = case.state.first_start_s[row]
        elif row in recorder.starts:
            start[place] = recorder.starts[row]
        elif state.phase[row] == Phase.RUNNING:
            start[place] = state.since_s[row]
        if row in recorder.ends:
            ended[row], moment = recorder.ends[row]
            finish[place] = moment if ended[row] is Phase.COMPLETED else math.inf
    jct = finish - state.jobs.submit_s[rows]
    return Run(
        start_s=start,
        finish_s=finish,
        wait_s=np.maximum(jct - state.ran_s(rows), 0.0),
        jct_s=jct,
        ended=ended,
        gpu_s=state.service_gpu_s(rows),
        preemptions=int(state.preemptions.sum()) - preempted,
        is_cut=is_cut,
        now_s=state.now,
    )
