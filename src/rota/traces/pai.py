"""Alibaba PAI, 2020, as the job list of its simulator.

From      alibaba/clusterdata, `cluster-trace-gpu-v2020/simulator/`, `traces/**/*.csv`
Columns   job_id, user, group (hash of the recurring job), submit_time (s), duration (s), num_gpu (per
          instance, may be a fraction), num_cpu (per instance), num_inst; estimates of the duration if
          present: user_dur, group_dur, group_gpu_dur (s), each over more similar jobs than the last
Times     kept as they are
Odd       fractions of a GPU; several instances with a fraction each
Handling  instances with a fraction each: as many GPUs, with that share of each.  More than one GPU and a
          fraction is rounded up to whole GPUs, counted and kept.  The tenant is the user, the group the
          group; the stated run time (`limit_s`) is the last of the estimates in the file
"""

from __future__ import annotations

import numpy as np

from rota.model.columns import Floats, Ints
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of, tenant_paths
from rota.traces.registry import has_header, trace_format
from rota.traces.source import TraceSource
from rota.traces.table import MOST, read_table

COLUMNS = ("job_id", "user", "group", "submit_time", "duration", "num_gpu", "num_cpu", "num_inst")
ESTIMATES = ("user_dur", "group_dur", "group_gpu_dur")


@trace_format(
    "pai",
    description="Alibaba PAI 2020, job lists of its simulator",
    recognised="a header with " + ", ".join(COLUMNS),
    matches=has_header(*COLUMNS),
    example=",".join(COLUMNS) + "\n0,u1,g1,10,600,0.5,6,1\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    table.require(*COLUMNS)
    odd = Oddities(table, ids_of(table, "job_id"))
    per_instance, instances = table.floats("num_gpu"), table.whole("num_inst", low=1)
    table.reject(per_instance * instances > MOST, "num_gpu", "{} is too large", f"at most {MOST} in all")
    gpus, gpu_share = whole_gpus(per_instance, instances)
    rounded = (per_instance > 1.0) & (per_instance != np.ceil(per_instance))
    odd.note("fraction beyond one GPU", "kept, rounded up to whole GPUs", rounded)
    group, group_names = table.codes("group")
    estimates = [column for column in ESTIMATES if table.has(column)]
    stated = {"limit_s": table.floats(estimates[-1], blank=np.nan)} if estimates else {}
    return finish(
        "pai",
        odd,
        jobs={
            "submit_s": table.floats("submit_time"),
            "gpus": gpus,
            "gpu_share": gpu_share,
            "cpus": table.floats("num_cpu", blank=0.0) * instances,
            "group": group,
            "group_names": group_names,
            **stated,
            **tenant_paths(table, "user"),
        },
        truth=Truth.build(table.floats("duration")),
        facts={"duration": "seconds of running as recorded"},
    )


def whole_gpus(per_instance: Floats, instances: Ints) -> tuple[Ints, Floats]:
    """GPUs of a job and its share of each, from what each of its instances asks for.

    Less than one GPU is a share; beyond one, each instance gets whole GPUs.
    """
    gpus = (np.ceil(per_instance) * instances).astype(np.int64)
    return gpus, np.where((per_instance > 0) & (per_instance < 1), per_instance, 1.0)
