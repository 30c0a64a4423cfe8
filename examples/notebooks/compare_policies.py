# %% [markdown]
# # Compare policies on your trace
#
# A trace lists jobs: when they were submitted, how many GPUs they asked for and how long they ran. Rota
# replays it under any policy. This trace is generated; `rota.read("jobs.csv")` reads yours, in any of the
# formats that `rota trace formats` lists.

# %%
import os

import polars as pl

import rota

JOBS = int(os.environ.get("EXAMPLE_JOBS", "1500"))
trace = rota.generate(JOBS, seed=3, load=0.95, cluster=64)
print(f"{len(trace)} jobs, on 8 nodes with 8 GPUs each")

# %% [markdown]
# The policies to compare: order of submission with gaps filled; shortest remaining time first, with true
# durations; and Tiresias, which knows no durations and serves jobs with the least service first.

# %%
result = rota.simulate(trace, cluster="8x8:V100", policies=["fifo:skip=yes", "tiresias", "srtf"])
result

# %% [markdown]
# Completion times: a curve further to the left is better.

# %%
result.figure("completion")

# %%
result.figure("queue")

# %% [markdown]
# All results are tables. One row per run, with every metric of `docs/metrics.md`:

# %%
metrics = result.frame().select(
    "policy", "mean_jct_s", "p99_jct_s", "mean_waiting_s", "utilisation", "preemptions"
)
metrics

# %% [markdown]
# One row per job, for your own questions: here, the mean wait by size of the job. `.to_pandas()` converts
# any of these tables for pandas.

# %%
waits = pl.concat(
    result[policy].jobs.select(
        pl.lit(policy).alias("policy"),
        pl.col("gpus").clip(upper_bound=8),
        (pl.col("waiting_s") / 60).alias("wait_min"),
    )
    for policy in ("fifo:skip=yes", "tiresias", "srtf")
)
waits.group_by("policy", "gpus", maintain_order=True).agg(pl.col("wait_min").mean().round(1)).pivot(
    "policy", index="gpus", values="wait_min"
).sort("gpus")

# %% [markdown]
# `result.report("out/")` writes everything as one HTML file, with a Gantt chart of every run.
