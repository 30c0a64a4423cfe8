"""Whole runs of Sia looked at again, from its card: is each round's choice the best that there is?

Equal optima are many, so the run of the house is followed (`naive_goodput.py`). Which sizes a job may have
by now, what each is worth, who is restoring and what a restart takes are worked out anew, and the least
cost by trying all configurations of all jobs; ties are decided as the page says.
"""

from __future__ import annotations

import math
import random
from functools import cache

import pytest

from naive_goodput import NEAR, Asking, Devices, Follower, Scene, house, scene_of
from rota.model.cluster import Cluster
from tiers import seed_ranges

LOST = 1.1
Size = tuple[int, int]
"""Type, and how many GPUs of it."""


class SiaFollower(Follower):
    """Sections A to D of the card."""

    def __init__(self, scene: Scene, cluster: Cluster, power: float) -> None:
        super().__init__(scene, cluster)
        self.power = power

    def size(self, devices: Devices) -> Size:
        (kind,), nodes = self.kinds_of(devices), self.nodes_of(devices)
        if len(nodes) != -(-len(devices) // self.scene.types[kind][1]):
            self.complain(f"{devices} lie on {len(nodes)} nodes")
        return kind, len(devices)

    def goodput(self, job: int, size: Size) -> float:
        kind, gpus = size
        return self.program(job).goodput(kind, -(-gpus // self.scene.types[kind][1]), gpus)

    def sizes(self, job: int) -> list[Size]:
        """Section A, as far as the job may grow (B.4)."""
        most, sizes = min(self.most(job), max(2 * self.known[job].largest, 1)), list[Size]()
        for kind, (nodes, each) in enumerate(self.scene.types):
            powers = [2**n for n in range(9) if 2**n <= each]
            sizes += [(kind, gpus) for gpus in [*powers, *(k * each for k in range(2, nodes + 1))]]
        return [size for size in sizes if size[1] <= most and self.goodput(job, size) > 0.0]

    def factor(self, job: int) -> float:
        """Section C."""
        age_s, wait_s = self.now - self.scene.jobs[job].submit_s, self.scene.restart_s
        if age_s < wait_s:
            return 1.0
        return max(age_s - max(self.known[job].starts - 1, 0) * wait_s, 0.0) / (age_s + wait_s)

    def costs(self, job: int) -> dict[Size | None, float]:
        """Section D, with the terms that decide ties."""
        known, worth = self.known[job], {size: self.goodput(job, size) for size in self.sizes(job)}
        held = self.size(known.held) if known.held else None
        least, factor = min(worth.values()), self.factor(job) if held else 1.0
        costs: dict[Size | None, float] = {None: LOST}
        for size, goodput in worth.items():
            value = goodput / least * (1.0 if size == held else factor)
            costs[size] = self.cost(value) + 1e-7 * size[1] - 1e-5 * (size == held)
        return {held: costs[held]} if self.is_restoring(job) else costs

    def cost(self, value: float) -> float:
        if self.power > 0:
            return -round(value**self.power, 2)
        return min(round(value**self.power, 2), 3000.0) if value > 0.0 else 3000.0

    def least(self, costs: list[dict[Size | None, float]]) -> float:
        """Of all ways to give each a configuration or none."""

        @cache
        def best(place: int, free: tuple[int, ...]) -> float:
            if place == len(costs):
                return 0.0
            answers = []
            for size, cost in costs[place].items():
                left = list(free)
                if size is not None:
                    left[size[0]] -= size[1]
                if min(left) >= 0:
                    answers.append(cost + best(place + 1, tuple(left)))
            return min(answers, default=math.inf)

        return best(0, tuple(nodes * each for nodes, each in self.scene.types))

    def is_due(self) -> bool:
        is_idle = not any(known.held for known in self.known)
        return is_idle or self.now >= self.looked_s + self.every_s - NEAR

    def between(self, asking: Asking) -> None:
        if asking.after != asking.before:
            self.complain(f"changes between two rounds: {asking}")

    def judge(self, asking: Asking) -> None:
        costs = {job: self.costs(job) for job in asking.live}
        chosen = {job: self.size(asking.after[job]) if job in asking.after else None for job in asking.live}
        if any(size not in costs[job] for job, size in chosen.items()):
            self.complain(f"{chosen}, and allowed is {costs}")
            return
        cost, least = sum(costs[job][size] for job, size in chosen.items()), self.least([*costs.values()])
        if cost > least + 1e-8:
            self.complain(f"{chosen} costs {cost}, the best is {least} of {costs}")


def followed(seed: int) -> SiaFollower:
    """One or two types, one to three programs, up to six jobs."""
    draw = random.Random(f"sia {seed}")
    types = [(draw.randint(1, 3), draw.choice([1, 2, 4, 8])) for _ in range(draw.randint(1, 2))]
    scene, power = scene_of(draw, types, 6), draw.choice([-0.5, -0.5, -1.0, 0.5])
    cluster, asked, ends = house(f"sia:gap=0,restart_s={scene.restart_s},power={power}", scene)
    follower = SiaFollower(scene, cluster, power)
    follower.follow(asked, ends)
    return follower


@pytest.mark.parametrize("seeds", seed_ranges(6, 66, 600, at_once=60), ids=str)
def test_no_round_could_have_chosen_better(seeds: range) -> None:
    for seed in seeds:
        follower = followed(seed)
        assert follower.wrong == [], f"scene {seed}"
        assert follower.compared
