"""Alibaba openb, 2023: pods that share GPUs, and the nodes they ran on.

From      alibaba/clusterdata, `cluster-trace-gpu-v2023/csv/`, openb_pod_list_*.csv and openb_node_list_*.csv
Pods      name, cpu_milli, memory_mib, num_gpu, gpu_milli (thousandths of each GPU), gpu_spec (models
          allowed, joined by |), qos, pod_phase (Running, Succeeded, Failed, Pending), creation_time,
          deletion_time, scheduled_time (s); the multigpu lists have only the first five columns
Nodes     sn, cpu_milli, memory_mib, gpu (count), model
Times     kept as they are: seconds from an origin that is not stated
Odd       pending pods were deleted without having run; running pods have a deletion time as well;
          pods without GPU; the lists without times are meant for placement tests in file order
Handling  duration is deletion minus scheduling; pending and never scheduled: kept with duration 0 as
          CANCELLED; ran, though no scheduling is recorded: dropped;
          without times: all submitted at 0, duration NaN.  Less than 1000 gpu_milli is a share of each
          GPU.  qos is the group (best effort stays an ordinary job)
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from rota.model.cluster import ANY_TYPE, MOST_DEVICES, Cluster, NodeShape
from rota.model.columns import Floats, Ints
from rota.model.jobs import Outcome, RecordedRun, Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of, type_masks
from rota.traces.registry import has_header, trace_format
from rota.traces.source import TraceSource, load
from rota.traces.table import TextTable, read_table, reject_twice

COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
MILLI = 1000.0
MIB_PER_GIB = 1024.0
PHASES = {
    "Running": Outcome.COMPLETED,
    "Succeeded": Outcome.COMPLETED,
    "Failed": Outcome.FAILED,
    "Pending": Outcome.CANCELLED,
}


@trace_format(
    "openb",
    description="Alibaba openb 2023, pods sharing GPUs",
    recognised="a header with " + ", ".join(COLUMNS),
    matches=has_header(*COLUMNS),
    example="name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\npod-1,4000,8192,1,250,T4|P100,BE,Succeeded,5,65,6\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    table.require(*COLUMNS)
    odd = Oddities(table, ids_of(table, "name"))
    gpus = table.whole("num_gpu")
    jobs: dict[str, Any] = {
        "gpus": gpus,
        "gpu_share": _shares(table, gpus),
        "cpus": table.floats("cpu_milli") / MILLI,
        "memory_gib": table.floats("memory_mib") / MIB_PER_GIB,
    }
    if not table.has("creation_time"):
        truth = Truth.build(np.full(len(table), np.nan))
        facts = {"duration": "not recorded: a list for placement tests, all pods submitted at 0"}
        return finish("openb", odd, jobs={"submit_s": 0.0 * gpus, **jobs}, truth=truth, facts=facts)
    group, group_names = table.codes("qos")
    submit_s, observed, truth = _times(table, odd)
    return finish(
        "openb",
        odd,
        jobs={
            "submit_s": submit_s,
            **jobs,
            **type_masks(table, "gpu_spec"),
            "group": group,
            "group_names": group_names,
        },
        truth=truth,
        observed=observed,
        facts={"duration": "seconds from scheduling to deletion"},
    )


def _shares(table: TextTable, gpus: Ints) -> Floats:
    """Share of each GPU; 1 for pods with none."""
    milli = table.floats("gpu_milli")
    table.reject(milli > MILLI, "gpu_milli", "{} is more than a whole GPU", "0 to 1000")
    table.reject((milli == 0) & (gpus > 0), "gpu_milli", "{} is no share of a GPU", "1 to 1000")
    return np.where(gpus > 0, milli / MILLI, 1.0)


def _times(table: TextTable, odd: Oddities) -> tuple[Floats, RecordedRun, Truth]:
    """Submission times, the recorded run, and how long each pod ran."""
    submit_s, end_s = table.floats("creation_time"), table.floats("deletion_time", blank=np.nan)
    start_s = table.floats("scheduled_time", blank=np.nan)
    table.reject(end_s < start_s, "deletion_time", "{} is before scheduled_time", "a later time")
    duration_s = end_s - start_s
    outcome = np.array(table.one_of("pod_phase", PHASES))
    unscheduled = np.isnan(start_s) & (outcome == Outcome.CANCELLED)
    odd.note("never scheduled", "kept with duration 0 as cancelled", unscheduled)
    undated = np.isnan(start_s) & ~unscheduled
    odd.drop("ran, and no start is recorded", "how long it ran is not known", undated)
    odd.drop(
        "scheduled but never deleted", "how long it ran is not known", np.isfinite(start_s) & np.isnan(end_s)
    )
    duration_s[unscheduled] = 0.0
    outcome[unscheduled] = Outcome.CANCELLED
    return submit_s, RecordedRun(start_s, end_s), Truth.build(duration_s, outcome=outcome)


def read_nodes(path: str | os.PathLike[str]) -> Cluster:
    """The cluster that an openb node list describes; nodes without GPU are part of it.

    CPU in cores, memory in GiB; memory of the GPUs is not recorded.
    """
    table = read_table(load(path, "a node list"), noun="node")
    table.require("sn", "cpu_milli", "memory_mib", "gpu", "model")
    cpus, memory_gib = table.floats("cpu_milli") / MILLI, table.floats("memory_mib") / MIB_PER_GIB
    gpus, names, models = table.whole("gpu"), ids_of(table, "sn"), table.text("model").str.strip_chars()
    many = np.cumsum(np.maximum(gpus, 1).astype(np.float64)) > MOST_DEVICES
    table.reject(many, "gpu", "{} make the cluster too large", f"at most {MOST_DEVICES:,} GPUs in all")
    reject_twice(table, "sn", table.text("sn").str.strip_chars())
    return Cluster.build(
        [
            NodeShape(
                count=1,
                gpus=int(gpus[i]),
                gpu_type=models[i] or ANY_TYPE,
                cpus=float(cpus[i]),
                memory_gib=float(memory_gib[i]),
                names=(names[i],),
            )
            for i in range(len(table))
        ]
    )
