"""A moment of a running cluster goes on in the simulated world, under its own policy or under another.

The fork takes over the present state: jobs keep what they hold and what they have done, what is lost or
drained stays so, held jobs come free when what they wait for has happened, and jobs are as fast as the moment
knows.  No new jobs arrive besides those the moment names.  Given the true durations, the policy in force with
its memory does exactly what it would have done, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rota.forecast.held import Releases, Wait
from rota.forecast.known_speed import KnownSpeed, known_speeds, speed_of
from rota.forecast.remaining import Past
from rota.forecast.units import InOwnUnits, WorkUnits
from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Known, Provenance, Provider, Table
from rota.knowledge.service import CompletedService, ServiceSamples
from rota.knowledge.throughput import accepted, given_throughput
from rota.model.columns import Floats, Ints
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.model.promises import Offer, Promise
from rota.model.reasons import Constraint
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.guard.live_rules import Gentle, together
from rota.scheduler.loop import Loop, Rules
from rota.scheduler.moments.packing import Packed, unpack, unpack_known
from rota.scheduler.moments.values import copied
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Snapshot, table_of
from rota.scheduler.world import Batch, How, Lost
from rota.table.state import Phase, State
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.providers import make_providers
from rota.worlds.simulated.speed import SpeedModel
from rota.worlds.simulated.world import SimulatedWorld

PATIENCE = 1000
"""Alarms of a policy in a row while nothing will ever end by itself; after them the fork is over."""

_ROUNDING = 1e-12
"""Relative difference of rates that count as equal, after a change of units."""
_ARRIVAL, _TIMER = int(Event.ARRIVAL), int(Event.TIMER)


class ForkRecorder:
    """Keeps when each job began to run after the moment, and when it ended."""

    def __init__(self) -> None:
        self.starts: dict[int, float] = {}
        """Start of the first stretch that was over, by row."""
        self.ends: dict[int, tuple[Phase, float]] = {}

    def interval(self, grant: Grant, start_s: float, end_s: float, how: How, lost: Lost) -> None:
        self.starts.setdefault(grant.job, start_s)

    def waits(self, snapshot: Snapshot, decision: Decision, row: int) -> None: ...

    def awaits_round(self, row: int, reason: Constraint) -> None: ...

    def offered(self, row: int, offer: Offer) -> None: ...

    def promised(self, row: int, promise: Promise) -> None: ...

    def left(self, row: int, phase: Phase, now: float, why: str = "") -> None:
        self.ends[row] = (phase, now)


class ForkedWorld(SimulatedWorld):
    """Begins in the middle: takes over what runs, and releases what is held when its time has come."""

    def __init__(
        self,
        trace: Trace,
        state: State,
        costs: Costs,
        waits: Mapping[int, Wait],
        speed: SpeedModel,
        *,
        cause: int,
        faults: Sequence[Fault] = (),
    ) -> None:
        super().__init__(trace, state.cluster, costs=costs, speed=speed, faults=faults)
        self.progress = state.progress
        self._cause = cause
        """Why the policy is called at once; 0 if it is not."""
        self._releases = Releases(waits, state)
        self._idle = 0

    def attach(self, state: State) -> None:
        super().attach(state)
        self._next = state.submitted
        for row in state.running.sorted().tolist():
            self._take_running(row)

    def _take_running(self, row: int) -> None:
        """`row` goes on with what it holds, at the rate of this world."""
        state, progress, now = self.state, self.progress, self.state.now
        grant = state.grants[row]
        if not self._costs_nothing:
            self._last_user.update(dict.fromkeys(grant.devices, row))
        self._company[row] = self._company_of(row, grant)
        rate, until_work, until_s = self._pace(row, grant)
        since, before = progress.since.item(row), progress.rate.item(row)
        if math.isclose(rate, before, rel_tol=_ROUNDING):
            rate = before
        else:
            since = max(since, now)
            progress.pace(row, rate, since, now)
            progress.steady = False
        self._ready[row], self._stalled[row] = since, max(since - now, 0.0)
        # A job that has done more than its total work ends at once.
        self._total[row] = max(self._total[row], progress.done(row, now))
        self._schedule(row, rate, since, until_work, until_s)

    def _company_of(self, row: int, grant: Grant) -> tuple[tuple[int, ...], float]:
        """The jobs that share devices with `row`, and since when: since the last of them came."""
        state = self.state
        rows = tuple(other for other in self._beside(grant) if other in state.grants)
        return rows, max(state.since_s.item(other) for other in (row, *rows))

    def _is_over(self) -> bool:
        return super()._is_over() and self._releases.next_s == math.inf

    def next(self, until_s: float) -> Batch | None:
        if self._cause:
            return self._first()
        now = self.state.now
        freed = self._releases.take(now)
        if freed:
            return Batch(now, _ARRIVAL, released=freed)
        release_s = self._releases.next_s
        until_s = max(until_s, now)  # an alarm that was missed rings now
        batch = super().next(min(until_s, release_s))
        if batch is None or self._is_stuck(batch):
            return None
        batch.released = self._releases.take(batch.now, {ended.row for ended in batch.ended})
        if batch.released:
            batch.cause |= _ARRIVAL
        if batch.now == release_s < until_s:
            batch.cause &= ~_TIMER  # only the held job was to be woken
        return batch

    def _first(self) -> Batch:
        """The events of the moment itself."""
        now = self.state.now
        batch = Batch(now, self._cause, self._arrived(now), released=self._releases.take(now))
        if batch.arrived or batch.released:
            batch.cause |= _ARRIVAL
        self._cause = 0
        return batch

    def _is_stuck(self, batch: Batch) -> bool:
        """True if only the policy's own alarms have moved time for long, and nothing else will."""
        by_alarm = not batch.ended and not batch.arrived and self._releases.next_s == math.inf
        self._idle = self._idle + 1 if by_alarm and self._next_finish() == math.inf else 0
        return self._idle > PATIENCE


