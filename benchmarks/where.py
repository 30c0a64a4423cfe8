"""Where the engine time of one policy on the Philly list goes, by part of the house.

    python benchmarks/where.py [POLICY] [--data ../shared]

Runs the interpreted modules under cProfile, which inflates small functions: read the shares, not the
seconds.  Time in built-in functions counts for whoever calls them.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections import Counter
from pathlib import Path

from rota.model.cluster import parse_cluster
from rota.scheduler.policy import parse_policy
from rota.traces import read
from rota.traces.generate import generate
from rota.worlds.simulated.run import Setting, prepare

PHILLY = "data/philly/philly_jobs_pollux.csv.gz"

PARTS = {
    "scheduler/guard": "guard",
    "systems/": "policy",
    "stages/": "policy",
    "worlds/": "world",
    "scheduler/progress": "world",
    "scheduler/state": "state",
    "scheduler/occupancy": "state",
    "scheduler/rows": "state",
    "scheduler/free": "free devices (state and policy)",
    "scheduler/": "loop, snapshot, record",
    "model/": "loop, snapshot, record",
}


def part_of(path: str) -> str | None:
    """The part of the house that a file belongs to; None for everything that is not Rota's."""
    _, found, inside = path.partition("/rota/")
    return next((part for start, part in PARTS.items() if inside.startswith(start)), None) if found else None


def shares(stats: pstats.Stats) -> Counter[str]:
    """Own time by part, built-in functions with their callers."""
    times: Counter[str] = Counter()
    for (path, _, _), (_, _, own, _, callers) in stats.stats.items():  # type: ignore[attr-defined]
        part = part_of(path)
        if part:
            times[part] += own
            continue
        for (caller, _, _), (_, _, spent, _) in callers.items():
            times[part_of(caller) or "other"] += spent
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policy", nargs="?", default="srtf")
    parser.add_argument("--data", type=Path, default=Path("../shared"))
    arguments = parser.parse_args()
    cluster = parse_cluster("80x8")
    path = arguments.data / PHILLY
    trace = read(path) if path.exists() else generate(82_247, seed=0, load=0.7, cluster=cluster)
    loop, _ = prepare(parse_policy(arguments.policy).make(), trace, cluster, Setting())
    profile = cProfile.Profile()
    profile.runcall(loop.run)
    times = shares(pstats.Stats(profile))
    for part, seconds in times.most_common():
        print(f"{part:34s} {seconds / times.total():6.1%}")


if __name__ == "__main__":
    main()
