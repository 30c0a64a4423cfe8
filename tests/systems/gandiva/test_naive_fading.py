"""Gandiva's pairs whose rates change while they are together: the naive scheduler with a clock on the rates.

The page: a kept pair is looked at again every quantum, and parted when its rates have fallen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from test_naive_gandiva import Home, Scene
from test_naive_packing import (
    NaiveIntrospection,
    Programs,
    Span,
    asked_of_rota,
    scene_of,
    stays_of,
    used,
)

from rota.model.grants import Grant, Role
from rota.worlds.simulated.interference import Interference
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration
from stays import are_alike
from tiers import seed_ranges

Rates = dict[tuple[int, int], float]


@dataclass(frozen=True)
class Fading:
    """Each job does so much beside each other one, from each of some moments on."""

    moments: list[float]
    rates: list[Rates]
    """One more than moments."""

    def at(self, now: float) -> Rates:
        return self.rates[sum(moment <= now for moment in self.moments)]

    def until_s(self, now: float) -> float:
        return min((moment for moment in self.moments if moment > now), default=float("inf"))


class FadingSpeed(FixedDuration):
    """Packed jobs are as fast as `fading` says at each moment."""

    fading: Fading

    def pace(self, row: int, grant: Grant, beside: Sequence[Grant], at: At) -> Pace:
        pace = super().pace(row, grant, beside, at)
        if grant.role is not Role.PACKED or not beside:
            return pace
        rate = self.fading.at(at.now)[row, beside[0].job]
        return pace._replace(rate=rate, until_s=self.fading.until_s(at.now))


class NaiveFading(NaiveIntrospection):
    """The naive scheduler, in whose world the rates of pairs are others from time to time."""

    def __init__(self, scene: Scene, programs: Programs, fading: Fading) -> None:
        super().__init__(scene, programs)
        self.fading = fading

    def rate(self, job: int) -> float:
        pair = self.held[job][3]
        return super().rate(job) if pair is None else self.fading.at(self.now)[job, pair]

    def next_s(self, coming: list[int]) -> float:
        return min(super().next_s(coming), self.fading.until_s(self.now))

    def judge(self, home: Home) -> None:
        self.programs.beside.clear()
        self.programs.beside.update(self.fading.at(self.now))
        super().judge(home)


def fading_of(seed: int, programs: Programs) -> Fading:
    """Two to five changes, at moments at which nothing else happens; mostly for the worse."""
    draw = random.Random(f"fading {seed}")
    moments = sorted(
        {60.0 * draw.randint(0, 20) + draw.choice([7.03125, 31.28125]) for _ in range(draw.randint(2, 5))}
    )
    rates = [dict(programs.beside)]
    for _ in moments:
        worse = {pair: rate * draw.choice([0.5, 0.75, 1.0, 1.0, 1.25]) for pair, rate in rates[-1].items()}
        rates.append({pair: min(max(rate, 0.125), 1.0) for pair, rate in worse.items()})
    return Fading(moments, rates)


def rota(scene: Scene, programs: Programs, fading: Fading) -> list[list[Span]]:
    """What the policy makes of it."""
    trace, cluster = asked_of_rota(scene, programs)
    speed = FadingSpeed(trace.jobs, cluster, Slowdowns(company=Interference(utilisation=used(programs))))
    speed.fading = fading
    return stays_of(scene, trace, cluster, speed)


@pytest.mark.parametrize("seeds", seed_ranges(20, 220, 1020, at_once=200), ids=str)
def test_every_stay_while_rates_change(seeds: range) -> None:
    for seed in seeds:
        scene, programs = scene_of(seed, "packing")
        fading = fading_of(seed, programs)
        expected = NaiveFading(scene, programs, fading).play()
        assert are_alike(rota(scene, programs, fading), expected), seed


def test_scenes_have_pairs_that_fade() -> None:
    """In many of the first scenes a pair that was kept is parted because it has become slower."""
    parted = 0
    for seed in range(60):
        scene, programs = scene_of(seed, "packing")
        still = Fading([], [dict(programs.beside)])
        fading = fading_of(seed, programs)
        one, other = (
            NaiveFading(
                scene,
                Programs(programs.use, programs.memory_gib, dict(programs.beside), programs.largest),
                of,
            )
            for of in (still, fading)
        )
        one.play()
        other.play()
        parted += len(other.bad) > len(one.bad)
    assert parted >= 5
