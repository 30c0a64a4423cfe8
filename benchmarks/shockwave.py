"""Shockwave on the authors' 120 jobs that change their batch size: makespan and finish-time fairness.

    python benchmarks/shockwave.py --data FOLDER [POLICY ...]

FOLDER holds the reference results (`gavel-pollux-sia/`).  The jobs run in the simulator's semantics on 32
GPUs, the first 40 on 12 and the first 12 on 4.  A job's rho is its completion time over the time that it
takes alone, times jobs over GPUs if that is above 1; `late` is the share of jobs with rho above 1.  Published
rows are the authors' files, those of 12 jobs their program with open solvers.  CPU seconds are the run's.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import polars as pl

from rota.api.setting import make_speed
from rota.model.cluster import parse_cluster
from rota.scheduler.policy import parse_policy
from rota.traces import read
from rota.worlds.simulated.run import Setting, run
from rota.worlds.simulated.semantics import semantics

POLICIES = ["shockwave", "shockwave:fairness_exponent=12", "shockwave:mode=artifact,fairness_exponent=12"]
RUNS = ((120, 32), (40, 12), (12, 4))
ROW = "{:>4} {:>4}  {:<52} {:>9} {:>9} {:>6} {:>6} {:>6}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policies", nargs="*", metavar="POLICY", default=POLICIES)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    folder = options.data / "gavel-pollux-sia"
    theirs = pl.read_csv(folder / "authors" / "shockwave_tacc_32gpus_jobs.csv.gz")
    alone_s = (theirs["jct_allox.simulation"] / theirs["rho_static_allox.simulation"]).to_numpy() / (120 / 32)
    trace = read(folder / "inputs" / "shockwave_120.csv.gz", "shockwave").by_submission()
    submit_s = trace.jobs.submit_s
    print(ROW.format("jobs", "GPUs", "policy", "mean JCT", "makespan", "late", "worst", "CPU s"))
    for jobs, gpus in RUNS:
        alone = alone_s[:jobs] * max(1.0, jobs / gpus)
        for name, jct_s in _published(folder, theirs, jobs):
            _print(jobs, gpus, f"published: {name}", jct_s, submit_s[:jobs], alone, None)
        part, cluster = trace.take(np.arange(jobs)), parse_cluster(f"{gpus}x1:v100")
        table = str(folder / "inputs" / "shockwave_tacc_throughputs.csv.gz")
        for policy in options.policies:
            speed = make_speed(part, cluster, table, regimes="shockwave", whole_steps=True)
            begin = time.process_time()
            setting = Setting(semantics=semantics("shockwave"), speed=speed)
            record = run(parse_policy(policy), part, cluster, setting)
            took = time.process_time() - begin
            frame = record.jobs
            jct_s = (frame["finish_s"] - frame["submit_s"]).to_numpy()
            _print(jobs, gpus, policy, jct_s, submit_s[:jobs], alone, took)


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
