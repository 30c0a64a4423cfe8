"""What an event costs where jobs share devices, against whole devices, all in one run.

    python benchmarks/shared.py [--gpus 640 10240] [--policy fifo] [--jobs 20000] [--repeat 3] [--json FILE]

Jobs ask for one GPU, or for a half, a fourth, an eighth of one; their lengths are drawn from one
distribution, and they come as fast as the cluster can bear at a load of 0.95.  Figures are CPU seconds of the
loop alone (`engine_seconds` of a record) over its events, the least of the repeats; ratios are to whole
devices on the same cluster, so that they hold on any machine.  The repeats go round all cases, so that a
machine that slows down for a while slows all of them.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np

import rota.table.free
from rota.model.cluster import Cluster, parse_cluster
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.worlds.simulated.run import run

TO_A_DEVICE = (1, 2, 4, 8)
LOAD = 0.95
LENGTH_S = 600.0
"""Mean length of a job; exponential, so that events seldom coincide."""


def trace_for(cluster: Cluster, to_a_device: int, jobs: int) -> Trace:
    """Jobs of one GPU, `to_a_device` of which share it; the last third of them meets a full cluster."""
    rng = np.random.default_rng(0)
    length_s = rng.exponential(LENGTH_S, jobs)
    each_s = LENGTH_S / (cluster.gpus * to_a_device * LOAD)
    submit_s = np.cumsum(rng.exponential(each_s, jobs))
    table = JobTable.build(
        [f"j{row}" for row in range(jobs)],
        submit_s=submit_s,
        gpus=np.ones(jobs, dtype=np.int64),
        gpu_share=np.full(jobs, 1.0 / to_a_device),
    )
    return Trace(table, Truth.build(length_s), source=f"{to_a_device} to a device", format="generated")


def measure(policy: str, gpus: int, jobs: int, repeat: int) -> list[dict[str, object]]:
    """Least time of an event for each number of jobs to a device, on `gpus` GPUs in nodes of 8."""
    cluster = parse_cluster(f"{gpus // 8}x8")
    cases = {n: trace_for(cluster, n, max(jobs, 3 * gpus * n)) for n in TO_A_DEVICE}
    least = dict.fromkeys(cases, math.inf)
    for _ in range(repeat):
        for n, trace in cases.items():
            record = run(policy, trace, cluster)
            least[n] = min(least[n], record.engine_seconds / record.counts["events"] * 1e6)
    return [
        {
            "policy": policy,
            "gpus": gpus,
            "to_a_device": n,
            "jobs": len(cases[n]),
            "us_per_event": round(us, 1),
            "x_whole": round(us / least[1], 2),
        }
        for n, us in least.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, nargs="+", default=[640, 10240], help="in nodes of 8")
    parser.add_argument("--policy", nargs="+", default=["fifo"])
    parser.add_argument("--jobs", type=int, default=20_000, help="at least; three rounds of a full cluster")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    arguments = parser.parse_args()
    is_compiled = not str(rota.table.free.__file__).endswith(".py")
    print(f"hot modules: {'compiled' if is_compiled else 'interpreted'}")
    print(f"{'policy':20s} {'GPUs':>7s} {'to a device':>12s} {'jobs':>8s} {'us/event':>9s} {'x whole':>8s}")
    results = []
    for policy in arguments.policy:
        for gpus in arguments.gpus:
            for r in measure(policy, gpus, arguments.jobs, arguments.repeat):
                results.append(r)
                print(
                    f"{r['policy']:20s} {r['gpus']:7d} {r['to_a_device']:12d} {r['jobs']:8d} "
                    f"{r['us_per_event']:9.1f} {r['x_whole']:8.2f}",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps({"compiled": is_compiled, "results": results}, indent=2))


if __name__ == "__main__":
    main()
