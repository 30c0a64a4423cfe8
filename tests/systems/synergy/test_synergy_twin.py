"""Synergy beside a naive twin written from its card: who sits where with which cores and memory.

The twin knows one round on servers that are all alike, with nobody running yet: plain loops over GPUs and
jobs, amounts as pairs (cores, GiB).
"""

from __future__ import annotations

import itertools
import random

import pytest

from play import trace_of
from rota.knowledge.hosts import build_hosts
from rota.model.cluster import Cluster, NodeShape
from rota.scheduler.policy import parse_policy
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration
from tiers import first

GPUS, CORES, GIB = 4, 12, 64
SHARE = (CORES / GPUS, GIB / GPUS)
CPU_GRID, GIB_GRID = (1, 2, 3, 4, 6, 9), (8, 16, 32)
NEARLY = 1e-6
SCENES = first(1, [40, 150])

Speeds = dict[tuple[int, int], float]
"""Speed for each GPU by cores and GiB."""
Jobs = list[tuple[int, int]]
"""GPUs, and the number of the class, in order of arrival."""


class Server:
    """One server: free GPUs, and which jobs have how many here."""

    def __init__(self) -> None:
        self.gpus = GPUS
        self.jobs: dict[int, int] = {}


class Round:
    """One round of the twin."""

    def __init__(self, servers: int) -> None:
        self.servers = [Server() for _ in range(servers)]
        self.each: dict[int, tuple[float, float]] = {}
        """What a job has for each GPU."""
        self.seated: list[int] = []

    def left(self, server: Server) -> tuple[float, float]:
        used = [sum(self.each[job][a] * n for job, n in server.jobs.items()) for a in (0, 1)]
        return CORES - used[0], GIB - used[1]

    def fits(self, server: Server, gpus: int, each: tuple[float, float]) -> bool:
        left = self.left(server)
        return server.gpus >= gpus and all(gpus * each[a] <= left[a] + NEARLY for a in (0, 1))

    def take(self, job: int, server: Server, gpus: int, each: tuple[float, float]) -> None:
        self.each[job] = each
        if job not in self.seated:
            self.seated.append(job)
        server.gpus -= gpus
        server.jobs[job] = server.jobs.get(job, 0) + gpus

    def allocate(self, job: int, gpus: int, each: tuple[float, float]) -> bool:
        """Step 1 of the card: one server, or GPUs one by one of the fullest that can feed them."""
        whole = [server for server in self.servers if self.fits(server, gpus, each)]
        if whole:
            self.take(job, min(whole, key=lambda server: server.gpus), gpus, each)
            return True
        for taken in range(gpus):
            able = [server for server in self.servers if self.fits(server, 1, each)]
            if not able:
                self.give_back(job, taken)
                return False
            self.take(job, min(able, key=lambda server: server.gpus), 1, each)
        return True

    def give_back(self, job: int, taken: int) -> None:
        for server in self.servers:
            server.gpus += server.jobs.pop(job, 0)
        if taken:
            del self.each[job]
            self.seated.remove(job)

    def tune(self, job: int, gpus: int, wants: tuple[float, float]) -> None:
        over = any(wants[a] > SHARE[a] + NEARLY for a in (0, 1))
        if self.allocate(job, gpus, wants):
            return
        each = SHARE if over else wants
        if not self.allocate(job, gpus, each):
            self.downgrade_for(gpus, each)
            assert self.allocate(job, gpus, each), "free GPUs come with enough of everything"

    def downgrade_for(self, gpus: int, each: tuple[float, float]) -> None:
        """Step 3: the servers that have the GPUs, and who holds more than its share there."""
        whole = [server for server in self.servers if server.gpus >= gpus]
        if gpus > 1 and whole:
            chosen = [(whole[0], gpus)]
        else:
            chosen, missing = [], gpus
            for server in sorted(self.servers, key=lambda server: server.gpus):
                count = min(server.gpus, missing)
                if count:
                    chosen.append((server, count))
                missing -= count
        self.cover_all(chosen, each)

    def cover_all(self, chosen: list[tuple[Server, int]], each: tuple[float, float]) -> None:
        """On all of them: who is cut on one may rise on another."""
        needs = [(server, (count * each[0], count * each[1])) for server, count in chosen]
        while any(self.left(server)[a] < need[a] - NEARLY for server, need in needs for a in (0, 1)):
            for server, need in needs:
                self.cover(server, need)

    def cover(self, server: Server, need: tuple[float, float]) -> None:
        while any(self.left(server)[a] < need[a] - NEARLY for a in (0, 1)):
            rich = [job for job in server.jobs if any(self.each[job][a] > SHARE[a] + NEARLY for a in (0, 1))]
            job = min(
                rich,
                key=lambda job: (
                    self.spread(job), -self.each[job][0], -self.each[job][1], self.seated.index(job),
                ),
            )  # fmt: skip
            self.each[job] = SHARE
            for other in self.servers:  # what was below its share has risen, there as well
                if job in other.jobs and other is not server:
                    self.cover(other, (0.0, 0.0))

    def spread(self, job: int) -> int:
        return sum(job in server.jobs for server in self.servers)


