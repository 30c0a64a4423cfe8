"""What one decision costs: CPU seconds of `decide` among so many live jobs on GPUs of three types.

    python benchmarks/decisions.py [POLICY ...] [--jobs 2000] [--gpus 10000] [--load 1.5]
        [--workloads 26] [--single] [--elastic 64] [--limit 300]
    python benchmarks/decisions.py POLICY ... --grow 100 300 1000 3000 5000 [--json FILE] [--figure FILE.svg]

The cluster has three types of GPUs, a third of them each, on nodes of 8.  The jobs are there all at once, ask
for 1 to 64 GPUs, `load` times what there is together, and run for days; after half an hour one more comes.
What policies are told is made up from one seed: throughputs by workload, type and number of GPUs, what two
jobs keep beside each other, how sensitive they are to cores and memory.  Each line shows

  first     the decision at which all jobs are new
  news      the costliest one later: a job has come
  steady    the median of the others within the hour: nothing has changed

With `--elastic` every job runs on any number of GPUs from 1 to that; else only on what it asks for.
With `--grow` the cluster grows with the jobs, `--gpus` being that of the most jobs; the figure shows `news`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from rota.errors import InputError, PolicyError
from rota.knowledge.hosts import HostSpeeds
from rota.knowledge.pairs import MeasuredPairs
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import Cluster, NodeShape
from rota.model.jobs import JobTable, Truth
from rota.model.one_thread import one_thread
from rota.model.trace import Trace
from rota.reports.chart import Axis, Chart, Curve, Tick
from rota.reports.svg import draw as svg
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Policy, levers_of, parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed_table import ThroughputSpeed

TYPES = {"V100": 1.0, "P100": 0.55, "K80": 0.25}
"""Speed of each type, more or less."""
PER_NODE, LARGEST = 8, 64
NEWS_AT_S, SPAN_S = 1800.0, 3600.0
DURATION_S = (2.0 * 86400.0, 20.0 * 86400.0)


class OutOfTimeError(Exception):
    """The decisions take longer than somebody wants to wait."""


def _stop(signum: int, frame: object) -> None:
    raise OutOfTimeError("it took longer than the limit")


@dataclass(frozen=True)
class Size:
    """How much there is to decide."""

    jobs: int
    gpus: int
    load: float
    workloads: int
    single: bool
    """All jobs ask for one GPU."""
    elastic: int = 0
    """The most GPUs that any job can use; 0 if none can use more or fewer than it asks for."""


@dataclass(frozen=True)
class Cost:
    """CPU seconds of `decide`."""

    first_s: float
    news_s: float
    steady_s: float
    decisions: int

    def __str__(self) -> str:
        return f"{self.first_s:10.3f} {self.news_s:10.3f} {self.steady_s:10.4f} {self.decisions:10d}"


class Timed:
    """A policy whose decisions are timed; the loop cannot tell."""

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.needs = inner.needs
        self.levers = levers_of(inner)
        self.took: list[tuple[float, float]] = []
        """Moment, and CPU seconds."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        began = time.process_time()
        decision = self.inner.decide(snapshot, memory)
        self.took.append((snapshot.now, time.process_time() - began))
        return decision


def cluster_of(gpus: int) -> Cluster:
    nodes = max(1, round(gpus / len(TYPES) / PER_NODE))
    cores = {"cpus": 6.0 * PER_NODE, "memory_gib": 64.0 * PER_NODE, "gpu_memory_gib": 16.0}
    return Cluster.build(
        [NodeShape(count=nodes, gpus=PER_NODE, gpu_type=kind, **cores) for kind in TYPES]  # type: ignore[arg-type]
    )


def sizes_of(size: Size, gpus: int, rng: np.random.Generator) -> np.ndarray:
    """Powers of two, the larger the rarer, that ask for `load` times the GPUs together."""
    if size.single:
        return np.ones(size.jobs + 1, dtype=np.int64)
    powers = 2 ** np.arange(LARGEST.bit_length())
    wanted, low, high = size.load * gpus / size.jobs, 1e-3, 1e3
    for _ in range(60):
        ratio = (low * high) ** 0.5
        weights = ratio ** np.arange(len(powers))
        low, high = (ratio, high) if powers @ weights / weights.sum() < wanted else (low, ratio)
    return rng.choice(powers, size.jobs + 1, p=weights / weights.sum())


