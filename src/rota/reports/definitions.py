"""The definitions of all metrics as a page: `python -m rota.reports.definitions docs/metrics.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from rota.reports.metrics import DISTRIBUTIONS, METRICS, Metric

_UNITS = {
    "s": "seconds",
    "gpu_s": "GPU-seconds",
    "share": "share, 0 to 1",
    "times": "ratio",
    "count": "number",
}
_HEAD = """\
# Metrics

What every number of a report means, and which direction is better.
`make docs` prints this page from the docstrings in `src/rota/reports/metrics.py`.

- Means and percentiles are over *all* jobs that finished: completed, failed, or cancelled while running.
  A job cancelled before it ever ran is left out: it has no work for any policy.
  Reports show the numbers of unfinished, failed and rejected jobs next to them.
- Percentiles are interpolated linearly.
- A metric that does not apply is empty (`null` in `summary.json`), never 0.
- With `--measure 10%:90%` or `1d:5d` the jobs *submitted* inside the window count.
  Percentages run from the first to the last submission, so that every policy is measured on the same jobs;
  durations count from the first submission.
- Several seeds of one policy are shown as mean ± sample standard deviation.
"""


def definitions() -> list[tuple[str, Metric]]:
    """Each definition once, as (keys, metric); the four metrics of a distribution share one."""
    metrics: dict[str, Metric] = {}
    for key, metric in METRICS.items():
        stem = key.partition("_")[2]
        shared = stem in DISTRIBUTIONS and DISTRIBUTIONS[stem] == metric.definition
        metrics.setdefault(f"mean_ p50_ p90_ p99_ {stem}" if shared else key, metric)
    return list(metrics.items())


def markdown() -> str:
    """The text of `docs/metrics.md`."""
    parts = [_HEAD]
    for keys, metric in definitions():
        *prefixes, stem = keys.split()
        names = ", ".join(f"`{prefix}{stem}`" for prefix in prefixes or [""])
        better = "" if metric.better == "neither" else f", {metric.better} is better"
        where = {"jobs": "per tenant and size too", "cluster": "of the cluster", "run": "of the run"}
        facts = f"{_UNITS[metric.unit]}{better}; {where[metric.scope]}"
        parts.append(f"## {names}\n\n{metric.definition}\n\n*{facts}*\n")
    return "\n".join(parts)


def write(path: Path) -> None:
    """Write `docs/metrics.md`; the target `make docs` calls this."""
    path.write_text(markdown(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
