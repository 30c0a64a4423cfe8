"""Engine time on the Philly list, on a million generated jobs, and against the authors' simulator.

    python benchmarks/speed.py [--data ../shared] [--repeat 3] [--million] [--json FILE]

Every figure is CPU seconds of the loop alone (`engine_seconds` of a record), the least of the repeats.
A floor is measured in the same run: strict FIFO that only counts GPUs, with a heap and nothing else,
so that the ratios hold on any machine.  Run it once with the interpreted modules and once with the
compiled ones (`make bench` does both); the checksum of all finish times must not differ.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import json
import resource
import time
from pathlib import Path

import rota.table.free
from rota.model.cluster import Cluster, parse_cluster
from rota.model.record import Record
from rota.model.trace import Trace
from rota.traces import read
from rota.traces.generate import generate
from rota.worlds.simulated.run import Setting, run
from rota.worlds.simulated.semantics import semantics

PHILLY = "data/philly/philly_jobs_pollux.csv.gz"
ITP06 = "reference/tiresias-elasticflow-lucid/workloads/itp06_tiresias.csv.gz"
AUTHORS_ITP06_S = 1.3
"""CPU seconds of the authors' simulator for `dlas-gpu` on itp06 (2,396 jobs), as measured beside it."""


def floor_s(trace: Trace, gpus: int) -> float:
    """CPU seconds of strict FIFO by GPU count: the least any Python loop over these events can do."""
    submit, need = trace.jobs.submit_s.tolist(), trace.jobs.gpus.tolist()
    duration = trace.truth.duration_s.tolist()
    began = time.process_time()
    ends: list[tuple[float, int]] = []
    now, free = 0.0, gpus
    for row, moment in enumerate(submit):
        now = max(now, moment)
        while free < need[row]:
            end, freed = heapq.heappop(ends)
            now, free = max(now, end), free + freed
        free -= need[row]
        heapq.heappush(ends, (now + duration[row], need[row]))
    return time.process_time() - began


def checksum(record: Record) -> str:
    """A fingerprint of every finish time."""
    return hashlib.sha256(record.jobs["finish_s"].to_numpy().tobytes()).hexdigest()[:12]


def measure(
    policy: str, trace: Trace, cluster: Cluster, repeat: int, setting: Setting | None = None
) -> dict[str, object]:
    """Least engine time of `repeat` runs, and what identifies the result."""
    records = [run(policy, trace, cluster, setting) for _ in range(repeat)]
    best = min(record.engine_seconds for record in records)
    events = records[0].counts["events"]
    return {
        "policy": policy,
        "jobs": len(trace),
        "engine_s": round(best, 3),
        "jobs_per_s": round(len(trace) / best),
        "us_per_event": round(best / events * 1e6, 1),
        "events": events,
        "checksum": checksum(records[0]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=Path("../shared"), help="folder with data/ and reference/"
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--million", action="store_true", help="also a million generated jobs under fifo")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    arguments = parser.parse_args()
    is_compiled = not str(rota.table.free.__file__).endswith(".py")
    results = [*philly(arguments), *against_authors(arguments), *(million() if arguments.million else [])]
    print(f"hot modules: {'compiled' if is_compiled else 'interpreted'}")
    print(f"{'what':34s} {'engine s':>9s} {'x floor':>8s} {'us/event':>9s} {'jobs/s':>9s}  finish times")
    for r in results:
        ratio = f"{r['x_floor']:8.1f}" if "x_floor" in r else " " * 8
        print(
            f"{r['what']:34s} {r['engine_s']:9.3f} {ratio} {r['us_per_event']:9.1f} "
            f"{r['jobs_per_s']:9d}  {r['checksum']}"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    if arguments.json:
        arguments.json.write_text(json.dumps({"compiled": is_compiled, "results": results}, indent=2))


def philly(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """The Philly list on 640 GPUs; a generated one of the same length where the list is not there."""
    cluster = parse_cluster("80x8")
    path = arguments.data / PHILLY
    trace = read(path) if path.exists() else generate(82_247, seed=0, load=0.7, cluster=cluster)
    name = "philly" if path.exists() else "generated"
    least = min(floor_s(trace, cluster.gpus) for _ in range(arguments.repeat))
    floor = {"what": f"{name}: floor (strict FIFO by count)", "engine_s": least, "us_per_event": 0.0}
    floor |= {"jobs_per_s": round(len(trace) / least), "checksum": "", "x_floor": 1.0}
    rows = [floor]
    for policy in ("fifo", "srtf", "tiresias", "las"):
        row = measure(policy, trace, cluster, arguments.repeat)
        rows.append(row | {"what": f"{name}: {policy}", "x_floor": row["engine_s"] / least})  # type: ignore[operator]
    return rows


def against_authors(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Tiresias on itp06, where the authors' simulator needs about 1.3 CPU seconds."""
    path = arguments.data / ITP06
    if not path.exists():
        return []
    setting = Setting(semantics=semantics("tiresias"))
    row = measure("tiresias@authors", read(path), parse_cluster("16x8"), arguments.repeat, setting)
    faster = AUTHORS_ITP06_S / float(str(row["engine_s"]))
    return [row | {"what": f"itp06: tiresias ({faster:.1f}x the authors')"}]


def million() -> list[dict[str, object]]:
    cluster = parse_cluster("80x8")
    row = measure("fifo", generate(1_000_000, seed=1, load=0.9, cluster=cluster), cluster, 1)
    return [row | {"what": "generated, a million jobs: fifo"}]


if __name__ == "__main__":
    main()