def trace_of(size: Size, cluster: Cluster, rng: np.random.Generator) -> Trace:
    """All jobs at once, and one more after half an hour."""
    gpus = np.minimum(sizes_of(size, cluster.gpus, rng), cluster.gpus // len(TYPES))
    jobs = size.jobs + 1
    duration_s = rng.uniform(*DURATION_S, jobs)
    submit_s = np.append(np.zeros(size.jobs), NEWS_AT_S)
    table = JobTable.build(
        [f"j{number}" for number in range(jobs)],
        submit_s=submit_s,
        gpus=gpus,
        gpus_min=np.ones_like(gpus) if size.elastic else gpus,
        gpus_max=np.maximum(gpus, size.elastic),
        cpus=3.0 * gpus,
        memory_gib=32.0 * gpus,
        gpu_memory_gib=np.full(jobs, 8.0),
        limit_s=2.0 * duration_s,
        deadline_s=np.where(rng.random(jobs) < 0.3, submit_s + 4.0 * duration_s, np.nan),
        tenant=rng.integers(0, 10, jobs),
        group=rng.integers(0, 50, jobs),
        workload=rng.integers(0, size.workloads, jobs),
        tenant_names=[f"t{number}" for number in range(10)],
        group_names=[f"g{number}" for number in range(50)],
        workload_names=[f"w{number}" for number in range(size.workloads)],
    )
    # A GPU of the fastest type does about an iteration a second.
    return Trace(table, Truth.build(duration_s, iterations=duration_s * gpus), "made up", "benchmark")


def table_of(size: Size, gpus: np.ndarray, rng: np.random.Generator) -> ThroughputTable:
    """Throughputs, and what pairs of workloads of equal size keep on each type."""
    counts = sorted(set(gpus.tolist()))
    alone, pairs = {}, MeasuredPairs()
    speed = rng.uniform(0.5, 1.5, (size.workloads, len(TYPES))) * np.array(list(TYPES.values()))
    grows, busy = rng.uniform(0.7, 1.0, size.workloads), rng.uniform(0.2, 1.0, size.workloads)
    for w in range(size.workloads):
        for j, kind in enumerate(TYPES):
            for count in counts:
                alone[f"w{w}", kind, count] = float(speed[w, j] * count ** grows[w])
    for one in range(size.workloads):
        for other in range(one, size.workloads):
            kept = 1.0 / max(1.0, busy[one] + busy[other])
            for kind in TYPES:
                for count in counts:
                    mine, its = (kept * alone[f"w{w}", kind, count] for w in (one, other))
                    pairs[kind, (f"w{one}", count), (f"w{other}", count)] = mine, its
    return ThroughputTable.build(alone, "made up", pairs)


def hosts_of(size: Size, rng: np.random.Generator) -> dict[str, HostSpeeds]:
    """Half of the workloads want more cores than their part, a third more memory."""
    cpus, gib = np.array([1.0, 3.0, 6.0, 12.0, 24.0]), np.array([16.0, 64.0, 128.0])
    hosts = {}
    for w in range(size.workloads):
        needs, remembers = rng.choice([3.0, 6.0, 12.0, 24.0]), rng.choice([1.0, 1.0, 1.3])
        by_cpus, by_gib = np.minimum(cpus / needs, 1.0), np.array([1.0, 1.0, remembers])
        speeds = by_cpus[:, None] * by_gib
        hosts[f"w{w}"] = HostSpeeds(cpus, gib, speeds / speeds[2, 1])
    return hosts


def cost(policy: str, size: Size, limit_s: float, seed: int = 0) -> Cost:
    """One hour of decisions of `policy`; OutOfTimeError if they take longer than `limit_s`."""
    rng = np.random.default_rng(seed)
    cluster = cluster_of(size.gpus)
    trace = trace_of(size, cluster, rng)
    table = table_of(size, trace.jobs.gpus, rng)
    speed = ThroughputSpeed(trace, cluster, table, Slowdowns(hosts=hosts_of(size, rng)))
    timed = Timed(parse_policy(policy).make())
    loop, _ = prepare(timed, trace, cluster, Setting(speed=speed))
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    loop.run(SPAN_S)
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    first, *later = (took for _, took in timed.took)
    news = max(later, default=first)
    if later:
        later.remove(news)
    return Cost(first, news, statistics.median(later or [news]), len(timed.took))


def size_of(arguments: argparse.Namespace, jobs: int, gpus: int) -> Size:
    return Size(jobs, gpus, arguments.load, arguments.workloads, arguments.single, arguments.elastic)


def grown(arguments: argparse.Namespace) -> dict[str, dict[int, Cost]]:
    """The cost of each policy by number of jobs."""
    most = max(arguments.grow)
    costs: dict[str, dict[int, Cost]] = {}
    for policy in arguments.policies:
        for jobs in arguments.grow:
            gpus = max(len(TYPES) * PER_NODE, round(arguments.gpus * jobs / most))
            size = size_of(arguments, jobs, gpus)
            costs.setdefault(policy, {})[jobs] = figures = cost(policy, size, arguments.limit)
            print(f"{policy:44s} {jobs:6d} {gpus:7d} {figures}", flush=True)
    return costs


def draw(costs: dict[str, dict[int, Cost]], path: Path) -> None:
    """The costs of decisions with news by number of jobs, both axes logarithmic."""
    counts = sorted({jobs for by_jobs in costs.values() for jobs in by_jobs})
    curves = tuple(
        Curve(name, place, np.array(list(by_jobs)), np.array([c.news_s for c in by_jobs.values()]))
        for place, (name, by_jobs) in enumerate(costs.items())
    )
    low = 10.0 ** np.floor(np.log10(max(1e-4, min(c.y.min() for c in curves))))
    high = 10.0 ** np.ceil(np.log10(max(c.y.max() for c in curves)))
    marks = 10.0 ** np.arange(np.log10(low), np.log10(high) + 0.5)
    x = Axis(counts[0], counts[-1], "live jobs", "given", log=True)
    y = Axis(low, high, "CPU seconds", "given", log=True)
    chart = Chart(
        "decisions",
        "CPU seconds of a decision with news, by live jobs",
        "",
        "; ".join(f"{c.name}: {c.y[0]:.3f} s at {c.x[0]} jobs, {c.y[-1]:.3f} s at {c.x[-1]}" for c in curves),
        replace(x, ticks=_ticks(x, np.array(counts), lambda jobs: f"{jobs:,.0f}")),
        replace(y, ticks=_ticks(y, marks, lambda s: f"{s:g} s")),
        curves,
    )
    path.write_text(svg(chart), encoding="utf-8")


def _ticks(axis: Axis, marks: np.ndarray, text: Callable[[float], str]) -> tuple[Tick, ...]:
    return tuple(Tick(float(at), text(m)) for at, m in zip(axis.place(marks), marks.tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policies", nargs="*", default=["srtf", "gavel"], metavar="POLICY")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--load", type=float, default=1.5)
    parser.add_argument("--workloads", type=int, default=26)
    parser.add_argument("--single", action="store_true", help="all jobs ask for one GPU")
    parser.add_argument("--elastic", type=int, default=0, metavar="GPUS", help="all use 1 to so many")
    parser.add_argument("--grow", type=int, nargs="+", default=[], metavar="JOBS")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--limit", type=float, default=300.0, help="CPU seconds after which a run is stopped")
    arguments = parser.parse_args()
    if one_thread() != dict(os.environ):  # read when NumPy is imported, which it is by now
        os.execve(sys.executable, [sys.executable, *sys.argv], one_thread())
    signal.signal(signal.SIGPROF, _stop)
    if arguments.grow:
        print(f"{'policy':44s} {'jobs':>6s} {'GPUs':>7s} {'first s':>10s} {'news s':>10s} {'steady s':>10s} "
              f"{'decisions':>10s}")  # fmt: skip
        costs = grown(arguments)
        if arguments.json:
            plain = {name: {n: asdict(c) for n, c in by.items()} for name, by in costs.items()}
            arguments.json.write_text(json.dumps(plain, indent=1))
        if arguments.figure:
            draw(costs, arguments.figure)
        return
    size = size_of(arguments, arguments.jobs, arguments.gpus)
    print(f"{size.jobs:,} jobs on {cluster_of(size.gpus).gpus:,} GPUs of {len(TYPES)} types, CPU seconds")
    print(f"{'policy':44s} {'first':>10s} {'news':>10s} {'steady':>10s} {'decisions':>10s}")
    for policy in arguments.policies:
        try:
            print(f"{policy:44s} {cost(policy, size, arguments.limit)}", flush=True)
        except (InputError, PolicyError, OutOfTimeError, MemoryError) as error:
            print(f"{policy:44s} not measured: {error}", flush=True)


if __name__ == "__main__":
    main()
