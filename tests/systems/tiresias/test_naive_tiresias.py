"""Tiresias written once more from its card: queues, Gittins index, promotion, placement by skew.

Where the card leaves it open the page is followed: running jobs ahead within a queue (`order=las`), a job
that is to be stopped although it has waited long enough returns at once, one that has done nothing since its
last promotion has limits twice as high, a skewed model lies under one switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from naive_rebuild import (
    INF,
    Device,
    Live,
    NaiveRebuild,
    Site,
    in_fragments,
    joined,
    on_least_nodes,
    site_of,
    spans_of,
)
from rota.knowledge.service import ServiceSamples
from tiers import seed_ranges

KINDS = ["plain", "costs", "types", "quotas", "nodes"]
SKEWED, EVEN = "vgg16", "resnet50"


def gittins(samples: Sequence[Fraction], service: Fraction, quantum: Fraction) -> Fraction:
    """P(S - a <= D | S > a) / E[min(S - a, D) | S > a]."""
    left = [one - service for one in samples if one > service]
    if not left:
        return Fraction(0)
    return Fraction(sum(one <= quantum for one in left)) / sum(min(one, quantum) for one in left)


class NaiveTiresias(NaiveRebuild):
    """Sections 1 to 6 of the card."""

    def __init__(
        self,
        site: Site,
        limits: Sequence[int],
        *,
        knob: Fraction = Fraction(0),
        order: str = "las",
        by_gpus: bool = True,
        samples: Sequence[Fraction] | None = None,
    ) -> None:
        super().__init__(site)
        self.limits, self.knob, self.order, self.by_gpus = (*map(Fraction, limits), INF), knob, order, by_gpus
        self.learns, self.samples = samples is None, list(samples or ())
        self.level: dict[int, int] = {}
        self.before: dict[int, Fraction] = {}
        """Seconds run that a promotion has made forgotten."""
        self.waited: dict[int, Fraction] = {}
        self.returning: set[int] = set()
        self.done_s: dict[int, Fraction] = {}
        """Work done at the last promotion."""
        self.times: dict[int, int] = {}
        """How many times as high limits are."""

    # -- what counts -------------------------------------------------------------------------------

    def counted_s(self, one: Live) -> Fraction:
        """t_J: seconds run since the last promotion."""
        return self.held_s(one) - self.before.get(one.job, Fraction(0))

    def rate(self, one: Live) -> int:
        return self.gpus(one) if self.by_gpus else 1

    def service(self, one: Live) -> Fraction:
        return self.counted_s(one) * self.rate(one)

    def queue(self, one: Live) -> int:
        return self.level.get(one.job, 0)

    def limit(self, one: Live) -> Fraction:
        return self.limits[self.queue(one)] * self.times.get(one.job, 1)

    def is_due(self, one: Live) -> bool:
        waited, ran_s = self.waited.get(one.job, Fraction(0)), self.counted_s(one)
        return self.knob > 0 and self.queue(one) > 0 and ran_s > 0 and waited >= self.knob * ran_s

    def promote(self, one: Live) -> None:
        self.level[one.job], self.waited[one.job] = 0, Fraction(0)
        self.before[one.job] = self.held_s(one)
        self.returning.add(one.job)
        done_s = self.wants[one.job].run_s - self.work_left_s(one)
        if done_s <= self.done_s.get(one.job, Fraction(0)):
            self.times[one.job] = 2 * self.times.get(one.job, 1)
        self.done_s[one.job] = done_s

    # -- the order ---------------------------------------------------------------------------------

    def key(self, one: Live) -> Any:
        queue = self.queue(one)
        if self.order == "gittins":
            return queue, -gittins(self.samples, self.service(one), self.limits[queue])
        waits = self.order == "las" and not one.devices and one.job not in self.returning
        return queue, waits, INF if one.first_s is None else one.first_s

    # -- time --------------------------------------------------------------------------------------

    def pass_time(self, moment: Fraction) -> None:
        for one in self.live.values():
            if not one.devices and self.counted_s(one) > 0:
                self.waited[one.job] = self.waited.get(one.job, Fraction(0)) + moment - self.now
        super().pass_time(moment)

    def alarm_s(self) -> Fraction:
        moments = [INF]
        for one in self.live.values():
            if one.devices:
                moments.append(self.now + (self.limit(one) - self.service(one)) / self.rate(one))
            elif self.knob and self.queue(one) and self.counted_s(one) > 0:
                waited = self.waited.get(one.job, Fraction(0))
                moments.append(self.now + self.knob * self.counted_s(one) - waited)
        return min(moments)

    def look(self) -> None:
        for one in self.live.values():
            while self.service(one) >= self.limit(one):
                self.level[one.job] = self.queue(one) + 1
        for one in self.live.values():
            if not one.devices and self.is_due(one):
                self.promote(one)

    def about_to_stop(self, losers: list[int]) -> bool:
        due = [job for job in losers if self.is_due(self.live[job])]
        for job in due:
            self.promote(self.live[job])
        return bool(due)

    def carry_out(self, held: dict[int, tuple[Device, ...]]) -> None:
        super().carry_out(held)
        self.returning -= {one.job for one in self.live.values() if one.devices}

    def ended(self, one: Live) -> None:
        if self.learns:
            self.samples.append(one.ran_s * self.gpus(one))


class NaiveSkew(NaiveTiresias):
    """Skewed models on the fewest nodes under one switch, or they wait; all others in fragments."""

    def counts(self) -> bool:
        return False

    def has_switch(self, job: int) -> bool:
        """True if some switch has as many GPUs of one type that will do."""
        want, sizes = self.wants[job], dict[tuple[int, int], int]()
        for kind, size, rack in self.site.nodes:
            if not want.types or kind in want.types:
                sizes[kind, rack] = sizes.get((kind, rack), 0) + size
        return max(sizes.values(), default=0) >= want.gpus

    def on_type(
        self, job: int, room: dict[int, list[Device]], held: dict[int, tuple[Device, ...]]
    ) -> tuple[Device, ...]:
        gpus = self.wants[job].gpus
        if self.wants[job].model != SKEWED:
            return in_fragments(room, gpus)
        sizes = {node: size for node, (_, size, _) in enumerate(self.site.nodes) if node in room}
        racks = [
            [node for node in room if self.site.nodes[node][2] == rack]
            for rack in sorted({rack for _, _, rack in self.site.nodes})
        ]
        if not self.has_switch(job):
            return on_least_nodes(room, gpus, sizes)
        for rack in sorted(racks, key=lambda rack: sum(len(room[node]) for node in rack)):
            inside = {node: room[node] for node in rack}
            taken = on_least_nodes(inside, gpus, {node: sizes[node] for node in rack})
            if taken:
                return taken
        return ()


def policy_of(site: Site, limits: Sequence[int], **options: Any) -> str:
    parts = {"limits": "/".join(map(str, limits)), "placement": site.placement} | options
    return "tiresias:" + ",".join(f"{name}={value}" for name, value in parts.items())


LIMITS = [(24,), (24, 96), (48, 240)]
SEEDS = seed_ranges(1, 100, 400)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("knob", [0, 1, 4])
@pytest.mark.parametrize("order", ["las", "first-start"])
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_every_stay_in_queues(order: str, knob: int, kind: str, seeds: range) -> None:
    for seed in seeds:
        site, limits = site_of(seed, kind), LIMITS[seed % 3]
        naive = NaiveTiresias(site, limits, knob=Fraction(knob), order=order)
        policy = policy_of(site, limits, promote=knob, order=order)
        assert joined(spans_of(policy, site)) == joined(naive.play()), seed


@pytest.mark.parametrize(("kind", "seed"), [("nodes", 99), ("types", 259), ("types", 322)])
def test_who_is_moved_falls_when_it_should(kind: str, seed: int) -> None:
    """What it received where it was counts: the next look came too late, after as much again."""
    site, limits = site_of(seed, kind), LIMITS[seed % 3]
    naive = NaiveTiresias(site, limits, knob=Fraction(1))
    assert joined(spans_of(policy_of(site, limits, promote=1), site)) == joined(naive.play())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_every_stay_by_time_alone(kind: str, seeds: range) -> None:
    for seed in seeds:
        site, limits = site_of(seed, kind), LIMITS[seed % 3]
        naive = NaiveTiresias(site, limits, knob=Fraction(seed % 2), by_gpus=False)
        policy = policy_of(site, limits, promote=seed % 2, metric="time")
        assert joined(spans_of(policy, site)) == joined(naive.play()), seed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("knob", [0, 2])
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_every_stay_by_the_index(knob: int, kind: str, seeds: range) -> None:
    """From a sample, or from the jobs that have completed so far."""
    for seed in seeds:
        site, limits = site_of(seed, kind), LIMITS[seed % 3]
        samples = [8, 20, 20, 60, 100, 300, 900] if seed % 2 else None
        naive = NaiveTiresias(
            site,
            limits,
            knob=Fraction(knob),
            order="gittins",
            samples=None if samples is None else [*map(Fraction, samples)],
        )
        providers = [] if samples is None else [ServiceSamples(samples)]
        policy = policy_of(site, limits, promote=knob, order="gittins")
        assert joined(spans_of(policy, site, providers)) == joined(naive.play()), seed


@pytest.mark.parametrize("kind", ["plain", "costs", "types", "quotas"])
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_every_stay_by_skew(kind: str, seeds: range) -> None:
    for seed in seeds:
        site, limits = site_of(seed, kind), LIMITS[seed % 3]
        wants = [replace(want, model=(SKEWED, EVEN)[(seed + n) % 2]) for n, want in enumerate(site.wants)]
        site = replace(site, wants=wants, placement="consolidate")
        naive = NaiveSkew(site, limits, knob=Fraction(seed % 3))
        policy = policy_of(site, limits, promote=seed % 3, skew="yes")
        assert joined(spans_of(policy, site)) == joined(naive.play()), seed
