# %% [markdown]
# # Write a policy in fifty lines, and watch it
#
# Many policies serve jobs in the order of a key, the lowest first. Such a policy is a function that maps a
# snapshot and the rows of some jobs to their keys. This one is first in, first out with a handicap: a
# job counts as submitted six hours later for every GPU that it asks for.

# %%
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

import rota
from rota.scheduler.snapshot import Snapshot
from rota.stages.priority_policy import Keys, Rows, priority


@dataclass(frozen=True)
class LateParameters:
    """Parameters of `late`."""

    per_gpu_s: float = 21_600.0
    """Seconds that each GPU adds to the submission."""


@priority("late", "First in, first out, later by size", parameters=LateParameters)
def late(snapshot: Snapshot, rows: Rows, parameters: LateParameters) -> Keys:
    """Submission plus handicap of a row, or of an array of rows: the lowest is served first."""
    keys: Keys = snapshot.jobs.submit_s[rows] + parameters.per_gpu_s * snapshot.jobs.gpus[rows]
    return keys


# %% [markdown]
# Now it is a policy like any other, with parameters:

# %%
JOBS = int(os.environ.get("EXAMPLE_JOBS", "1500"))
trace = rota.generate(JOBS, seed=1, load=0.95, cluster=64)
result = rota.simulate(
    trace, cluster="8x8:V100", policies=["fifo:skip=yes", "late", "late:per_gpu_s=3600", "srtf"]
)
result

# %%
result.figure("waiting")

# %% [markdown]
# To watch it decide, stop the clock: a file stores what the policy saw at its first decision after a given
# moment, with everything that it needs to decide again.

# %%
folder = Path(tempfile.mkdtemp())
at_s = float(trace.jobs.submit_s[-1]) / 2
rota.snapshot(trace, folder / "noon.rota", policy="late", at_s=at_s, cluster="8x8:V100")
decided = rota.replay(folder / "noon.rota").to_dict()
print(f"{decided['running']} jobs run, {decided['waiting']} wait, {decided['free_gpus']} GPUs are free")
print(f"late starts {len(decided['start'])} of them")
pl.DataFrame(
    {"job": job, "because": reasons[0]["sentence"]} for job, reasons in list(decided["wait"].items())[:5]
)

# %% [markdown]
# The same moment under another policy, and the jobs that it would start instead:

# %%
other = rota.replay(folder / "noon.rota", "tiresias").to_dict()
print(f"tiresias starts {len(other['start'])}, and preempts {len(other['preempt'])} for that")

# %% [markdown]
# `rota.testing.policy_contract(late)` checks the rules of every policy: it reads only the snapshot, decides
# the same on the same snapshot, and starts whole gangs. `CONTRIBUTING.md` explains how to add it to Rota
# or to your own package.