class _LearningOn(CompletedService):
    """Goes on from the service of the jobs that had completed before the moment."""

    def __init__(self, gpu_s: Floats) -> None:
        super().__init__()
        self.begin_with(gpu_s.tolist())


@dataclass(frozen=True)
class Origin:
    """A moment that can be forked many times."""

    packed: Packed
    waits: Mapping[int, Wait]
    past: Past = field(default_factory=Past.none)
    costs: Costs = field(default_factory=Costs)
    rules: Rules | None = None

    def state(self) -> State:
        """A new table, as it was at the moment."""
        jobs = {**self.packed["jobs"], "after": self._unfinished()}
        own = {name: deepcopy(self.packed[name]) for name in ("state", "occupancy")}
        return table_of(unpack({**self.packed, "jobs": jobs, **own}, frozenset()))

    def _unfinished(self) -> dict[int, list[int]]:
        """Jobs that the table itself releases: those that wait for other jobs, and for nothing else."""
        return {row: list(wait.after) for row, wait in self.waits.items() if wait.is_for_others}

    def speeds(self, state: State) -> dict[Knowledge, Known]:
        """What the moment knows of how fast jobs are."""
        return known_speeds(self.packed["knowledge"], state.jobs, state.cluster)

    def units(self, state: State) -> WorkUnits:
        """The units of work, at the moment and from then on."""
        if state.progress.per_s is None:
            return WorkUnits(state, None)
        return WorkUnits(state, self.speeds(state).get(Knowledge.GOODPUT))

    def providers(
        self, policy: Policy, told_s: Floats, source: Provenance, trace: Trace, state: State, *, goes_on: bool
    ) -> dict[Knowledge, Provider]:
        """Knowledge for `policy`: the one in force keeps what it knew, others get estimates, none the truth.

        All receive the speeds that the moment knows.
        """
        made: dict[Knowledge, Provider] = {}
        speeds = self.speeds(state)
        stored: Mapping[str, Any] = self.packed["knowledge"] if goes_on else {}
        for kind in policy.needs:
            entry = stored.get(kind.value, {})
            known = Provenance(entry["provenance"]) if entry else Provenance.ORACLE
            if kind is Knowledge.DURATION:
                values = told_s.copy()
                if known is not Provenance.ORACLE:
                    was_told = entry["values"][: state.submitted]
                    values[: len(was_told)] = was_told
                made[kind] = Given(kind, values, source if known is Provenance.ORACLE else known)
            elif kind is Knowledge.SERVICE_HISTORY:
                table = unpack_known(entry["values"]) if entry else None
                gpu_s = table.shared["gpu_s"] if isinstance(table, Table) else self.past.service_gpu_s
                is_fixed = bool(entry) and known is Provenance.MEASURED
                made[kind] = ServiceSamples(gpu_s) if is_fixed else _LearningOn(gpu_s)
            elif kind in speeds:
                made[kind] = Given(kind, speeds[kind].values, speeds[kind].provenance)
            elif entry and state.submitted == len(state.jobs):
                made[kind] = Given(kind, unpack_known(entry["values"]), known)
            elif kind is Knowledge.THROUGHPUT and state.progress.per_s is not None:
                made[kind] = _alike(state)
            else:
                made.update(make_providers({kind}, {}, trace, state.cluster, None))
        return made


