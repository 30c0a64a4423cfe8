"""A naive twin of ElasticFlow's own simulator: its clock, and its modes `ef`, `ef-accessctrl` and `edf`.

Written from systems/elasticflow.md and from what the program does, one rule after the other, slowly.  All is
there as the authors have it: the list of events is a list, and work, ends and standstill are counted on the
jobs.  Moments and work are numbers of seconds and iterations.

Where the authors' program would stop with an error, so does the twin (`AssertionError`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Curve = dict[float, int]
"""GPUs from each moment on, ascending; the last number holds for ever."""

NEVER = 1e12
FIRST = float("inf")
NEARLY = 1e-9


def at(curve: Curve, moment: float) -> int:
    """What `curve` says at `moment`."""
    return [gpus for since, gpus in curve.items() if since <= moment][-1]


def merged(curve: Curve) -> Curve:
    """`curve` without moments at which nothing changes."""
    out: Curve = {}
    for moment in sorted(curve):
        if not out or curve[moment] != out[max(out)]:
            out[moment] = curve[moment]
    return out


def cut(curve: Curve, *moments: float) -> Curve:
    """`curve` with further moments, of which none is before its first."""
    return {moment: at(curve, moment) for moment in sorted({*curve, *moments})}


def up(seconds: float) -> int:
    return math.ceil(seconds - NEARLY)


@dataclass
class Plan:
    """GPUs of a job from now on."""

    steps: Curve
    end: float
    """Its GPUs are free from then on: a whole slot."""
    done: float
    """Its work is done."""

    @property
    def held(self) -> Curve:
        """The steps until the end."""
        return {moment: gpus for moment, gpus in self.steps.items() if moment < self.end} | {self.end: 0}

    def next_change(self, now: float) -> float:
        return min((moment for moment in merged(self.steps) if moment > now), default=math.inf)

    @property
    def gpu_seconds(self) -> float:
        moments = [*self.steps, self.end]
        return sum(
            gpus * (until - since)
            for (since, gpus), until in zip(self.steps.items(), moments[1:], strict=True)
        )


def without(free: Curve, plan: Plan, sign: int = -1) -> Curve:
    """What `free` is once `plan` has been taken from it; with 1, given back."""
    curve, held = cut(free, *plan.held), plan.held
    left = {
        moment: gpus + sign * (at(held, moment) if moment >= min(held) else 0)
        for moment, gpus in curve.items()
    }
    assert min(left.values()) >= 0
    return merged(left)


@dataclass(eq=False)
class Job:
    """One job of a list."""

    name: str
    submit: int
    work: float
    due: float
    rates: dict[int, float]
    """Iterations a second by number of GPUs, ascending."""

    left: float = 0.0
    gpus: int = 0
    end: float = 0.0
    plan: Plan = field(default_factory=lambda: Plan({}, 0.0, 0.0))
    done: float = math.inf
    """When its work is to be done by its plan."""
    stands: float = 0.0
    finish: float | None = None

    def level(self, most: int) -> int:
        """Its largest level up to `most` GPUs."""
        return max((gpus for gpus in self.rates if gpus <= most), default=0)

    @property
    def next_level(self) -> int:
        return min((gpus for gpus in self.rates if gpus > self.gpus), default=self.gpus)


@dataclass(eq=False)
class Event:
    """Something that is to happen."""

    at: float
    starts: list[Job] = field(default_factory=list)
    ends: list[Job] = field(default_factory=list)


class Twin:
    """What the three modes share: events, the time between them, and what a decision costs."""

    def __init__(self, jobs: list[Job], nodes: int, node_gpus: int, slot: int) -> None:
        self.gpus, self.node_gpus, self.slot = nodes * node_gpus, node_gpus, slot
        self.events: list[Event] = []
        for job in jobs:
            job.left = job.work
            self.event_at(job.submit).starts.append(job)
        self.live: list[Job] = []
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.refused: list[Job] = []
        self.decisions = 0
        self.cache: set[tuple[int, int]] = set()

    def run(self) -> None:
        self.events.sort(key=lambda event: event.at)
        now, elapsed = self.events[0].at, 0
        while self.events:
            self.work_until(now, elapsed)
            self.happen(now)
            if not self.events:
                assert not self.live
                return
            event = self.merge(now)
            elapsed, now = int(event.at - now), event.at

    def happen(self, now: float) -> None:
        raise NotImplementedError

    # -- events ------------------------------------------------------------------------------------

    def find(self, moment: float) -> Event | None:
        return next((event for event in self.events if event.at == moment), None)

    def event_at(self, moment: float) -> Event:
        event = self.find(moment)
        if event is None:
            event = Event(moment)
            self.events.append(event)
        return event

    def move_end(self, job: Job, end: float) -> None:
        """`job` ends at another moment; the event that was there goes, if nothing else is to happen in it."""
        old, job.end = job.end, end
        if old == end:
            return
        event = self.find(old)
        if event is not None:
            if job in event.ends:
                event.ends.remove(job)
            if not event.ends and not event.starts:
                self.events.remove(event)
        self.enter_end(job)

    def enter_end(self, job: Job) -> None:
        event = self.event_at(job.end)
        if job not in event.ends:
            event.ends.append(job)

    def merge(self, now: float) -> Event:
        """The next event: those within a slot happen together at its end, but one that is the only one."""
        self.events.sort(key=lambda event: event.at)
        first = self.events[0]
        if first.at - now <= self.slot and len(self.events) > 1:
            first.at = now + self.slot
            while len(self.events) > 1 and self.events[1].at <= first.at:
                other = self.events.pop(1)
                first.starts += other.starts
                first.ends += other.ends
        return first

    # -- work --------------------------------------------------------------------------------------

    def work_until(self, now: float, elapsed: int) -> None:
        for job in self.live:
            if not job.gpus:
                continue
            rate, done = job.rates[job.gpus], job.end if self.ends_as_seen else job.done
            seconds = elapsed - max(now - done, 0.0)
            assert seconds > 0.0
            work = rate * max(seconds - job.stands, 0.0)
            if job.left <= work and job.end > now:
                finish = now - elapsed + up(job.left / rate)
                self.move_end(job, now)
                job.end = finish
            job.left -= work
            job.stands = 0.0

    ends_as_seen = False
    """True if time counts until the end of a job, and not until its work was to be done."""

    def stand_still(self, order: list[Job]) -> None:
        """Jobs with GPUs, which lie one after the other in this order, stand still after a decision."""
        restarts = self.decisions > 0 and self.decisions % self.slot == 0
        self.decisions += 1
        base, restart = (7, 47) if self.gpus >= 256 else (2, 27)
        first, seen = 0, set(self.cache)
        for job in order:
            job.stands = base
            if (first, job.gpus) not in seen:
                job.stands += restart * restarts + 2 * (math.log2(job.gpus) + 1)
            self.cache.add((first, job.gpus))
            first += job.gpus
        if restarts:
            self.cache.clear()

    def leave(self, job: Job) -> None:
        job.finish = job.end
        self.live.remove(job)
        self.running.remove(job)


class ElasticTwin(Twin):
    """`ef`, and with `refuses` `ef-accessctrl`."""

    def __init__(self, jobs: list[Job], nodes: int, node_gpus: int, slot: int, *, refuses: bool) -> None:
        super().__init__(jobs, nodes, node_gpus, slot)
        self.refuses = refuses

    def happen(self, now: float) -> None:
        event = self.find(now)
        assert event is not None
        if self.refuses:
            self.events.remove(event)
        for job in event.ends:
            if job.gpus or not self.refuses:
                assert job.gpus
                self.leave(job)
        came = event.starts
        if not self.refuses:
            self.waiting += came
            self.live += came
            self.plan_all(self.live, now)
        elif came:
            if self.plan_all([*self.live, *came], now):
                self.waiting += came
                self.live += came
            else:
                stay = [job for job in came if job.due == NEVER]
                self.refused += [job for job in came if job.due != NEVER]
                self.waiting += stay
                self.live += stay
                self.plan_all(self.live, now)
        else:
            self.plan_all(self.live, now)
        self.live.sort(key=lambda job: job.due)
        for job in self.live:
            job.gpus = at(job.plan.steps, now)
            self.move_end(job, job.plan.end)
        if not self.refuses:
            self.events.remove(event)
        for job in list(self.waiting):
            if job.gpus:
                self.begin(job)
                self.enter_end(job)
            elif not self.refuses:
                self.event_at(min(moment for moment, gpus in job.plan.steps.items() if gpus))
        self.hand_out(now)
        self.note_changes(now)
        if self.refuses:
            self.live.sort(key=lambda job: -job.gpus)
        if self.events:
            among = self.live if self.refuses else self.running
            self.stand_still(order_of(among, self.node_gpus, whole=self.refuses))
            for job in among:
                if job.gpus:
                    self.move_end(job, job.end + job.stands)

    def begin(self, job: Job) -> None:
        self.waiting.remove(job)
        self.running.append(job)

    def note_changes(self, now: float) -> None:
        if not self.refuses:
            for job in self.running:
                change = job.plan.next_change(now)
                if change < math.inf:
                    self.event_at(change)
            return
        change = min((job.plan.next_change(now) for job in self.live), default=math.inf)
        if change < min((event.at for event in self.events), default=math.inf):
            self.event_at(change)

    # -- plans -------------------------------------------------------------------------------------

    def plan_all(self, jobs: list[Job], now: float) -> bool:
        """Plan one by one, by deadline; true if all are in time."""
        self.free: Curve = {now: self.gpus}
        in_time = True
        for job in sorted(jobs, key=lambda job: job.due):
            job.plan = self.plan(job, self.free, now)
            job.done = job.plan.done
            in_time = in_time and job.plan.done <= job.due
            self.free = without(self.free, job.plan)
        return in_time

    def slots(self, seconds: float) -> float:
        return up(seconds / self.slot) * self.slot

    def plan(self, job: Job, free: Curve, now: float, holds: int = 0) -> Plan:
        """What `job` gets of `free`; with `holds`, GPUs that it has until what is free changes."""
        left, steps, begin = job.left, {}, now
        due = now + self.slots(job.due - now)  # the end of the slot of the deadline
        last = {due: job.due}  # its last piece ends with the deadline itself
        if holds:
            steps[now] = holds
            until = min((moment for moment in free if moment > now), default=due)
            done = up(now + left / job.rates[holds])
            end = now + self.slots(done - now)
            if until >= end and job.due >= done:
                return Plan(steps, end, done)
            left -= (last.get(until, until) - now) * job.rates[holds]
            begin = until
        curve = cut(free, due) if due >= now else dict(free)
        pieces = [
            (since, until, last.get(until, until) - since)
            for since, until in zip(curve, [*list(curve)[1:], math.inf], strict=True)
            if begin <= since and until <= due
        ]
        below = 0
        for level in [gpus for gpus in job.rates if gpus <= self.gpus]:
            work, turn = 0.0, None
            for since, _, seconds in reversed(pieces):
                gpus = job.level(min(level, curve[since]))
                work += seconds * job.rates.get(gpus, 0.0)
                if gpus and work >= left:
                    turn = since
                    break
            if turn is not None:
                return self.forward(job, left, curve, pieces, steps, turn, level, below)
            below = level
        for since, _, seconds in pieces:
            steps[since] = job.level(curve[since])
            left -= seconds * job.rates.get(steps[since], 0.0)
        return self.too_late(job, left, curve, steps, max(due, begin), now, holds)

    def forward(
        self,
        job: Job,
        left: float,
        curve: Curve,
        pieces: list[tuple[float, float, float]],
        steps: Curve,
        turn: float,
        level: int,
        below: int,
    ) -> Plan:
        """The level `below` before the moment `turn`, `level` from there on, and nothing once it is done."""
        plan = None
        for since, _, seconds in pieces:
            if plan is not None:
                steps[since] = 0
                continue
            gpus = steps[since] = job.level(min(level if since >= turn else below, curve[since]))
            work = seconds * job.rates.get(gpus, 0.0)
            if gpus and since >= turn and (work >= left or since == pieces[-1][0]):
                needed = up(max(left, NEARLY) / job.rates[gpus])
                plan = Plan(steps, since + self.slots(needed), since + needed)
            left -= work
        assert plan is not None
        return plan

    def too_late(
        self, job: Job, left: float, curve: Curve, steps: Curve, since: float, now: float, holds: int
    ) -> Plan:
        """After the deadline: its largest level of what is free, and at last what it can have at all."""
        left = max(left, NEARLY)
        for until in [moment for moment in curve if moment > since]:
            gpus = steps[since] = job.level(at(curve, since))
            work = (until - since) * job.rates.get(gpus, 0.0)
            if gpus and work >= left:
                break
            left -= work
            since = until
        else:
            gpus = steps[since] = holds or job.level(self.gpus)
        done = up(since + left / job.rates[gpus])
        return Plan(steps, now + self.slots(done - now), done)

    # -- what is left over -------------------------------------------------------------------------

    def hand_out(self, now: float) -> None:
        """Level by level, to the job whose GPU time grows most for each GPU."""
        spare = self.gpus - sum(job.gpus for job in self.live)
        if not spare:
            return
        keys, raised = dict[str, float](), dict[str, Plan]()
        asks = list(self.live)
        while True:
            for job in asks:
                step = job.next_level - job.gpus
                keys[job.name] = -FIRST
                if 0 < step <= spare:
                    raised[job.name] = plan = self.plan(
                        job, without(self.free, job.plan, 1), now, job.next_level
                    )
                    grows = (plan.gpu_seconds - job.plan.gpu_seconds) / step
                    keys[job.name] = grows if job.gpus else FIRST
            self.live.sort(key=lambda job: -keys[job.name])
            job = next((job for job in self.live if 0 < job.next_level - job.gpus <= spare), None)
            if job is None:
                return
            spare -= job.next_level - job.gpus
            self.free = without(without(self.free, job.plan, 1), raised[job.name])
            job.gpus, job.plan = job.next_level, raised[job.name]
            job.done = job.plan.done
            if job in self.waiting:
                self.begin(job)
            self.move_end(job, job.plan.end)
            asks = [job for job in self.live if job.next_level > job.gpus]


def order_of(jobs: list[Job], node_gpus: int, *, whole: bool) -> list[Job]:
    """In which order GPUs are given: the largest first; unless `whole`, from a node on all are alike."""
    have = [job for job in jobs if job.gpus]
    return sorted(have, key=lambda job: -(job.gpus if whole else min(job.gpus, node_gpus)))


class DeadlineTwin(Twin):
    """`edf`: each job by deadline takes its largest level of what is free; nothing costs anything."""

    ends_as_seen = True

    def happen(self, now: float) -> None:
        event = self.events[0]
        for job in event.ends:
            assert job.gpus
            self.leave(job)
        self.waiting += event.starts
        self.live += event.starts
        free: Curve = {now: self.gpus}
        plans = dict[str, Plan]()
        for job in sorted(self.live, key=lambda job: job.due):
            plans[job.name] = plan = self.plan(job, free, now)
            free = without(free, plan)
        for job in self.live:
            job.gpus = at(plans[job.name].steps, now)
            if job in self.running:
                self.move_end(job, plans[job.name].done)
            else:
                job.end = plans[job.name].done
                if job.gpus:
                    self.waiting.remove(job)
                    self.running.append(job)
                    self.enter_end(job)
        self.events.remove(event)

    def plan(self, job: Job, free: Curve, now: float) -> Plan:
        left, steps, moments = job.left, Curve(), [*free, math.inf]
        for since, until in zip(free, moments[1:], strict=True):
            gpus = steps[since] = job.level(free[since])
            if not gpus:
                continue
            done = up(since + left / job.rates[gpus])
            if done <= until:
                return Plan(steps, now + up((done - now) / self.slot) * self.slot, done)
            left -= (until - since) * job.rates[gpus]
        raise AssertionError("the cluster is never free")
