"""Shockwave's window: what planning by numbers of rounds costs, in time and in the paper's objective.

    python benchmarks/windows.py [--sizes 12x4 40x12 120x32 460x128 900x256 2000x10000] [--seeds 5]

Windows of 20 rounds of 120 s are made up from seeds: jobs of 1, 2, 4 and 8 GPUs (60, 20, 15, 5 %), run times
log-normal about 80 minutes, a third of the jobs late, half of the windows without the makespan term, half
with weight 1e-3.  Values are parts of what lies between no rounds at all and the bound that counts prove:

  solve, lay out   CPU milliseconds, the worst of the seeds
  mended           windows in which the best numbers of rounds find no room as they are
  missing          what the layout has less than the bound, on average and at worst; no plan can have more
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np

from rota.solvers.window import PlanningWindow, log_utility, solve_window
from rota.solvers.window_rounds import lay_out

ROUNDS, ROUND_S = 20, 120.0
SIZES, PARTS = (1, 2, 4, 8), (0.60, 0.20, 0.15, 0.05)


class Outcome(NamedTuple):
    """What one window cost, times in milliseconds."""

    solve: float
    layout: float
    is_mended: bool
    missing: float


def made_up(seed: int, jobs: int, capacity: int, weight: float) -> PlanningWindow:
    """A window from a seed; jobs ask for no more GPUs than there are."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.choice(SIZES, jobs, p=PARTS), 1 << (capacity.bit_length() - 1))
    whole_s = rng.lognormal(8.5, 1.0, jobs)
    progress = rng.random(jobs) * (rng.random(jobs) < 0.7)
    late = rng.random(jobs) < 0.3
    weights = np.where(late, rng.uniform(1.0, 2.0, jobs) ** 12, 1.0)
    time_s = ROUND_S * np.arange(ROUNDS + 1)
    utility = log_utility(np.minimum(progress[:, None] + time_s / whole_s[:, None], 1.0))
    left_s = np.maximum((whole_s * (1.0 - progress))[:, None] - time_s, 0.0)
    return PlanningWindow(sizes, capacity, utility, left_s, weights, np.zeros(jobs, dtype=np.int64), weight)


def measure(window: PlanningWindow) -> Outcome:
    begin = time.process_time()
    counts = solve_window(window)
    solved = time.process_time()
    assert counts is not None
    layout = lay_out(window, counts.rounds)
    done = time.process_time()
    nothing = window.value(np.zeros_like(counts.rounds))

    missing = (counts.bound - window.value(layout.counts)) / (counts.bound - nothing)
    return Outcome(1e3 * (solved - begin), 1e3 * (done - solved), layout.is_mended, missing)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = ["12x4", "40x12", "120x32", "460x128", "900x256", "2000x10000"]
    parser.add_argument("--sizes", nargs="+", default=sizes, metavar="JOBSxGPUS")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    print(f"{'jobs':>5} {'GPUs':>6} {'k':>6} {'solve':>7} {'lay out':>8} {'mended':>7}", end="")
    print(f" {'missing':>9} {'worst':>9}")
    for size in options.sizes:
        jobs, gpus = (int(part) for part in size.split("x"))
        for weight in (0.0, 1e-3):
            windows = [made_up(seed, jobs, gpus, weight) for seed in range(options.seeds)]
            each = [measure(w) for w in windows]
            of = Outcome(*(np.array(column, dtype=float) for column in zip(*each, strict=True)))
            print(
                f"{jobs:>5} {gpus:>6} {weight:>6g} {np.max(of.solve):>7.1f} {np.max(of.layout):>8.1f} "
                f"{np.sum(of.is_mended):>4.0f}/{len(each)} {np.mean(of.missing):>10.1e} "
                f"{np.max(of.missing):>9.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
