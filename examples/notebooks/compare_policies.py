# %% [markdown]
# # Compare policies on your trace
#
# A trace says which jobs were submitted when, how many GPUs they asked for and how long they ran. Rota
# replays it under any policy. This one is generated; `rota.read("jobs.csv")` reads yours, in any of the
# formats that `rota trace formats` lists.

# %%
import os

import polars as pl

import rota

JOBS = int(os.environ.get("EXAMPLE_JOBS", "1500"))
trace = rota.generate(JOBS, seed=3, load=0.95, cluster=64)
print(f"{len(trace)} jobs, on 8 nodes with 8 GPUs each")

# %% [markdown]
# The policies to compare: in order of submission with gaps filled, shortest remaining time first (told
# by an oracle), and Tiresias, which knows no durations and serves first who has had least.

# %%
result = rota.simulate(trace, cluster="8x8:V100", policies=["fifo:skip=yes", "tiresias", "srtf"])
result

# %% [markdown]
# Who completes when: a curve that is further to the left is better.

# %%
result.figure("completion")

# %%
result.figure("queue")

# %% [markdown]
# Everything is a table. One row per run with every metric of `docs/metrics.md`:

# %%
metrics = result.frame().select(
    "policy", "mean_jct_s", "p99_jct_s", "mean_waiting_s", "utilisation", "preemptions"
)
metrics

# %% [markdown]
# One row per job, to ask whatever you like: here, who waits by the size of the job. `.to_pandas()` of
# any of these gives the same to pandas.

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
# `result.report("out/")` writes all of it as one HTML file, with a Gantt chart of every run.
