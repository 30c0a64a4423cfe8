"""The simulated world: jumps from event to event, exactly.

Between two events every rate is constant, so when a rate is set it is known when the job ends or its rate
changes: at some work, or at a moment.  The nearest of these ends are in a heap, up to a horizon: where jobs
take turns, later ends move before they come.  An entry that no longer is the end of its job is void.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np
from mypy_extensions import mypyc_attr

from rota.errors import WorldError
from rota.knowledge.needs import Observation
from rota.model.cluster import Cluster
from rota.model.columns import Cells, Floats, Ints, cells
from rota.model.grants import Can, Grant, Leave, Purpose, Role, is_adjustment
from rota.model.jobs import Outcome
from rota.model.promises import Offer
from rota.model.trace import Trace
from rota.model.whole import is_made_whole
from rota.scheduler.decision import Event
from rota.scheduler.guard.host_memory import Resident
from rota.scheduler.world import Batch, Change, Ended, How, Lost, Refusal
from rota.table.attempt_ends import begins_anew
from rota.table.progress import Progress
from rota.table.state import Phase, State
from rota.worlds.simulated.abilities import Abilities
from rota.worlds.simulated.answers import UserAnswers
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault, timeline
from rota.worlds.simulated.groups import FirstOfGroup
from rota.worlds.simulated.holds import Holds
from rota.worlds.simulated.overlap import Overlap
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.refusals import refuse_uncounted_failures, refuse_unknown_durations
from rota.worlds.simulated.retries import Retrier, Retries, retries_of
from rota.worlds.simulated.semantics import Restart, Semantics, is_restart
from rota.worlds.simulated.speed import FixedDuration, SpeedModel
from rota.worlds.simulated.stretches import Sight, Stretches, unseen
from rota.worlds.simulated.strikes import Strikes

_PENDING: Final = Phase.PENDING
_FAILED: Final = How.FAILED
_ADJUSTED: Final = How.ADJUSTED
_NOTHING_LOST: Final = Lost()
_OPPORTUNISTIC: Final = Role.OPPORTUNISTIC
_PROFILE: Final = Purpose.PROFILE
_ABANDON: Final = Leave.ABANDON
_END: Final = int(Event.END)
_RETRY: Final = int(Event.FAILURE)
_ARRIVAL: Final = int(Event.ARRIVAL)
_TIMER: Final = int(Event.TIMER)
_CAPACITY: Final = int(Event.CAPACITY)

_END_OF: Final = {
    int(Outcome.COMPLETED): (How.FINISHED, Phase.COMPLETED),
    int(Outcome.FAILED): (How.FAILED, Phase.FAILED),
    int(Outcome.CANCELLED): (How.CANCELLED, Phase.CANCELLED),
    int(Outcome.PREEMPTED): (How.CANCELLED, Phase.CANCELLED),  # how much longer it would have run is unknown
}

MOST_IN_VAIN: Final = 10_000
"""Calls of a policy in a row that change nothing after which, with no event to come, a run is over."""


SAME_S: Final = 1e-6
"""Seconds up to which two moments are the same, by rounding; work of no more time counts as done."""
FEW_ENDS: Final = 32
"""Entries with which the heap of the nearest ends begins, unless an eighth of all is used."""
HEAP_LEAST: Final = 256
"""Entries up to which void and far ones in the heap do no harm."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SimulatedWorld:
    """Replays a trace on a cluster."""

    def __init__(
        self,
        trace: Trace,
        cluster: Cluster,
        *,
        speed: SpeedModel | None = None,
        costs: Costs | None = None,
        semantics: Semantics | None = None,
        faults: Sequence[Fault] = (),
        retries: Retries | int | None = None,
        observation_noise: float = 0.0,
        can: Mapping[str, Can] | None = None,
        answers: UserAnswers | None = None,
        seed: int = 0,
    ) -> None:
        self.trace = trace
        self.jobs = trace.jobs
        self.cluster = cluster
        self.costs = costs or Costs()
        self._costs_nothing = self.costs.free
        self.semantics = semantics or Semantics()
        self._clock_s: float = self.semantics.clock_s
        self._epoch_clock_s: float = self.semantics.epoch_clock_s
        self._lag_s: float = self.semantics.lag_s
        self._retrier = Retrier(retries_of(retries), trace)
        n = len(trace)
        self.speed: SpeedModel = speed or FixedDuration(trace.jobs, cluster)
        per_s: Floats | None = getattr(self.speed, "per_s", None)
        self._per_s: list[float] = [1.0] * n if per_s is None else per_s.tolist()
        """Work of each job per second at its request: 1 where work is counted in such seconds, NaN where the
        rate there varies."""
        self.progress = Progress(n, per_s, getattr(self.speed, "batch_now", None))
        self.abilities = Abilities(trace.jobs, self.progress, can or {})
        self._to_speak: dict[int, int] = self.abilities.late
        self._is_lacking: bool = self.abilities.lacking
        self._loses_nothing = self._costs_nothing and self.costs.keep_work and not self._is_lacking
        self.progress.steady &= not (self._is_lacking or self.costs.undo_work)
        self._plain_speed = type(self.speed) is FixedDuration and self.speed.slowdowns.none
        self._lasting: Callable[[int, Grant], float] | None = getattr(self.speed, "lasting", None)
        self._failures = trace.truth.failures
        self._outcome_of: list[int] = trace.truth.outcome.tolist()
        self._total: list[float] = self.speed.total(trace).tolist()
        self._submit: list[float] = [self._tick(t) for t in trace.jobs.submit_s.tolist()]
        self._next = 0
        self._ends = np.full(n, math.inf)
        """When the attempt of each job ends or its rate changes; infinite if it never will as things are."""
        self._moment_of: Cells[float] = cells(self._ends)
        self._heap: list[tuple[Any, ...]] = []  # moment, row
        self._heap_most = HEAP_LEAST  # entries at which it is rebuilt
        self._horizon_s = math.inf  # up to which all ends are in the heap
        self._failed: dict[int, int] = {}  # attempts that failed so far, where there are any
        self._attempts = [self._attempt(row) for row in range(n)] if self._failures else self._total
        """Work at which the present attempt of each job ends."""
        self._strikes = Strikes(self._failures)
        self._dirty: set[int] = set()
        self._suspended: dict[int, Resident] = {}
        """Jobs suspended in the memory of the hosts on which they would resume."""
        self._last_user: dict[int, int] = {}
        """The job that used each device last; kept where changes cost anything."""
        self._ready: list[float] = [0.0] * n
        """Until when each job stands still; kept where work can be lost, as `progress.since` moves on."""
        self._stalled: list[float] = [0.0] * n
        """Seconds of the present interval in which each job stands still, including those to come."""
        self._goal: dict[int, float] = {}
        """Work at which each heap entry occurs, where the semantics move such moments."""
        self._company: dict[int, tuple[tuple[int, ...], float]] = {}
        """The jobs that are, or were, beside each job on shared devices, and since when."""
        self._overlap = Overlap() if self.costs.overlap else None
        """Jobs that prepare to grow while they work on; None where no job does."""
        self._rate_before: dict[int, float] = {}
        """Rate of each job whose devices are about to change; kept where growing is prepared."""
        self._faults = [(self._tick(at_s), node, back) for at_s, node, back in timeline(faults)]
        self._fault = 0
        self._stretches: Stretches | None = None
        """What is observed of running jobs; None until first requested."""
        self._sight = (observation_noise, seed)
        self._groups = FirstOfGroup(trace.jobs)
        self._has_groups = bool(self._groups.members)
        self._in_vain = 0
        """Moments in a row that only the policy asked for, and in which nothing changed."""
        self._changes = 0
        """Length of the state's log at the last such moment."""
        self._holds = Holds(trace, self._tick, answers or UserAnswers())
        refuse_unknown_durations(trace, self._total)
        refuse_uncounted_failures(trace, self._per_s)
        self._begin()

    def _begin(self) -> None:
        """Hook for worlds with other rules of time: set up what they keep besides."""

    def attach(self, state: State) -> None:
        self.state = state

    # -- time --------------------------------------------------------------------------------------

    def _tick(self, moment: float) -> float:
        """`moment`, rounded up to the clock of the semantics."""
        clock = self._clock_s
        return math.ceil(moment / clock) * clock if clock and moment != math.inf else moment

    def next(self, until_s: float) -> Batch | None:
        if self._dirty:
            self._settle()
        arrival = self._submit[self._next] if self._next < len(self._submit) else math.inf
        finish = self._next_finish()
        fault = self._faults[self._fault][0] if self._fault < len(self._faults) else math.inf
        until = self._tick(until_s)
        if until < finish <= until + SAME_S:  # or a job that has done its work would be stopped, and wait
            until = finish
        now = min(min(arrival, finish), min(until, self._holds.next_s))  # of two, no call is made
        if self._to_speak:
            now = min(now, self.abilities.next_s)
        if fault <= now and (min(arrival, finish) < math.inf or len(self.state.waiting) or self._holds):
            now = fault
        if now == math.inf or (finish == arrival == math.inf and self._is_over()):
            return None
        batch = Batch(now, 0)
        if fault == now:
            self._add_faults(batch)
        if finish == now:
            batch.ended = self._finished(now, now)
            for ended in batch.ended:
                batch.cause |= _RETRY if ended.phase is _PENDING else _END
            if self._has_groups:
                self._groups.end_others(batch, self.state)
        if arrival == now:
            batch.arrived = self._arrived(now)
            batch.cause |= _ARRIVAL
        if self._to_speak:
            batch.cause |= int(self.abilities.speak(now))
        if self._holds and self._holds.follow(batch, self.state):
            batch.cause |= _ARRIVAL
        if until == now:
            batch.cause |= _TIMER
        return batch

    def _is_over(self) -> bool:
        """True if no job is live, or none will ever start again: no arrival and no end is to come.

        If only wake-ups remain that the policy asks for, and it keeps asking without changing anything, the
        waiting jobs stay waiting: otherwise the run would not end.
        """
        if not (self.state.running.n or self.state.waiting.n or self._holds):
            return True
        changes = len(self.state.log)
        is_vain = changes == self._changes and self._fault == len(self._faults) and not self._holds
        self._in_vain = self._in_vain + 1 if is_vain else 0
        self._changes = changes
        return self._in_vain > MOST_IN_VAIN

    def _next_finish(self) -> float:
        if len(self._heap) > self._heap_most:
            self._look_ahead()
        while self._heap or self._horizon_s < math.inf:
            if not self._heap:
                self._look_ahead()
                continue
            first = self._heap[0]
            moment: float = first[0]
            end: float = self._moment_of[first[1]]
            if moment == end:
                return moment
            heappop(self._heap)
        return math.inf

    def _look_ahead(self) -> None:
        """Rebuild the heap from the nearest ends only."""
        self._heap, self._horizon_s = _nearest_ends(self.state.running.rows, self._ends)
        self._heap_most = 4 * len(self._heap) + HEAP_LEAST

    def _arrived(self, now: float) -> range:
        first = last = self._next
        submit = self._submit
        while last < len(submit) and submit[last] == now:
            last += 1
        self._next = last
        return range(first, last)

    def _finished(self, now: float, entry: float) -> list[Ended]:
        """Attempts that end now, in order of rows; entries where only the rate changes are followed up.

        `entry` is the moment that they have in the heap.
        """
        ended = []
        while self._heap and self._heap[0][0] == entry:
            first: tuple[Any, ...] = heappop(self._heap)
            row: int = first[1]
            end: float = self._moment_of[row]
            if end != entry:
                continue
            self._moment_of[row] = math.inf
            if self._goal and row in self._goal:
                self.progress.base[row], self.progress.since[row] = self._goal.pop(row), now
            left = self._target(row) - self.progress.done(row, now)
            if left <= SAME_S * self.progress.rate_of(row) or self._strikes.have_come(row, now):
                ended.append(self._outcome(row, now))
            else:
                self._dirty.add(row)
        return ended

    def _outcome(self, row: int, now: float) -> Ended:
        """What becomes of a job whose attempt has done its work."""
        failed = self._failed.get(row, 0) if self._failed else 0
        if self._failures and failed < len(self._failures.get(row, ())):
            self._failed[row] = failed + 1
            self._attempts[row] = self._attempt(row)
            pause_s, failed_of = self._retrier.pause_after(row, failed + 1)
            if pause_s:
                self._holds.pause(row, now + pause_s, failed_of, now)
            return Ended(row, How.FAILED, Phase.FAILED if pause_s is None else Phase.PENDING)
        how, phase = _END_OF[self._outcome_of[row]]
        if failed:
            self._retrier.ended(row, failed, phase is Phase.FAILED)
        return Ended(row, how, phase)

    def _add_faults(self, batch: Batch) -> None:
        """What is lost by the moment of `batch`, if only for a tick, and what is back at the end of it."""
        returned, lost = dict[int, bool](), list[int]()
        while self._fault < len(self._faults) and self._faults[self._fault][0] <= batch.now:
            _, node, returned[node] = self._faults[self._fault]
            if not returned[node] and node not in lost:
                lost.append(node)
            self._fault += 1
        gone = set(lost)
        for row, kept in list(self._suspended.items()):
            if not gone.isdisjoint(node for node, _ in kept.gib):
                del self._suspended[row]
        self.abilities.lose(gone)
        batch.lost, batch.back = lost, [node for node, is_back in returned.items() if is_back]
        batch.cause |= _CAPACITY

    # -- work --------------------------------------------------------------------------------------

    def _target(self, row: int) -> float:
        """Work at which the present attempt ends."""
        return self._attempts[row]

    def _attempt(self, row: int) -> float:
        """Work at which the present attempt ends, by failing or by being done; not from the cache."""
        failures, failed = self._failures, self._failed.get(row, 0)
        if failures and row in failures and failed < len(failures[row]):
            return failures[row][failed] * self._per_s[row]
        return self._total[row]

    def apply(self, changes: Sequence[Change]) -> Sequence[Refusal]:
        now, progress, overlap = self.state.now, self.progress, self._overlap
        gpus_of, sharers, lasting = self.state.gpus_of, self.state.occupancy.sharers, self._lasting
        for change in changes:
            new, row = change.new, change.row
            if new is None:
                self._gave_up(change)
                continue
            if change.old is not None and is_adjustment(change.old, new):
                self._dirty.add(row)
                if sharers:
                    self._dirty.update(self._heeding(new))
                self._begin_stretch(row, new)
                continue
            if self._is_lacking and change.old is None:
                self.abilities.start(row, new, self.state.occupancy)
            since = now + self._overhead(change)
            if self._to_speak:
                self.abilities.begin(row, since)
            if not self._loses_nothing:
                self._ready[row], self._stalled[row] = since, since - now
            if overlap is not None:
                since = self._switch(overlap, change, since)
            if (
                self._plain_speed
                and len(new[1]) == gpus_of[row]
                and (is_made_whole(new) or self._has_its_share(row, new))
                and (overlap is None or row not in overlap)
            ):
                rate, until_work, until_s = 1.0, math.inf, math.inf
            else:
                if self._company and (change.old is None or change.old.devices != new.devices):
                    self._company.pop(row, None)
                rate, until_work, until_s = math.nan, math.inf, math.inf
                if lasting is not None and not sharers and overlap is None:
                    rate = lasting(row, new)
                if rate != rate:
                    rate, until_work, until_s = self._pace(row, new)
            if sharers:
                self._dirty.update(self._heeding(new))
            if rate != 1.0 or since != now:
                progress.steady = False
            progress.begin(row, rate, since)
            if new[7] is _PROFILE:
                failed = self._failed.get(row, 0)
                until_s = min(until_s, self._strikes.at_s(row, new, gpus_of[row], failed, since))
            if self._stretches is not None:
                self._stretches.begin(row, new, since, progress.base_of(row))
            self._schedule(row, rate, since, until_work, until_s)
        return ()

    def _has_its_share(self, row: int, grant: Grant) -> bool:
        """True if `row` has as much of each device as it asked for, whichever jobs are beside it."""
        if grant.role is _OPPORTUNISTIC:
            return False
        return grant.share == 1.0 or grant.share >= self.jobs.gpu_share.item(row)

    def offer(self, offers: Mapping[int, Offer]) -> None:
        for row, offer in offers.items():
            self._holds.offer(row, offer, self.state)

    def scale(self, nodes: int) -> None:
        """Does nothing: the size of the cluster is fixed; see `autoscale` for one that scales."""

    def _gave_up(self, change: Change) -> None:
        """A job that left without a checkpoint starts over."""
        if change.leave is _ABANDON:
            self.progress.base[change.row] = 0.0
        if self._suspended:
            self._suspended.pop(change.row, None)
        if change.stays and change.leave is Leave.IN_MEMORY and change.old and not self._costs_nothing:
            self._suspended[change.row] = self._kept(change.row, change.old)

    def _schedule(
        self,
        row: int,
        rate: float,
        since: float,
        until_work: float = math.inf,
        until_s: float = math.inf,
    ) -> None:
        """Enter the moment at which the attempt ends or its rate changes."""
        moment = math.inf
        if rate > 0.0:
            target, base = self._target(row), self.progress.base_of(row)
            if self._epoch_clock_s:
                moment = self._nearest(row, since, rate, min(target, until_work))
            elif target <= until_work:
                moment = self._tick(since + (target - base) / rate + self._lag_s)
            else:
                moment = since + (until_work - base) / rate
        if until_s < moment:
            moment = until_s
            self._goal.pop(row, None)
        self._moment_of[row] = moment = max(moment, self.state.now)
        if moment < math.inf and moment <= self._horizon_s:
            heappush(self._heap, (moment, row))

    def _nearest(self, row: int, since: float, rate: float, work: float) -> float:
        """The moment at which `row` has done `work`, to the nearest tick of the epochs' clock."""
        clock, now = self._epoch_clock_s, self.state.now
        self._goal[row] = work
        return max(now, round((since + (work - self.progress.base.item(row)) / rate) / clock) * clock)

    def _pace(self, row: int, grant: Grant) -> Pace:
        """The rate of `row` from now on."""
        now = self.state.now
        return self._pace_at(row, grant, self.progress.done(row, now), now)

    def _pace_at(self, row: int, grant: Grant, done: float, now: float) -> Pace:
        """The rate of `row` with `done` work at `now`; a regime that ends here but for rounding is over."""
        between = None if self._overlap is None else self._overlap.pace(row, now)
        if between is not None:
            return between
        beside = [self.state.grants[r] for r in self._beside(grant) if r in self.state.grants]
        at = At(done, now, self._company_s(row, beside))
        pace = self.speed.pace(row, grant, beside, at)
        if pace.until_work - done <= SAME_S * pace.rate:
            pace = self.speed.pace(row, grant, beside, at._replace(done=pace.until_work))
        if pace.until_s <= now:
            raise WorldError(
                f"the speed model lets the rate of job {self.jobs.ids[row]} end at {pace.until_s:,.12g} s, "
                f"which is not after now ({now:,.12g} s)"
            )
        return pace

    def _company_s(self, row: int, beside: Sequence[Grant]) -> float:
        """Since when `row` has had these neighbours; if it was always alone, since it holds these devices."""
        rows = tuple([grant.job for grant in beside])
        if not rows and row not in self._company:
            return self.state.since_s.item(row)
        if row not in self._company or self._company[row][0] != rows:
            self._company[row] = (rows, self.state.now)
        return self._company[row][1]

    def _beside(self, grant: Grant) -> list[int]:
        """Other jobs on the devices of a grant, ascending."""
        sharers = self.state.occupancy.sharers
        if not sharers:
            return []
        return sorted({r for d in grant.devices for r in sharers.get(d, ()) if r != grant.job})

    def _heeding(self, grant: Grant) -> Iterable[int]:
        """Jobs whose rate may change when `grant` comes to their devices, or goes."""
        if not self._plain_speed:
            return self._beside(grant)
        occupancy, grants = self.state.occupancy, self.state.grants
        if not occupancy.opportunists:  # all others have what they claim, whichever jobs are beside them
            return ()
        return [row for row in self._beside(grant) if grants[row].role is _OPPORTUNISTIC]

    def _settle(self) -> None:
        """Set the rates of jobs whose neighbours or progress regime have changed."""
        now = self.state.now
        for row in sorted(self._dirty):
            grant = self.state.grants.get(row)
            if grant is None:
                continue
            rate, until_work, until_s = self._pace(row, grant)
            since = max(now, self.progress.since.item(row))
            self.progress.steady = False
            changes = rate != self.progress.rate.item(row)
            self.progress.pace(row, rate, since, now)
            if changes:
                self._begin_stretch(row, grant)
            self._schedule(row, rate, since, until_work, until_s)
        self._dirty.clear()

    def _begin_stretch(self, row: int, grant: Grant) -> None:
        """`row` works at another rate, or its work is counted afresh."""
        if self._stretches is not None:
            now, progress = self.state.now, self.progress
            work = progress.done(row, now)
            self._stretches.end(row, now, work)
            self._stretches.begin(row, grant, max(now, progress.since.item(row)), work)

    def observed(self) -> Sequence[Observation]:
        if self._stretches is None:
            noise, seed = self._sight
            steps, total = self.progress.per_s is not None, self._total.__getitem__
            sight: Callable[[int], Sight] = getattr(self.speed, "sight", unseen)
            self._stretches = Stretches(self.jobs, total, steps=steps, noise=noise, seed=seed, sight=sight)
            for row in self.state.running.sorted().tolist():
                self._begin_stretch(row, self.state.grants[row])
        return self._stretches.take(self.state.now, self.progress.done)

    def _overhead(self, change: Change) -> float:
        """Seconds of start-up that `change` costs."""
        if self._costs_nothing or change.new is None:
            return 0.0
        row, gpus = change.row, len(change.new.devices)
        workload = self.jobs.name_of("workload", row)
        switch = self.costs.switch.of(workload, gpus) if self._take_over(change.new) else 0.0
        scatter = self.costs.drawn(self._sight[1], row, int(1e3 * self.state.now))
        if change.old is not None:
            if not is_restart(self.semantics.restart, self.cluster, change.old, change.new):
                return max(self.progress.since.item(row) - self.state.now, 0.0)  # a start under way goes on
            return self.costs.change(workload, len(change.old.devices), gpus) * scatter
        if begins_anew(self.state, row):
            return self.costs.first_start(workload, gpus) * scatter + switch
        kept = self._suspended.pop(row, None)
        if kept is not None and {node for node, _ in kept.gib} == self._nodes_of(change.new):
            return switch
        if self.semantics.restart is Restart.NEVER:
            return 0.0
        return self.costs.resume(workload, gpus) * scatter + switch

    def _switch(self, overlap: Overlap, change: Change, since: float) -> float:
        """The moment from which a job works after `change`: `since` if nothing is prepared."""
        row, now, old, new = change.row, self.state.now, change.old, change.new
        if old is None or new is None or not is_restart(self.semantics.restart, self.cluster, old, new):
            overlap.forget(row)
            return since
        rate = self._rate_before.pop(row, 0.0)
        if overlap.is_switching(row, now):
            beside = [self.state.grants[r] for r in self._beside(old) if r in self.state.grants]
            rate = self.speed.pace(row, old, beside, At(self.progress.base.item(row), now, now)).rate
        workload, gpus = self.jobs.name_of("workload", row), len(new.devices)
        switch = overlap.change(
            row,
            old.devices,
            new.devices,
            now=now,
            from_s=max(now, self.progress.since.item(row)),
            rate=rate,
            prepare_s=self.costs.prepare.of(workload, gpus),
            pause_s=since - now,
        )
        self._ready[row], self._stalled[row] = switch.ready_s, switch.stalled_s
        return switch.works_from_s

    def _take_over(self, grant: Grant) -> bool:
        """True if another job was the last to use one of the devices; from now on this one is."""
        others = [self._last_user.get(device, grant.job) != grant.job for device in grant.devices]
        self._last_user.update(dict.fromkeys(grant.devices, grant.job))
        return any(others)

    def _nodes_of(self, grant: Grant) -> set[int]:
        return {node for node, _ in self.state.occupancy.parts(grant)}

    def _kept(self, row: int, grant: Grant) -> Resident:
        """What a job suspended from `grant` keeps: the host memory it asked for."""
        memory, parts = self.jobs.memory_gib.item(row), self.state.occupancy.parts(grant)
        return Resident(row, tuple((node, part * memory) for node, part in parts))

    def suspended(self) -> list[Resident]:
        return [kept for row, kept in self._suspended.items() if row in self.state.waiting]

    def would_keep(self, row: int, leave: Leave) -> Resident | None:
        if leave is not Leave.IN_MEMORY or self._costs_nothing:
            return None
        return self._kept(row, self.state.grants[row])

    def stopped(self, row: int, how: How) -> Lost:
        now, state = self.state.now, self.state
        if state.occupancy.sharers:
            self._dirty.update(self._heeding(state.grants[row]))
        if how is _ADJUSTED:
            return self._split(row)
        self._strikes.forget(row)
        rate = 0.0 if self._loses_nothing else self.progress.rate_of(row)
        if self._overlap is not None:
            self._rate_before[row] = rate
        done = self.progress.stop(row, now)
        if self._stretches is not None:
            self._stretches.end(row, now, done)
        self._moment_of[row] = math.inf
        if self._loses_nothing and how is not _FAILED:
            return _NOTHING_LOST
        overhead = max(self._stalled[row] - max(self._ready[row] - now, 0.0), 0.0)
        per_s = self._per_s[row]
        if per_s != per_s:  # NaN: seconds count at the present rate
            per_s = rate
        lost = self._lost_work(row, how, done, per_s)
        if self._is_lacking:
            lost = max(lost, self.abilities.leave(row, how, state.grants[row], state.occupancy))
        if lost:
            self.progress.base[row] = done - lost
        if self._is_lacking:
            lost += self.abilities.forgone.pop(row, 0.0)
        return Lost(overhead, lost / per_s if per_s else 0.0)

    def _split(self, row: int) -> Lost:
        """A new interval of `row` begins; a start that is under way goes on in it."""
        if self._loses_nothing:
            return _NOTHING_LOST
        ahead = max(self._ready[row] - self.state.now, 0.0)
        overhead = max(self._stalled[row] - ahead, 0.0)
        self._stalled[row] -= overhead
        return Lost(overhead)

    def _stall(self, row: int, until_s: float) -> None:
        """`row`, which runs, stands still until `until_s`."""
        now = self.state.now
        self._stalled[row] += until_s - max(self._ready[row], now)
        self._ready[row] = until_s
        self.progress.since[row] = until_s

    def _lost_work(self, row: int, how: How, done: float, per_s: float) -> float:
        if how is _FAILED:
            return done
        every = self.costs.checkpoint_every_s * per_s
        if how is How.LOST and every:
            return max(done, 0.0) % every
        if how is How.PREEMPTED:
            cost_s = self.costs.preempt.of(self.jobs.name_of("workload", row), self.state.gpus_of[row])
            return cost_s * per_s
        return 0.0


def _nearest_ends(rows: Ints, ends: Floats) -> tuple[list[tuple[Any, ...]], float]:
    """A heap of the nearest `ends` of `rows`, each with its row, and the moment up to which it is complete.

    The heap is not empty if there may be later ends.
    """
    ends, horizon_s, most = ends[rows], math.inf, max(FEW_ENDS, len(rows) // 8)
    if len(ends) > most:
        horizon_s = float(np.partition(ends, most)[most])
    are_near = ends <= horizon_s if horizon_s < math.inf else ends < math.inf
    return sorted(zip(ends[are_near].tolist(), rows[are_near].tolist(), strict=True)), horizon_s
