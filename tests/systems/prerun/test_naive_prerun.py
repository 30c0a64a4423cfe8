"""Whole runs with a pool in which new jobs run first, once more from the page (docs/systems/prerun.md).

One GPU of the last nodes for each newcomer in order of arrival; who has not failed after a while leaves and
is served on the other nodes along an order.  Work in the pool goes as slowly as on one GPU and is kept; a
failure comes as soon there as elsewhere, if it comes in time, and who failed there is tried there again.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from naive_rebuild import INF, Device, Live, NaiveRebuild, Site, joined, site_of, spans_of
from tiers import seed_ranges

Held = dict[int, tuple[Device, ...]]


class NaivePrerun(NaiveRebuild):
    """The pool, and `inner` beside it: `fifo` (strict), `fifo[skip=yes]` or `srtf`."""

    def __init__(self, site: Site, inner: str, pool: int, trial_s: Fraction, least: int) -> None:
        super().__init__(site)
        self.inner, self.trial_s, self.least = inner, trial_s, least
        self.beside = len(site.nodes) - pool
        """The first of the pool's nodes."""
        self.passed, self.on_trial = set[int](), set[int]()

    def key(self, one: Live) -> Any:
        return self.work_left_s(one) if self.inner == "srtf" else 0

    def has_passed(self, job: int) -> bool:
        return job in self.passed or self.wants[job].gpus < self.least

    # -- time --------------------------------------------------------------------------------------

    def work_left_s(self, one: Live) -> Fraction:
        if one.job in self.on_trial:
            return one.left_s - (self.now - one.since_s) / self.gpus(one)
        return super().work_left_s(one)

    def end_s(self, one: Live) -> Fraction:
        if one.job not in self.on_trial:
            return super().end_s(one)
        fails = self.wants[one.job].fails
        return one.since_s + (fails[one.failed] if one.failed < len(fails) else one.left_s * self.gpus(one))

    def alarm_s(self) -> Fraction:
        return min((self.live[job].since_s + self.trial_s for job in self.on_trial), default=INF)

    def halt(self, one: Live) -> None:
        super().halt(one)
        self.on_trial.discard(one.job)

    def look(self) -> None:
        for job in sorted(self.on_trial):
            if self.now >= self.live[job].since_s + self.trial_s:
                self.passed.add(job)
                self.halt(self.live[job])

    # -- who gets what -----------------------------------------------------------------------------

    def decide(self) -> None:
        tried = {job: self.live[job].devices for job in self.on_trial}
        everybody, whole = self.live, self.site
        self.live = {job: one for job, one in everybody.items() if self.has_passed(job)}
        self.site = replace(whole, nodes=whole.nodes[: self.beside])
        held = self.chosen() if self.inner == "srtf" else self.in_order()
        self.live, self.site = everybody, whole
        for job in sorted(everybody):
            if not self.has_passed(job) and job not in tried and (devices := self.of_pool(tried)):
                tried[job] = devices
                self.on_trial.add(job)
        self.carry_out(held | tried)

    def of_pool(self, tried: Held) -> tuple[Device, ...]:
        """One GPU of the node with the least that is free."""
        room = [self.free_on(node, tried) for node in range(self.beside, len(self.site.nodes))]
        free = min(filter(None, room), key=len, default=[])
        return tuple(free[:1])

    def in_order(self) -> Held:
        held = {job: one.devices for job, one in self.live.items() if one.devices}
        for job in sorted(self.live):
            if job not in held:
                if devices := self.place(job, held):
                    held[job] = devices
                elif self.inner == "fifo":
                    break
        return held


def scene_of(seed: int) -> tuple[Site, str, int, Fraction, int]:
    """Two to five nodes, of which one or two are the pool, and jobs that are no larger than the others."""
    draw = random.Random(f"prerun {seed}")
    site = site_of(seed, "costs", widths=(1, 1, 2, 4, 8))
    nodes = [*site.nodes, site.nodes[-1]] if len(site.nodes) < 5 else site.nodes
    pool = draw.randint(1, min(2, len(nodes) - 1))
    beside = sum(size for _, size, _ in nodes[: len(nodes) - pool])
    largest = max(width for width in (1, 2, 4, 8) if width <= beside)
    wants = [replace(want, gpus=min(want.gpus, largest)) for want in site.wants]
    placement = draw.choice(["consolidate", "spread", "fragments"])
    site = replace(site, nodes=nodes, wants=wants, start_s=0, back_s=0, placement=placement)
    inner = draw.choice(["fifo", "fifo[skip=yes]", "srtf"])
    return (
        site,
        inner,
        pool,
        draw.choice([Fraction(21, 2), Fraction(7, 2), Fraction(61, 2)]),
        draw.choice([1, 1, 2]),
    )


@pytest.mark.parametrize("seeds", seed_ranges(40, 140, 1440, at_once=100), ids=str)
def test_every_stay(seeds: range) -> None:
    for seed in seeds:
        site, inner, pool, trial_s, least = scene_of(seed)
        joint = f"{inner[:-1]}," if inner.endswith("]") else f"{inner}["
        within = f"{joint}placement={site.placement}]"
        ours = spans_of(
            f"prerun:policy={within},nodes={pool},for_s={float(trial_s)},least_gpus={least}", site
        )
        naive = NaivePrerun(site, inner, pool, trial_s, least)
        assert joined(ours) == joined(naive.play()), (seed, within)
