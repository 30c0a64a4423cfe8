"""Whole runs of Chronus once more, from its card: promises, leases, and everybody else on what they leave.

Many plans are equally good, so the twin is told which one the policy made when a lease begins. It looks
whether that plan keeps to the rules and is worth as much as any (by a program of its own), goes on with
it, and works out by itself who is promised what, who runs in each slot, and when everybody ends.

From the page, where the card is silent: what is left of a lease under way counts before leases are given
back; a job with several deadlines is promised the first that its leases keep, and keeps it until a lease
begins; a plan never becomes longer; an estimate is a minute at least; whether a deadline can still be met
is judged by the run time alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix

from play import play, trace_of
from rota.model.job_columns import Deadline
from rota.model.trace import Trace
from rota.scheduler.decision import Decision
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting
from stays import are_alike, merged
from tiers import seed_ranges

LEASE_S, SLOT_S = 1200, 300
OVERHEAD_S, SAFETY = 30.0, 1.1
COSTS = "start=30s|2:60s|4:90s|8:120s,restore=30s|2:60s|4:90s|8:120s"
NEAR = 1e-6
Stay = tuple[float, float, int]
Plans = dict[int, list[int]]
"""Leases of each job, numbered from 0 at second 0."""


@dataclass(frozen=True)
class Wish:
    """A job: submitted, GPUs, seconds of work, and deadlines (moment, value), none if it is best effort."""

    submit_s: float
    gpus: int
    run_s: float
    dues: tuple[tuple[float, float], ...] = ()
    says_s: float = 0.0
    """How long its user says that it takes."""


@dataclass(frozen=True)
class Scene:
    jobs: list[Wish]
    nodes: str
    gpus: int
    objective: str
    costs: bool
    overhead_s: float = OVERHEAD_S
    safety: float = SAFETY


@dataclass
class State:
    """What has become of a job."""

    row: int
    work_s: float = 0.0
    since_s: float = math.nan
    """When it was started, NaN if it waits."""
    ready_s: float = 0.0
    is_asked: bool = False
    has_promise: bool = False
    is_refused: bool = False
    is_overrun: bool = False
    plan: list[int] = field(default_factory=list)
    due_s: float = math.inf
    """The deadline that counts now."""
    is_sure: bool = False
    """Ends within the lease, without a promise."""


class NaiveChronus:
    """One cluster, told by `plans_of` which leases the policy planned at the beginning of one."""

    def __init__(self, scene: Scene, plans_of: Callable[[float], tuple[Plans, dict[int, float]]]) -> None:
        self.scene, self.plans_of, self.now = scene, plans_of, 0.0
        self.live: dict[int, State] = {}
        self.stays: list[list[Stay]] = [[] for _ in scene.jobs]
        self.promised = set[int]()
        self.base: Plans = {}
        """Plans as they lay when the lease began."""
        self.fresh: list[int] = []
        """Promised since."""

    # -- estimates ---------------------------------------------------------------------------------

    def factor(self, row: int) -> float:
        return 1.0 + (1.0 + math.log2(self.scene.jobs[row].gpus)) * self.scene.overhead_s / LEASE_S

    def estimate_s(self, row: int) -> float:
        minutes = self.scene.jobs[row].says_s / 60.0 * self.factor(row) * self.scene.safety
        return 60.0 * max(math.floor(minutes + NEAR), 1)

    def left_s(self, one: State) -> float:
        return max(self.estimate_s(one.row) - self.done_s(one) * self.factor(one.row), 0.0)

    def done_s(self, one: State) -> float:
        return one.work_s + (max(self.now - one.ready_s, 0.0) if self.runs(one) else 0.0)

    def need(self, one: State) -> int:
        """Leases; a plan never becomes longer."""
        need = max(math.ceil(self.left_s(one) / LEASE_S - NEAR), 1)
        return min(need, len(one.plan)) if one.has_promise else need

    def planned(self, row: int) -> int:
        gpus = self.scene.jobs[row].gpus
        up = 4 if gpus == 3 else 8 if 5 <= gpus <= 7 else gpus
        return up if up <= self.scene.gpus else gpus

    def runs(self, one: State) -> bool:
        return not math.isnan(one.since_s)

    def gpus(self, one: State) -> int:
        return self.scene.jobs[one.row].gpus

    # -- promises ----------------------------------------------------------------------------------

    def free(self, plans: Plans, leases: int) -> list[int]:
        left = [self.scene.gpus] * leases
        for row, plan in plans.items():
            for lease in plan:
                left[lease] -= self.planned(row)
        return left

    def latest(self, free: list[int], row: int, need: int, first: int, end: int) -> list[int] | None:
        """The latest `need` leases from `first` on and below `end`."""
        taken = list[int]()
        for lease in range(end - 1, first - 1, -1):
            if len(taken) < need and free[lease] >= self.planned(row):
                taken.append(lease)
        return sorted(taken) if len(taken) == need else None

    def laid(self, wishes: list[tuple[int, int, int]], base: Plans, first: int) -> Plans | None:
        """All of `wishes` (job, leases, end), those that are hardest to lay first."""
        free, plans = self.free(base, 10_000), Plans()
        for row, need, end in sorted(wishes, key=lambda w: (-self.planned(w[0]), w[2] - w[1], -w[2], w[0])):
            plan = self.latest(free, row, need, first, end)
            if plan is None:
                return None
            plans[row] = plan
            for lease in plan:
                free[lease] -= self.planned(row)
        return plans

    def admit(self) -> None:
        """Asks of all who have come since the last slot, one by one."""
        first = math.floor(self.now / LEASE_S + NEAR) + 1
        for one in [one for one in self.live.values() if not one.is_asked]:
            one.is_asked = True
            if not self.scene.jobs[one.row].dues:
                continue
            due_s = self.scene.jobs[one.row].dues[-1][0]
            last, need = math.floor(due_s / LEASE_S + NEAR), self.need(one)
            ends = [last, *range(first + need, last)]
            found = next((plans for end in ends if (plans := self.trial(one, need, first, end))), None)
            if found is None:
                one.is_refused = True
                continue
            for row, plan in found.items():
                self.live[row].plan = plan
            ends_s, dues = (one.plan[-1] + 1) * LEASE_S, self.scene.jobs[one.row].dues
            one.has_promise, one.due_s = True, next(at_s for at_s, _ in dues if at_s >= ends_s - NEAR)
            self.promised.add(one.row)
            self.fresh.append(one.row)

    def trial(self, one: State, need: int, first: int, end: int) -> Plans | None:
        beside = self.free({row: live.plan for row, live in self.live.items()}, 10_000)
        plan = self.latest(beside, one.row, need, first, end)
        if plan is not None:
            return {one.row: plan}
        fresh = [self.live[row] for row in self.fresh if row in self.live]
        old = {row: live.plan for row, live in self.live.items() if row not in self.fresh}
        wishes = [(other.row, len(other.plan), math.floor(other.due_s / LEASE_S + NEAR)) for other in fresh]
        return self.laid([*wishes, (one.row, need, end)], old, first)

    def give_back(self) -> None:
        """Leases that are not needed any more, the earliest first; who outruns its estimate has none."""
        now = math.floor(self.now / LEASE_S + NEAR)
        for one in self.live.values():
            begins = self.now == now * LEASE_S
            if one.is_asked and self.left_s(one) == 0.0 and (begins or now not in one.plan):
                one.is_overrun = one.has_promise or one.is_refused or one.is_overrun
                one.has_promise, one.is_refused, one.plan = False, False, []
            future = [lease for lease in one.plan if lease > now]
            sure_s = (now + 1) * LEASE_S - self.now if now in one.plan else 0.0
            spare = len(future) - max(math.ceil((self.left_s(one) - sure_s) / LEASE_S - NEAR), 0)
            if spare > 0:
                one.plan = [lease for lease in one.plan if lease <= now] + future[spare:]

    # -- a lease begins ----------------------------------------------------------------------------

    def begin_lease(self) -> None:
        now = math.floor(self.now / LEASE_S + NEAR)
        for one in self.live.values():
            one.plan = [lease for lease in one.plan if lease >= now]
            one.is_sure = False
        self.give_back()
        for one in self.live.values():
            if one.has_promise:
                one.plan = one.plan[max(len(one.plan) - self.need(one), 0) :]
        self.fresh = []
        have = [one for one in self.live.values() if one.has_promise]
        plans, dues = self.plans_of(self.now) if have else ({}, {})
        for one in have:
            one.plan, one.due_s = plans.get(one.row, []), dues[one.row]
        self.check(have, now)

    def check(self, have: list[State], now: int) -> None:
        """The plan keeps to the rules, and none is worth more."""
        if not have:
            return
        worth = 0.0
        for one in have:
            need, plan = self.need(one), one.plan
            assert len(plan) == len(set(plan)) == need, (self.now, one, need)
            assert min(plan) >= now, (self.now, one)
            assert (max(plan) + 1) * LEASE_S <= one.due_s + NEAR, (self.now, one)
            value = [value for at_s, value in self.scene.jobs[one.row].dues if at_s >= one.due_s - NEAR]
            worth += value[0]
        used = self.free({one.row: one.plan for one in have}, 10_000)
        assert min(used) >= 0, (self.now, "too many")
        sign = self.sign()
        worth += sign * (self.scene.gpus - used[now]) / self.scene.gpus
        best = self.best(have, now, sign)
        assert worth >= best - 1e-5, (self.now, worth, best, {one.row: one.plan for one in have})

    def sign(self) -> float:
        if self.scene.objective != "adaptive":
            return 1.0 if self.scene.objective == "maximise" else -1.0
        return -1.0 if any(one.is_refused or one.is_overrun for one in self.live.values()) else 1.0

    def best(self, have: list[State], now: int, sign: float) -> float:
        """The program of the card, as it stands there."""
        rows = [
            (one, value, math.floor(at_s / LEASE_S + NEAR) - now)
            for one in have
            for at_s, value in self.scene.jobs[one.row].dues
        ]
        rows = [(one, value, end) for one, value, end in rows if end >= self.need(one)]
        horizon = max(end for _, _, end in rows)
        columns = len(rows) * (horizon + 1)
        matrix = lil_matrix((len(rows) + horizon + len(have), columns))
        low, high, cost = np.zeros(matrix.shape[0]), np.zeros(matrix.shape[0]), np.zeros(columns)
        top = np.ones(columns)
        for r, (one, value, end) in enumerate(rows):
            at = r * (horizon + 1)
            gpus = self.planned(one.row)
            cost[at + horizon] = -value
            cost[at] -= sign * gpus / self.scene.gpus
            matrix[r, at + horizon] = -self.need(one)
            for lease in range(horizon):
                matrix[r, at + lease] = 1
                matrix[len(rows) + lease, at + lease] = gpus
                top[at + lease] = lease < end
            matrix[len(rows) + horizon + have.index(one), at + horizon] = 1
        high[len(rows) : len(rows) + horizon] = self.scene.gpus
        low[len(rows) + horizon :] = high[len(rows) + horizon :] = 1
        found = milp(
            cost,
            integrality=np.ones(columns),
            bounds=Bounds(np.zeros(columns), top),
            constraints=LinearConstraint(matrix.tocsr(), low, high),
            options={"mip_rel_gap": 0.0},
        )
        assert found.status == 0, (self.now, found.message)
        return -float(found.fun)

    # -- who runs ----------------------------------------------------------------------------------

    def is_leased(self, one: State) -> bool:
        return math.floor(self.now / LEASE_S + NEAR) in one.plan

    def rank(self, one: State) -> tuple[float, ...]:
        """Class, what counts within it, and the earlier of equals."""
        job = self.scene.jobs[one.row]
        service = self.left_s(one) * job.gpus
        if one.has_promise:
            slack = one.due_s - self.now - self.left_s(one)
            return 1.0, slack * job.gpus, job.submit_s, one.row
        if one.is_overrun:
            return -1.0, 0.0, job.submit_s, one.row
        if job.dues and self.now + job.says_s - self.done_s(one) > job.dues[-1][0] + NEAR:
            return 2.0, service, job.submit_s, one.row
        return 0.0, service, job.submit_s, one.row

    def taken(self, rows: set[int]) -> int:
        return sum(self.gpus(self.live[row]) for row in rows)

    def fill(self, begins: bool) -> None:
        """Leases first, then who is sure to end within this one, then everybody by rank."""
        everybody = list(self.live.values())
        leased = {one.row for one in everybody if self.is_leased(one)}
        self.make_sure(self.scene.gpus - self.taken(leased))
        sure = leased | {one.row for one in everybody if one.is_sure}
        runs = sure if begins else sure | {one.row for one in everybody if self.runs(one)}
        for one in sorted(everybody, key=self.rank, reverse=True):
            if self.taken(runs) > self.scene.gpus and one.row not in sure:
                runs = runs - {one.row}
        for one in sorted(everybody, key=self.rank):
            if self.taken(runs | {one.row}) <= self.scene.gpus:
                runs = runs | {one.row}
        for one in everybody:
            if self.runs(one) and one.row not in runs:
                self.halt(one)
        for one in everybody:
            if not self.runs(one) and one.row in runs:
                stall_s = 30.0 * (1 + math.log2(self.gpus(one))) if self.scene.costs else 0.0
                one.since_s, one.ready_s = self.now, self.now + stall_s

    def make_sure(self, free: int) -> None:
        """Of those without a promise who end within the lease, as many as there is room for; for its rest."""
        left_s = (math.floor(self.now / LEASE_S + NEAR) + 1) * LEASE_S - self.now
        free -= self.taken({row for row, one in self.live.items() if one.is_sure})
        for one in sorted(
            self.live.values(), key=lambda one: (self.left_s(one) * self.gpus(one), self.rank(one)[2:])
        ):
            ends_within = one.is_refused and 0.0 < self.left_s(one) <= left_s + NEAR
            if ends_within and not one.is_sure and self.gpus(one) <= free:
                one.is_sure = True
                free -= self.gpus(one)

    def halt(self, one: State) -> None:
        one.work_s = self.done_s(one)
        self.stays[one.row].append((one.since_s, self.now, self.gpus(one)))
        one.since_s = math.nan

    # -- time --------------------------------------------------------------------------------------

    def play(self) -> list[list[Stay]]:
        coming = list(range(len(self.scene.jobs)))
        slot = 0
        while coming or self.live:
            at_s = float(slot * SLOT_S)
            ends = {
                one.row: one.ready_s + self.scene.jobs[one.row].run_s - one.work_s
                for one in self.live.values()
                if self.runs(one)
            }
            for row in sorted(ends, key=lambda row: ends[row]):
                if ends[row] <= at_s + NEAR:
                    self.now = max(ends[row], self.live[row].since_s)
                    self.halt(self.live.pop(row))
            self.now = at_s
            while coming and self.scene.jobs[coming[0]].submit_s <= at_s:
                row = coming.pop(0)
                self.live[row] = State(row)
            if self.live:
                begins = slot % (LEASE_S // SLOT_S) == 0
                if begins:
                    self.begin_lease()
                else:
                    self.give_back()
                self.admit()
                self.fill(begins)
            slot += 1
        return self.stays


# -- scenes ----------------------------------------------------------------------------------------


def scene_of(seed: int) -> Scene:
    draw = random.Random(seed)
    nodes, gpus = draw.choice([("1x4", 4), ("1x8", 8), ("2x4", 8), ("1x2", 2), ("3x2", 6)])
    costs = draw.random() < 0.3
    if costs:
        nodes, gpus = draw.choice([("1x4", 4), ("1x8", 8)])
    jobs = list[Wish]()
    span_s = draw.choice([0, 3000, 12000])
    kinds = draw.choice(["strict", "mixed", "soft"])
    grid, wrong = draw.random() < 0.5, draw.choice([[1.0], [1.0], [0.4, 0.8, 1.0, 2.0]])
    for _ in range(draw.randint(1, 14)):
        size = draw.choice([1, 1, 2, 4, 8] if costs else [1, 1, 2, 3, 4, 5, 8])
        submit = draw.choice([0, draw.randint(0, span_s), draw.randint(0, span_s) // 300 * 300])
        run = draw.choice([draw.randint(1, 60), draw.randint(60, 1200), draw.randint(600, 9000)])
        if grid:
            run = max(run // 300 * 300, 60)
        levels = {"strict": [1], "mixed": [0, 1], "soft": [0, 1, 3, 4]}[kinds]
        count, dues = draw.choice(levels), list[tuple[float, float]]()
        at = submit + draw.choice([600, 1200, 1500]) + draw.choice([0.5, 1.2, 1.5, 2.0, 3.0]) * run
        if grid:
            at = at // 600 * 600
        for value in [10.0, 8.0, 5.0, 2.0][:count]:
            dues.append((float(at), value))
            at += draw.choice([1200, 2400, 900])
        jobs.append(Wish(float(submit), min(size, gpus), float(run), tuple(dues), run * draw.choice(wrong)))
    jobs.sort(key=lambda job: job.submit_s)
    objective = draw.choice(["adaptive", "adaptive", "maximise", "minimise"])
    return Scene(jobs, nodes, gpus, objective, costs)


def trace_for(scene: Scene) -> Trace:
    jobs = scene.jobs
    text = " ".join(f"J{n} {job.gpus}x{job.run_s}@{job.submit_s}" for n, job in enumerate(jobs))
    one = {n: job.dues[0][0] if job.dues else math.nan for n, job in enumerate(jobs)}
    return trace_of(
        text,
        limit_s=[job.says_s for job in jobs],
        deadline_s=list(one.values()),
        deadlines={
            n: tuple(Deadline(at, value) for at, value in job.dues)
            for n, job in enumerate(jobs)
            if len(job.dues) > 1
        },
    )


def rota(scene: Scene) -> tuple[list[list[Stay]], dict[float, dict[str, Any]], set[int]]:
    """What the policy makes of it: stays, its memory by moment, and who was promised its deadline."""
    policy = parse_policy(f"chronus:objective={scene.objective}").make()
    costs = {"costs": parse_costs(COSTS)} if scene.costs else {}
    setting = Setting(knowledge={"duration": "user"}, **costs)
    told, decide = dict[float, dict[str, Any]](), policy.decide

    def told_by(snapshot: Snapshot, memory: Any) -> Decision:
        decision = decide(snapshot, memory)
        told[snapshot.now] = deepcopy(decision.memory)
        return decision

    policy.decide = told_by  # type: ignore[method-assign]
    record = play(policy, trace_for(scene), scene.nodes, setting)
    stays: list[list[Stay]] = [[] for _ in scene.jobs]
    for row in record.intervals.sort("start_s").iter_rows(named=True):
        stays[row["job"]].append((row["start_s"], row["end_s"], len(row["nodes"])))
    promised = record.jobs["promised_s"].is_not_null()
    return stays, told, set(np.flatnonzero(promised.to_numpy()).tolist())


@pytest.mark.parametrize("seeds", seed_ranges(15, 135, 1500, at_once=200), ids=str)
def test_every_stay_and_every_promise(seeds: range) -> None:
    for seed in seeds:
        scene = scene_of(seed)
        stays, told, promised = rota(scene)
        naive = NaiveChronus(scene, lambda now, told=told: (told[now]["plans"], told[now]["aims"]))
        expected = naive.play()
        assert promised == naive.promised, f"scene {seed}"
        assert are_alike(stays, expected), f"scene {seed}: {merged(stays)} in place of {merged(expected)}"
