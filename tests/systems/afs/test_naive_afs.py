"""Whole runs of AFS once more, from its card: GPUs one by one, each by a tournament of all pairs.

From the card: the pair rule, who is taken to end first (AFS-L by the work that is left, AFS-P by the
queue to which so many GPU-seconds have led), that all is worked out at each arrival and end, and that
nothing changes where the numbers do not.  From the page, where the card is silent: who may reach a limit
within a second has reached it; who was resized of late does not grow, and shrinks only if somebody has to
wait otherwise; and a job that must jump between sizes is compared by its gain for each GPU once all have
their least.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from play import play, trace_of
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import Cluster, NodeShape
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import Truth
from rota.model.tenants import Tenant, Tenants
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.faults import Fault, timeline
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed_table import ScalingSpeed
from stays import are_alike
from tiers import each_seed, seed_ranges

Stay = tuple[float, float, int]
"""From when to when, with how many GPUs."""
On = tuple[float, float, set[int]]
"""From when to when, on which nodes."""


@dataclass(frozen=True)
class Program:
    """A job: submitted, most GPUs, steps a second by GPUs, and steps to do."""

    submit_s: float
    most: int
    speed: list[float]
    steps: float
    kind: int
    least: int = 1
    in_powers: bool = False
    """It runs on powers of two only."""
    owner: int = 0

    @property
    def numbers(self) -> list[int]:
        numbers = range(self.least, self.most + 1)
        return [number for number in numbers if not self.in_powers or number.bit_count() == 1]


@dataclass(frozen=True)
class Plan:
    """A scene; no `limits` is AFS-L."""

    jobs: list[Program]
    sizes: list[int]
    back_s: float
    limits: tuple[float, ...]
    calm_s: float
    """How long a job that was resized is left alone."""
    faults: Sequence[Fault] = ()
    quotas: Sequence[float] = (math.inf,)
    """Hard, by owner."""


class NaiveAfs:
    """Sections A to D of the card."""

    def __init__(self, plan: Plan, ran_on: Sequence[Sequence[On]] = ()) -> None:
        """`ran_on` says on which nodes jobs were and when: who is on one that is lost stops."""
        self.plan, self.jobs, self.now, self.ran_on = plan, plan.jobs, 0.0, ran_on
        self.news = timeline(plan.faults)
        self.down = set[int]()
        self.left = [job.steps for job in plan.jobs]
        self.received = [0.0 for _ in plan.jobs]
        self.live: list[int] = []
        self.held: dict[int, tuple[float, float, int]] = {}
        """Since when, from when on it works, and how many GPUs."""
        self.first_s: dict[int, float] = {}
        self.again_s = math.inf
        self.stays: list[list[Stay]] = [[] for _ in plan.jobs]

    def count(self, job: int) -> int:
        return self.held[job][2] if job in self.held else 0

    def queue(self, job: int) -> int:
        soon = self.received[job] + self.jobs[job].most
        return sum(soon >= limit for limit in self.plan.limits)

    def end(self, job: int, gpus: int) -> Any:
        """By what jobs with GPUs are compared: the least ends first."""
        if self.plan.limits:
            return self.queue(job), job
        return self.left[job] / self.jobs[job].speed[gpus], job

    def winner(self, one: int, other: int, share: dict[int, int], following: dict[int, int]) -> int:
        """Who of two that have something is given what leads to its following number."""
        a, b = sorted((one, other), key=lambda job: self.end(job, share[job]))
        gain_a, gain_b = (
            (self.jobs[job].speed[following[job]] - self.jobs[job].speed[share[job]])
            / (following[job] - share[job])
            for job in (a, b)
        )
        gain_a /= self.jobs[a].speed[share[a]]
        gain_b /= self.jobs[b].speed[following[b]]
        return a if gain_a > gain_b else b

    def shares(self, may_have: dict[int, list[int]]) -> dict[int, int]:
        """Of the numbers that each may have, ascending; curves are concave, so that leasts come first."""
        share, free = dict.fromkeys(may_have, 0), self.there()
        for job in sorted(may_have, key=lambda job: self.end(job, may_have[job][0])):
            if may_have[job][0] <= free and self.within_quota(job, share, may_have[job][0]):
                share[job] = may_have[job][0]
                free -= share[job]
        while True:
            following = {}
            for job, numbers in may_have.items():
                speed, more = self.jobs[job].speed, [number for number in numbers if number > share[job] > 0]
                if not more or more[0] - share[job] > free or not speed[more[0]] > speed[share[job]]:
                    continue
                if self.within_quota(job, share, more[0]):
                    following[job] = more[0]
            if not following:
                return share
            best, *others = following
            for other in others:
                best = self.winner(best, other, share, following)
            free -= following[best] - share[best]
            share[best] = following[best]

    def there(self) -> int:
        """GPUs of nodes that are not lost."""
        return sum(size for node, size in enumerate(self.plan.sizes) if node not in self.down)

    def within_quota(self, job: int, share: dict[int, int], gpus: int) -> bool:
        """True if its owner may have so many for it beside what others of his have."""
        owner = self.jobs[job].owner
        others = sum(n for other, n in share.items() if other != job and self.jobs[other].owner == owner)
        return others + gpus <= self.plan.quotas[owner]

    def left_alone(self) -> dict[int, float]:
        """Whose number changed of late, and until when that counts; a first start is no change."""
        until_s = {job: since_s + self.plan.calm_s for job, (since_s, _, _) in self.held.items()}
        return {
            job: end_s
            for job, end_s in until_s.items()
            if self.held[job][0] > self.first_s[job] and self.now < end_s
        }

    def wanted(self) -> dict[int, int]:
        alone, total = self.left_alone(), self.there()
        waits = [job for job in self.live if job not in self.held]
        free = {job: self.jobs[job].numbers for job in self.live}
        calm = free | {job: [self.count(job)] for job in alone}
        if alone and sum(numbers[0] for numbers in calm.values()) <= total:
            shares = self.shares(calm)
            if all(shares[job] for job in waits):
                return shares
        if not waits:
            return self.shares(calm)
        return self.shares(free | {job: [n for n in free[job] if n <= self.count(job)] for job in alone})

    def decide(self) -> None:
        alone = self.left_alone()
        self.again_s = min(
            (end_s for job, end_s in alone.items() if len(self.jobs[job].numbers) > 1), default=math.inf
        )
        for job, gpus in self.wanted().items():
            if gpus == self.count(job):
                continue
            self.halt(job)
            if gpus:
                stall_s = self.plan.back_s if job in self.first_s else 0.0
                self.first_s.setdefault(job, self.now)
                self.held[job] = self.now, self.now + stall_s, gpus

    def halt(self, job: int) -> None:
        if job in self.held:
            since_s, _, gpus = self.held.pop(job)
            self.stays[job].append((since_s, self.now, gpus))

    def pass_time(self, moment: float) -> None:
        for job, (_, works_s, gpus) in self.held.items():
            self.left[job] -= self.jobs[job].speed[gpus] * max(moment - max(self.now, works_s), 0.0)
            self.received[job] += gpus * (moment - self.now)
        self.now = moment

    def alarm_s(self) -> float:
        """When a job falls to its next queue, or one that was left alone no longer is."""
        moments = [
            self.now + (limit - self.received[job]) / gpus
            for job, (_, _, gpus) in self.held.items()
            for limit in self.plan.limits
            if limit > self.received[job] + self.jobs[job].most
        ]
        return min([*moments, self.again_s])

    def hear(self) -> None:
        """Who runs on a node that is lost stops, with what it has done."""
        while self.news and self.news[0][0] <= self.now:
            at_s, node, is_back = self.news.pop(0)
            if is_back:
                self.down.discard(node)
                continue
            self.down.add(node)
            for job, spans in enumerate(self.ran_on):
                if any(begin_s < at_s <= end_s + 1e-9 and node in nodes for begin_s, end_s, nodes in spans):
                    self.halt(job)

    def comes(self, job: int) -> None:
        """A job that its owner's quota never admits is rejected."""
        if self.jobs[job].numbers[0] <= self.plan.quotas[self.jobs[job].owner]:
            self.live.append(job)

    def play(self) -> list[list[Stay]]:
        coming = list(range(len(self.jobs)))
        while coming or self.live:
            ends = {
                job: max(self.now, works_s) + self.left[job] / self.jobs[job].speed[gpus]
                for job, (_, works_s, gpus) in self.held.items()
            }
            news = [at_s for at_s, _, _ in self.news[:1]] + [self.jobs[job].submit_s for job in coming[:1]]
            moment = min([*ends.values(), *news, self.alarm_s()])
            over = [job for job, end in ends.items() if end <= moment + 1e-9]
            self.pass_time(moment)
            for job in over:
                self.halt(job)
                self.live.remove(job)
            self.hear()
            while coming and self.jobs[coming[0]].submit_s <= self.now:
                self.comes(coming.pop(0))
            self.decide()
        return self.stays


