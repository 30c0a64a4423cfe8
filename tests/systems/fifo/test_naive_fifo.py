"""Queues that nobody is taken out of, written once more from their pages: `fifo`, EASY, `sjf`.

From the pages (docs/systems/fifo.md, sjf.md): the order, who waits behind whom, the shadow time of the
first that does not fit, and what later jobs may take of what is free until then. What they leave open, and
is ours: where it matters which GPUs, who stays beyond the shadow time takes others than those on which the
first would be placed then, and if there are none, some of these if it finds a place beside them.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from naive_rebuild import Device, Live, NaiveQueue, NaiveRebuild, Site, joined, site_of, spans_of
from tiers import seed_ranges

KINDS = ["plain", "costs", "types", "quotas", "nodes"]
Held = dict[int, tuple[Device, ...]]


class NaiveFifo(NaiveQueue):
    """In order of priority and submission; strict."""

    def key(self, one: Live) -> Any:
        return -self.wants[one.job].priority


class NaiveSkip(NaiveFifo):
    skips = True


class NaiveEasy(NaiveFifo):
    """The first that does not fit is promised a moment, and passed by those that do not delay it."""

    def __init__(self, site: Site, *, by_users: bool) -> None:
        super().__init__(site)
        self.by_users = by_users
        self.kept = set[Device]()

    def says_s(self, one: Live) -> Fraction:
        """What is left of the estimate."""
        want = self.wants[one.job]
        told = want.says_s if self.by_users and want.says_s is not None else want.run_s
        return told - (want.run_s - self.work_left_s(one))

    def will_end_s(self, one: Live) -> Fraction:
        """By its estimate, if it runs or starts now; an overdue one may end at any moment.

        Nobody has told it what a start costs.
        """
        return self.now + max(self.says_s(one), Fraction(0))

    def shadow(self, head: int, held: Held) -> tuple[Fraction, Held]:
        """When the first in the queue fits, and who would hold what then, itself included."""
        later = dict(held)
        ends = sorted((self.will_end_s(self.live[job]), job) for job in held)
        for moment in sorted({end for end, _ in ends}):
            for end, job in ends:
                if end == moment:
                    del later[job]
            if devices := self.place(head, later):
                return moment, later | {head: devices}
        raise AssertionError("nobody waits who could never run")

    def chosen(self) -> Held:
        held = {one.job: one.devices for one in self.live.values() if one.devices}
        waiting = sorted((one for one in self.live.values() if not one.devices), key=self.rank)
        while waiting and (devices := self.place(waiting[0].job, held)):
            held[waiting.pop(0).job] = devices
        if not waiting:
            return held
        head = waiting.pop(0).job
        moment_s, later = self.shadow(head, held)
        for one in waiting:
            if devices := self.passes(one, head, moment_s, held, later):
                held[one.job] = devices
        return held

    def free_on(self, node: int, held: Held) -> list[Device]:
        return [device for device in super().free_on(node, held) if device not in self.kept]

    def passes(self, one: Live, head: int, moment_s: Fraction, held: Held, later: Held) -> tuple[Device, ...]:
        """What `one` may take; where it stays beyond the shadow time, `later` is told of it."""
        devices = self.place(one.job, held)
        if not devices or self.will_end_s(one) <= moment_s:
            return devices
        if self.counts():
            size = sum(size for _, size, _ in self.site.nodes)
            if len(devices) + sum(map(len, later.values())) > size:
                return ()
            later[one.job] = devices
            return devices
        self.kept = set(later.pop(head))
        outside = self.place(one.job, held)
        kept, self.kept = self.kept, set()
        for taken in filter(None, (outside, devices)):
            if beside := self.place(head, later | {one.job: taken}):
                later |= {one.job: taken, head: beside}
                return taken
        later[head] = tuple(kept)
        return ()


class NaiveSjf(NaiveFifo):
    def key(self, one: Live) -> Any:
        return self.wants[one.job].run_s


class NaiveSjfSkip(NaiveSjf):
    skips = True


class NaiveFewest(NaiveSjf):
    def key(self, one: Live) -> Any:
        return self.gpus(one)


class NaivePreemptiveSjf(NaiveRebuild):
    def key(self, one: Live) -> Any:
        return self.wants[one.job].run_s


class NaivePreemptiveFewest(NaiveRebuild):
    def key(self, one: Live) -> Any:
        return self.gpus(one)


def queue_of(seed: int, kind: str) -> Site:
    """Some with priorities, and with limits that hold, or do not."""
    draw = random.Random(f"queue {kind} {seed}")
    site = site_of(seed, kind)
    urgent = draw.random() < 0.3
    wants = [
        replace(
            want,
            priority=draw.randrange(3) if urgent else 0,
            says_s=max(want.run_s + draw.choice([0, 0, 5, 50, -3, -40]), Fraction(1)),
        )
        for want in site.wants
    ]
    return replace(site, wants=wants)


def of_house(policy: str, site: Site, **told: Any) -> list[list[Any]]:
    joint = "," if ":" in policy else ":"
    return joined(spans_of(f"{policy}{joint}placement={site.placement}", site, **told))


IN_ORDER = [
    ("fifo", NaiveFifo),
    ("fifo:skip=yes", NaiveSkip),
    ("sjf", NaiveSjf),
    ("sjf:skip=yes", NaiveSjfSkip),
    ("sjf:by=gpus", NaiveFewest),
    ("sjf:preemptive=yes", NaivePreemptiveSjf),
    ("sjf:by=gpus,preemptive=yes", NaivePreemptiveFewest),
]
SEEDS = seed_ranges(2, 100, 400)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("policy", "naive"), IN_ORDER)
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_every_stay(policy: str, naive: type[NaiveRebuild], kind: str, seeds: range) -> None:
    for seed in seeds:
        site = queue_of(seed, kind)
        assert of_house(policy, site) == joined(naive(site).play()), seed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_users", [False, True], ids=["exact", "limits"])
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_every_stay_with_backfill(by_users: bool, kind: str, seeds: range) -> None:
    for seed in seeds:
        site = queue_of(seed, kind)
        told = {"duration": "user"} if by_users else {}
        ours = of_house("fifo:backfill=easy", site, knowledge=told)
        assert ours == joined(NaiveEasy(site, by_users=by_users).play()), seed