def _alike(state: State) -> Provider:
    """Every type is as fast as any other: rates in the units in which the moment counts work."""
    assert state.progress.per_s is not None
    per_s = np.nan_to_num(state.progress.per_s, nan=1.0)
    rates = accepted(state.jobs, state.cluster) * per_s[:, None]
    return given_throughput(rates, Provenance.ASSUMED)


def fork(
    origin: Origin,
    policy: Policy,
    total_s: Floats,
    told_s: Floats,
    *,
    source: Provenance = Provenance.PREDICTED,
    memory: Memory | None = None,
    wake: Wake | None = None,
    cause: int = 0,
    seed: int = 0,
    faults: Sequence[Fault] = (),
) -> tuple[Loop, ForkRecorder]:
    """A loop that goes on from `origin`, and its recorder.

    `total_s` are the durations of all rows in this world, `told_s` those that a policy receives if it needs
    durations, in the name of `source`.  With a `memory` the policy is the one in force, which goes on; any
    other begins with an empty one and preempts no job at once.  The policy is called at once, because of
    `cause`, unless a `wake` says when it wants to be called.  `faults` are still to come.
    """
    state = origin.state()
    jobs = state.jobs
    trace = Trace(jobs, Truth.build(total_s), source="the moment", format="fork")
    providers = origin.providers(policy, told_s, source, trace, state, goes_on=memory is not None)
    at_once = 0 if wake is not None else cause or _TIMER
    speed = speed_of(origin.speeds(state), jobs, state.cluster)
    if isinstance(speed, KnownSpeed):
        speed.batch_now = state.progress.batch  # policies see what it reports from now on
    if state.progress.per_s is not None:
        speed = InOwnUnits(speed, origin.units(state))
    world = ForkedWorld(trace, state, origin.costs, origin.waits, speed, cause=at_once, faults=faults)
    recorder = ForkRecorder()
    loop = Loop(
        world,
        policy,
        recorder,
        providers=providers,
        memory=None if memory is None else copied(memory),
        seed=seed,
        strict=False,
        rules=origin.rules if memory is not None else _taking_over(origin.rules),
        state=state,
        wake=wake,
    )
    return loop, recorder


def _taking_over(rules: Rules | None) -> Rules:
    """The rules of the world, plus one: the first decision of a new policy disturbs no job."""
    return Gentle() if rules is None else together(rules, Gentle())


def live_rows(state: State) -> Ints:
    """Rows that run, wait, are held or are about to arrive."""
    phase = state.phase.copy()
    phase[state.submitted :] = Phase.PENDING
    live: Ints = np.flatnonzero((phase >= Phase.HELD) & (phase <= Phase.RUNNING))
    return live