def plan_of(seed: int, *, by_queues: bool) -> Plan:
    """Up to four nodes, up to twelve jobs of four programs: three of any concave curve, and a linear one."""
    draw = random.Random(f"{seed} {by_queues}")
    back_s, calm_s = draw.choice([0.0, 0.0, 7.0]), draw.choice([0.0, 0.0, 20.0, 60.0])
    is_one = back_s or calm_s  # who is moved to stand on fewer nodes would pay, or be left alone
    sizes = [draw.choice([1, 2, 3, 4, 8]) for _ in range(1 if is_one else draw.randint(1, 4))]
    total = sum(sizes)
    speeds = [[float(gpus) for gpus in range(total + 1)]]
    for _ in range(3):
        alone = draw.uniform(0.3, 3.0)
        useful = draw.choice([total, total, max(total // 2, 1)])
        gains = sorted((draw.uniform(0.01, alone) for _ in range(useful - 1)), reverse=True)
        gains += [0.0] * (total - useful)
        speeds.append([0.0, *np.cumsum([alone, *gains]).tolist()])
    jobs = []
    for _ in range(draw.randint(1, 12)):
        kind, most = draw.randrange(4), draw.randint(1, total)
        at = draw.choice([0.0, draw.uniform(0, 300)])
        jobs.append(Program(at, most, speeds[kind], draw.uniform(10, 2000), kind))
    jobs.sort(key=lambda job: job.submit_s)
    limits = tuple(sorted(draw.sample([50.0, 200.0, 700.0, 3000.0], draw.randint(1, 3)))) if by_queues else ()
    return Plan(jobs, sizes, back_s, limits, calm_s)


def harder_plan(seed: int, *, by_queues: bool) -> Plan:
    """The same with nodes that are lost, jobs of few sizes, and three tenants, some with a hard quota."""
    plan, draw = plan_of(seed, by_queues=by_queues), random.Random(f"harder {seed}")
    jobs, faults = list[Program](), list[Fault]()
    for job in plan.jobs:
        in_powers = draw.random() < 0.4
        least = 1 if in_powers else draw.choice([1, 1, min(2, job.most)])
        jobs.append(replace(job, in_powers=in_powers, least=least, owner=draw.randrange(3)))
    for node in range(len(plan.sizes)):
        at_s = 0.0
        for _ in range(draw.randint(0, 2)):
            lost_s = at_s + draw.uniform(1, 300)
            at_s = lost_s + draw.choice([5.0, 50.0, 200.0])
            faults.append(Fault(node, lost_s, at_s))
    quotas = [draw.choice([math.inf, float(draw.randint(1, sum(plan.sizes)))]) for _ in range(3)]
    return replace(plan, jobs=jobs, faults=faults, quotas=quotas)


def rota(plan: Plan) -> tuple[list[list[Stay]], list[list[On]]]:
    """What the policy makes of it, and on which nodes that was."""
    jobs, names = plan.jobs, ("a", "b", "c", "d")
    speeds = {names[job.kind]: dict(enumerate(job.speed[1:], 1)) for job in jobs}
    trace = trace_of(
        " ".join(f"J{n} {job.least}x1@{n}" for n, job in enumerate(jobs)),
        gpus_min=[job.least for job in jobs],
        gpus_max=[job.most for job in jobs],
        counts=[int(AllowedCounts.POWERS_OF_TWO if job.in_powers else AllowedCounts.ANY) for job in jobs],
        tenant=[job.owner for job in jobs],
        tenant_names=("t0", "t1", "t2"),
        workload=[job.kind for job in jobs],
        workload_names=names,
    )
    table = replace(trace.jobs, submit_s=np.array([job.submit_s for job in jobs]))
    truth = Truth.build(np.full(len(jobs), np.nan), iterations=[job.steps for job in jobs])
    trace = replace(trace, jobs=table, truth=truth)
    capped = [Tenant(f"t{n}", most, hard=True) for n, most in enumerate(plan.quotas) if most < math.inf]
    cluster = Cluster.build([NodeShape(1, size) for size in plan.sizes], Tenants.of(*capped))
    speed = ScalingSpeed(trace, cluster, ScalingCurves.build(speeds))
    costs = Costs(restore=CostModel(plan.back_s))
    how = f"lengths=no,queues={'/'.join(map(str, plan.limits))}" if plan.limits else "lengths=yes"
    setting = Setting(speed=speed, costs=costs, faults=plan.faults)
    record = play(f"afs:min_resize_s={plan.calm_s},{how}", trace, cluster, setting)
    stays: list[list[Stay]] = [[] for _ in jobs]
    ran_on: list[list[On]] = [[] for _ in jobs]
    for row in record.intervals.sort("start_s").iter_rows(named=True):
        stays[row["job"]].append((row["start_s"], row["end_s"], row["gpus"]))
        ran_on[row["job"]].append((row["start_s"], row["end_s"], set(row["nodes"])))
    return stays, ran_on


@pytest.mark.parametrize("by_queues", [False, True], ids=["lengths", "queues"])
@pytest.mark.parametrize("seeds", seed_ranges(20, 250, 1000), ids=str)
def test_every_stay(by_queues: bool, seeds: range) -> None:
    for seed in seeds:
        plan = plan_of(seed, by_queues=by_queues)
        (ours, _), expected = rota(plan), NaiveAfs(plan).play()
        assert are_alike(ours, expected), f"scene {seed}: {ours} in place of {expected}"


@pytest.mark.parametrize("by_queues", [False, True], ids=["lengths", "queues"])
@each_seed(20, 150, 1500, at_once=50)
def test_every_stay_beside_quotas_and_lost_nodes(by_queues: bool, seed: int) -> None:
    plan = harder_plan(seed, by_queues=by_queues)
    ours, ran_on = rota(plan)
    expected = NaiveAfs(plan, ran_on).play()
    assert are_alike(ours, expected), f"{ours} in place of {expected}"
