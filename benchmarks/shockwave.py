"""Shockwave on the authors' 120 jobs that change their batch size: makespan and finish-time fairness.

    python benchmarks/shockwave.py --data FOLDER [POLICY ...] [--drawn]

FOLDER holds the reference results (`gavel-pollux-sia/`).  The jobs run in the simulator's semantics on 32
GPUs, the first 40 on 12 and the first 12 on 4.  A job's rho is its completion time over the time that it
takes alone, times jobs over GPUs if that is above 1; `late` is the share of jobs with rho above 1.  Published
rows are the authors' files, those of 12 jobs their program with open solvers.  CPU seconds are the run's.
`--drawn` plays ten other inputs instead, each drawn from the 120 jobs and from their times of arrival.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from rota.api.speed_sources import make_speed
from rota.model.cluster import parse_cluster
from rota.model.columns import read_only
from rota.model.trace import Trace
from rota.scheduler.policy import parse_policy
from rota.traces import read
from rota.worlds.simulated.run import Setting, run
from rota.worlds.simulated.semantics import semantics

POLICIES = ["shockwave", "shockwave:fairness_exponent=5", "shockwave@authors"]
RUNS = ((120, 32), (40, 12), (12, 4))
DRAWN = ((60, 16), (60, 16), (60, 12), (90, 24), (90, 32), (30, 8), (30, 8), (120, 24), (120, 40), (45, 16))
"""Jobs and GPUs; the seed is the place in the list, from 1."""
ROW = "{:>4} {:>4}  {:<52} {:>9} {:>9} {:>6} {:>6} {:>6}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policies", nargs="*", metavar="POLICY", default=POLICIES)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--drawn", action="store_true")
    options = parser.parse_args()
    folder = options.data / "gavel-pollux-sia"
    theirs = pl.read_csv(folder / "authors" / "shockwave_tacc_32gpus_jobs.csv.gz")
    alone_s = (theirs["jct_allox.simulation"] / theirs["rho_static_allox.simulation"]).to_numpy() / (120 / 32)
    trace = read(folder / "inputs" / "shockwave_120.csv.gz", "shockwave").by_submission()
    submit_s = trace.jobs.submit_s
    table = str(folder / "inputs" / "shockwave_tacc_throughputs.csv.gz")
    print(ROW.format("jobs", "GPUs", "policy", "mean JCT", "makespan", "late", "worst", "CPU s"))
    if options.drawn:
        for seed, (jobs, gpus) in enumerate(DRAWN, 1):
            part, picked = _drawn(trace, jobs, seed)
            for policy in options.policies:
                _play(policy, part, gpus, table, alone_s[picked] * max(1.0, jobs / gpus))
        return
    for jobs, gpus in RUNS:
        alone = alone_s[:jobs] * max(1.0, jobs / gpus)
        for name, jct_s in _published(folder, theirs, jobs):
            _print(jobs, gpus, f"published: {name}", jct_s, submit_s[:jobs], alone, None)
        for policy in options.policies:
            _play(policy, trace.take(np.arange(jobs)), gpus, table, alone)


def _drawn(trace: Trace, jobs: int, seed: int) -> tuple[Trace, np.ndarray]:
    """So many of the jobs, in another order, at so many of the moments at which jobs arrive; and which."""
    random = np.random.default_rng(seed)
    picked = random.permutation(len(trace))[:jobs]
    part = trace.take(picked)
    submit_s = np.sort(random.choice(trace.jobs.submit_s, jobs, replace=False))
    return replace(part, jobs=replace(part.jobs, submit_s=read_only(submit_s))), picked


def _play(policy: str, trace: Trace, gpus: int, table: str, alone_s: np.ndarray) -> None:
    """Run the jobs under the policy and print a row."""
    cluster = parse_cluster(f"{gpus}x1:v100")
    speed = make_speed(trace, cluster, table, regimes="shockwave", whole_steps=True)
    begin = time.process_time()
    record = run(parse_policy(policy), trace, cluster, Setting(semantics=semantics("shockwave"), speed=speed))
    took = time.process_time() - begin
    jct_s = (record.jobs["finish_s"] - record.jobs["submit_s"]).to_numpy()
    _print(len(trace), gpus, policy, jct_s, trace.jobs.submit_s, alone_s, took)


def _published(folder: Path, theirs: pl.DataFrame, jobs: int) -> list[tuple[str, np.ndarray]]:
    """The authors' completion times of Shockwave on so many jobs, by the name of the run."""
    if jobs == 120:
        names = [name for name in theirs.columns if name.startswith("jct_") and "shockwave" in name]
        return [(name[4:].partition(".")[0], theirs[name].to_numpy()) for name in names]
    file = folder / "jobs" / f"shockwave_t{jobs}.csv.gz"
    frame = pl.read_csv(file)
    return [("open solvers", frame["jct_shockwave"].to_numpy())] if "jct_shockwave" in frame.columns else []


def _print(
    jobs: int,
    gpus: int,
    name: str,
    jct_s: np.ndarray,
    submit_s: np.ndarray,
    alone_s: np.ndarray,
    cpu: float | None,
) -> None:
    rho = jct_s / alone_s
    print(
        ROW.format(
            jobs,
            gpus,
            name,
            f"{jct_s.mean():,.0f}",
            f"{(submit_s + jct_s).max():,.0f}",
            f"{(rho > 1.0).mean():.3f}",
            f"{rho.max():.2f}",
            "" if cpu is None else f"{cpu:.2f}",
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
