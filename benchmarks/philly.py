"""Queueing under `philly` on a generated month: by size, by cause, with locality relaxed and strict.

    python benchmarks/philly.py [--jobs 9600] [--load 0.7] [--seed 1] [--quota 1.0] [--only relaxed]

512 GPUs in 8 racks of 8 nodes; every virtual cluster of the trace has the quota that its GPU time is of
all, or so many times that.  A gang on more nodes than it needs runs at 0.854 of its rate, as the study
measured for two GPUs.  Prints the table of docs/philly.md.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.policy import parse_policy
from rota.systems.philly.delays import BORROWED, FAIR_SHARE, FRAGMENTATION, size_bucket
from rota.traces.generate import generate
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration

SPREAD = Slowdowns(spread={"*": 0.854})
POLICIES = {
    "relaxed": "philly",
    "strict": "philly:relax_after=1000000",
    "relaxed at once": "philly:relax_after=0",
    "spread, then moved": "philly:migrate=yes",
}
RACKS, NODES, GPUS = 8, 8, 8
HEADER = (
    "| locality | GPUs | jobs | wait: mean h | median min | p90 h | fair share | fragmentation | borrowed "
    "| run: mean h |\n|---|---|---|---|---|---|---|---|---|---|"
)


def cluster_for(trace: Trace, quota: float = 1.0) -> Cluster:
    """Racks of nodes; quotas by GPU time, times `quota`."""
    jobs, gpus = trace.jobs, RACKS * NODES * GPUS
    work: dict[str, float] = {}
    for row, seconds in enumerate((jobs.gpus * trace.truth.duration_s).tolist()):
        name = jobs.name_of("tenant", row).partition("/")[0]
        work[name] = work.get(name, 0.0) + seconds
    total = sum(work.values())
    tenants = Tenants.of(*(Tenant(name, quota * gpus * part / total) for name, part in sorted(work.items())))
    shapes = [NodeShape(NODES, GPUS, levels={"rack": f"r{rack}"}) for rack in range(RACKS)]
    return Cluster.build(shapes, tenants)


def measure(name: str, trace: Trace, cluster: Cluster) -> tuple[list[str], int]:
    """Rows of the table, and preemptions, of one policy."""
    speed = FixedDuration(trace.jobs, cluster, SPREAD)
    loop, _ = prepare(parse_policy(POLICIES[name]).make(), trace, cluster, Setting(speed=speed))
    loop.run()
    state, jobs = loop.state, trace.jobs
    wait_s, run_s = state.first_start_s - jobs.submit_s, state.ran_s(np.arange(len(jobs)))
    sizes = np.array([size_bucket(gpus) for gpus in jobs.gpus.tolist()])
    rows = []
    for size in ("1", "2-4", "5-8", ">8"):
        of = sizes == size
        delay = loop.memory["delay_s"].get(size, {})
        total = sum(delay.values()) or 1.0
        causes = [f"{delay.get(cause, 0.0) / total:.0%}" for cause in (FAIR_SHARE, FRAGMENTATION, BORROWED)]
        cells = [
            *(name, size, f"{of.sum():,}", f"{wait_s[of].mean() / 3600:.2f}"),
            *(f"{np.median(wait_s[of]) / 60:.1f}", f"{np.quantile(wait_s[of], 0.9) / 3600:.2f}"),
            *(*causes, f"{run_s[of].mean() / 3600:.2f}"),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return rows, int(state.preemptions.sum())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=9_600)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quota", type=float, default=1.0, help="times its part of the GPU time")
    parser.add_argument("--only", choices=POLICIES, help="one locality instead of all")
    arguments = parser.parse_args()
    trace = generate(arguments.jobs, seed=arguments.seed, load=arguments.load, cluster=RACKS * NODES * GPUS)
    cluster = cluster_for(trace, arguments.quota)
    days = float(np.ptp(trace.jobs.submit_s)) / 86400
    print(f"{len(trace.jobs):,} jobs in {days:.1f} days, load {arguments.load:g}, seed {arguments.seed}\n")
    print(HEADER)
    for name in [arguments.only] if arguments.only else POLICIES:
        began = time.process_time()
        rows, preemptions = measure(name, trace, cluster)
        print("\n".join(rows), flush=True)
        print(f"{name}: {preemptions} preemptions, {time.process_time() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
