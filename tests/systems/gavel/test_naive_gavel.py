"""Gavel's allocations beside the plain code of `naive_gavel` on made-up scenes, ordinary and extreme."""

from __future__ import annotations

import math
import random

import naive_gavel as naive
import numpy as np
import pytest

from gavel_problem import TIES, answer
from rota.stages.round_demand import PairRates
from rota.systems.gavel import policy
from tiers import first

SCENES = [(seed, is_extreme) for seed in range(60) for is_extreme in (False, True)]
SCENES += [(5011, True), (5022, True), (5077, True)]  # were told to obtain next to nothing, or nothing
"""Every second one with pairs."""


class Made:
    """A scene drawn from a seed, and the same as ours are asked."""

    def __init__(self, seed: int, is_extreme: bool) -> None:
        rng = random.Random(seed)
        jobs, types, is_pairs = rng.randint(1, 7), rng.randint(1, 3), seed % 2 == 1

        def drawn(low, high, usual):
            return 10 ** rng.uniform(low, high) if is_extreme else rng.uniform(*usual)

        self.rates = [[drawn(-3, 3, (0.2, 5)) for _ in range(types)] for _ in range(jobs)]
        for rates in self.rates:
            for kind in range(types):
                if rng.random() < 0.15 and sum(rate > 0 for rate in rates) > 1:
                    rates[kind] = 0.0
        gpus = [rng.choice([1, 1, 1, 2, 4]) for _ in range(jobs)]
        capacity = [float(rng.choice([4, 5, 8, 64 if is_extreme else 9])) for _ in range(types)]
        self.weights = [drawn(-3, 3, (1, 5)) for _ in range(jobs)]
        beside, told = {}, np.full((jobs, jobs, types), math.nan)
        for a in range(jobs):
            for b in range(a + 1, jobs):
                if is_pairs and rng.random() < 0.8:
                    both = [[rate * rng.uniform(0.3, 1) for rate in self.rates[m]] for m in (a, b)]
                    beside[a, b] = both
                    told[a, b], told[b, a] = both
        self.steps = [drawn(0, 6, (100, 5000)) for _ in range(jobs)]
        self.age = [drawn(0, 6, (0, 3000)) for _ in range(jobs)]
        self.so_far = [drawn(-1, 5, (0, 2000)) for _ in range(jobs)]
        self.prices = [10 ** rng.uniform(-1, 1) for _ in range(types)]
        slower = [math.inf if m % 2 else 1.01 * 10 ** rng.uniform(0, 1.5) for m in range(jobs)]
        self.deadlines = [
            late * steps / max(rates)
            for late, steps, rates in zip(slower, self.steps, self.rates, strict=True)
        ]
        self.scene = naive.Scene(self.rates, gpus, capacity, self.weights, beside)
        pairs = PairRates(np.arange(jobs), told) if is_pairs else None
        self.asked = {"gpus": gpus, "capacity": capacity, "pairs": pairs}

    def shares(self, objective, **known):
        """Our answer as fractions of the naive entries."""
        shares = answer(objective, self.rates, **self.asked, **known)
        x = {entry: [0.0] * len(self.scene.capacity) for entry in self.scene.entries}
        for (one, other), time in zip(shares.members.tolist(), shares.fractions.tolist(), strict=True):
            entry = (one,) if other < 0 else (min(one, other), max(one, other))
            assert entry in x or not any(time), "time for two that cannot share"
            if entry in x:
                x[entry] = [a + b for a, b in zip(x[entry], time, strict=True)]
        return x

    def obtained(self, x):
        return [self.scene.obtained(x, job) for job in self.scene.jobs]


