# %% [markdown]
# # What if, on a live cluster
#
# Which policy would serve the waiting jobs best right now? A controller answers by continuing the present
# moment in its simulator. This notebook starts a cluster of two CPU slots in a temporary folder; for your
# own cluster, leave out the first cell and set `ROTA_URL` and `ROTA_TOKEN`.

# %%
import atexit
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from rota.client import Client

home = Path(tempfile.mkdtemp(prefix="rota-"))
environment = {**os.environ, "ROTA_HOME": str(home)}


def rota(*words: str) -> str:
    """Run `rota WORDS` and return what it prints."""
    command = [sys.executable, "-m", "rota.cli.main", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


atexit.register(rota, "down", "--kill-jobs")  # however this notebook ends
started = rota("up", "--devices", "cpu:2", "--node", "n1", "--policy", "fifo")

# %% [markdown]
# Six jobs: a long one on one slot, one that needs both slots and waits, and four short ones behind it.
# First in, first out lets no job pass.

# %%
MINUTES = [("long", 1, 60), ("wide", 2, 30), *((f"short-{n}", 1, 2) for n in range(1, 5))]
for name, gpus, minutes in MINUTES:
    rota("submit", "--name", name, "--gpus", str(gpus), "--time", f"{minutes}m", "--", "sleep", "3600")

controller = Client(str(home / "controller.sock"))
names = {job["id"]: job["name"] for job in controller.call("GET", "/v1/jobs")}
pl.DataFrame(controller.call("GET", "/v1/jobs")).select("id", "name", "gpus", "time_s")

# %% [markdown]
# The question: the live jobs under three policies, with their users' time limits
# as durations; `now` is the present policy.

# %%
policies = ["fifo", "fifo:skip=yes", "srtf"]
answer = controller.call(
    "POST", "/v1/whatif", {"policies": policies, "gpus": 0, "duration": "user", "seed": 0}
)
pl.DataFrame(answer["summary"]).select("policy", pl.selectors.ends_with("_s").round(0))

# %%
rows = pl.DataFrame(answer["rows"]).with_columns(pl.col("job").replace(names).alias("name"))
first = rows["start_s"].min()
finish = rows.with_columns(((pl.col("finish_s") - first) / 60).round(0).alias("done_after_min"))
finish.pivot("policy", index="name", values="done_after_min")

# %% [markdown]
# As a chart: when each job runs under each policy, one bar for each.

# %%
answered = rows["policy"].unique(maintain_order=True).to_list()
COLOURS = dict(zip(answered, ("#7a8aa0", "#3d7ab8", "#3f9c6d"), strict=True))


class Bars:
    """A small Gantt chart of the answer, as HTML without a script."""

    def _repr_html_(self) -> str:
        last = max(float(row["finish_s"]) for row in answer["rows"]) - first
        lines = []
        for name in names.values():
            for policy in answered:
                row = rows.filter(name=name, policy=policy).row(0, named=True)
                left = 100 * (row["start_s"] - first) / last
                width = 100 * (row["finish_s"] - row["start_s"]) / last
                bar = f"margin-left:{left:.1f}%;width:{max(width, 0.4):.1f}%;height:8px"
                lines.append(
                    f'<div style="{bar};background:{COLOURS[policy]}" title="{name}, {policy}"></div>'
                )
            lines.append(f'<div style="font:12px sans-serif;margin:0 0 6px">{name}</div>')
        key = "".join(f'<b style="color:{COLOURS[one]}">{one}</b>&ensp;' for one in answered)
        lines.append(f'<div style="font:12px sans-serif">{key}</div>')
        return f'<div style="max-width:760px">{"".join(lines)}</div>'


Bars()

# %% [markdown]
# Convinced? `rota policy set` changes the policy; no work is lost, and the change itself preempts no job.

# %%
print(rota("policy", "set", "srtf"))

# %% [markdown]
# Stop the cluster of this notebook and all of its jobs.

# %%
controller.close()
atexit.unregister(rota)
ended = rota("down", "--kill-jobs")
