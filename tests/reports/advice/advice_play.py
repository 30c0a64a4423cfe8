"""Small traces for tests of advice, and runs of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from rota.model.cluster import parse_cluster
from rota.model.jobs import RecordedRun
from rota.model.trace import Trace
from rota.reports.advice import Advice, advise
from rota.traces.generate import generate
from rota.worlds.simulated.run import Setting, run

CLUSTER = "2x8"


@cache
def busy(jobs: int = 240) -> Trace:
    """A generated trace that keeps 16 GPUs full, with tenants, limits and groups."""
    return generate(jobs, seed=3, load=1.1, cluster=16)


def as_happened(trace: Trace, policy: str) -> Trace:
    """`trace` with the starts and ends that it has under `policy`."""
    record = run(policy, trace, parse_cluster(CLUSTER), Setting())
    start_s, finish_s = (record.jobs[name].to_numpy() for name in ("start_s", "finish_s"))
    return replace(trace, observed=RecordedRun(np.array(start_s), np.array(finish_s)))


def asked(trace: Trace | Path | None = None, **words: object) -> Advice:
    """An advice on the busy trace, one replay each."""
    words = {"cluster": CLUSTER, "seeds": 1, "workers": 1, "present": "fifo", **words}
    return advise(trace or busy(), **words)  # type: ignore[arg-type]
