"""Whole runs of Synergy beside a naive twin from its card: rounds, who comes and goes, who stays where it is.

One round of those who have no place yet is `test_synergy_twin.py`'s. From the page, where the card is
silent: a round begins at once when nobody runs, and others follow it; who runs and finds what it wants
where it is stays and comes first, then who runs and does not, then who comes. If what it wants can be had
nowhere, who runs gets its share where it is, and those there who have more are cut for it. Of equals the
one is cut who was seated first, and `greedy` serves in the order of the inner policy.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import pytest
from test_synergy_twin import CORES, GIB, GPUS, NEARLY, SHARE, Round, Speeds, best_case, made_up

from play import play, trace_of
from rota.knowledge.hosts import build_hosts
from rota.model.cluster import Cluster, NodeShape
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration
from stays import are_alike, merged
from tiers import seed_ranges

ROUND_S = 300.0
Place = dict[int, int]
"""GPUs by server."""
Stay = tuple[float, float, tuple[tuple[int, int], ...], float, float]
"""From when to when, GPUs by server, cores and GiB in all."""


@dataclass(frozen=True)
class Job:
    submit_s: float
    gpus: int
    run_s: float
    kind: int


@dataclass(frozen=True)
class Scene:
    jobs: list[Job]
    classes: list[Speeds]
    servers: int
    mechanism: str
    inner: str
    back_s: float


@dataclass
class Live:
    row: int
    work_s: float = 0.0
    place: Place = field(default_factory=dict)
    each: tuple[float, float] = (0.0, 0.0)
    since_s: float = 0.0
    """When it got this place with these amounts."""
    ready_s: float = 0.0
    has_run: bool = False


class Rounds(Round):
    """A round in which some have a place already."""

    def __init__(self, servers: int, places: dict[int, Place]) -> None:
        super().__init__(servers)
        self.places = places

    def stay(self, job: int, each: tuple[float, float]) -> bool:
        place = self.places.get(job)
        if not place or not all(self.fits(self.servers[n], count, each) for n, count in place.items()):
            return False
        for n, count in place.items():
            self.take(job, self.servers[n], count, each)
        return True

    def allocate(self, job: int, gpus: int, each: tuple[float, float]) -> bool:
        return self.stay(job, each) or super().allocate(job, gpus, each)

    def tune(self, job: int, gpus: int, wants: tuple[float, float]) -> None:
        over = any(wants[a] > SHARE[a] + NEARLY for a in (0, 1))
        if self.allocate(job, gpus, wants):
            return
        each = SHARE if over else wants
        place = self.places.get(job, {})
        if place and all(self.servers[n].gpus >= count for n, count in place.items()):
            self.cover_all([(self.servers[n], count) for n, count in place.items()], each)
        if not self.allocate(job, gpus, each):
            self.downgrade_for(gpus, each)
            assert self.allocate(job, gpus, each), "free GPUs come with enough of everything"


class NaiveSynergy:
    """A cluster of servers that are all alike, round by round."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.jobs, self.now, self.round_s = scene, scene.jobs, 0.0, math.inf
        self.live: dict[int, Live] = {}
        self.stays: list[list[Stay]] = [[] for _ in scene.jobs]

    def speed(self, one: Live) -> float:
        table = self.scene.classes[self.jobs[one.row].kind]
        return max(
            speed
            for (cores, gib), speed in table.items()
            if cores <= one.each[0] + NEARLY and gib <= one.each[1] + NEARLY
        )

    def left_s(self, one: Live) -> float:
        """At the share in proportion."""
        return self.jobs[one.row].run_s - one.work_s

    def chosen(self) -> list[Live]:
        """By GPUs alone."""
        everybody = sorted(self.live.values(), key=lambda one: one.row)
        if self.scene.inner == "srtf":
            everybody.sort(key=lambda one: (self.left_s(one), one.row))
            stays = []
        else:
            stays = [one for one in everybody if one.place]
        free = self.scene.servers * GPUS - sum(self.jobs[one.row].gpus for one in stays)
        for one in everybody:
            if one not in stays and self.jobs[one.row].gpus <= free:
                stays.append(one)
                free -= self.jobs[one.row].gpus
        return stays

    def divide(self) -> None:
        chosen = self.chosen()
        wants = {one.row: self.wants(one.row) for one in chosen}
        now = Rounds(self.scene.servers, {one.row: one.place for one in chosen if one.place})
        order = sorted(wants, key=lambda row: (-self.jobs[row].gpus, -wants[row][0], -wants[row][1], row))
        if self.scene.mechanism == "greedy":
            order = list(wants)
        first = [row for row in order if now.stay(row, wants[row])]
        rest = [row for row in order if row not in first]
        for row in sorted(rest, key=lambda row: not self.live[row].place):
            if self.scene.mechanism == "greedy":
                now.allocate(row, self.jobs[row].gpus, wants[row])
            else:
                now.tune(row, self.jobs[row].gpus, wants[row])
        for one in self.live.values():
            place = {
                n: server.jobs[one.row] for n, server in enumerate(now.servers) if one.row in server.jobs
            }
            each = now.each.get(one.row, (0.0, 0.0))
            if (place, each) != (one.place, one.each):
                self.change(one, place, each)

    def wants(self, row: int) -> tuple[float, float]:
        """For each GPU; `greedy` does not wait for what the empty cluster could not give."""
        if self.scene.mechanism == "proportional":
            return SHARE
        wants = best_case(self.scene.classes[self.jobs[row].kind])
        each = min(GPUS, CORES // wants[0], GIB // wants[1])
        is_had = each * self.scene.servers >= self.jobs[row].gpus
        return wants if is_had or self.scene.mechanism != "greedy" else SHARE

    def change(self, one: Live, place: Place, each: tuple[float, float]) -> None:
        moves = place != one.place
        if one.place:
            self.end_stay(one)
        one.place, one.each, one.since_s = place, each, self.now
        if place and moves:
            one.ready_s = self.now + (self.scene.back_s if one.has_run else 0.0)
            one.has_run = True

    def end_stay(self, one: Live) -> None:
        gpus = self.jobs[one.row].gpus
        place = tuple(sorted(one.place.items()))
        self.stays[one.row].append((one.since_s, self.now, place, gpus * one.each[0], gpus * one.each[1]))

    def ends_s(self, one: Live) -> float:
        if not one.place:
            return math.inf
        return max(self.now, one.ready_s) + self.left_s(one) / self.speed(one)

    def pass_time(self, to_s: float) -> None:
        for one in self.live.values():
            if one.place:
                one.work_s += max(to_s - max(self.now, one.ready_s), 0.0) * self.speed(one)
        self.now = to_s

    def play(self) -> list[list[Stay]]:
        coming = list(range(len(self.scene.jobs)))
        while coming or self.live:
            ends = {row: self.ends_s(one) for row, one in self.live.items()}
            arrival_s = self.jobs[coming[0]].submit_s if coming else math.inf
            to_s = min([*ends.values(), self.round_s, arrival_s])
            over = [row for row, end_s in ends.items() if end_s <= to_s + 1e-7]
            self.pass_time(to_s)
            for row in over:
                self.end_stay(self.live.pop(row))
            while coming and self.jobs[coming[0]].submit_s <= self.now:
                row = coming.pop(0)
                self.live[row] = Live(row)
            idle = not any(one.place for one in self.live.values())
            if self.live and (idle or self.now >= self.round_s):
                self.divide()
            if idle or self.now >= self.round_s:
                self.round_s = self.now + ROUND_S if self.live else math.inf
        return self.stays


def scene_of(seed: int) -> Scene:
    draw = random.Random(seed)
    servers = draw.randint(1, 3)
    jobs, span_s = list[Job](), draw.choice([0, 1000, 5000])
    for _ in range(draw.randint(1, 14)):
        gpus = min(draw.choice([1, 1, 1, 2, 2, 3, 4, 5, 8]), servers * GPUS)
        submit = draw.choice([0, draw.randint(0, span_s), draw.randint(0, span_s) // 300 * 300])
        run = draw.choice([draw.randint(1, 299), draw.randint(300, 4000), 600])
        jobs.append(Job(float(submit), gpus, float(run), draw.randrange(3)))
    jobs.sort(key=lambda job: job.submit_s)
    mechanism = draw.choice(["tune", "tune", "tune", "proportional", "greedy"])
    inner = draw.choice(["fifo[skip=yes]", "fifo[skip=yes]", "srtf"])
    return Scene(jobs, made_up(draw), servers, mechanism, inner, draw.choice([0.0, 0.0, 30.0]))


def rota(scene: Scene) -> list[list[Stay]]:
    names = tuple(f"class{number}" for number in range(len(scene.classes)))
    table = build_hosts(
        {
            (name, *pair): speed
            for name, of in zip(names, scene.classes, strict=True)
            for pair, speed in of.items()
        }
    )
    cluster = Cluster.build([NodeShape(scene.servers, GPUS, cpus=CORES, memory_gib=GIB)])
    text = " ".join(f"j{n} {job.gpus}x{job.run_s}@{job.submit_s}" for n, job in enumerate(scene.jobs))
    trace = trace_of(text, workload=[job.kind for job in scene.jobs], workload_names=names)
    speed = FixedDuration(trace.jobs, cluster, Slowdowns(hosts=table))
    costs = Costs(restore=CostModel(scene.back_s))
    policy = f"synergy:mechanism={scene.mechanism},policy={scene.inner}"
    record = play(policy, trace, cluster, Setting(speed=speed, costs=costs))
    stays: list[list[Stay]] = [[] for _ in scene.jobs]
    for row in record.intervals.sort("start_s").iter_rows(named=True):
        on = row["nodes"]
        place = tuple((node, on.count(node)) for node in sorted(set(on)))
        stays[row["job"]].append((row["start_s"], row["end_s"], place, row["cpus"], row["memory_gib"]))
    return stays


@pytest.mark.parametrize("seeds", seed_ranges(25, 225, 2500, at_once=500), ids=str)
def test_every_stay_with_its_cores_and_memory(seeds: range) -> None:
    for seed in seeds:
        scene = scene_of(seed)
        ours, expected = rota(scene), NaiveSynergy(scene).play()
        assert are_alike(ours, expected), f"scene {seed}: {merged(ours)} in place of {merged(expected)}"
