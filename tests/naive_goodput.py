"""Runs of jobs that choose their batch, followed decision by decision, with goodput worked out anew.

Policies that search, or solve a program with many optima, have no one answer that a twin could give. So the
run of the house is followed: progress, goodput with the best batch (the card of Pollux, A, B and E), ages,
restarts, and how large a job has been are kept once more, and what was decided is judged by a twin's own
measure (`Follower.judge`).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from play import finishes, play, trace_of
from rota.knowledge.goodput import (
    BatchLimits,
    GoodputProfile,
    GoodputTable,
    Noise,
    StepFit,
    TrainingPhase,
)
from rota.model.cluster import Cluster, NodeShape
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed_goodput import GoodputSpeed

NEAR = 1e-6
Devices = tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """Fits by type, batch sizes (first, most, least and most of a GPU), whether it accumulates, noise."""

    fits: tuple[tuple[float, ...], ...]
    batches: tuple[int, int, int, int]
    accumulates: bool
    noise: tuple[float, float]

    def goodput(self, kind: int, nodes: int, gpus: int) -> float:
        """The best of fifty batches; 0 if none will do."""
        return _best(self, kind, nodes, gpus)

    def tried(self, gpus: int) -> list[tuple[int, int]]:
        """Examples of a GPU in one pass, and passes before the last."""
        initial, most, local_least, local_most = self.batches
        low = max(initial, local_least * gpus)
        tried = []
        for place in range(50) if low <= most else ():
            local, passes = low * (most / low) ** (place / 49) / gpus, 0
            if self.accumulates:
                passes = math.ceil(local / local_most - 1e-8) - 1
                if gpus == 1 and local > initial + 1e-8:
                    passes = max(passes, 1)
            elif gpus == 1:
                local = float(initial)
            each = min(max(math.ceil(local / (passes + 1) - 1e-8), local_least), local_most)
            if gpus * each * (passes + 1) >= initial:
                tried.append((each, passes))
        return tried

    def rate(self, kind: int, nodes: int, gpus: int, each: int, passes: int) -> float:
        """Examples a second, each worth as much as one of the first batch."""
        a_c, b_c, a_n, b_n, a_r, b_r, gamma = self.fits[kind]
        pass_s = a_c + b_c * each
        sync_s = 0.0 if gpus == 1 else a_r + b_r * (gpus - 2) if nodes == 1 else a_n + b_n * (gpus - 2)
        step_s = passes * pass_s + (pass_s**gamma + sync_s**gamma) ** (1 / gamma)
        batch, (sqr, var) = gpus * each * (passes + 1), self.noise
        scale = self.batches[0] * var / sqr
        return batch / step_s * (scale + self.batches[0]) / (scale + batch)


@cache
def _best(program: Program, kind: int, nodes: int, gpus: int) -> float:
    return max((program.rate(kind, nodes, gpus, *batch) for batch in program.tried(gpus)), default=0.0)


@dataclass(frozen=True)
class Asked:
    """A job: submitted, most GPUs, progress to make in examples, and its program."""

    submit_s: float
    most: int
    examples: float
    program: int


@dataclass(frozen=True)
class Scene:
    """Nodes and GPUs of each, for each type; jobs; what starts cost, and what they are taken to cost."""

    types: list[tuple[int, int]]
    programs: list[Program]
    jobs: list[Asked]
    start_s: float
    back_s: float
    restart_s: float


class Asking(NamedTuple):
    """A call of the policy: who holds which devices before and after it."""

    now: float
    live: list[int]
    before: dict[int, Devices]
    after: dict[int, Devices]


class Watched:
    """A policy, and what it was asked and answered."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.needs, self.asked = policy, policy.needs, list[Asking]()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        live = sorted([*snapshot.waiting.tolist(), *snapshot.running.tolist()])
        before = {row: grant.devices for row, grant in snapshot.grants.items()}
        decision: Decision = self.policy.decide(snapshot, memory)
        after = {row: devices for row, devices in before.items() if row not in decision.preempt}
        after |= {grant.job: grant.devices for grant in decision.grants}
        self.asked.append(Asking(snapshot.now, live, before, after))
        return decision


@dataclass
class Known:
    """What is known of a job by following it."""

    left: float
    held: Devices = ()
    works_s: float = 0.0
    starts: int = 0
    largest: int = 0


