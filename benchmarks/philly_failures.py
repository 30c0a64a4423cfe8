"""What attempts that fail cost on a generated month, by retries and with a pool in which new jobs run first.

    python benchmarks/philly_failures.py [--jobs 9600] [--load 0.7] [--seed 1]

The cluster is that of `philly.py`.  Prints the table of docs/philly.md.
"""

from __future__ import annotations

import argparse
import sys
import time

import polars as pl
from philly import GPUS, NODES, RACKS, SPREAD, cluster_for

from rota.model.cluster import Cluster
from rota.model.trace import Trace
from rota.scheduler.policy import parse_policy
from rota.traces.generate import generate
from rota.worlds.simulated.retries import parse_retries
from rota.worlds.simulated.run import Setting, run
from rota.worlds.simulated.speed import FixedDuration

CASES = (
    ("philly", None),
    ("philly", "3"),
    ("philly", "adaptive"),
    ("prerun:nodes=1", "adaptive"),
    ("prerun:nodes=4", "adaptive"),
    ("prerun:nodes=4,least_gpus=2", "adaptive"),
)
EARLY_S = 180.0
"""A failure that comes within it is one that the pool would show."""
HEADER = (
    "| policy | retries | GPU-hours that failed | early failures known after: median (mean) min | "
    "jobs done | their wait: mean h | their time in all: mean h |\n|---|---|---|---|---|---|---|"
)


def measure(policy: str, retries: str | None, trace: Trace, cluster: Cluster) -> str:
    """The row of one case."""
    speed = FixedDuration(trace.jobs, cluster, SPREAD)
    record = run(
        parse_policy(policy).make(), trace, cluster, Setting(speed=speed, retries=parse_retries(retries))
    )
    failed = record.intervals.filter(pl.col("end") == "failed")
    gpu_h = (pl.col("end_s") - pl.col("start_s")) * pl.col("gpus") / 3600
    first_s = {row: attempts[0] for row, attempts in trace.truth.failures.items()}
    early = [row for row, seconds in first_s.items() if seconds <= EARLY_S]
    known_s = failed.filter(pl.col("job").is_in(early)).group_by("job").agg(pl.col("end_s").min())
    known_s = known_s.join(record.jobs.select("job", "submit_s"), on="job")
    known_min = (known_s["end_s"] - known_s["submit_s"]) / 60
    done = record.jobs.filter(pl.col("state") == "COMPLETED")
    cells = [
        *(f"`{policy}`", retries or "as in the trace"),
        f"{failed.select(gpu_h.sum()).item():,.0f}",
        f"{known_min.median():.1f} ({known_min.mean():.1f})",
        f"{len(done):,}",
        f"{done['waiting_s'].mean() / 3600:.2f}",  # type: ignore[operator]
        f"{(done['finish_s'] - done['submit_s']).mean() / 3600:.2f}",  # type: ignore[operator]
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=9_600)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    trace = generate(arguments.jobs, seed=arguments.seed, load=arguments.load, cluster=RACKS * NODES * GPUS)
    cluster = cluster_for(trace)
    print(HEADER)
    for policy, retries in CASES:
        began = time.process_time()
        print(measure(policy, retries, trace, cluster), flush=True)
        print(f"{policy}: {time.process_time() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
