"""Policies that are an order, written once more from their pages: `srtf`, `srsf`, `edf`, and `las`.

The cards name the keys (Tiresias' card: remaining time, remaining time times GPUs, service received);
that service counts in whole quanta, and that of equals those that run come first, is ours
(docs/systems/las.md).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from naive_rebuild import INF, Live, NaiveRebuild, NaiveSrsf, NaiveSrtf, Site, joined, site_of, spans_of
from tiers import seed_ranges

KINDS = ["plain", "costs", "types", "quotas", "nodes"]


class NaiveEdf(NaiveRebuild):
    def key(self, one: Live) -> Any:
        return self.wants[one.job].due_s


class NaiveLas(NaiveRebuild):
    """Whole quanta of service, looked at whenever one is complete."""

    def __init__(self, site: Site, quantum: int, *, by_gpus: bool) -> None:
        super().__init__(site)
        self.quantum, self.by_gpus = quantum, by_gpus

    def rate(self, one: Live) -> int:
        return self.gpus(one) if self.by_gpus else 1

    def service(self, one: Live) -> Fraction:
        return self.held_s(one) * self.rate(one)

    def key(self, one: Live) -> Any:
        return self.service(one) // self.quantum, not one.devices

    def alarm_s(self) -> Fraction:
        running = [one for one in self.live.values() if one.devices]
        left = {one.job: self.quantum - self.service(one) % self.quantum for one in running}
        return min((self.now + left[one.job] / self.rate(one) for one in running), default=INF)


class NaiveLasEvery(NaiveLas):
    """Exact service, looked at every so many seconds."""

    def key(self, one: Live) -> Any:
        return self.service(one)

    def alarm_s(self) -> Fraction:
        return (self.now // self.quantum + 1) * self.quantum


def of_house(policy: str, site: Site) -> list[list[Any]]:
    joint = "," if ":" in policy else ":"
    return joined(spans_of(f"{policy}{joint}placement={site.placement}", site))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("policy", "naive"), [("srtf", NaiveSrtf), ("srsf", NaiveSrsf), ("edf", NaiveEdf)])
@pytest.mark.parametrize("seeds", seed_ranges(4, 72, 600, at_once=60), ids=str)
def test_every_stay(policy: str, naive: type[NaiveRebuild], kind: str, seeds: range) -> None:
    for seed in seeds:
        site = site_of(seed, kind)
        assert of_house(policy, site) == joined(naive(site).play()), seed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["gpu-time", "time"])
@pytest.mark.parametrize("seeds", seed_ranges(10, 60, 500, at_once=50), ids=str)
def test_every_stay_by_quanta(metric: str, kind: str, seeds: range) -> None:
    for seed in seeds:
        site, quantum = site_of(seed, kind), (48, 96, 240)[seed % 3]
        naive = NaiveLas(site, quantum, by_gpus=metric == "gpu-time")
        assert of_house(f"las:quantum={quantum},metric={metric}", site) == joined(naive.play()), seed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["gpu-time", "time"])
@pytest.mark.parametrize("seeds", seed_ranges(6, 36, 300, at_once=30), ids=str)
def test_every_stay_by_exact_service(metric: str, kind: str, seeds: range) -> None:
    for seed in seeds:
        site, every = site_of(seed, kind), (7, 10, 60)[seed % 3]
        naive = NaiveLasEvery(site, every, by_gpus=metric == "gpu-time")
        assert of_house(f"las:every={every},metric={metric}", site) == joined(naive.play()), seed
