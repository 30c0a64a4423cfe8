"""A trace replayed on another cluster than its own: which nodes and labels of its jobs exist there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from rota.model.cluster import Cluster
from rota.model.columns import read_only
from rota.model.trace import Trace
from rota.traces.table import encode


def on_cluster(trace: Trace, cluster: Cluster) -> tuple[Trace, list[str]]:
    """`trace` with node sets limited to labels and nodes of `cluster`, and remarks on those that are missing.

    A job for which none is left may run anywhere.
    """
    known = {*cluster.labels, *cluster.node_names}
    names = trace.jobs.node_set_names
    unknown = sorted({part.lstrip("!") for name in names for part in name.split("|")} - known)
    if not unknown:
        return trace, []
    left = ["|".join(p for p in name.split("|") if p.lstrip("!") in known) for name in names]
    cells = pl.Series(
        [left[code] if code >= 0 else "" for code in trace.jobs.node_set.tolist()], dtype=pl.String
    )
    codes, kept = encode(cells)
    jobs = replace(trace.jobs, node_set=read_only(np.array(codes)), node_set_names=kept)
    few = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
    remark = (
        f"No node of this cluster is labelled {few}: jobs of these partitions may run anywhere; "
        "`labels` in a cluster file say which nodes a partition has."
    )
    return replace(trace, jobs=jobs), [remark]
