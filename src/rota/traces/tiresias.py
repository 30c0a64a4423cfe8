"""Tiresias simulator job lists.

From      SymbioticLab/Tiresias, `simulator/*_job.csv`; other simulators of its family use the form too
Columns   job_id, num_gpu, submit_time (s), iterations, model_name, duration (s), interval
          (s since the job before; not needed)
Times     kept as they are
Odd       line ends are CR LF in the published files; model names are only used by its `yarn` placement
Handling  nothing special: zero durations, zero GPUs, duplicates and disorder are counted and kept
"""

from __future__ import annotations

from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.traces.build import Oddities, finish, ids_of
from rota.traces.registry import has_header, trace_format
from rota.traces.source import TraceSource
from rota.traces.table import read_table

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration")


@trace_format(
    "tiresias",
    description="Tiresias simulator job lists",
    recognised="a header with " + ", ".join(COLUMNS) + " and no deadlines",
    matches=has_header(*COLUMNS, without=("ddl", "deadline", "expect_time_list")),
    example="job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,4,0,100,vgg16,160,0\n",
)
def read(source: TraceSource) -> Trace:
    table = read_table(source)
    table.require(*COLUMNS)
    workload, workload_names = table.codes("model_name")
    return finish(
        "tiresias",
        Oddities(table, ids_of(table, "job_id")),
        jobs={
            "submit_s": table.floats("submit_time"),
            "gpus": table.whole("num_gpu"),
            "workload": workload,
            "workload_names": workload_names,
        },
        truth=Truth.build(table.floats("duration"), iterations=table.floats("iterations")),
        facts={"duration": "seconds at the requested GPUs, as the simulator takes them"},
    )