class Follower:
    """Goes through a run, and says what is wrong with it."""

    every_s = 60.0

    def __init__(self, scene: Scene, cluster: Cluster) -> None:
        self.scene, self.cluster, self.now = scene, cluster, 0.0
        self.known = [Known(job.examples) for job in scene.jobs]
        self.ends = [math.nan] * len(self.known)
        self.wrong: list[str] = []
        self.looked_s, self.compared = -math.inf, 0

    # -- what a twin says --------------------------------------------------------------------------

    def judge(self, asking: Asking) -> None:
        """Whether what was decided is as good as it should be."""
        raise NotImplementedError

    def is_due(self) -> bool:
        """True if all is looked at anew at this moment."""
        raise NotImplementedError

    def between(self, asking: Asking) -> None:
        """Whether what was decided between two looks may be."""
        raise NotImplementedError

    # -- the run -----------------------------------------------------------------------------------

    def follow(self, asked: list[Asking], ends: list[float]) -> None:
        for asking in asked:
            self.hear(asking)
        self.pass_time(max(ends))
        if not np.allclose(self.ends, ends, atol=1e-3):
            self.complain(f"ends {ends} in place of {self.ends}")

    def complain(self, what: str) -> None:
        self.wrong.append(f"at {self.now}: {what}")

    def hear(self, asking: Asking) -> None:
        self.pass_time(asking.now)
        came = [job for job, asked in enumerate(self.scene.jobs) if asked.submit_s <= self.now]
        live = [job for job in came if math.isnan(self.ends[job])]
        if live != asking.live:
            self.complain(f"{asking.live} live in place of {live}")
        if live and self.is_due():
            self.looked_s = self.now
            self.compared += 1
            self.judge(asking)
        else:
            self.between(asking)
        for job in live:
            self.change(job, asking.after.get(job, ()))

    def change(self, job: int, devices: Devices) -> None:
        known = self.known[job]
        if set(devices) == set(known.held):
            return
        known.held = devices
        if devices:
            known.works_s = self.now + (self.scene.back_s if known.starts else self.scene.start_s)
            known.starts += 1
            known.largest = max(known.largest, len(devices))

    def pass_time(self, moment: float) -> None:
        for job, known in enumerate(self.known):
            if not known.held:
                continue
            rate, begun_s = self.rate(job, known.held), max(self.now, known.works_s)
            known.left -= rate * max(moment - begun_s, 0.0)
            if known.left <= NEAR * rate and moment >= begun_s:
                self.ends[job] = moment + known.left / rate
                known.held = ()
        self.now = moment

    # -- what there is -----------------------------------------------------------------------------

    def program(self, job: int) -> Program:
        return self.scene.programs[self.scene.jobs[job].program]

    def nodes_of(self, devices: Devices) -> list[int]:
        return sorted({int(self.cluster.device_node[device]) for device in devices})

    def kinds_of(self, devices: Devices) -> list[int]:
        return sorted({int(self.cluster.device_type[device]) for device in devices})

    def rate(self, job: int, devices: Devices) -> float:
        kind = self.kinds_of(devices)[0]
        return self.program(job).goodput(kind, len(self.nodes_of(devices)), len(devices))

    def is_restoring(self, job: int) -> bool:
        return bool(self.known[job].held) and self.now < self.known[job].works_s - NEAR

    def most(self, job: int) -> int:
        """What the job, its batch and the policy allow."""
        _, most_batch, local_least, _ = self.program(job).batches
        return min(self.scene.jobs[job].most, 64, most_batch // local_least)


# -- scenes, and what the house makes of them ------------------------------------------------------


def program_of(draw: random.Random, types: int) -> Program:
    fits = []
    for _ in range(types):
        computing = draw.uniform(0.01, 0.1), draw.uniform(0.0005, 0.01)
        across = draw.uniform(0.02, 0.4), draw.uniform(0.0, 0.02)
        within = draw.uniform(0.005, 0.1), draw.uniform(0.0, 0.01)
        fits.append((*computing, *across, *within, draw.uniform(1.0, 5.0)))
    initial, local_least = draw.choice([16, 64]), draw.choice([4, 16])
    batches = initial, initial * draw.choice([1, 4, 32]), local_least, max(initial, draw.choice([32, 128]))
    return Program(tuple(fits), batches, draw.random() < 0.5, (1.0, draw.choice([0.5, 4.0, 50.0])))


def scene_of(draw: random.Random, types: list[tuple[int, int]], most_jobs: int) -> Scene:
    programs = [program_of(draw, len(types)) for _ in range(draw.randint(1, 3))]
    jobs = []
    for _ in range(draw.randint(2, most_jobs)):
        program = draw.randrange(len(programs))
        work_s = draw.uniform(50, 3000)
        at = draw.choice([0.0, 0.0, round(draw.uniform(0, 400), 3), 60.0 * draw.randint(0, 6)])
        most = draw.choice([1, 2, 4, 8, 16])
        jobs.append(Asked(at, most, programs[program].goodput(0, 1, 1) * work_s, program))
    jobs.sort(key=lambda job: job.submit_s)
    costs = draw.choice([(0.0, 0.0), (0.0, 20.0), (10.0, 45.0), (75.0, 150.0)])
    return Scene(types, programs, jobs, *costs, draw.choice([30.0, 120.0]))


def house(policy: str, scene: Scene) -> tuple[Cluster, list[Asking], list[float]]:
    """What `policy` makes of it: each decision, and when jobs end."""
    jobs, names = scene.jobs, tuple(f"p{n}" for n in range(len(scene.programs)))
    trace = trace_of(
        " ".join(f"J{n} 1x1@{job.submit_s:.3f}" for n, job in enumerate(jobs)),
        gpus_min=1,
        gpus_max=[job.most for job in jobs],
        workload=[job.program for job in jobs],
        workload_names=names,
    )
    initial = np.array([scene.programs[job.program].batches[0] for job in jobs])
    steps = np.array([job.examples for job in jobs]) / initial
    truth = Truth.build(np.full(len(jobs), np.nan), iterations=steps)
    trace = Trace(trace.jobs, truth, source="test", format="test")
    shapes = [NodeShape(nodes, each, f"T{kind}") for kind, (nodes, each) in enumerate(scene.types)]
    cluster = Cluster.build(shapes)
    profiles = {name: profile_of(program) for name, program in zip(names, scene.programs, strict=True)}
    costs = Costs(start=CostModel(scene.start_s), restore=CostModel(scene.back_s))
    setting = Setting(speed=GoodputSpeed(trace, cluster, GoodputTable(profiles)), costs=costs)
    watched = Watched(parse_policy(policy).make())
    ends = finishes(play(watched, trace, cluster, setting))
    return cluster, watched.asked, [ends[f"J{n}"] for n in range(len(jobs))]


def profile_of(program: Program) -> GoodputProfile:
    initial, most, local_least, local_most = program.batches
    return GoodputProfile(
        BatchLimits(initial, most, local_least, local_most, program.accumulates),
        {f"t{kind}": StepFit(*fit) for kind, fit in enumerate(program.fits)},
        (TrainingPhase(math.inf, Noise(*program.noise)),),
    )