def best_case(speeds: Speeds) -> tuple[float, float]:
    most = max(speeds.values())
    return min(pair for pair, speed in speeds.items() if speed == most)


def naive(mechanism: str, jobs: Jobs, classes: list[Speeds], servers: int) -> dict[int, tuple]:
    """Per job that sits: GPUs by server, cores and GiB in all."""
    chosen, free = [], servers * GPUS
    for job, (gpus, _) in enumerate(jobs):
        if gpus <= free:
            chosen.append(job)
            free -= gpus
    wants = {job: best_case(classes[jobs[job][1]]) for job in chosen}
    if mechanism == "proportional":
        wants = dict.fromkeys(chosen, SHARE)
    now = Round(servers)
    if mechanism == "greedy":
        for job in chosen:
            now.allocate(job, jobs[job][0], wants[job])
    else:
        chosen.sort(key=lambda job: (-jobs[job][0], -wants[job][0], -wants[job][1], job))
        for job in chosen:
            now.tune(job, jobs[job][0], wants[job])
    return {
        job: (
            {n: server.jobs[job] for n, server in enumerate(now.servers) if job in server.jobs},
            jobs[job][0] * each[0],
            jobs[job][0] * each[1],
        )
        for job, each in now.each.items()
    }


def ours(mechanism: str, jobs: Jobs, classes: list[Speeds], servers: int) -> dict[int, tuple]:
    names = tuple(f"class{number}" for number in range(len(classes)))
    table = build_hosts(
        {(name, *pair): speed for name, of in zip(names, classes, strict=True) for pair, speed in of.items()}
    )
    cluster = Cluster.build([NodeShape(servers, GPUS, cpus=CORES, memory_gib=GIB)])
    text = " ".join(f"j{job} {gpus}x1000" for job, (gpus, _) in enumerate(jobs))
    trace = trace_of(text, workload=[number for _, number in jobs], workload_names=names)
    speed = FixedDuration(trace.jobs, cluster, Slowdowns(hosts=table))
    loop, _ = prepare(
        parse_policy(f"synergy:mechanism={mechanism}").make(), trace, cluster, Setting(speed=speed)
    )
    loop.run(1.0)
    node_of = cluster.device_node.tolist()
    came = {}
    for job, grant in loop.state.grants.items():
        nodes = [node_of[device] for device in grant.devices]
        came[job] = ({n: nodes.count(n) for n in sorted(set(nodes))}, grant.cpus, grant.memory_gib)
    return came


def made_up(rng: random.Random, classes: int = 3) -> list[Speeds]:
    """Speeds that rise with cores and memory up to some of each, and are 1 at the share."""
    tables = []
    for _ in range(classes):
        cpus, gib = rng.choice(CPU_GRID), rng.choice(GIB_GRID)
        raw = {(c, m): min(c, cpus) ** 0.7 * min(m, gib) ** 0.2 for c in CPU_GRID for m in GIB_GRID}
        tables.append({pair: speed / raw[3, 16] for pair, speed in raw.items()})
    return tables


@pytest.mark.parametrize("scenes", SCENES)
@pytest.mark.parametrize("mechanism", ["tune", "greedy", "proportional"])
def test_who_sits_where_with_how_much(mechanism: str, scenes: int) -> None:
    for seed in range(scenes):
        rng = random.Random(seed)
        classes, servers = made_up(rng), rng.randint(1, 3)
        sizes = [1, 1, 1, 2, 2, 3, 4, 5, 8]
        jobs = [(rng.choice(sizes), rng.randrange(3)) for _ in range(rng.randint(1, 12))]
        jobs = [job for job in jobs if job[0] <= servers * GPUS]
        if mechanism == "greedy":  # what not even an empty cluster has, the twin waits for without end
            fed = min(GPUS, *(min(CORES // best_case(of)[0], GIB // best_case(of)[1]) for of in classes))
            jobs = [job for job in jobs if job[0] <= fed * servers]
        if jobs:
            assert ours(mechanism, jobs, classes, servers) == naive(mechanism, jobs, classes, servers), seed


@pytest.mark.parametrize("scenes", SCENES)
def test_opt_is_worth_what_trying_everything_finds(scenes: int) -> None:
    """One server: all choices of a point of the table, or of the share, for each of up to four jobs."""
    for seed in range(scenes):
        rng = random.Random(seed)
        classes = made_up(rng)
        jobs = [(1, rng.randrange(3)) for _ in range(rng.randint(1, 4))]
        got = ours("opt", jobs, classes, 1)
        worth = sum(
            max(speed for (c, m), speed in classes[of].items() if c <= got[job][1] and m <= got[job][2])
            for job, (_, of) in enumerate(jobs)
        )
        assert worth == pytest.approx(tried(jobs, classes)), seed


def tried(jobs: Jobs, classes: list[Speeds]) -> float:
    options = [
        sorted(
            {(pair[0], pair[1], speed) for pair, speed in classes[of].items() if speed >= 1.0 - NEARLY}
            | {(*SHARE, 1.0)}
        )
        for _, of in jobs
    ]
    return max(
        sum(speed for _, _, speed in chosen)
        for chosen in itertools.product(*options)
        if sum(c for c, _, _ in chosen) <= CORES and sum(m for _, m, _ in chosen) <= GIB
    )
