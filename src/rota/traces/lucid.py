"""Lucid simulator job lists (Helios jobs with a measured profile each), and its VC sizes.

From      S-Lab-System-Group/Lucid, `simulation/data/<cluster>/`; the job list and `vc_config.csv`
Columns   job_id, user, vc, jobname, gpu_num, cpu_num, state, submit_time, duration (s), dataset, model,
          batchsize, amp (1: mixed precision), speed, gpu_util (%), gmem_util (%), gmem (MiB)
          the list its predecessor Helios simulates is the same without the profile columns
          `vc_config.csv`: name of the VC, number of nodes
Times     local stamps without zone; shifted: the first submission is at 0
Odd       a row with jobname `warm` marks the start of the period, months before the first job
Handling  marker rows dropped; the tenant is `vc/user`; the group is the jobname; the workload is
          `model/dataset/batchsize/amp`, the key of Lucid's profiles; gmem is memory per GPU
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import polars as pl

from rota.model.cluster import ANY_TYPE, MOST_DEVICES, Cluster, NodeShape
from rota.model.jobs import Truth
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of, tenant_paths
from rota.traces.helios import STATES
from rota.traces.registry import has_header, trace_format
from rota.traces.source import TraceSource, load
from rota.traces.table import TextTable, encode, read_table, reject_twice

COLUMNS = ("job_id", "user", "vc", "jobname", "gpu_num", "cpu_num", "state", "submit_time", "duration")
PROFILE = ("model", "dataset", "batchsize", "amp")
MARKER = "warm"
MIB_PER_GIB = 1024.0
UNNAMED = r"[/|!\n]"
"""Characters with a meaning in names of tenants or nodes."""


@trace_format(
    "lucid",
    description="Lucid and Helios simulator job lists",
    recognised="a header with " + ", ".join(COLUMNS),
    matches=has_header(*COLUMNS),
    example=",".join((*COLUMNS, *PROFILE, "gmem")) + "\n"
    "1,u1,vc1,train_a,2,12,COMPLETED,2020-09-01 00:00:10,600,ResNet18,CIFAR-10,64,0,2048.0\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    table.require(*COLUMNS)
    odd = Oddities(table, ids_of(table, "job_id"))
    marker = (table.text("jobname").str.strip_chars() == MARKER).to_numpy()
    odd.drop("marker row", "it only marks the start of the period", marker)
    group, group_names = table.codes("jobname")
    return finish(
        "lucid",
        odd,
        jobs={
            "submit_s": table.stamps("submit_time"),
            "gpus": table.whole("gpu_num"),
            "cpus": table.floats("cpu_num"),
            "group": group,
            "group_names": group_names,
            **tenant_paths(table, "vc", "user"),
            **_profile(table),
        },
        truth=Truth.build(table.floats("duration"), outcome=table.one_of("state", STATES)),
        facts={"duration": "seconds at the requested GPUs, running alone"},
        zone="local time of the cluster, zone not recorded",
    )


def _profile(table: TextTable) -> dict[str, Any]:
    """The `JobTable` arguments from the profile columns; empty without them."""
    if not all(table.has(name) for name in PROFILE):
        return {}
    parts = pl.col(PROFILE).str.strip_chars()
    key = (
        pl.when(pl.all_horizontal(parts == ""))
        .then(pl.lit(""))
        .otherwise(pl.concat_str(parts, separator="/"))
    )
    workload, workload_names = encode(table.frame.select(key.alias("workload")).to_series())
    columns = {
        "workload": workload,
        "workload_names": workload_names,
        "batch_size": table.floats("batchsize", blank=np.nan),
    }
    if table.has("gmem"):
        columns["gpu_memory_gib"] = table.floats("gmem", blank=0.0) / MIB_PER_GIB
    return columns


def read_vcs(
    path: str | os.PathLike[str], *, gpus_per_node: int = 8, gpu_type: str = ANY_TYPE, hard: bool = True
) -> Cluster:
    """The cluster in a `vc_config.csv`, which gives the number of nodes of each VC.

    Each node is in a unit of the level `vc`, and each VC is a tenant whose quota is the GPUs of its nodes
    (`hard`: it may not borrow). The file does not say how many GPUs a node has.
    """
    source = load(path, "a node list")
    lines = read_table(source, ("vc", "num"), skip=1, noun="virtual cluster")
    names, nodes = lines.text("vc").str.strip_chars(), lines.whole("num", low=1)
    lines.reject((names == "").to_numpy(), "vc", "the cell is empty", "a name")
    lines.reject(names.str.contains(UNNAMED).to_numpy(), "vc", "{} is no name", "a name without /, | and !")
    reject_twice(lines, "vc", names)
    many = np.cumsum(nodes.astype(np.float64)) * max(gpus_per_node, 1) > MOST_DEVICES
    problem = f"{{}} nodes of {gpus_per_node} GPUs make the cluster too large"
    lines.reject(many, "num", problem, f"at most {MOST_DEVICES:,} GPUs in all")
    vcs = names.to_list()
    shapes = [
        NodeShape(
            count=int(count),
            gpus=gpus_per_node,
            gpu_type=gpu_type,
            names=tuple(f"{vc}-{i}" for i in range(count)),
            levels={"vc": vc},
        )
        for vc, count in zip(vcs, nodes, strict=True)
    ]
    quotas = [Tenant(vc, float(n * gpus_per_node), hard) for vc, n in zip(vcs, nodes, strict=True)]
    return Cluster.build(shapes, Tenants.of(*quotas))
