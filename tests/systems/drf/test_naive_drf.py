"""DRF written once more from its card: progressive filling, task by task, all shares worked out each time.

From the card: shares, weights, the baselines, who is next, that who does not fit is passed by. From the
page, where the card is silent: ties by what was received over weight, the next job of a tenant is its
first that fits, slots, and all that `preempt=yes` does beyond its rule (whose jobs go first, and none
without need).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from naive_rebuild import Device, Live, NaiveRebuild, Site, consolidated, joined, site_of, spans_of
from tiers import seed_ranges

Held = dict[int, tuple[Device, ...]]
KINDS = ["plain", "costs", "types", "quotas", "nodes", "cores"]


class NaiveDrf(NaiveRebuild):
    """Whoever has least starts its next job."""

    def __init__(self, site: Site, share: str, *, weighted: bool, preempt: bool) -> None:
        super().__init__(site)
        self.share_by, self.preempt = share, preempt
        owners = 1 + max(want.tenant for want in site.wants)
        self.weight = site.weights if weighted and site.weights else (Fraction(1),) * owners
        self.past = [Fraction(0)] * owners
        """GPUs (or slots) times seconds that the tenants' former jobs received."""
        gpus = sum(size for _, size, _ in site.nodes)
        self.capacity = [gpus, site.cores * len(site.nodes)] if site.cores and share != "gpus" else [gpus]

    def amounts(self, job: int) -> list[int]:
        """What a job needs of each resource; of slots, as many as cover all of it."""
        want = self.wants[job]
        needed = [want.gpus, want.each_cpus * want.gpus][: len(self.capacity)]
        if self.share_by != "slots":
            return needed
        slots = self.capacity[0]
        return [
            max(1, *(math.ceil(Fraction(n * slots, c)) for n, c in zip(needed, self.capacity, strict=True)))
        ]

    def share(self, tenant: int, held: Held) -> Fraction:
        of_jobs = [self.amounts(job) for job in held if self.wants[job].tenant == tenant]
        parts = [Fraction(sum(used), there) for *used, there in zip(*of_jobs, self.capacity, strict=False)]
        whole = sum(parts, Fraction(0)) if self.share_by == "assets" else max(parts, default=Fraction(0))
        return whole / self.weight[tenant]

    def received(self, tenant: int) -> Fraction:
        """Service since the beginning, over weight."""
        mine = [one for one in self.live.values() if self.wants[one.job].tenant == tenant]
        now = sum((self.held_s(one) * self.amounts(one.job)[0] for one in mine), Fraction(0))
        return (self.past[tenant] + now) / self.weight[tenant]

    def ended(self, one: Live) -> None:
        self.past[self.wants[one.job].tenant] += one.ran_s * self.amounts(one.job)[0]

    def order(self, tenants: Sequence[int], held: Held) -> list[int]:
        """Least share first, then least service, then the first to come."""
        came = [want.tenant for want in self.wants]
        return sorted(set(tenants), key=lambda t: (self.share(t, held), self.received(t), came.index(t)))

    # -- who fits ----------------------------------------------------------------------------------

    def place(self, job: int, held: Held) -> tuple[Device, ...]:
        if self.share_by == "slots":
            taken = sum(self.amounts(other)[0] for other in held)
            if taken + self.amounts(job)[0] > self.capacity[0]:
                return ()
        return super().place(job, held)

    def on_type(self, job: int, room: dict[int, list[Device]], held: Held) -> tuple[Device, ...]:
        each, gpus = self.wants[job].each_cpus, self.wants[job].gpus
        if not self.site.cores or not each:
            return super().on_type(job, room, held)
        used = dict.fromkeys(room, 0)
        for other, devices in held.items():
            for node, _ in devices:
                used[node] += self.wants[other].each_cpus
        feeds = {node: (self.site.cores - used[node]) // each for node in room}
        whole = {node: free for node, free in room.items() if min(gpus, max(len(free), 1)) <= feeds[node]}
        fed = {node: free[: feeds[node]] for node, free in room.items() if feeds[node] > 0}
        return consolidated(whole, gpus) or consolidated(fed, gpus)

    def is_possible(self, job: int) -> bool:
        each, gpus = self.wants[job].each_cpus, self.wants[job].gpus
        most = [min(size, self.site.cores // each) if each else size for _, size, _ in self.site.nodes]
        return super().is_possible(job) and (not self.site.cores or gpus <= sum(most))

    # -- a decision --------------------------------------------------------------------------------

    def decide(self) -> None:
        held = {one.job: one.devices for one in self.live.values() if one.devices}
        waiting = sorted(job for job, one in self.live.items() if not one.devices)
        self.fill(held, waiting)
        if self.preempt:
            self.redistribute(held, waiting)
        self.carry_out(held)

    def fill(self, held: Held, waiting: list[int]) -> None:
        """Start jobs until none fits."""
        while True:
            for tenant in self.order([self.wants[job].tenant for job in waiting], held):
                mine = [job for job in waiting if self.wants[job].tenant == tenant]
                starts = next((job for job in mine if self.place(job, held)), None)
                if starts is not None:
                    break
            else:
                return
            held[starts] = self.place(starts, held)
            waiting.remove(starts)

    def redistribute(self, held: Held, waiting: list[int]) -> None:
        """Jobs of tenants with more give way to the next jobs of tenants with less."""
        done = set[int]()
        while left := [job for job in waiting if self.wants[job].tenant not in done]:
            tenant = self.order([self.wants[job].tenant for job in left], held)[0]
            job = next(job for job in left if self.wants[job].tenant == tenant)
            without = self.room_for(job, held)
            if without is None:
                done.add(tenant)
                continue
            held.clear()
            held |= without | {job: self.place(job, without)}
            waiting.remove(job)
            self.fill(held, waiting)

    def room_for(self, job: int, held: Held) -> Held | None:
        """Who holds what once enough others gave way; None if that cannot be."""
        tenant, without, gone = self.wants[job].tenant, dict(held), list[int]()
        level = self.share(tenant, held | {job: ()})
        while not self.place(job, without):
            candidates = []
            for other in without:
                owner = self.wants[other].tenant
                fewer = {one: devices for one, devices in without.items() if one != other}
                if owner != tenant and self.live[other].devices and self.share(owner, fewer) > level:
                    candidates.append((self.share(owner, without), self.live[other].since_s, other))
            if not candidates:
                return None
            gone.append(max(candidates)[2])
            del without[gone[-1]]
        for other in gone[:-1]:  # the last was needed
            if self.place(job, without | {other: held[other]}):
                without[other] = held[other]
        return without


def drf_site(seed: int, kind: str) -> Site:
    """A scene with weights; `cores` are what tenants need besides GPUs."""
    draw = random.Random(f"drf {kind} {seed}")
    site = site_of(seed, "plain" if kind == "cores" else kind, widths=(1, 1, 2, 2, 3, 4, 8))
    owners = 1 + max(want.tenant for want in site.wants)
    site = replace(
        site,
        weights=tuple(
            draw.choice([Fraction(1), Fraction(1), Fraction(2), Fraction(1, 2)]) for _ in range(owners)
        ),
    )
    if kind != "cores":
        return site
    wants = [replace(want, each_cpus=draw.choice([0, 1, 2, 4])) for want in site.wants]
    return replace(site, wants=wants, cores=draw.choice([4, 8, 12]), placement="consolidate")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", ["dominant", "assets", "gpus", "slots"])
@pytest.mark.parametrize("weighted", ["yes", "no"])
@pytest.mark.parametrize("seeds", seed_ranges(1, 50, 200), ids=str)
def test_every_stay(weighted: str, share: str, kind: str, seeds: range) -> None:
    for seed in seeds:
        site = drf_site(seed, kind)
        naive = NaiveDrf(site, share, weighted=weighted == "yes", preempt=False)
        policy = f"drf:share={share},weighted={weighted},placement={site.placement}"
        assert joined(spans_of(policy, site)) == joined(naive.play()), seed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", ["dominant", "assets", "gpus"])
@pytest.mark.parametrize("seeds", seed_ranges(2, 75, 300), ids=str)
def test_every_stay_with_preemption(share: str, kind: str, seeds: range) -> None:
    for seed in seeds:
        site = drf_site(seed, kind)
        naive = NaiveDrf(site, share, weighted=True, preempt=True)
        policy = f"drf:share={share},preempt=yes,placement={site.placement}"
        assert joined(spans_of(policy, site)) == joined(naive.play()), seed
