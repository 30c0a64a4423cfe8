"""PAI written once more from its card, with types, cores, quotas and failures: all of it anew at every event.

A place is a list of (node, device); percents are whole numbers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

import numpy as np

from play import play
from rota.model.cluster import Cluster, NodeShape
from rota.model.jobs import JobTable, Outcome, Truth
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from tiers import each_seed

POWER = ("MISC", "T4", "P100", "V100", "V100M32")
STRONG = {"V100", "V100M32"}
Place = list[tuple[int, int]]
ESTIMATES = {"group_gpu": 3, "group": 2, "user": 1}


@dataclass(frozen=True)
class Asked:
    """A job of a scene; `types` is empty if any will do, `cpus` are those of the whole job."""

    submit_s: int
    gpus: int
    percent: int
    run_s: int
    user: int
    group: int
    types: tuple[str, ...]
    cpus: int
    fails: bool


@dataclass(frozen=True)
class Scene:
    """Nodes of (type, GPUs, cores); cores of 0 are without limit.  A user's quota may not be exceeded."""

    jobs: list[Asked]
    nodes: list[tuple[str, int, int]]
    quotas: list[float]
    estimate: str
    machines: str


class NaivePai:
    """Sections A to C of the card, one method each."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.jobs, self.nodes, self.now = scene, scene.jobs, scene.nodes, 0
        self.busy = [[0] * gpus for _, gpus, _ in scene.nodes]
        self.cores = [Fraction(0) for _ in scene.nodes]
        self.running: dict[int, Place] = {}
        self.starts: dict[int, int] = {}
        self.where: dict[int, Place] = {}
        self.past: list[tuple[tuple[int, ...], int]] = []

    # -- C: expected durations -------------------------------------------------------------------------

    def key(self, job: int) -> tuple[int, ...]:
        asked = self.jobs[job]
        return (asked.user, asked.group, asked.gpus * asked.percent)

    def expected(self, job: int) -> Fraction:
        if self.scene.estimate == "known":
            return Fraction(self.jobs[job].run_s)
        for length in range(ESTIMATES.get(self.scene.estimate, 0), 0, -1):
            alike = [run_s for key, run_s in self.past if key[:length] == self.key(job)[:length]]
            if alike:
                return Fraction(sum(alike), len(alike))
        if self.scene.estimate == "none" or not self.past:
            return Fraction(0)
        return Fraction(median([run_s for _, run_s in self.past]))

    # -- B: machines -----------------------------------------------------------------------------------

    def is_high(self, job: int) -> bool:
        asked = self.jobs[job]
        return asked.gpus * asked.percent > 100 or (bool(asked.types) and STRONG.issuperset(asked.types))

    def rate(self, node: int) -> Fraction:
        """Mean of the shares of GPUs and cores; of GPUs alone where cores are not counted."""
        _, gpus, cores = self.nodes[node]
        used = Fraction(sum(self.busy[node]), 100 * gpus)
        return (used + self.cores[node] / cores) / 2 if cores else used

    def tries(self, job: int) -> list[list[int]]:
        """Nodes in order, for one attempt after the other."""
        will_do = self.jobs[job].types or POWER
        nodes = [node for node, (kind, _, _) in enumerate(self.nodes) if kind in will_do]
        by_type = [[node for node in nodes if self.nodes[node][0] == kind] for kind in self.order(job)]
        if self.scene.machines == "pack":
            return by_type
        by_rate = [sorted(of_type, key=lambda node: (self.rate(node), node)) for of_type in by_type]
        if self.scene.machines == "balance":  # a gang is of one type: that of the machine that comes first
            useful = [[node for node in of_type if self.has_room(job, node)] for of_type in by_rate]
            by_rate = sorted(
                (of_type for of_type in useful if of_type), key=lambda nodes: self.rate(nodes[0])
            )
        return by_rate

    def has_room(self, job: int, node: int) -> bool:
        return any(busy + self.jobs[job].percent <= 100 for busy in self.busy[node])

    def order(self, job: int) -> list[str]:
        if self.scene.machines == "reserve":
            return list(reversed(POWER)) if self.is_high(job) else list(POWER)
        return list(dict.fromkeys(kind for kind, _, _ in self.nodes))

    # -- A: fractions ----------------------------------------------------------------------------------

    def place(self, job: int) -> Place | None:
        asked = self.jobs[job]
        mine = [other for other in self.running if self.jobs[other].user == asked.user]
        used = sum(self.jobs[other].gpus * self.jobs[other].percent for other in mine)
        if used + asked.gpus * asked.percent > 100 * self.scene.quotas[asked.user]:
            return None
        each = Fraction(asked.cpus, asked.gpus)
        for nodes in self.tries(job):
            taken: Place = []
            for node in nodes:
                fits = [(-busy, d) for d, busy in enumerate(self.busy[node]) if busy + asked.percent <= 100]
                most = asked.gpus - len(taken)
                if each and self.nodes[node][2]:
                    most = min(most, int((self.nodes[node][2] - self.cores[node]) / each))
                taken += [(node, device) for _, device in sorted(fits)[:most]]
            if len(taken) == asked.gpus:
                return taken
        return None

    def change(self, job: int, place: Place, sign: int) -> None:
        for node, device in place:
            self.busy[node][device] += sign * self.jobs[job].percent
            self.cores[node] += sign * Fraction(self.jobs[job].cpus, self.jobs[job].gpus)

    def run(self) -> dict[int, tuple[int, Place]]:
        coming = list(range(len(self.jobs)))
        waiting = list[int]()
        while coming or self.running:
            ends = {job: self.starts[job] + self.jobs[job].run_s for job in self.running}
            self.now = min([*ends.values(), *(self.jobs[job].submit_s for job in coming[:1])])
            for job in sorted(job for job, end in ends.items() if end == self.now):
                self.change(job, self.running.pop(job), -1)
                if not self.jobs[job].fails:
                    self.past.append((self.key(job), self.jobs[job].run_s))
            while coming and self.jobs[coming[0]].submit_s <= self.now:
                waiting.append(coming.pop(0))
            for job in sorted(waiting, key=lambda job: (self.expected(job), job)):
                place = self.place(job)
                if place is not None:
                    waiting.remove(job)
                    self.change(job, place, 1)
                    self.running[job], self.where[job], self.starts[job] = place, place, self.now
        return {job: (self.starts[job], sorted(self.where[job])) for job in self.starts}


def scene_of(seed: int) -> Scene:
    """One to five nodes of up to three types, with few cores or as many as one likes; up to thirty jobs."""
    draw = random.Random(seed)
    kinds, counted = draw.sample(POWER, draw.choice([1, 1, 2, 3])), draw.random() < 0.5
    nodes = [
        (draw.choice(kinds), draw.randint(1, 8), draw.choice([8, 16, 32]) if counted else 0)
        for _ in range(draw.randint(1, 5))
    ]
    nodes.sort(key=lambda node: kinds.index(node[0]))
    there, users, jobs = sorted({kind for kind, _, _ in nodes}), draw.randint(1, 4), []
    for _ in range(draw.randint(3, 30)):
        gpus = draw.choice([1, 1, 1, 2, 3, 4, 8, 30])
        percent = draw.choice([100, 100, 10, 25, 30, 33, 50, 60, 90])
        run_s = draw.choice([draw.randint(1, 20), draw.randint(20, 300), draw.choice([0, 10**6])])
        types = tuple(draw.sample(there, draw.randint(1, len(there)))) if draw.random() < 0.3 else ()
        cpus = draw.choice([0, gpus, 4 * gpus, 40]) if counted else 0
        submit_s = draw.choice([0, draw.randint(0, 20), draw.randint(0, 400)])
        group = draw.randint(0, 3)
        fails = draw.random() < 0.1
        jobs.append(Asked(submit_s, gpus, percent, run_s, draw.randrange(users), group, types, cpus, fails))
    jobs.sort(key=lambda job: job.submit_s)
    quotas = [draw.choice([float("inf"), float("inf"), 0.5, 2.0, 3.0, 6.0]) for _ in range(users)]
    estimate = draw.choice([*ESTIMATES, "known", "none"])
    return Scene(jobs, nodes, quotas, estimate, draw.choice(["reserve", "reserve", "pack", "balance"]))


def rota(scene: Scene) -> dict[int, tuple[float, Place]]:
    """What the policy makes of the same scene: start and devices of each job that ran."""
    jobs, n = scene.jobs, len(scene.jobs)
    types = tuple(dict.fromkeys(kind for kind, _, _ in scene.nodes))
    users = tuple(f"u{user}" for user in range(len(scene.quotas)))
    table = JobTable.build(
        [str(row) for row in range(n)],
        submit_s=[float(job.submit_s) for job in jobs],
        gpus=[job.gpus for job in jobs],
        gpu_share=[job.percent / 100 for job in jobs],
        tenant=[job.user for job in jobs],
        tenant_names=users,
        group=[job.group for job in jobs],
        group_names=tuple("abcd"),
        gpu_types=[sum(1 << types.index(kind) for kind in job.types) for job in jobs],
        type_names=types,
        cpus=[float(job.cpus) for job in jobs],
    )
    outcome = [Outcome.FAILED if job.fails else Outcome.COMPLETED for job in jobs]
    truth = Truth.build([float(job.run_s) for job in jobs], outcome=np.array(outcome))
    quotas = zip(users, scene.quotas, strict=True)
    tenants = Tenants.of(*(Tenant(u, q, hard=True) for u, q in quotas if q < float("inf")))
    cluster = Cluster.build(
        [NodeShape(1, gpus, kind, cpus=float(c)) for kind, gpus, c in scene.nodes], tenants
    )
    policy = f"pai:estimate={scene.estimate},machines={scene.machines}"
    record = play(policy, Trace(table, truth, source="test", format="test"), cluster)
    place = [(node, device) for node, (_, gpus, _) in enumerate(scene.nodes) for device in range(gpus)]
    return {
        row["job"]: (row["start_s"], sorted(place[device] for device in row["devices"]))
        for row in record.intervals.iter_rows(named=True)
    }


@each_seed(60, 300, 1500)
def test_every_start_and_device(seed: int) -> None:
    """Types, fractions, gangs of them, cores, hard quotas, failures, jobs of no length or that never fit."""
    scene = scene_of(seed)
    assert rota(scene) == NaivePai(scene).run()
