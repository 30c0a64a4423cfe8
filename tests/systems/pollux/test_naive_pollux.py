"""Whole runs of Pollux looked at again, from its card: how far is a search from the best allocation there is?

A search is by chance, so the run of the house is followed (`naive_goodput.py`), on clusters small enough to
try every allocation.  Speedups, what a restart takes, fitness and the rules of repair are worked out anew.
"""

from __future__ import annotations

import random
from itertools import product

import pytest

from naive_goodput import NEAR, Asking, Devices, Follower, Scene, house, scene_of
from rota.model.cluster import Cluster
from tiers import seed_ranges

Row = tuple[int, ...]
"""GPUs of a job on each node."""


class PolluxFollower(Follower):
    """Section F of the card."""

    def __init__(self, scene: Scene, cluster: Cluster, p: float) -> None:
        super().__init__(scene, cluster)
        self.p, ((self.nodes, self.each),) = p, scene.types
        self.shares: list[float] = []
        """The fitness of each search, as a part of the best there is."""

    def row(self, devices: Devices) -> Row:
        return tuple(
            sum(int(self.cluster.device_node[device]) == node for device in devices)
            for node in range(self.nodes)
        )

    def goodput(self, job: int, nodes: int, gpus: int) -> float:
        return self.program(job).goodput(0, nodes, gpus)

    def fair(self, job: int, live: int) -> float:
        """Its goodput on a fair share, or on the most GPUs below that on which it can split its batch."""
        share = -(-self.nodes * self.each // live)
        nodes = -(-share // self.each)
        return next(filter(None, (self.goodput(job, nodes, gpus) for gpus in range(share, 0, -1))))

    def speedup(self, job: int, row: Row, live: int) -> float:
        if not sum(row):
            return 0.0
        return self.goodput(job, sum(map(bool, row)), sum(row)) / self.fair(job, live)

    def factor(self, job: int, row: Row) -> float:
        if row == self.row(self.known[job].held):
            return 1.0
        age_s, wait_s = self.now - self.scene.jobs[job].submit_s, self.scene.restart_s
        return max(age_s - max(self.known[job].starts - 1, 0) * wait_s, 0.0) / (age_s + wait_s)

    def fitness(self, rows: dict[int, Row]) -> float:
        worth = [
            self.factor(job, row) * self.speedup(job, row, len(rows)) + 1e-3 for job, row in rows.items()
        ]
        return (sum(value**self.p for value in worth) / len(worth)) ** (1.0 / self.p)

    def breaks_rules(self, rows: dict[int, Row]) -> bool:
        for node in range(self.nodes):
            here = [row for row in rows.values() if row[node]]
            if sum(row[node] for row in here) > self.each or sum(sum(map(bool, row)) > 1 for row in here) > 1:
                return True
        return False

    def may_have(self, job: int) -> list[Row]:
        rows = product(range(self.each + 1), repeat=self.nodes)
        return [row for row in rows if sum(row) <= self.most(job)]

    def best(self, live: list[int]) -> float:
        ways = (dict(zip(live, rows, strict=True)) for rows in product(*map(self.may_have, live)))
        return max(self.fitness(rows) for rows in ways if not self.breaks_rules(rows))

    def is_due(self) -> bool:
        return self.now >= self.looked_s + self.every_s - NEAR

    def between(self, asking: Asking) -> None:
        kept = {job: asking.after.get(job) for job in asking.before}
        new = {job: devices for job, devices in asking.after.items() if job not in asking.before}
        if kept != asking.before or any(len(devices) > 1 for devices in new.values()):
            self.complain(f"more than a start on one GPU between two searches: {asking}")

    def judge(self, asking: Asking) -> None:
        before, rows = (
            {job: self.row(held.get(job, ())) for job in asking.live}
            for held in (asking.before, asking.after)
        )
        if self.breaks_rules(rows) or any(row not in self.may_have(job) for job, row in rows.items()):
            self.complain(f"{rows} breaks a rule")
        ours, kept, best = self.fitness(rows), self.fitness(before), self.best(asking.live)
        self.shares.append(ours / best)
        if ours < kept - 1e-9:
            self.complain(f"{rows} is worth {ours}, and {before} was worth {kept}")


def followed(seed: int) -> PolluxFollower:
    """One or two nodes, one to three programs, up to four jobs."""
    draw = random.Random(f"pollux {seed}")
    types = [draw.choice([(1, 2), (1, 4), (2, 2), (2, 3)])]
    scene, p = scene_of(draw, types, 4 if types[0][0] == 1 else 3), draw.choice([-1.0, -1.0, 1.0, -3.0])
    cluster, asked, ends = house(f"pollux:p={p},restart_s={scene.restart_s}", scene)
    follower = PolluxFollower(scene, cluster, p)
    follower.follow(asked, ends)
    return follower


@pytest.mark.parametrize("seeds", seed_ranges(2, 39, 300, at_once=37), ids=str)
def test_searches_are_near_the_best(seeds: range) -> None:
    for seed in seeds:
        follower = followed(seed)
        assert follower.wrong == [], f"scene {seed}"
        assert min(follower.shares, default=1.0) > 0.95, f"scene {seed}"


@pytest.mark.parametrize("seed", [75, 135])
def test_a_full_cluster_makes_room_for_who_came(seed: int) -> None:
    """Who holds two GPUs gives up one if somebody waits: no mutation does both, and one was left to wait."""
    assert min(followed(seed).shares) > 0.99
