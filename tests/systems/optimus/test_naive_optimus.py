"""Whole runs of Optimus once more, from its card: shares at each interval, small jobs placed first.

From the card: everybody's least in order of arrival, then one GPU at a time to whoever saves most by it,
while somebody saves; every T seconds, all from the beginning; small jobs first, on the fewest of the
emptiest servers in equal parts. From the page, where the card is silent: whose number is as it was stays
where it is, who would save less than a restart costs stays as it is, and who comes to an idle cluster
does not wait for the interval.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

from play import play, trace_of
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import Cluster, NodeShape
from rota.model.jobs import Truth
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed_table import ScalingSpeed
from stays import are_alike
from tiers import seed_ranges

"""Seconds by which sums of many stretches may differ."""
Place = dict[int, int]
"""GPUs by node."""
Stay = tuple[float, float, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Program:
    """A job: submitted, fewest and most GPUs, steps a second by GPUs, and steps to do."""

    submit_s: float
    least: int
    most: int
    speed: list[float]
    steps: float
    kind: int


@dataclass(frozen=True)
class Plan:
    """A scene."""

    jobs: list[Program]
    sizes: list[int]
    interval_s: float
    restart_s: float
    event_driven: bool
    back_s: float


class NaiveOptimus:
    """Sections 3 and 4 of the card, for all-reduce."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.jobs, self.now = plan, plan.jobs, 0.0
        self.left = [job.steps for job in plan.jobs]
        self.live: list[int] = []
        self.held: dict[int, tuple[float, float, Place]] = {}
        """Since when, from when on it works, and where."""
        self.begun = set[int]()
        self.stays: list[list[Stay]] = [[] for _ in plan.jobs]

    def count(self, job: int) -> int:
        return sum(self.held[job][2].values()) if job in self.held else 0

    def shares(self) -> dict[int, int]:
        """The least for everybody whom there is room for, then GPU by GPU."""
        free, shares = sum(self.plan.sizes), dict.fromkeys(self.live, 0)
        for job in self.live:
            if self.jobs[job].least <= free:
                shares[job] = self.jobs[job].least
                free -= shares[job]
        while free:
            gains = []
            for job, gpus in shares.items():
                if 0 < gpus < self.jobs[job].most:
                    gains.append((self.saved(job, gpus, gpus + 1), -job))
            if not gains or max(gains)[0] <= 0.0:
                break
            shares[-max(gains)[1]] += 1
            free -= 1
        for job, gpus in shares.items():
            if 0 < self.count(job) < gpus and self.saved(job, self.count(job), gpus) < self.plan.restart_s:
                shares[job] = self.count(job)
        return shares

    def saved(self, job: int, before: int, after: int) -> float:
        return self.left[job] / self.jobs[job].speed[before] - self.left[job] / self.jobs[job].speed[after]

    def decide(self) -> None:
        shares = self.shares()
        moving = [job for job, gpus in shares.items() if gpus != self.count(job)]
        for job in moving:
            self.halt(job)
        for job in sorted((job for job in moving if shares[job]), key=lambda job: (shares[job], job)):
            place = self.place(shares[job])
            stall_s = self.plan.back_s if job in self.begun else 0.0
            self.begun.add(job)
            self.held[job] = self.now, self.now + stall_s, place

    def place(self, gpus: int) -> Place:
        """On the first k of the emptiest servers, dealt out in turn, for the least k on which that fits."""
        free = [
            size - sum(place.get(node, 0) for _, _, place in self.held.values())
            for node, size in enumerate(self.plan.sizes)
        ]
        order = sorted(range(len(free)), key=lambda node: (-free[node], node))
        for k in range(1, len(order) + 1):
            dealt = {
                node: sum(unit % k == turn for unit in range(gpus)) for turn, node in enumerate(order[:k])
            }
            if all(part <= free[node] for node, part in dealt.items()):
                return {node: part for node, part in dealt.items() if part}
        place: Place = {}
        for node in order:  # wherever there is room
            part = min(free[node], gpus - sum(place.values()))
            place |= {node: part} if part else {}
        return place

    def halt(self, job: int) -> None:
        if job in self.held:
            since_s, _, place = self.held.pop(job)
            self.stays[job].append((since_s, self.now, tuple(sorted(place.items()))))

    def rate(self, job: int) -> float:
        return self.jobs[job].speed[self.count(job)]

    def pass_time(self, moment: float) -> None:
        for job, (_, works_s, _) in self.held.items():
            self.left[job] -= self.rate(job) * max(moment - max(self.now, works_s), 0.0)
        self.now = moment

    def play(self) -> list[list[Stay]]:
        coming, wake_s = list(range(len(self.jobs))), math.inf
        while coming or self.live:
            ends = {
                job: max(self.now, held[1]) + self.left[job] / self.rate(job)
                for job, held in self.held.items()
            }
            moment = min([*ends.values(), *(self.jobs[job].submit_s for job in coming[:1]), wake_s])
            over = [job for job, end in ends.items() if end <= moment + 1e-9]
            self.pass_time(moment)
            for job in over:
                self.halt(job)
                self.live.remove(job)
            while coming and self.jobs[coming[0]].submit_s <= self.now:
                self.live.append(coming.pop(0))
            if self.live and (self.now >= wake_s or not self.held or self.plan.event_driven):
                self.decide()
            if self.now >= wake_s or wake_s == math.inf or not self.live:
                wake_s = math.inf
            if self.live and wake_s == math.inf:
                wake_s = (self.now // self.plan.interval_s + 1) * self.plan.interval_s
        return self.stays


def plan_of(seed: int) -> Plan:
    """One to five servers, up to twelve jobs of three programs that scale as they like."""
    draw = random.Random(seed)
    sizes = (
        [draw.choice([1, 2, 4, 8])] * draw.randint(1, 5)
        if draw.random() < 0.7
        else draw.choices([1, 2, 4], k=4)
    )
    total, jobs = sum(sizes), list[Program]()
    speeds = []
    for _ in range(3):
        gains = sorted((draw.uniform(0.01, 1.0) for _ in range(total - 1)), reverse=True)
        speeds.append([0.0, *np.cumsum([1.0, *gains]).tolist()])
    for _ in range(draw.randint(1, 12)):
        least = min(draw.choice([1, 1, 1, 2, 4]), total)
        kind = draw.randrange(3)
        most = min(least + draw.randint(0, 8), total)
        jobs.append(
            Program(
                draw.choice([0.0, draw.uniform(0, 900)]),
                least,
                most,
                speeds[kind],
                draw.uniform(10, 3000),
                kind,
            )
        )
    jobs.sort(key=lambda job: job.submit_s)
    interval_s, restart_s = draw.choice([60.0, 300.0, 600.0]), draw.choice([0.0, 30.0, 120.0])
    return Plan(jobs, sizes, interval_s, restart_s, draw.random() < 0.3, draw.choice([0.0, 0.0, 7.0]))


def rota(plan: Plan) -> list[list[Stay]]:
    """What the policy makes of it."""
    jobs, names = plan.jobs, ("a", "b", "c")
    speeds = {names[job.kind]: dict(enumerate(job.speed[1:], 1)) for job in jobs}
    trace = trace_of(
        " ".join(f"J{n} {job.least}x1@{n}" for n, job in enumerate(jobs)),
        gpus_min=[job.least for job in jobs],
        gpus_max=[job.most for job in jobs],
        workload=[job.kind for job in jobs],
        workload_names=names,
    )
    table = replace(trace.jobs, submit_s=np.array([job.submit_s for job in jobs]))
    truth = Truth.build(np.full(len(jobs), np.nan), iterations=[job.steps for job in jobs])
    trace = replace(trace, jobs=table, truth=truth)
    cluster = Cluster.build([NodeShape(1, size) for size in plan.sizes])
    speed = ScalingSpeed(trace, cluster, ScalingCurves.build(speeds))
    costs = Costs(restore=CostModel(plan.back_s))
    event_driven = "yes" if plan.event_driven else "no"
    policy = f"optimus:interval_s={plan.interval_s},restart_s={plan.restart_s},event_driven={event_driven}"
    record = play(policy, trace, cluster, Setting(speed=speed, costs=costs))
    stays: list[list[Stay]] = [[] for _ in jobs]
    for row in record.intervals.sort("start_s").iter_rows(named=True):
        on = row["nodes"]
        place = tuple((node, on.count(node)) for node in sorted(set(on)))
        stays[row["job"]].append((row["start_s"], row["end_s"], place))
    return stays


@pytest.mark.parametrize("seeds", seed_ranges(40, 240, 1440, at_once=200), ids=str)
def test_every_stay(seeds: range) -> None:
    for seed in seeds:
        plan = plan_of(seed)
        ours, expected = rota(plan), NaiveOptimus(plan).play()
        assert are_alike(ours, expected), f"scene {seed}: {ours} in place of {expected}"
