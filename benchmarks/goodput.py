"""What a decision costs of policies that know goodput, among many elastic jobs on three types of GPUs.

    python benchmarks/goodput.py [sia pollux ...] [--jobs 2000] [--nodes 417] [--types 3] [--minutes 15]

All jobs come at once, may have 1 to 64 GPUs, and run for days; profiles of 26 workloads are made up from one
seed.  Each line is a decision: CPU seconds, jobs that change, what Sia's program may miss of its optimum.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from rota.knowledge.goodput import BatchLimits, GoodputProfile, GoodputTable, Noise, StepFit, TrainingPhase
from rota.model.cluster import parse_cluster
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import levers_of, parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.speed_goodput import GoodputSpeed

SPEEDS = {"a": 1.0, "b": 0.5, "c": 0.25}
"""Seconds of a step on each type, relative to the slowest."""


class Timed:
    """A policy whose decisions are timed; the loop cannot tell."""

    def __init__(self, name: str) -> None:
        self.inner = parse_policy(name).make()
        self.needs, self.levers = self.inner.needs, levers_of(self.inner)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        began = time.process_time()
        decision = self.inner.decide(snapshot, memory)
        took = time.process_time() - began
        missing = decision.memory.get("missing", math.nan)
        print(f"{snapshot.now:8.0f} s {took:8.3f} {len(decision.grants):8d} {missing:10.4f}", flush=True)
        return decision


def profile(rng: np.random.Generator) -> GoodputProfile:
    step_s, gamma = rng.uniform(0.005, 0.1), rng.uniform(1.0, 5.0)
    network = [0.1 * step_s, 0.005 * step_s, 0.03 * step_s, 0.002 * step_s]
    fits = {
        name: StepFit(step_s * part, step_s * part / 50.0, *network, gamma) for name, part in SPEEDS.items()
    }
    noise = Noise(1.0, rng.uniform(1.0, 50.0))
    return GoodputProfile(
        BatchLimits(64, 4096, 16, 256, accumulates=True), fits, (TrainingPhase(math.inf, noise),)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policies", nargs="*", default=["sia"], metavar="POLICY")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--types", type=int, default=len(SPEEDS), help="of GPUs")
    parser.add_argument("--nodes", type=int, default=417, help="of 8 GPUs, of each type")
    parser.add_argument("--minutes", type=int, default=15)
    arguments = parser.parse_args()
    rng, jobs = np.random.default_rng(1), arguments.jobs
    profiles = {f"w{number}": profile(rng) for number in range(26)}
    cluster = parse_cluster(",".join(f"{arguments.nodes}x8:{name}" for name in [*SPEEDS][: arguments.types]))
    table = JobTable.build(
        [f"j{row}" for row in range(jobs)],
        submit_s=np.zeros(jobs),
        gpus=2 ** rng.integers(0, 6, jobs),
        gpus_min=np.ones(jobs, dtype=np.int64),
        gpus_max=np.full(jobs, 64),
        workload=rng.integers(0, len(profiles), jobs),
        workload_names=tuple(profiles),
    )
    trace = Trace(table, Truth.build(rng.uniform(2e4, 2e5, jobs)), source="made up", format="none")
    speed = GoodputSpeed(trace, cluster, GoodputTable(profiles))
    for policy in arguments.policies:
        print(f"{policy}\n{'moment':>10} {'CPU s':>8} {'changes':>8} {'missing':>10}")
        loop, _ = prepare(Timed(policy), trace, cluster, Setting(speed=speed))
        loop.run(60.0 * arguments.minutes)


if __name__ == "__main__":
    main()
