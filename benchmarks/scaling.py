"""How the engine time of each policy grows with the jobs, with the GPUs and with the types of GPUs.

    python benchmarks/scaling.py [POLICY ...] [--only trace jobs nodes types site] [--jobs 10000 300000]
        [--seeds 0 0] [--nodes 80 1250] [--nodes-jobs 100000] [--types-jobs 20000] [--load 0.9] [--limit 300]
        [--trace jobs.csv]

Figures are CPU microseconds of the loop alone (`engine_seconds` of a record) per job, and ratios of them
within one run, so that they hold on any machine.  The last column is the same ratio of what was simulated:
decisions and intervals of holding per job.  Where jobs take turns or live longer side by side, a longer list
has more of them for each job; what a step costs has grown only where the first ratio is above the second:

  trace   a whole list of jobs on 80x8, against `srtf` on it (a generated one where the file is not there)
  jobs    the longer generated list against the shorter one, on 80x8, with the GPU-hours of a job in each: of
          a few hundred jobs a few long ones decide how long the others live beside them, and `--seeds` picks
          two lists that are alike in it
  nodes   the larger cluster against the smaller one, nodes of 8, lists of equal length and load
  types   two types of GPUs, one of which every other job insists on, against one type
  site    as dumps of sites are: everybody asks for one of three partitions, for CPUs and for memory, where no
          node states how much it has; against the same jobs that ask for GPUs only, `--types-jobs` of them

All policies are measured unless some are named.  One whose need nobody provides is named with the reason;
one that takes longer than the limit is stopped, and its figure is a lower bound.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import rota.table.free
from rota.errors import InputError, PolicyError
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.trace import Trace
from rota.scheduler.policy import systems
from rota.traces import read
from rota.traces.generate import generate
from rota.worlds.simulated.run import run

PHILLY = Path("../shared/data/philly/philly_jobs_pollux.csv.gz")
AGAINST = "srtf"
"""The policy that the whole list is measured against."""


class OutOfTimeError(Exception):
    """A run takes longer than somebody wants to wait."""


@dataclass
class Cost:
    """What a run cost."""

    us_per_job: float
    steps_per_job: float = math.nan
    """Decisions, and intervals in which jobs held the same."""
    is_bound: bool = False
    """True if it was stopped: it costs at least so much."""

    def __truediv__(self, other: Cost) -> str:
        if other.is_bound:
            return "?"
        return f"{'>' if self.is_bound else ''}{self.us_per_job / other.us_per_job:.2f}"

    def more_steps(self, other: Cost) -> str:
        """How many times as many steps as in `other`."""
        ratio = self.steps_per_job / other.steps_per_job
        return "?" if math.isnan(ratio) else f"{ratio:.2f}"

    def __str__(self) -> str:
        return f"{'>' if self.is_bound else ''}{self.us_per_job:.1f}"


def cost(policy: str, trace: Trace, cluster: Cluster, limit_s: float) -> Cost:
    """CPU time of the loop per job; stopped after `limit_s`."""
    began = time.process_time()

    def watch(_: int) -> None:
        if time.process_time() - began > limit_s:
            raise OutOfTimeError

    try:
        record = run(policy, trace, cluster, watch=watch)
    except OutOfTimeError:
        return Cost((time.process_time() - began) / len(trace) * 1e6, is_bound=True)
    steps = record.decisions + len(record.intervals)
    return Cost(record.engine_seconds / len(trace) * 1e6, steps / len(trace))


Measure = Callable[[str], Cost]
"""What a policy costs in one place."""


def of_jobs(arguments: argparse.Namespace) -> tuple[Measure, Measure]:
    """The shorter and the longer list on the same cluster."""
    cluster = parse_cluster("80x8")
    short, long = (
        generate(n, seed=seed, load=arguments.load, cluster=cluster)
        for n, seed in zip(arguments.jobs, arguments.seeds, strict=True)
    )
    print(f"\nGPU-hours of a job: {gpu_hours(short):.1f} and {gpu_hours(long):.1f}", end="")
    measure = partial(cost, cluster=cluster, limit_s=arguments.limit)
    return partial(measure, trace=short), partial(measure, trace=long)


def gpu_hours(trace: Trace) -> float:
    """What a job of the list works, on average."""
    return float(trace.truth.duration_s @ trace.jobs.gpus) / len(trace) / 3600.0


def of_nodes(arguments: argparse.Namespace) -> tuple[Measure, Measure]:
    """Lists of equal load for the smaller and for the larger cluster."""
    small, large = (parse_cluster(f"{nodes}x8") for nodes in arguments.nodes)
    jobs, load = arguments.nodes_jobs, arguments.load
    few, many = (generate(jobs, seed=0, load=load, cluster=cluster) for cluster in (small, large))
    measure = partial(cost, limit_s=arguments.limit)
    return partial(measure, trace=few, cluster=small), partial(measure, trace=many, cluster=large)


def of_types(arguments: argparse.Namespace) -> tuple[Measure, Measure]:
    """The same jobs where all GPUs are alike, and where every other one insists on one of two types."""
    one, two = parse_cluster("80x8"), parse_cluster("40x8:V100,40x8:P100")
    trace = generate(arguments.types_jobs, seed=0, load=arguments.load, cluster=one)
    wanted = np.random.default_rng(0).choice([0, 0, 1, 2], len(trace))
    wanted[trace.jobs.gpus > two.gpus // 2] = 0
    jobs = replace(trace.jobs, gpu_types=wanted, type_names=two.type_names)
    measure = partial(cost, limit_s=arguments.limit)
    return (
        partial(measure, trace=trace, cluster=one),
        partial(measure, trace=replace(trace, jobs=jobs), cluster=two),
    )


def of_site(arguments: argparse.Namespace) -> tuple[Measure, Measure]:
    """The same jobs on the same nodes, without and with what the accounting of a site says of each."""
    labels = ("small", "middle", "large")
    counts = (20, 20, 40)
    cluster = Cluster.build(
        [NodeShape(count=n, gpus=8, labels=(label,)) for n, label in zip(counts, labels, strict=True)]
    )
    trace = generate(arguments.types_jobs, seed=0, load=arguments.load, cluster=cluster)
    draw = np.random.default_rng(0)
    gpus = trace.jobs.gpus
    asked = np.where(gpus > 20 * 8, 2, draw.choice(3, len(trace), p=np.array(counts) / 80)).astype(np.int32)
    asked[gpus > 40 * 8] = -1
    of_a_site = replace(
        trace.jobs,
        node_set=asked,
        node_set_names=labels,
        cpus=gpus * draw.choice([2.0, 4.0, 6.0], len(trace)),
        memory_gib=gpus * draw.choice([8.0, 16.0, 32.0], len(trace)),
    )
    measure = partial(cost, cluster=cluster, limit_s=arguments.limit)
    return partial(measure, trace=trace), partial(measure, trace=replace(trace, jobs=of_a_site))


def of_trace(arguments: argparse.Namespace) -> tuple[Measure, Measure]:
    """The whole list under one policy, measured once, and under any."""
    cluster = parse_cluster("80x8")
    path: Path = arguments.trace
    trace = read(path) if path.exists() else generate(82_247, seed=0, load=arguments.load, cluster=cluster)
    measure = partial(cost, trace=trace, cluster=cluster, limit_s=arguments.limit)
    against = measure(AGAINST)
    return (lambda policy: against), measure


MEASURES = {
    "trace": ("the whole list", of_trace),
    "jobs": ("{jobs[0]:,} to {jobs[1]:,} jobs", of_jobs),
    "nodes": ("{nodes[0]} to {nodes[1]} nodes", of_nodes),
    "types": ("one type to two", of_types),
    "site": ("as a site has them", of_site),
}


def rows(policies: list[str], base: Measure, grown: Measure) -> Iterator[str]:
    """A line for each policy."""
    for policy in policies:
        try:
            before, after = base(policy), grown(policy)
        except (InputError, PolicyError) as error:
            yield f"{policy:24s} not measured: {error}"
            continue
        more = after.more_steps(before)
        yield f"{policy:24s} {before!s:>10s} {after!s:>10s} {after / before:>8s} {more:>8s}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policies", nargs="*", default=sorted(systems()), metavar="POLICY")
    parser.add_argument("--jobs", type=int, nargs=2, default=[10_000, 300_000])
    parser.add_argument("--seeds", type=int, nargs=2, default=[0, 0], help="of the two lists of `jobs`")
    parser.add_argument("--nodes", type=int, nargs=2, default=[80, 1250])
    parser.add_argument("--nodes-jobs", type=int, default=100_000, help="jobs of both lists of `nodes`")
    parser.add_argument(
        "--types-jobs", type=int, default=20_000, help="jobs of both lists of `types` and `site`"
    )
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--limit", type=float, default=300.0, help="CPU seconds after which a run is stopped")
    parser.add_argument("--only", nargs="+", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument("--trace", type=Path, default=PHILLY)
    arguments = parser.parse_args()
    is_compiled = not str(rota.table.free.__file__).endswith(".py")
    print(f"hot modules: {'compiled' if is_compiled else 'interpreted'}")
    for name in arguments.only:
        title, prepare = MEASURES[name]
        columns = f"{'us/job':>10s} {'us/job':>10s} {'ratio':>8s} {'steps':>8s}"
        measures = prepare(arguments)
        print(f"\n{title.format(**vars(arguments)):24s} {columns}")
        for row in rows(arguments.policies, *measures):
            print(row, flush=True)


if __name__ == "__main__":
    main()
