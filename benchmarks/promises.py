"""What one decision costs where deadlines are promised: CPU seconds of `decide` among so many live jobs.

    python benchmarks/promises.py [POLICY ...] [--jobs 2000] [--gpus 10000]

All but ten jobs are there at once, for hours on 1 to 8 GPUs, seven in ten with a deadline; the others come
one by one, ten seconds apart.  Three curves of speed by number of GPUs, made up from one seed.  Each line
shows the decision at which all jobs are new and the costliest of those at which one has come.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import parse_cluster
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Policy, parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.speed_table import ScalingSpeed

CURVES = ScalingCurves.build(
    {
        "poor": {1: 1.0, 2: 1.5, 4: 2.0, 8: 2.2},
        "good": {1: 1.0, 2: 1.9, 4: 3.5, 8: 6.0},
        "linear": {1: 1.0, 8: 8.0},
    }
)
PER_NODE, LATE = 8, 10


class Timed:
    """A policy that notes the CPU seconds of each decision."""

    def __init__(self, inner: Policy) -> None:
        self.inner, self.needs, self.levers = inner, inner.needs, getattr(inner, "levers", frozenset())
        self.seconds: list[float] = []

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        begin = time.process_time()
        decision = self.inner.decide(snapshot, memory)
        self.seconds.append(time.process_time() - begin)
        return decision


def made_up(jobs: int, seed: int = 1) -> Trace:
    """Elastic jobs with deadlines."""
    rng = np.random.default_rng(seed)
    submit_s = np.maximum(0.0, np.arange(jobs) - (jobs - LATE - 1)) * 10.0
    work_s = rng.uniform(5.0, 100.0, jobs) * 3600.0
    due_s = submit_s + work_s * rng.uniform(0.3, 2.5, jobs)
    due_s[rng.random(jobs) < 0.3] = np.nan
    table = JobTable.build(
        [f"j{i}" for i in range(jobs)],
        submit_s=submit_s,
        gpus=np.ones(jobs, dtype=np.int64),
        gpus_min=1,
        gpus_max=PER_NODE,
        counts=int(AllowedCounts.POWERS_OF_TWO),
        deadline_s=due_s,
        workload=rng.integers(0, len(CURVES.workloads), jobs),
        workload_names=tuple(CURVES.workloads),
    )
    truth = replace(Truth.build(np.full(jobs, np.nan)), iterations=work_s)
    return Trace(table, truth, source="made up", format="made up").by_submission()


def measure(policy: str, jobs: int, gpus: int) -> list[float]:
    """CPU seconds of the decisions until all jobs have come."""
    trace, cluster = made_up(jobs), parse_cluster(f"{gpus // PER_NODE}x{PER_NODE}")
    timed = Timed(parse_policy(policy).make())
    loop, _ = prepare(timed, trace, cluster, Setting(speed=ScalingSpeed(trace, cluster, CURVES)))
    while loop.state.now < LATE * 10.0 and loop.step():
        pass
    return timed.seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policies", nargs="*", default=["edf", "edf:size=fastest", "elasticflow"])
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--gpus", type=int, default=10000)
    asked = parser.parse_args()
    print(f"{'policy':<24}{'first':>8}{'news':>8}   CPU s; {asked.jobs:,} jobs on {asked.gpus:,} GPUs")
    for policy in asked.policies:
        first, *news = measure(policy, asked.jobs, asked.gpus)
        print(f"{policy:<24}{first:>8.2f}{max(news):>8.2f}", flush=True)


if __name__ == "__main__":
    main()