@pytest.mark.parametrize(("seed", "is_extreme"), first(6, SCENES))
@pytest.mark.parametrize("tie", TIES)
def test_values_of_the_programs(seed, is_extreme, tie, monkeypatch):
    """The value of each objective at our fractions is what plain programs find."""
    made = Made(seed, is_extreme)
    scene, steps = made.scene, made.steps
    x = made.shares("max_min", weights=made.weights, tie=tie)
    parts = zip(made.obtained(x), scene.gpus, scene.weights, map(scene.equal, scene.jobs), strict=True)
    assert min(g * thr / (w * equal) for thr, g, w, equal in parts) == pytest.approx(
        naive.max_min(scene), rel=2e-5
    )
    x = made.shares("throughput", tie=tie)
    assert sum(made.obtained(x)) == pytest.approx(naive.throughput(scene), rel=2e-5)
    asks = {"prices": made.prices, "work_left": steps, "deadline_in_s": made.deadlines}
    x = made.shares("cost", tie=tie, **asks)
    worth = [
        rate[j] * x[entry][j] / made.prices[j]
        for entry in scene.entries
        for rate in scene.rate[entry]
        for j in scene.types
    ]
    least = [(m, steps[m] / due) for m, due in enumerate(made.deadlines) if due < math.inf]
    assert sum(worth) == pytest.approx(naive.throughput(scene, made.prices, least), rel=2e-5)
    x = made.shares("makespan", tie=tie, work_left=steps)
    spans = [work / thr for work, thr in zip(steps, made.obtained(x), strict=True)]
    assert max(spans) == pytest.approx(naive.makespan(scene, steps), rel=2.5e-4)
    monkeypatch.setattr(policy, "alone_so_far_s", lambda *_, **__: np.array(made.so_far))
    asks = {"work_left": steps, "work_to_go": steps, "work_done": [0.0] * len(steps), "age_s": made.age}
    x = made.shares("finish_time", tie=tie, **asks)
    ratios = []
    for m, thr in enumerate(made.obtained(x)):
        alone = sum(r * part for r, part in zip(made.rates[m], scene.isolated(m), strict=True))
        ratios.append((made.age[m] + steps[m] / thr) / (made.so_far[m] + steps[m] / alone))
    worst = naive.finish_time(scene, steps, made.age, made.so_far)
    assert max(ratios) == pytest.approx(worst, rel=2.5e-4)


def _runs(x):
    return {entry: int(np.argmax(time)) for entry, time in x.items() if sum(time) > 0.0}


@pytest.mark.parametrize(("seed", "is_extreme"), first(20, SCENES))
def test_walks_and_matchings(seed, is_extreme):
    """Who runs where under fifo (with pairs) and shortest; what AlloX' first jobs cost at best."""
    made = Made(seed, is_extreme)
    scene, pairs = made.scene, made.asked["pairs"] is not None
    assert _runs(made.shares("fifo")) == naive.fifo(scene, pairs)
    assert _runs(made.shares("shortest", work_left=made.steps)) == naive.shortest(scene, made.steps)
    begins = _runs(made.shares("allox", work_left=made.steps, age_s=made.age))
    chosen = {entry[0]: kind for entry, kind in begins.items()}
    assert naive.allox(scene, made.steps, chosen) == pytest.approx(naive.allox(scene, made.steps), rel=1e-9)


@pytest.mark.parametrize(("seed", "is_extreme"), first(20, [one for one in SCENES if one[0] % 2]))
def test_packing(seed, is_extreme):
    """Pairs if GPUs do not suffice, all of them worth it, and no more can be made; equal time for all."""
    made = Made(seed, is_extreme)
    scene = made.scene
    shares = answer("packing", made.rates, **made.asked)
    entries = {
        tuple(sorted(member for member in members if member >= 0)): time
        for members, time in zip(shares.members.tolist(), shares.fractions.tolist(), strict=True)
    }
    pairs = [entry for entry in entries if len(entry) == 2]
    paired = [member for pair in pairs for member in pair]
    assert len(set(paired)) == len(paired)
    if sum(scene.gpus) <= sum(scene.capacity):
        assert not pairs
    else:
        assert all(naive.worth(scene, *pair) >= 1.0 for pair in pairs)
        rest = [job for job in scene.jobs if job not in paired]
        assert not any(naive.worth(scene, a, b) >= 1.0 for a in rest for b in rest if a < b)
    in_use = len(scene.rates) - len(pairs)
    for entry, time in entries.items():
        if len(entry) == 1 and entry[0] in paired:
            assert not any(time)
            continue
        part = [n / (in_use * scene.gpus[entry[0]]) for n in scene.capacity]
        part = [each / max(1.0, sum(part)) for each in part]
        runs = [all(rate[j] > 0.0 for rate in scene.rate[entry]) for j in scene.types]
        assert time == pytest.approx([p * ok for p, ok in zip(part, runs, strict=True)], abs=1e-9)
