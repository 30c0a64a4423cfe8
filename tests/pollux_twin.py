"""Pollux' published simulation loop, written out: every tick, every job, with its two baselines.

The worlds and policies that jump from event to event are held to it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, product
from random import Random
from typing import Any

import numpy as np

from play import trace_of
from rota.knowledge.step_tables import (
    EpochTable,
    MeasuredWorkload,
    StepTable,
    StepTables,
    shape_of,
    whole_nodes,
)
from rota.model.trace import Trace

TICK, RESTART = 60, 30
NODES, NODE_GPUS = 2, 4
TwinJob = dict[str, Any]
Twin = Callable[[list[TwinJob]], None]
"""Decides at a tick how many GPUs each job has from now on, and places it."""


def some_jobs(random: Random, jobs: int = 9) -> Trace:
    """Jobs of any size and batch, over 25 minutes."""
    gpus = [random.choice((1, 1, 2, 3, 4, 6, 8)) for _ in range(jobs)]
    times = sorted(random.randint(1, 1500) for _ in range(jobs))
    text = " ".join(f"J{n} {size}x1@{at}" for n, (size, at) in enumerate(zip(gpus, times, strict=True)))
    batches = [random.choice((8.0, 20.0, 64.0)) for _ in range(jobs)]
    return trace_of(text, batch_size=batches, workload=[0] * jobs, workload_names=("a",))


def tables(random: Random, epochs: int = 6) -> StepTables:
    """One workload with times for every shape on the nodes, and epochs of any length."""
    shapes = {(n,) for n in range(1, 5)} | {shape_of(pair) for pair in product(range(1, 5), repeat=2)}
    by_shape = {
        shape: np.array([[1.0, 0.05, 0.0], [64.0, random.uniform(0.1, 0.3) + 0.02 * len(shape), 0.02]])
        for shape in sorted(shapes)
    }
    sizes = np.array([8.0, 64.0])
    progress = np.cumsum([random.uniform(50, 900) for _ in range(epochs)])
    noise = np.array([[random.uniform(0.1, 9) for _ in range(epochs)] for _ in range(4)])
    table = EpochTable(sizes, progress, np.array([progress, progress / 8]), noise[:2], noise[2:])
    return StepTables({"a": MeasuredWorkload(table, {"*": StepTable(by_shape, np.zeros((0, 5)))})})


def twin(trace: Trace, measured: MeasuredWorkload, decide: Twin) -> dict[str, float]:
    """When each job ends: all advance by a tick, then `decide` is asked."""
    jobs: list[TwinJob] = [
        {"id": trace.jobs.ids[row], "asked": trace.jobs.gpus.item(row), "epoch": 0, "progress": 0.0}
        | {"at": trace.jobs.submit_s.item(row), "batch": trace.jobs.batch_size.item(row)}
        | {"on": {}, "delay": 0, "end": None, "ran": 0, "queue": None}
        for row in range(len(trace))
    ]
    for tick in count(TICK, TICK):
        for job in jobs:
            advance(job, measured, tick - TICK)
        decide([job for job in jobs if job["at"] <= tick and job["end"] is None])
        if all(job["end"] is not None for job in jobs):
            return {job["id"]: job["end"] for job in jobs}
    raise AssertionError


def advance(job: TwinJob, measured: MeasuredWorkload, now: int) -> None:
    """Up to a tick further, in whole seconds at the end of an epoch."""
    if not job["on"] or job["end"] is not None:
        return
    job["ran"] += TICK
    delay = min(job["delay"], TICK)
    job["delay"] -= delay
    now, left = now + delay, TICK - delay
    times, ends, gpus = measured.times["*"], measured.epochs.ends, sum(job["on"].values())
    while left > 0 and job["end"] is None:
        batch = measured.split(times, gpus, job["batch"])
        seconds = times.at(list(job["on"].values()), batch.local)
        goodput = measured.goodput(seconds, gpus, batch, job["epoch"])
        missing = ends[job["epoch"]] - job["progress"]
        if goodput * left < missing:
            job["progress"] += goodput * left
            return
        job["progress"], job["epoch"] = ends[job["epoch"]], job["epoch"] + 1
        passed = round(missing / goodput)
        now, left = now + passed, left - passed
        job["end"] = now if job["epoch"] == len(ends) else None


def place(jobs: list[TwinJob], gpus: list[int]) -> None:
    """So many GPUs for each job: whose number is another is placed anew, on the emptiest nodes, in order."""
    for job, number in zip(jobs, gpus, strict=True):
        job["on"] = job["on"] if sum(job["on"].values()) == number else {}
    free = [NODE_GPUS - sum(job["on"].get(node, 0) for job in jobs) for node in range(NODES)]
    for job, number in zip(jobs, gpus, strict=True):
        if number and not job["on"]:
            job["delay"] = RESTART
            while (missing := number - sum(job["on"].values())) > 0:
                node = free.index(max(free))
                job["on"][node] = min(missing, free[node])
                free[node] -= job["on"][node]


def tiresias(limit: float) -> Twin:
    """Two queues, first come first served in each."""
    queues: list[list[TwinJob]] = [[], []]

    def decide(jobs: list[TwinJob]) -> None:
        queues[:] = [[job for job in queue if job in jobs] for queue in queues]
        queues[0] += [job for job in jobs if not any(job in queue for queue in queues)]
        for job in [job for job in jobs if job in queues[0] and job["ran"] * job["asked"] >= limit]:
            queues[0].remove(job)
            queues[1].append(job)
        room, order, gpus = NODES * NODE_GPUS, [*queues[0], *queues[1]], []
        for job in order:
            gpus.append(job["asked"] if job["asked"] <= room else 0)
            room -= gpus[-1]
        place(order, gpus)

    return decide


def optimus(measured: MeasuredWorkload) -> Twin:
    """One GPU each, then one by one to the largest saving of steps left times seconds of a step."""
    times, epochs = measured.times["*"], measured.epochs

    def step_s(job: TwinJob, gpus: int) -> float:
        batch = measured.split(times, gpus, job["batch"])
        return times.at(whole_nodes(gpus, NODE_GPUS), batch.local).of(batch)

    def saving(job: TwinJob, gpus: int) -> float:
        if gpus + 1 > min(NODES * NODE_GPUS, job["batch"] // times.local_least):
            return 0.0
        last = len(epochs) - 1
        done = [epochs.steps_at(job["batch"], epoch) for epoch in (job["epoch"], last)]
        left = done[1] - done[0] if job["epoch"] < last else 1.0
        return (step_s(job, gpus) - step_s(job, gpus + 1)) * left

    def decide(jobs: list[TwinJob]) -> None:
        gpus = [int(place < NODES * NODE_GPUS) for place in range(len(jobs))]
        gains = [saving(job, 1) if held else 0.0 for job, held in zip(jobs, gpus, strict=True)]
        while sum(gpus) < NODES * NODE_GPUS and max(gains, default=0.0) > 0.0:
            best = gains.index(max(gains))
            gpus[best] += 1
            gains[best] = saving(jobs[best], gpus[best])
        order = sorted(range(len(jobs)), key=lambda place: gpus[place])
        place([jobs[one] for one in order], [gpus[one] for one in order])

    return decide
